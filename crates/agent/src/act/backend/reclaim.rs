//! Memory that a control group gives back at once: `memory.reclaim`.
//!
//! The kernel takes as long as it takes, and longer under pressure. A wish is carried out in small parts, so
//! that it can end between two of them.

use std::io;

use groups::{Knob, Setting};
use host::cgroup::{SetError, Tree};
use host::{FileError, Reading};
use qos::claim::Value;
use qos::wish::Target;

use super::{Aim, Announcer, Backend, Job, Observation, ReadFailure, Refusal};
use crate::act::ledger::OriginalValue;

/// What is asked for at a time.
const PART: i64 = 64 << 20;

#[derive(Debug)]
pub(in crate::act) struct ReclaimBackend {
    tree: Tree,
}

impl ReclaimBackend {
    pub(in crate::act) fn new(tree: Tree) -> Self {
        Self { tree }
    }
}

impl Backend for ReclaimBackend {
    fn serves(&self, target: &Target) -> bool {
        matches!(target, Target::Reclaim(_))
    }

    /// There is nothing to read: the file only takes.
    fn read(&mut self, target: &Target, _aim: Aim<'_>) -> Result<Observation, ReadFailure> {
        let Target::Reclaim(group) = target else {
            return Err(ReadFailure::Unsupported("no memory to reclaim".to_owned()));
        };
        let file = Knob::MemoryReclaim.file(self.tree.version());
        let path =
            file.and_then(|file| Some(self.tree.dir(file.controller, group)?.join(file.name)));
        if !path.is_some_and(|path| self.tree.fs().exists(&path)) {
            return Err(match self.tree.exists(group) {
                true => {
                    ReadFailure::Unsupported("this kernel reclaims nothing on request".to_owned())
                }
                false => ReadFailure::Gone,
            });
        }
        let original = OriginalValue::Absent;
        let value = Value::Number(None);
        Ok(Observation { text: String::new(), value, original, holders: None })
    }

    fn write(&mut self, job: &Job<'_>, _log: &Announcer<'_>) -> Result<(), Refusal> {
        let (Target::Reclaim(group), Value::Number(Some(bytes))) = (job.target, job.value) else {
            return Err(Refusal::Refused("an amount of memory is reclaimed".to_owned()));
        };
        let mut left = *bytes;
        while left > 0 && !job.limit.is_over() {
            let part = left.min(PART);
            match self.tree.set(group, Knob::MemoryReclaim, &Setting::Number(part)) {
                Ok(Reading::Value(())) => {}
                Ok(Reading::Gone) => return Ok(()),
                Ok(Reading::Unsupported) => {
                    let reason = "this kernel reclaims nothing on request";
                    return Err(Refusal::Unsupported(reason.to_owned()));
                }
                // Less than was asked for is what the kernel can often do.
                Err(SetError::File(FileError::Write { source, .. }))
                    if source.kind() == io::ErrorKind::WouldBlock =>
                {
                    return Ok(());
                }
                Err(error) => return Err(Refusal::of(&error)),
            }
            left = left.saturating_sub(part);
        }
        Ok(())
    }

    fn original(&self, _target: &Target, _original: &OriginalValue) -> Option<Value> {
        None
    }
}
