//! NodePorts: no two pods with the same host port on one node.

use std::borrow::Cow;

use serde_json::Value;

use super::ArgsError;
use crate::model::{Class, HostPort};
use crate::plugin::{Context, Event, Plugin, Prepared, Reads, Subject, Work};
use crate::queue::Hint;
use crate::snapshot::{NodeIx, Snapshot};
use crate::verdict::Verdict;

pub(super) const NAME: &str = "NodePorts";

#[derive(Debug)]
struct NodePorts;

pub(super) fn build(_: &Value, _: &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError> {
    Ok(Box::new(NodePorts))
}

impl Plugin for NodePorts {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&self, context: Context<'_>) -> Prepared {
        if context.class.host_ports.is_empty() {
            return Prepared::skip();
        }
        Prepared::filter(Reads::Usage, Ports(context.class.host_ports.clone()))
    }

    fn hint(&self, _: &Snapshot, class: &Class, event: &Event) -> Hint {
        let Some(Subject::Pod { before: Some(gone), .. }) = &event.subject else {
            return Hint::Queue;
        };
        let mut ports = class.host_ports.iter();
        Hint::queue_if(ports.any(|port| gone.host_ports.iter().any(|one| port.conflicts(*one))))
    }
}

#[derive(Debug)]
struct Ports(Box<[HostPort]>);

impl Work for Ports {
    fn filter(&self, snapshot: &Snapshot, node: NodeIx) -> Verdict {
        let taken = snapshot.ports_on(node);
        if self.0.iter().any(|port| taken.iter().any(|other| port.conflicts(*other))) {
            return Verdict::unschedulable(0);
        }
        Verdict::OK
    }

    fn reason(&self, _bit: u32) -> Cow<'_, str> {
        "node(s) didn't have free ports for the requested pod ports".into()
    }
}
