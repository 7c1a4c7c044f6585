//! A node's GPUs and RDMA cards, as far as lending goes.

use std::collections::BTreeMap;

use api::kind::device::Device;
use api::protocol::device::{GPU_DRIVER_VERSION, GPU_MODEL, GPU_VENDOR, kind};
use units::Quantity;

use crate::device::{GPU_RESOURCES, LABELS};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeviceFacts {
    pub healthy_gpus: usize,
    pub healthy_rdma: usize,
    /// What healthy GPUs offer together.
    pub gpu: BTreeMap<&'static str, Quantity>,
    /// Vendor, model and driver.
    pub labels: [Option<Box<str>>; LABELS],
}

impl DeviceFacts {
    pub fn read(device: &Device) -> Self {
        let meta = &device.metadata;
        let mut facts = Self {
            labels: [GPU_VENDOR.raw(meta), GPU_MODEL.raw(meta), GPU_DRIVER_VERSION.raw(meta)]
                .map(|text| text.map(Box::from)),
            ..Self::default()
        };
        for entry in device.spec.devices.iter().filter(|entry| entry.health) {
            match entry.type_.as_deref() {
                Some(kind::RDMA) => facts.healthy_rdma += 1,
                Some(kind::GPU) => {
                    facts.healthy_gpus += 1;
                    for name in GPU_RESOURCES {
                        if let Some(amount) = entry.resources.get(name) {
                            *facts.gpu.entry(name).or_default() += (*amount).max(Quantity::ZERO);
                        }
                    }
                }
                _ => {}
            }
        }
        facts
    }
}
