//! Kernel files that are no control groups: sysctls, switches below `/sys`, scores of processes.

use std::path::Path;
use std::sync::Arc;

use host::fs::HostFs;
use qos::claim::Value;
use qos::wish::{KernelFile, Target};

use super::{Aim, Announcer, Backend, Job, Observation, ReadFailure, Refusal};
use crate::act::ledger::OriginalValue;

#[derive(Debug)]
pub(in crate::act) struct FileBackend {
    fs: Arc<dyn HostFs>,
}

impl FileBackend {
    pub(in crate::act) fn new(fs: Arc<dyn HostFs>) -> Self {
        Self { fs }
    }

    fn text(&self, KernelFile { path, word }: &KernelFile) -> Result<String, ReadFailure> {
        let path = Path::new(path);
        let text = match self.fs.read(path) {
            Ok(text) => String::from_utf8_lossy(&text).trim().to_owned(),
            // A file that is there may answer as if it were not; the original must not be lost.
            Err(_) if !self.fs.exists(path) => return Err(ReadFailure::Gone),
            Err(error) => return Err(ReadFailure::Refused(error.to_string())),
        };
        let Some(word) = word else { return Ok(text) };
        let names = |found: &&str| found.strip_prefix("NO_").unwrap_or(found) == word;
        let found = text.split_whitespace().find(names).map(str::to_owned);
        found.ok_or_else(|| ReadFailure::Unsupported(format!("the file has no word {word}")))
    }
}

impl Backend for FileBackend {
    fn serves(&self, target: &Target) -> bool {
        matches!(target, Target::File(_))
    }

    fn read(&mut self, target: &Target, _aim: Aim<'_>) -> Result<Observation, ReadFailure> {
        let Target::File(file) = target else {
            return Err(ReadFailure::Unsupported("no kernel file".to_owned()));
        };
        let text = self.text(file)?;
        Ok(Observation::of_text(text.clone(), Value::Text(text)))
    }

    fn write(&mut self, job: &Job<'_>, log: &Announcer<'_>) -> Result<(), Refusal> {
        let (Target::File(file), Value::Text(text)) = (job.target, job.value) else {
            return Err(Refusal::Refused("a kernel file holds text".to_owned()));
        };
        log.announce(text)?;
        let written = self.fs.write(Path::new(&file.path), &format!("{text}\n"));
        written.map_err(|error| Refusal::of(&error))
    }

    fn original(&self, _target: &Target, original: &OriginalValue) -> Option<Value> {
        match original {
            OriginalValue::Text(text) => Some(Value::Text(text.clone())),
            _ => None,
        }
    }
}
