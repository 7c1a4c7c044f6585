//! NodeUnschedulable: a cordoned node takes only pods that tolerate it.

use std::borrow::Cow;

use serde_json::Value;

use super::ArgsError;
use crate::model::{Class, Effect, Taint};
use crate::plugin::{Context, Event, Plugin, Prepared, Reads, Subject, Work};
use crate::queue::Hint;
use crate::snapshot::{NodeIx, Snapshot};
use crate::verdict::Verdict;

pub(super) const NAME: &str = "NodeUnschedulable";

#[derive(Debug)]
struct NodeUnschedulable {
    /// What a cordoned node would be tainted with.
    taint: Taint,
}

pub(super) fn build(_: &Value, snapshot: &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError> {
    let key = snapshot.names.intern("node.kubernetes.io/unschedulable");
    let value = snapshot.names.intern("");
    let taint = Taint { key, value, effect: Effect::NoSchedule };
    Ok(Box::new(NodeUnschedulable { taint }))
}

impl Plugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&self, context: Context<'_>) -> Prepared {
        if context.class.tolerations.iter().any(|one| one.tolerates(&self.taint)) {
            return Prepared::skip();
        }
        Prepared::filter(Reads::Node, Cordoned)
    }

    fn hint(&self, _: &Snapshot, _: &Class, event: &Event) -> Hint {
        match &event.subject {
            Some(Subject::Node { after: Some(after), .. }) => Hint::queue_if(!after.unschedulable),
            _ => Hint::Queue,
        }
    }
}

#[derive(Debug)]
struct Cordoned;

impl Work for Cordoned {
    fn filter(&self, snapshot: &Snapshot, node: NodeIx) -> Verdict {
        match snapshot.node(node) {
            Some(node) if node.unschedulable => Verdict::unresolvable(0),
            _ => Verdict::OK,
        }
    }

    fn reason(&self, _bit: u32) -> Cow<'_, str> {
        "node(s) were unschedulable".into()
    }
}
