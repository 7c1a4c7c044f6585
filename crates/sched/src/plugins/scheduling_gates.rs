//! SchedulingGates: a pod with gates is not tried before they are gone.

use serde_json::Value;

use super::ArgsError;
use crate::model::Class;
use crate::plugin::Plugin;
use crate::snapshot::Snapshot;

pub(super) const NAME: &str = "SchedulingGates";

#[derive(Debug)]
struct SchedulingGates;

pub(super) fn build(_: &Value, _: &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError> {
    Ok(Box::new(SchedulingGates))
}

impl Plugin for SchedulingGates {
    fn name(&self) -> &'static str {
        NAME
    }

    fn gate(&self, snapshot: &Snapshot, class: &Class) -> Option<String> {
        if class.gates.is_empty() {
            return None;
        }
        let gates: Vec<&str> = class.gates.iter().map(|gate| snapshot.names.text(*gate)).collect();
        Some(format!("waiting for scheduling gates: [{}]", gates.join(" ")))
    }
}
