//! What a group read from and wrote to each block device.

use groups::{DeviceNumber, ParseError, Version, scan};

/// Counters of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceIo {
    pub device: DeviceNumber,
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub reads: u64,
    pub writes: u64,
}

impl DeviceIo {
    fn new(device: DeviceNumber) -> Self {
        Self { device, read_bytes: 0, write_bytes: 0, reads: 0, writes: 0 }
    }
}

/// The counters of a device, made when it is not there yet.
fn entry(devices: &mut Vec<DeviceIo>, device: DeviceNumber) -> &mut DeviceIo {
    let at = match devices.binary_search_by_key(&device, |io| io.device) {
        Ok(at) => at,
        Err(at) => {
            devices.insert(at, DeviceIo::new(device));
            at
        }
    };
    &mut devices[at]
}

/// Reads v2 `io.stat`: `8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0`. Sorted by device.
pub(super) fn parse_v2(text: &[u8], devices: &mut Vec<DeviceIo>) -> Result<(), ParseError> {
    devices.clear();
    for (at, line) in scan::lines(text) {
        let mut words = scan::words(line);
        let Some(first) = words.next() else { continue };
        let device = DeviceNumber::parse(first)
            .ok_or_else(|| ParseError::new(at, "<major>:<minor>", first))?;
        let io = entry(devices, device);
        for word in words {
            let places: [(&[u8], &mut u64); 4] = [
                (b"rbytes=", &mut io.read_bytes),
                (b"wbytes=", &mut io.write_bytes),
                (b"rios=", &mut io.reads),
                (b"wios=", &mut io.writes),
            ];
            for (key, place) in places {
                if let Some(value) = word.strip_prefix(key) {
                    *place = scan::pair_number(at, value)?;
                }
            }
        }
    }
    Ok(())
}

/// Adds v1 `blkio.throttle.io_service_bytes_recursive` or `..io_serviced_recursive`:
/// lines `8:0 Read 1` and a last line `Total 1`.
pub(super) fn add_v1(
    text: &[u8],
    is_bytes: bool,
    devices: &mut Vec<DeviceIo>,
) -> Result<(), ParseError> {
    for (at, line) in scan::lines(text) {
        let mut words = scan::words(line);
        let (Some(device), Some(kind), Some(value)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let device = DeviceNumber::parse(device)
            .ok_or_else(|| ParseError::new(at, "<major>:<minor>", device))?;
        let value = scan::pair_number(at, value)?;
        let io = entry(devices, device);
        match (kind, is_bytes) {
            (b"Read", true) => io.read_bytes = value,
            (b"Write", true) => io.write_bytes = value,
            (b"Read", false) => io.reads = value,
            (b"Write", false) => io.writes = value,
            _ => {}
        }
    }
    Ok(())
}

/// The files to read, in order.
pub(super) fn files(version: Version) -> &'static [&'static str] {
    match version {
        Version::V1 => {
            &["blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_serviced_recursive"]
        }
        Version::V2 => &["io.stat"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_count_the_same() {
        let want = [
            DeviceIo {
                device: DeviceNumber { major: 8, minor: 0 },
                read_bytes: 1,
                write_bytes: 2,
                reads: 3,
                writes: 4,
            },
            DeviceIo::new(DeviceNumber { major: 259, minor: 1 }),
        ];
        let mut devices = Vec::new();
        parse_v2(
            b"259:1 rbytes=0\n8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n",
            &mut devices,
        )
        .unwrap();
        assert_eq!(devices, want);

        let mut devices = vec![DeviceIo::new(DeviceNumber { major: 259, minor: 1 })];
        add_v1(b"8:0 Read 1\n8:0 Write 2\n8:0 Sync 0\nTotal 3\n", true, &mut devices).unwrap();
        add_v1(b"8:0 Read 3\n8:0 Write 4\nTotal 7\n", false, &mut devices).unwrap();
        assert_eq!(devices, want);
    }

    #[test]
    fn garbage_is_refused() {
        let mut devices = Vec::new();
        assert!(parse_v2(b"sda rbytes=1\n", &mut devices).is_err());
        assert!(parse_v2(b"8:0 rbytes=x\n", &mut devices).is_err());
        assert!(add_v1(b"8:x Read 1\n", true, &mut devices).is_err());
        assert!("8:4294967296".parse::<DeviceNumber>().is_err());
        assert_eq!("8:16\n".parse::<DeviceNumber>().unwrap().to_string(), "8:16");
    }
}
