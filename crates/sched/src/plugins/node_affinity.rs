//! NodeAffinity: `nodeSelector` and `nodeAffinity` of the pod, and what the profile adds to them.
//!
//! A pod whose every term pins nodes by name is only tried there.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::NodeAffinity as WireAffinity;
use serde::Deserialize;
use serde_json::Value;

use super::{ArgsError, read_args};
use crate::model::{self, Class, Node};
use crate::plugin::{
    Context, Epoch, Event, Filtering, Normalise, Plugin, Prepared, Reads, Scoring, Subject, Work,
};
use crate::queue::Hint;
use crate::read::Reader;
use crate::snapshot::{NodeIx, Snapshot};
use crate::verdict::{Code, Verdict};

pub(super) const NAME: &str = "NodeAffinity";

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Args {
    added_affinity: Option<WireAffinity>,
}

#[derive(Debug)]
struct NodeAffinity {
    added: model::NodeAffinity,
}

pub(super) fn build(args: &Value, snapshot: &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError> {
    let args: Args = read_args(NAME, args)?;
    let mut reader = Reader { names: &mut snapshot.names, resources: &mut snapshot.resources };
    let added = reader.node_affinity(None, args.added_affinity.as_ref());
    Ok(Box::new(NodeAffinity { added }))
}

impl Plugin for NodeAffinity {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&self, context: Context<'_>) -> Prepared {
        let own = &context.class.node_affinity;
        let mut prepared = Prepared::skip();
        if !own.selector.is_empty() || own.required.is_some() || self.added.required.is_some() {
            prepared.filter = Filtering::Run(Reads::Node);
        }
        if !own.preferred.is_empty() || !self.added.preferred.is_empty() {
            let normalise = Normalise::Largest { reverse: false };
            prepared.score = Scoring::Run(Reads::Node, normalise);
        }
        if let Some(pins) = pinned(own) {
            if pins.is_empty() {
                return Prepared::reject(Code::Unresolvable, "pod affinity terms conflict");
            }
            let found = pins.iter().filter_map(|name| context.snapshot.node_by_name(*name));
            prepared.nodes = Some(found.collect());
            prepared.depends = &[Epoch::Nodes];
        }
        prepared.work = Some(Box::new(Wanted { own: own.clone(), added: self.added.clone() }));
        prepared
    }

    fn hint(&self, snapshot: &Snapshot, class: &Class, event: &Event) -> Hint {
        let Some(Subject::Node { before, after: Some(after) }) = &event.subject else {
            return Hint::Queue;
        };
        let wanted = Wanted { own: class.node_affinity.clone(), added: self.added.clone() };
        let fits = |node: &Node| wanted.judge(node, snapshot).is_ok();
        // A node that matched before did not fail for its labels.
        Hint::queue_if(fits(after) && !before.as_deref().is_some_and(fits))
    }
}

/// The names that the terms allow together, when every one of them pins some.
fn pinned(affinity: &model::NodeAffinity) -> Option<Vec<model::Symbol>> {
    let terms = &affinity.required.as_ref()?.terms;
    if terms.is_empty() {
        return None;
    }
    let pins: Option<Vec<Vec<model::Symbol>>> = terms.iter().map(model::NodeTerm::pinned).collect();
    let mut names = pins?.concat();
    names.sort_unstable();
    names.dedup();
    Some(names)
}

#[derive(Debug)]
struct Wanted {
    own: model::NodeAffinity,
    added: model::NodeAffinity,
}

const OWN: u32 = 0;
const ADDED: u32 = 1;

impl Wanted {
    fn judge(&self, node: &Node, snapshot: &Snapshot) -> Verdict {
        let selects = |selector: &model::NodeSelector| {
            selector.matches(node.name, &node.labels, &snapshot.names)
        };
        if !self.added.required.as_ref().is_none_or(selects) {
            return Verdict::unresolvable(ADDED);
        }
        let mut wanted = self.own.selector.iter();
        let is_selected = wanted.all(|(key, value)| node.labels.get(key) == Some(value));
        if !is_selected || !self.own.required.as_ref().is_none_or(selects) {
            return Verdict::unresolvable(OWN);
        }
        Verdict::OK
    }
}

impl Work for Wanted {
    fn filter(&self, snapshot: &Snapshot, node: NodeIx) -> Verdict {
        snapshot.node(node).map_or(Verdict::OK, |node| self.judge(node, snapshot))
    }

    fn reason(&self, bit: u32) -> Cow<'_, str> {
        match bit {
            ADDED => "node(s) didn't match scheduler-enforced node affinity".into(),
            _ => "node(s) didn't match Pod's node affinity/selector".into(),
        }
    }

    fn score(&self, snapshot: &Snapshot, node: NodeIx) -> i64 {
        let Some(node) = snapshot.node(node) else { return 0 };
        let terms = self.added.preferred.iter().chain(&self.own.preferred);
        let matching = terms
            .filter(|one| one.term.matches(node.name, &node.labels, &snapshot.names))
            .map(|one| one.weight);
        matching.sum()
    }
}
