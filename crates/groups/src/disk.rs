//! Which disks are there, and what is built on them?

use serde::{Deserialize, Serialize};

use crate::DeviceNumber;

/// A whole disk, or a device made of others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// `sda`, `nvme0n1`, `dm-0`.
    pub name: String,
    pub number: DeviceNumber,
    pub partitions: Vec<Partition>,
    /// The devices below, by name: what a logical volume is made of.
    pub made_of: Vec<String>,
    /// The name device-mapper gave it: `vg-lv`.
    pub mapped_name: Option<String>,
}

/// A part of a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    pub name: String,
    pub number: DeviceNumber,
}

/// The whole disk a device is on: itself, or the disk of a partition.
pub fn disk_of(disks: &[Disk], device: DeviceNumber) -> Option<&Disk> {
    disks.iter().find(|disk| {
        disk.number == device || disk.partitions.iter().any(|part| part.number == device)
    })
}
