//! Which disks are there, and what is built on them?

use std::path::Path;

use crate::error::FileError;
use crate::fs::HostFs;
use crate::topology::read_optional;
use groups::{DeviceNumber, Disk, ParseError, Partition};

const BLOCK: &str = "/sys/block";
const MOUNTS: &str = "/proc/1/mountinfo";

/// All block devices, sorted by name. Devices that vanish meanwhile are left out.
pub fn disks(fs: &dyn HostFs) -> Result<Vec<Disk>, FileError> {
    let names = fs.list(Path::new(BLOCK)).unwrap_or_default();
    let mut disks = Vec::new();
    for name in names.into_iter().map(|entry| entry.name) {
        let dir = Path::new(BLOCK).join(&name);
        let Some(number) = read_optional(fs, &dir.join("dev"), number)? else { continue };
        let mut partitions = Vec::new();
        for entry in fs.list(&dir).unwrap_or_default().into_iter().filter(|entry| entry.is_dir) {
            let part = dir.join(&entry.name);
            if !fs.exists(&part.join("partition")) {
                continue;
            }
            if let Some(number) = read_optional(fs, &part.join("dev"), self::number)? {
                partitions.push(Partition { name: entry.name, number });
            }
        }
        let made_of = fs.list(&dir.join("slaves")).unwrap_or_default();
        let mapped_name = read_optional(fs, &dir.join("dm/name"), |text| {
            Ok(String::from_utf8_lossy(text.trim_ascii()).into_owned())
        })?;
        disks.push(Disk {
            name,
            number,
            partitions,
            made_of: made_of.into_iter().map(|entry| entry.name).collect(),
            mapped_name,
        });
    }
    Ok(disks)
}

/// A file system in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    pub device: DeviceNumber,
    pub point: String,
}

/// What is mounted on the host.
pub fn mounts(fs: &dyn HostFs) -> Result<Vec<Mount>, FileError> {
    let path = Path::new(MOUNTS);
    let text = fs.read(path).map_err(|source| FileError::Read { path: path.to_owned(), source })?;
    Ok(String::from_utf8_lossy(&text).lines().filter_map(mount).collect())
}

/// `25 1 8:1 / /var rw - ext4 /dev/sda1 rw`
fn mount(line: &str) -> Option<Mount> {
    let mut words = line.split(' ').skip(2);
    let device = words.next()?.parse().ok()?;
    Some(Mount { device, point: unescape(words.nth(1)?) })
}

/// The kernel writes blanks and backslashes in a path as three octal digits.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.split_at_checked(3);
        match digits.and_then(|(digits, rest)| Some((u8::from_str_radix(digits, 8).ok()?, rest))) {
            Some((byte, rest)) if byte.is_ascii() => {
                out.push(char::from(byte));
                out.push_str(rest);
            }
            _ => {
                out.push('\\');
                out.push_str(part);
            }
        }
    }
    out
}

fn number(text: &[u8]) -> Result<DeviceNumber, ParseError> {
    let word = text.trim_ascii();
    DeviceNumber::parse(word).ok_or_else(|| ParseError::new(1, "<major>:<minor>", word))
}

#[cfg(test)]
mod tests {
    use groups::disk_of;

    use super::*;
    use crate::fs::FakeFs;

    const HOST: &str = "\
-- sys/block/nvme0n1/dev --
259:0
-- sys/block/nvme0n1/nvme0n1p1/dev --
259:1
-- sys/block/nvme0n1/nvme0n1p1/partition --
1
-- sys/block/nvme0n1/queue/rotational --
0
-- sys/block/dm-0/dev --
253:0
-- sys/block/dm-0/dm/name --
data-pods
-- sys/block/dm-0/slaves/nvme0n1p1/dev --
259:1
-- proc/1/mountinfo --
25 1 259:1 / / rw - ext4 /dev/nvme0n1p1 rw
26 25 253:0 /a /var/with\\040blank rw,relatime shared:1 - xfs /dev/dm-0 rw
broken
";

    #[test]
    fn partitions_belong_to_their_disk() {
        let host = FakeFs::from_fixture(HOST).unwrap();
        let disks = disks(&host).unwrap();
        let names: Vec<_> = disks.iter().map(|disk| disk.name.as_str()).collect();
        assert_eq!(names, ["dm-0", "nvme0n1"]);
        let part = DeviceNumber { major: 259, minor: 1 };
        assert_eq!(disk_of(&disks, part).unwrap().name, "nvme0n1");
        assert_eq!(disk_of(&disks, DeviceNumber { major: 8, minor: 0 }), None);
        let volume = disk_of(&disks, DeviceNumber { major: 253, minor: 0 }).unwrap();
        assert_eq!(volume.mapped_name.as_deref(), Some("data-pods"));
        assert_eq!(volume.made_of, ["nvme0n1p1"]);
    }

    #[test]
    fn mounts_are_found_by_device() {
        let host = FakeFs::from_fixture(HOST).unwrap();
        let points: Vec<_> = mounts(&host).unwrap().into_iter().map(|mount| mount.point).collect();
        assert_eq!(points, ["/", "/var/with blank"]);
    }

    #[test]
    fn a_broken_number_is_an_error_and_no_disk_is_none() {
        let host = FakeFs::from_fixture("-- sys/block/sda/dev --\n8\n").unwrap();
        assert!(disks(&host).is_err());
        assert_eq!(disks(&FakeFs::default()).unwrap(), []);
    }
}
