//! Which pods will nobody ever clean up?
//!
//! Normally the node removes its pods. These have none that would:
//!
//! - the node is gone, and has been for 40 seconds;
//! - the pod was told to go before it was bound;
//! - the node is marked out of service, is not ready, and the pod was told to go;
//! - more than 12,500 pods have finished: the oldest go.
//!
//! The first and third are marked as failed before they are removed, so that their owner sees how
//! they ended.

mod reconcile;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};

pub(crate) use self::reconcile::PodGarbage;
use super::{key::uid, pod::PodFacts};
use crate::well_known::TAINT_OUT_OF_SERVICE;

const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);
/// How many finished pods may lie around.
pub(crate) const FINISHED_LIMIT: usize = 12_500;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    NodeGone,
    NeverBound,
    OutOfService,
    TooManyFinished,
}

impl Why {
    /// What the pod's owner reads, if the pod did not end by itself.
    pub(crate) fn message(self) -> Option<&'static str> {
        match self {
            Why::NodeGone => Some("PodGC: node no longer exists"),
            Why::OutOfService => Some("PodGC: node is out of service"),
            Why::NeverBound | Why::TooManyFinished => None,
        }
    }
}

/// Nodes that pods name and that are not there, and since when.
pub(crate) type Missing = BTreeMap<String, Timestamp>;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) remove: Vec<(Arc<Pod>, Why)>,
    pub(crate) missing: Missing,
}

pub(crate) fn plan(
    pods: &[Arc<Pod>],
    nodes: &[Arc<Node>],
    missing: &Missing,
    limit: usize,
    now: Timestamp,
) -> Plan {
    let known: BTreeSet<_> =
        nodes.iter().filter_map(|node| node.metadata.name.as_deref()).collect();
    let dead: BTreeSet<_> = nodes
        .iter()
        .filter(|node| is_out_of_service(node))
        .filter_map(|node| node.metadata.name.as_deref())
        .collect();
    let mut plan = Plan { remove: Vec::new(), missing: Missing::new() };
    for pod in pods {
        match pod.node() {
            None if pod.is_terminating() => plan.remove.push((pod.clone(), Why::NeverBound)),
            Some(node) if !known.contains(node) => {
                let since = missing.get(node).copied().unwrap_or(now);
                plan.missing.insert(node.to_owned(), since);
                if now.duration_since(since) >= QUARANTINE {
                    plan.remove.push((pod.clone(), Why::NodeGone));
                }
            }
            Some(node) if dead.contains(node) && pod.is_terminating() => {
                plan.remove.push((pod.clone(), Why::OutOfService));
            }
            _ => {}
        }
    }
    let taken: BTreeSet<String> =
        plan.remove.iter().map(|(pod, _)| uid(&**pod).to_owned()).collect();
    let mut finished: Vec<_> = pods
        .iter()
        .filter(|pod| pod.is_finished() && !pod.is_terminating() && !taken.contains(uid(&***pod)))
        .collect();
    finished.sort_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0));
    let surplus = finished.len().saturating_sub(limit);
    let oldest = finished.into_iter().take(surplus);
    plan.remove.extend(oldest.map(|pod| (pod.clone(), Why::TooManyFinished)));
    plan
}

fn is_out_of_service(node: &Node) -> bool {
    let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_ready = conditions.any(|one| one.type_ == "Ready" && one.status == "True");
    !is_ready && taints.any(|taint| taint.key == TAINT_OUT_OF_SERVICE)
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;

    use super::*;
    use crate::controllers::fixture::{NOW, ago, node, pod, tainted};

    fn told(plan: &Plan) -> Vec<(String, Why)> {
        plan.remove.iter().map(|(pod, why)| (pod.name_any(), *why)).collect()
    }

    #[test]
    fn pods_without_a_node_that_would_care_are_found() {
        let out = |is_ready: bool| {
            let mut node = tainted(node("out"), TAINT_OUT_OF_SERVICE, "NoExecute");
            if !is_ready {
                node.status = None;
            }
            node
        };
        let cases = [
            ("on a node", pod("a").on("n1"), node("out"), None),
            ("leaving a node", pod("a").on("n1").terminating(), node("out"), None),
            ("not bound yet", pod("a"), node("out"), None),
            (
                "told to go before it was bound",
                pod("a").terminating(),
                node("out"),
                Some(Why::NeverBound),
            ),
            ("its node is long gone", pod("a").on("long"), node("out"), Some(Why::NodeGone)),
            ("its node is just gone", pod("a").on("just"), node("out"), None),
            ("its node is newly gone", pod("a").on("new"), node("out"), None),
            (
                "out of service",
                pod("a").on("out").terminating(),
                out(false),
                Some(Why::OutOfService),
            ),
            ("out of service, but running", pod("a").on("out"), out(false), None),
            ("out of service, but ready", pod("a").on("out").terminating(), out(true), None),
        ];
        for (name, pod, other, want) in cases {
            let nodes = [Arc::new(node("n1")), Arc::new(other)];
            let missing = Missing::from([("long".into(), ago(40)), ("just".into(), ago(39))]);
            let plan = plan(&[Arc::new(pod.build())], &nodes, &missing, 10, NOW);
            let want: Vec<_> = want.into_iter().map(|why| ("a".to_owned(), why)).collect();
            assert_eq!(told(&plan), want, "{name}");
        }
    }

    #[test]
    fn a_node_that_comes_back_is_forgotten() {
        let missing = Missing::from([("n1".into(), ago(400))]);
        let lost = [Arc::new(pod("a").on("n1").build())];
        assert_eq!(plan(&lost, &[Arc::new(node("n1"))], &missing, 10, NOW).missing, Missing::new());
        let again = plan(&lost, &[], &Missing::new(), 10, NOW);
        assert_eq!((again.missing, again.remove.len()), (Missing::from([("n1".into(), NOW)]), 0));
    }

    #[test]
    fn the_oldest_finished_pods_go() {
        let done = |name: &str, age| {
            Arc::new(pod(name).on("n1").phase("Failed").created(ago(age)).build())
        };
        let pods = [done("a", 1), done("b", 9), done("c", 5), Arc::new(pod("d").on("n1").build())];
        let plan = plan(&pods, &[Arc::new(node("n1"))], &Missing::new(), 1, NOW);
        let want = [("b", Why::TooManyFinished), ("c", Why::TooManyFinished)];
        assert_eq!(told(&plan), want.map(|(name, why)| (name.to_owned(), why)));
    }
}
