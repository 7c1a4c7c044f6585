//! NodeName: a pod that names its node fits nowhere else.

use std::borrow::Cow;

use serde_json::Value;

use super::ArgsError;
use crate::model::{Class, Symbol};
use crate::plugin::{Context, Event, Plugin, Prepared, Reads, Subject, Work};
use crate::queue::Hint;
use crate::snapshot::{NodeIx, Snapshot};
use crate::verdict::Verdict;

pub(super) const NAME: &str = "NodeName";

#[derive(Debug)]
struct NodeName;

pub(super) fn build(_: &Value, _: &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError> {
    Ok(Box::new(NodeName))
}

impl Plugin for NodeName {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&self, context: Context<'_>) -> Prepared {
        match context.class.node_name {
            Some(name) => Prepared::filter(Reads::Node, Named(name)),
            None => Prepared::skip(),
        }
    }

    fn hint(&self, _: &Snapshot, class: &Class, event: &Event) -> Hint {
        match &event.subject {
            Some(Subject::Node { after: Some(after), .. }) => {
                Hint::queue_if(class.node_name.is_none_or(|name| name == after.name))
            }
            _ => Hint::Queue,
        }
    }
}

#[derive(Debug)]
struct Named(Symbol);

impl Work for Named {
    fn filter(&self, snapshot: &Snapshot, node: NodeIx) -> Verdict {
        match snapshot.node(node) {
            Some(node) if node.name == self.0 => Verdict::OK,
            _ => Verdict::unresolvable(0),
        }
    }

    fn reason(&self, _bit: u32) -> Cow<'_, str> {
        "node(s) didn't match the requested node name".into()
    }
}
