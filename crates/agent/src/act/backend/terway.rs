//! Files that terway's daemon reads: replaced whole, and removed again where there were none.

use std::io;
use std::path::Path;
use std::sync::Arc;

use host::fs::HostFs;
use qos::claim::Value;
use qos::wish::Target;

use super::{Aim, Announcer, Backend, Job, Observation, ReadFailure, Refusal};
use crate::act::ledger::OriginalValue;

#[derive(Debug)]
pub(in crate::act) struct TerwayBackend {
    fs: Arc<dyn HostFs>,
}

impl TerwayBackend {
    pub(in crate::act) fn new(fs: Arc<dyn HostFs>) -> Self {
        Self { fs }
    }
}

impl Backend for TerwayBackend {
    fn serves(&self, target: &Target) -> bool {
        matches!(target, Target::TerwayFile(_))
    }

    fn read(&mut self, target: &Target, _aim: Aim<'_>) -> Result<Observation, ReadFailure> {
        let Target::TerwayFile(path) = target else {
            return Err(ReadFailure::Unsupported("no file of terway".to_owned()));
        };
        let content = match self.fs.read(Path::new(path)) {
            Ok(text) => Some(String::from_utf8_lossy(&text).into_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(ReadFailure::Refused(error.to_string())),
        };
        let original = content.clone().map_or(OriginalValue::Absent, OriginalValue::Text);
        let text = describe(content.as_deref());
        Ok(Observation { text, value: Value::Content(content), original, holders: None })
    }

    fn write(&mut self, job: &Job<'_>, log: &Announcer<'_>) -> Result<(), Refusal> {
        let (Target::TerwayFile(path), Value::Content(content)) = (job.target, job.value) else {
            return Err(Refusal::Refused("a file of terway has content".to_owned()));
        };
        log.announce(&describe(content.as_deref()))?;
        let path = Path::new(path);
        let written = match content {
            Some(text) => self.fs.replace_file(path, text),
            None => self.fs.remove_file(path),
        };
        match written {
            Err(error) if content.is_some() || error.kind() != io::ErrorKind::NotFound => {
                Err(Refusal::of(&error))
            }
            _ => Ok(()),
        }
    }

    fn original(&self, _target: &Target, original: &OriginalValue) -> Option<Value> {
        match original {
            OriginalValue::Text(text) => Some(Value::Content(Some(text.clone()))),
            OriginalValue::Absent => Some(Value::Content(None)),
            OriginalValue::CacheGroup { .. } => None,
        }
    }
}

/// A content in a few words, because the ledger and the journal keep many: its length and FNV-1a hash.
fn describe(content: Option<&str>) -> String {
    let Some(text) = content else { return "absent".to_owned() };
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{} bytes, fnv {hash:016x}", text.len())
}
