//! What a plugin is, and how to add one.
//!
//! A [`Plugin`] is a configured value (its args), one for each profile. For each class of pods
//! it makes a [`Prepared`]: what it will do there (nothing, reject outright, filter, score) and
//! the [`Work`] that does it. Prepared work is kept with the class and used for every replica,
//! so it must not remember anything of a node that can change.
//!
//! **Locality.** Work says what a node's answer depends on ([`Reads`]). The engine asks again
//! only when that has changed:
//!
//! | reads | asked again after | examples |
//! |---|---|---|
//! | `Node` | the node object changed | taints, affinity, images |
//! | `Usage` | a pod came or went there, or [`Snapshot::touch`] | resources, ports, load, NUMA |
//! | `Cluster` | every decision, in one pass over all nodes | spread, inter-pod affinity |
//!
//! Work that reads `Cluster` keeps counts of its own and is told of every change
//! ([`Work::follow`]). Facts that are neither a node's nor a pod's (images in the cluster,
//! volumes, namespaces) are [`Epoch`]s: work prepared under an older one is made again.
//!
//! **To add a plugin:** write `plugins/NAME.rs` with a `Plugin` and its `Work`, add the module
//! and one row to [`plugins::TABLE`](crate::plugins::TABLE). State that follows pods and nodes
//! goes into [`snapshot::Extras`](crate::snapshot::Extras), so that dry runs undo it. What is
//! read of a pod goes into [`Template`](crate::model::Template).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use crate::model::{Class, Node};
use crate::queue::{self, Hint};
use crate::snapshot::{Change, ClaimKey, NodeIx, PodIx, Snapshot};
use crate::verdict::{Code, Verdict};

/// What may be looked at while preparing for a class.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    pub snapshot: &'a Snapshot,
    pub class: &'a Class,
}

/// What the answer for one node depends on besides the class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reads {
    Node,
    Usage,
    Cluster,
}

/// Facts outside of nodes and pods that prepared work may have looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Epoch {
    /// Which nodes exist.
    Nodes,
    /// Which nodes hold which images.
    Images,
    /// Claims, volumes, classes, drivers, attachments.
    Storage,
    Namespaces,
    /// Services and controllers, for default spread constraints.
    Workloads,
    /// Which classes with affinity terms run; counted by [`Company`](crate::snapshot::Company).
    Company,
}

impl Epoch {
    pub const COUNT: usize = 6;
}

/// How raw scores become 0..=100.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalise {
    /// They already are.
    None,
    /// In proportion to the largest among feasible nodes; `reverse` turns it around.
    Largest { reverse: bool },
    /// By [`Work::normalise`]; only for work that reads `Cluster`.
    Own,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: Code,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Filtering {
    #[default]
    Skip,
    /// The pod fits nowhere, whatever the node. Unresolvable ends the cycle at once.
    Reject(Refusal),
    Run(Reads),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scoring {
    #[default]
    Skip,
    Run(Reads, Normalise),
}

/// What a plugin will do for a class.
#[derive(Debug, Default)]
pub struct Prepared {
    pub filter: Filtering,
    pub score: Scoring,
    /// The only nodes worth looking at.
    pub nodes: Option<Vec<NodeIx>>,
    /// Nodes to be tried first: the first of them that passes every filter is taken.
    pub prefer: Vec<NodeIx>,
    /// Preparation is repeated when one of these has moved on.
    pub depends: &'static [Epoch],
    pub work: Option<Box<dyn Work>>,
}

impl Prepared {
    /// Nothing to do for pods of this class.
    pub fn skip() -> Self {
        Self::default()
    }

    pub fn reject(code: Code, reason: impl Into<String>) -> Self {
        let refusal = Refusal { code, reason: reason.into() };
        Self { filter: Filtering::Reject(refusal), ..Self::default() }
    }

    pub fn filter(reads: Reads, work: impl Work + 'static) -> Self {
        Self { filter: Filtering::Run(reads), work: Some(Box::new(work)), ..Self::default() }
    }

    pub fn score(reads: Reads, normalise: Normalise, work: impl Work + 'static) -> Self {
        let score = Scoring::Run(reads, normalise);
        Self { score, work: Some(Box::new(work)), ..Self::default() }
    }

    pub fn both(reads: Reads, normalise: Normalise, work: impl Work + 'static) -> Self {
        Self { score: Scoring::Run(reads, normalise), ..Self::filter(reads, work) }
    }

    #[must_use]
    pub fn on(mut self, epochs: &'static [Epoch]) -> Self {
        self.depends = epochs;
        self
    }
}

/// Must prepared work be made again after a change?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    Kept,
    Stale,
}

/// What a plugin does on nodes for one class. The `_all` methods are compiled for each type, so
/// a pass over all nodes costs one dynamic call.
pub trait Work: Debug + Send {
    /// Takes note of a change; only asked of work that reads `Cluster`.
    fn follow(&mut self, _snapshot: &Snapshot, _change: &Change) -> Follow {
        Follow::Kept
    }

    fn filter(&self, _snapshot: &Snapshot, _node: NodeIx) -> Verdict {
        Verdict::OK
    }

    /// The text of one reason of a [`Verdict`].
    fn reason(&self, _bit: u32) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    /// The raw score of a feasible node.
    fn score(&self, _snapshot: &Snapshot, _node: NodeIx) -> i64 {
        0
    }

    /// Filters those nodes whose verdict is still good.
    fn filter_all(&self, snapshot: &Snapshot, nodes: &[NodeIx], verdicts: &mut [Verdict]) {
        for (node, verdict) in nodes.iter().zip(verdicts) {
            if verdict.is_ok() {
                *verdict = self.filter(snapshot, *node);
            }
        }
    }

    /// Raw scores of exactly the feasible nodes.
    fn score_all(&mut self, snapshot: &Snapshot, feasible: &[NodeIx], scores: &mut [i64]) {
        for (node, score) in feasible.iter().zip(scores) {
            *score = self.score(snapshot, *node);
        }
    }

    /// Brings raw scores of the feasible nodes into 0..=100, for [`Normalise::Own`].
    fn normalise(&self, _feasible: &[NodeIx], _scores: &mut [i64]) {}
}

/// Annotations that all plugins together want written before binding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patch {
    pub annotations: BTreeMap<String, String>,
    pub labels: BTreeMap<String, String>,
}

impl Patch {
    pub fn is_empty(&self) -> bool {
        self.annotations.is_empty() && self.labels.is_empty()
    }
}

/// What an event is about: the object before and after.
#[derive(Debug, Clone)]
pub enum Subject {
    Node {
        before: Option<Arc<Node>>,
        after: Option<Arc<Node>>,
    },
    /// A pod on a node, or the waiting pod itself.
    Pod {
        before: Option<Arc<Class>>,
        after: Option<Arc<Class>>,
    },
    /// A PersistentVolumeClaim.
    Claim(ClaimKey),
    /// What a node reports of itself beside its own object, which plugins have noted already.
    Report(NodeIx),
    /// An object that plugins keep in their own state, which holds it already.
    Other,
}

/// Something happened that may help a waiting pod.
pub type Event = queue::Event<Subject>;

/// A configured plugin.
pub trait Plugin: Debug + Send {
    fn name(&self) -> &'static str;

    /// PreEnqueue: why the pod may not even be tried.
    fn gate(&self, _snapshot: &Snapshot, _class: &Class) -> Option<String> {
        None
    }

    /// PreFilter and PreScore.
    fn prepare(&self, _context: Context<'_>) -> Prepared {
        Prepared::skip()
    }

    /// Could this event help a pod of a class this plugin rejected? Asked only for the kinds of
    /// event in the plugin's row of the table.
    fn hint(&self, _snapshot: &Snapshot, _class: &Class, _event: &Event) -> Hint {
        Hint::Queue
    }

    /// Takes what the pod needs beyond requests on its node, in the plugin's own state.
    fn reserve(&self, _: &mut Snapshot, _pod: PodIx, _node: NodeIx) -> Result<(), Refusal> {
        Ok(())
    }

    /// Gives it back. Harmless when nothing was taken.
    fn unreserve(&self, _snapshot: &mut Snapshot, _pod: PodIx, _node: NodeIx) {}

    /// PreBind: what to write onto the pod.
    fn patch(&self, _snapshot: &Snapshot, _pod: PodIx, _node: NodeIx, _patch: &mut Patch) {}
}
