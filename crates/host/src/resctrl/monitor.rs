//! How much cache and bandwidth a group uses.

use std::path::Path;

use crate::Reading;
use crate::error::FileError;
use crate::fs::{Buffer, HostFs, Source};
use groups::{ParseError, scan};

/// The counters of a group, kept open.
#[derive(Debug)]
pub struct MonitorGroup {
    domains: Vec<Domain>,
}

#[derive(Debug)]
struct Domain {
    id: u32,
    files: [Option<Box<dyn Source>>; 3],
}

const FILES: [&str; 3] = ["llc_occupancy", "mbm_local_bytes", "mbm_total_bytes"];

/// What a group uses of one domain. `None` where the hardware does not count, or has no answer now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DomainUse {
    pub id: u32,
    /// Bytes in the cache at this moment.
    pub llc_occupancy: Option<u64>,
    /// Bytes moved since the group was made, to memory of the same NUMA node and to any.
    pub mbm_local_bytes: Option<u64>,
    pub mbm_total_bytes: Option<u64>,
}

impl MonitorGroup {
    pub(super) fn open(fs: &dyn HostFs, dir: &Path) -> Result<Reading<Self>, FileError> {
        let entries = match fs.list(dir) {
            Ok(entries) => entries,
            Err(_) if dir.parent().is_some_and(|group| fs.exists(group)) => {
                return Ok(Reading::Unsupported);
            }
            Err(_) => return Ok(Reading::Gone),
        };
        let mut domains = Vec::new();
        for entry in entries {
            let number = entry.name.strip_prefix("mon_L3_").and_then(|number| number.parse().ok());
            let Some(id) = number else { continue };
            let dir = dir.join(&entry.name);
            domains.push(Domain { id, files: FILES.map(|file| fs.open(&dir.join(file)).ok()) });
        }
        domains.sort_by_key(|domain| domain.id);
        Ok(Reading::Value(Self { domains }))
    }

    /// Reads all counters. A counter that cannot be read now is `None`.
    pub fn read(&self, buffer: &mut Buffer, uses: &mut Vec<DomainUse>) -> Result<(), ParseError> {
        uses.clear();
        for domain in &self.domains {
            let mut values = [None; FILES.len()];
            for (value, file) in values.iter_mut().zip(&domain.files) {
                let Some(source) = file else { continue };
                let Ok(text) = buffer.read_record(&**source) else { continue };
                *value = counter(text)?;
            }
            let [llc_occupancy, mbm_local_bytes, mbm_total_bytes] = values;
            uses.push(DomainUse { id: domain.id, llc_occupancy, mbm_local_bytes, mbm_total_bytes });
        }
        Ok(())
    }
}

/// A counter may say that it has no value.
fn counter(text: &[u8]) -> Result<Option<u64>, ParseError> {
    match text.trim_ascii() {
        b"Unavailable" | b"Error" | b"Unassigned" => Ok(None),
        word => match scan::number(word) {
            Some(value) => Ok(Some(value)),
            None => Err(ParseError::new(1, "a counter", word)),
        },
    }
}
