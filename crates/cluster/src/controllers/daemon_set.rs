//! On which nodes does a daemon pod belong, and which pods are of the wrong version?
//!
//! Two questions, asked in this order, because the second only makes sense once the first is
//! settled:
//!
//! 1. `nodes`: every node that the template accepts (selector, affinity, taints) gets one pod,
//!    pinned to it by a node affinity on `metadata.name`; pods on other nodes go, so do pods that
//!    have finished, failed ones with growing pauses, and second pods beside a first.
//! 2. `update`: with `RollingUpdate`, pods of an older revision are replaced, within
//!    `maxUnavailable` by deleting first or within `maxSurge` by creating first. With `OnDelete`
//!    the user deletes.
//!
//! Revisions of the template are kept as ControllerRevisions, as in Kubernetes.

mod nodes;
mod reconcile;
mod status;
#[cfg(test)]
mod tests;
mod update;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, DaemonSetStatus},
    core::v1::{Node, Pod, PodTemplateSpec},
};

use self::nodes::Verdict;
pub(crate) use self::reconcile::DaemonSets;
use super::{
    amount::{count, rounded_up},
    key::{is_terminating, uid},
    placement::pinned_node,
    pod::{PodFacts, next_available},
};
use crate::well_known::CONTROLLER_REVISION_HASH;

/// How many pods are created or deleted in one go.
const BURST: usize = 250;

/// What one decision looks at.
#[derive(Debug)]
pub(crate) struct Observed<'a> {
    pub(crate) set: &'a DaemonSet,
    pub(crate) nodes: &'a [Arc<Node>],
    /// All pods of the set.
    pub(crate) pods: &'a [Arc<Pod>],
    /// The hash of the present template's revision.
    pub(crate) hash: &'a str,
    /// Nodes on which a failed pod must wait, and until when.
    pub(crate) held: &'a HashMap<String, Timestamp>,
    /// Has the cache seen everything that was done for this set?
    pub(crate) is_current: bool,
}

/// Why a pod goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// It must not be on its node, or no longer.
    Misplaced,
    /// Its node is gone before it was bound.
    NodeGone,
    Failed,
    Succeeded,
    /// There is an older one on the same node.
    Second,
    /// It makes room for the new version.
    Outdated,
    /// The new version beside it is available, or it does not serve itself.
    Replaced,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    /// Nodes that get a pod.
    pub(crate) create: Vec<String>,
    pub(crate) delete: Vec<(Arc<Pod>, Why)>,
    pub(crate) status: DaemonSetStatus,
    /// When to look again although nothing has happened.
    pub(crate) recheck: Option<Timestamp>,
}

/// What shall happen; emptied into a plan.
#[derive(Debug, Default)]
struct Changes {
    create: Vec<String>,
    delete: Vec<(Arc<Pod>, Why)>,
    recheck: Option<Timestamp>,
}

impl Changes {
    fn is_empty(&self) -> bool {
        self.create.is_empty() && self.delete.is_empty()
    }

    fn look_again(&mut self, at: Timestamp) {
        self.recheck = Some(self.recheck.map_or(at, |earlier| earlier.min(at)));
    }
}

/// Everything both questions need, worked out once.
struct View<'a> {
    observed: &'a Observed<'a>,
    template: PodTemplateSpec,
    min_ready: i32,
    now: Timestamp,
    /// Pods by the node they are on or are meant for, oldest first.
    by_node: BTreeMap<&'a str, Vec<&'a Arc<Pod>>>,
    /// What each of the observed nodes means to the set.
    verdicts: Vec<Verdict>,
    limits: Limits,
}

/// How versions may change hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limits {
    /// The user deletes.
    OnDelete,
    /// So many pods may be missing.
    Unavailable(i32),
    /// So many nodes may have an old and a new pod.
    Surge(i32),
}

impl<'a> View<'a> {
    fn new(observed: &'a Observed<'a>, now: Timestamp) -> Self {
        let spec = observed.set.spec.as_ref();
        let template = spec.map(|spec| spec.template.clone()).unwrap_or_default();
        let pod_spec = template.spec.clone().unwrap_or_default();
        let tolerations = nodes::tolerations(&pod_spec);
        let verdicts: Vec<_> = observed
            .nodes
            .iter()
            .map(|node| nodes::verdict(&pod_spec, &tolerations, node))
            .collect();
        let wanted = count(verdicts.iter().filter(|verdict| verdict.runs).count());
        Self {
            observed,
            template,
            min_ready: spec.and_then(|spec| spec.min_ready_seconds).unwrap_or(0),
            now,
            by_node: by_node(observed.pods),
            verdicts,
            limits: Limits::of(observed.set, wanted),
        }
    }

    fn on(&self, node: &str) -> &[&'a Arc<Pod>] {
        self.by_node.get(node).map(Vec::as_slice).unwrap_or_default()
    }

    /// Every node with its name and what it means to the set.
    fn nodes(&self) -> impl Iterator<Item = (&'a str, Verdict)> {
        let names = self.observed.nodes.iter().map(|node| node.metadata.name.as_deref());
        names.map(Option::unwrap_or_default).zip(self.verdicts.iter().copied())
    }

    fn is_updated(&self, pod: &Pod) -> bool {
        let labels = pod.metadata.labels.as_ref();
        let hash = labels.and_then(|labels| labels.get(CONTROLLER_REVISION_HASH));
        hash.is_some_and(|hash| hash == self.observed.hash)
    }

    fn is_available(&self, pod: &Pod) -> bool {
        pod.is_available(self.min_ready, self.now)
    }
}

fn by_node(pods: &[Arc<Pod>]) -> BTreeMap<&str, Vec<&Arc<Pod>>> {
    let mut by_node: BTreeMap<&str, Vec<&Arc<Pod>>> = BTreeMap::new();
    for pod in pods {
        if let Some(node) = target(pod) {
            by_node.entry(node).or_default().push(pod);
        }
    }
    for pods in by_node.values_mut() {
        pods.sort_by_key(|pod| {
            let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (pod.node().is_none(), created, uid(&***pod).to_owned())
        });
    }
    by_node
}

impl Limits {
    /// Both round up; when both come out as zero one pod may be missing.
    fn of(set: &DaemonSet, wanted: i32) -> Self {
        let strategy = set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
        if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
            return Limits::OnDelete;
        }
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref());
        let surge = surge.map_or(0, |surge| rounded_up(surge, wanted));
        if surge > 0 {
            return Limits::Surge(surge);
        }
        let unavailable = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
        Limits::Unavailable(unavailable.map_or(1, |value| rounded_up(value, wanted)).max(1))
    }
}

/// The node a pod is on, or the one it is pinned to while it waits.
fn target(pod: &Pod) -> Option<&str> {
    pod.node().or_else(|| pinned_node(pod.spec.as_ref()?))
}

pub(crate) fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let view = View::new(observed, now);
    let mut changes = Changes::default();
    if observed.is_current && !is_terminating(observed.set) {
        nodes::settle(&view, &mut changes);
        if changes.is_empty() {
            update::roll(&view, &mut changes);
        }
    }
    let pods = observed.pods.iter().map(|pod| &**pod);
    if let Some(at) = next_available(pods, view.min_ready, now) {
        changes.look_again(at);
    }
    changes.create.truncate(BURST);
    changes.delete.truncate(BURST);
    let status = status::status(&view);
    Plan { create: changes.create, delete: changes.delete, status, recheck: changes.recheck }
}
