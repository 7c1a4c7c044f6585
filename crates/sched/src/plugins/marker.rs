//! Plugins whose work is done elsewhere and that exist to be named in a configuration:
//! PrioritySort is the queue's order, DefaultPreemption is [`crate::preempt`], DefaultBinder is
//! the process that binds, DefaultPreBind the one patch that it writes before.

use serde_json::Value;

use super::ArgsError;
use crate::plugin::Plugin;
use crate::preempt::Sample;
use crate::snapshot::Snapshot;

pub(super) const PRIORITY_SORT: &str = "PrioritySort";
pub(crate) const DEFAULT_PREEMPTION: &str = "DefaultPreemption";
pub(super) const DEFAULT_BINDER: &str = "DefaultBinder";

pub(super) const DEFAULT_PRE_BIND: &str = "DefaultPreBind";

#[derive(Debug)]
struct Marker(&'static str);

impl Plugin for Marker {
    fn name(&self) -> &'static str {
        self.0
    }
}

pub(super) fn sort(_: &Value, _: &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError> {
    Ok(Box::new(Marker(PRIORITY_SORT)))
}

pub(super) fn preemption(args: &Value, _: &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError> {
    Sample::read(args)?;
    Ok(Box::new(Marker(DEFAULT_PREEMPTION)))
}

pub(super) fn binder(_: &Value, _: &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError> {
    Ok(Box::new(Marker(DEFAULT_BINDER)))
}

pub(super) fn pre_bind(_: &Value, _: &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError> {
    Ok(Box::new(Marker(DEFAULT_PRE_BIND)))
}
