//! The root queueing discipline of a device.
//!
//! Classes cannot be compared with a plan cheaply, so a plan that this process did not apply is applied anew,
//! below a new root: nothing stale stays. A root that somebody chose is not ours to replace.

use std::collections::BTreeMap;

use host::qdisc::{QdiscError, Qdiscs};
use qos::claim::Value;
use qos::network::{Plan, is_planned};
use qos::wish::Target;

use super::{Aim, Announcer, Backend, Job, Observation, ReadFailure, Refusal};
use crate::act::ledger::{Entry, OriginalValue};
use crate::object::chain;

/// How a root of ours is called in the ledger; what tc shows of it changes with every packet.
const OURS: &str = "htb";
const KERNELS: &str = "default";

#[derive(Debug)]
pub(in crate::act) struct QdiscBackend {
    qdiscs: Box<dyn Qdiscs>,
    /// What this process applied, by device.
    applied: BTreeMap<String, Plan>,
}

impl QdiscBackend {
    pub(in crate::act) fn new(qdiscs: Box<dyn Qdiscs>) -> Self {
        Self { qdiscs, applied: BTreeMap::new() }
    }
}

impl Backend for QdiscBackend {
    fn serves(&self, target: &Target) -> bool {
        matches!(target, Target::Qdisc(_))
    }

    fn read(&mut self, target: &Target, aim: Aim<'_>) -> Result<Observation, ReadFailure> {
        let Target::Qdisc(device) = target else {
            return Err(ReadFailure::Unsupported("no device".to_owned()));
        };
        let root = match self.qdiscs.root(device) {
            Ok(root) => root,
            Err(QdiscError::NoDevice { .. }) => return Err(ReadFailure::Gone),
            Err(error) => return Err(ReadFailure::Refused(chain(&error))),
        };
        let (text, plan) = match root {
            None => (KERNELS.to_owned(), None),
            Some(root) if aim.entry.is_some() && is_planned(&root) => {
                let applied = self.applied.get(device).cloned();
                (OURS.to_owned(), Some(applied.unwrap_or_default()))
            }
            Some(root) if aim.entry.is_none() => {
                let text = format!("{device} has a queue that somebody chose: {root}");
                return Err(ReadFailure::Refused(text));
            }
            Some(root) => (root, Some(Plan::default())),
        };
        let original = OriginalValue::Absent;
        Ok(Observation { text, value: Value::Qdisc(plan), original, holders: None })
    }

    fn write(&mut self, job: &Job<'_>, log: &Announcer<'_>) -> Result<(), Refusal> {
        let (Target::Qdisc(device), Value::Qdisc(plan)) = (job.target, job.value) else {
            return Err(Refusal::Refused("a device has classes".to_owned()));
        };
        self.applied.remove(device);
        log.announce(if plan.is_some() { OURS } else { KERNELS })?;
        if job.now.text == OURS {
            self.qdiscs.remove_root(device).map_err(|error| Refusal::of(&error))?;
        }
        let Some(plan) = plan else { return Ok(()) };
        if let Err(error) = self.qdiscs.batch(&plan.commands(device)) {
            // Half a plan is worse than none; what is left of it is taken away with the next attempt.
            let _ = self.qdiscs.remove_root(device);
            return Err(Refusal::of(&error));
        }
        self.applied.insert(device.clone(), plan.clone());
        Ok(())
    }

    fn original(&self, _target: &Target, _original: &OriginalValue) -> Option<Value> {
        Some(Value::Qdisc(None))
    }

    fn is_ours(&self, _target: &Target, _entry: &Entry, now: &Observation) -> bool {
        now.text == OURS || now.text == KERNELS
    }
}
