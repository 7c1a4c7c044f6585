//! Which node does a pod get while there is no scheduler?
//!
//! **Provisional.** This binder makes a cluster of one machine usable until the scheduler runs in
//! it, and is removed then. It takes every pending pod, whatever its `schedulerName`, and binds it
//! to the node with the fewest pods among those that are schedulable and ready and that the pod's
//! node name, node selector, required node affinity and tolerations accept. It knows nothing of
//! resources, priorities, gangs or quotas.

mod shell;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};

pub(crate) use self::shell::Binder;
use super::{
    placement::{accepts, untolerated},
    pod::PodFacts,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Not ours to place.
    Ignore,
    Bind(String),
    /// No node takes it, and why, in the words of kube-scheduler.
    Nowhere(String),
}

/// `load` is how many pods a node has.
pub(crate) fn place(pod: &Pod, nodes: &[Arc<Node>], load: impl Fn(&str) -> usize) -> Verdict {
    let spec = pod.spec.clone().unwrap_or_default();
    let is_gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
    if pod.node().is_some() || pod.is_terminating() || pod.is_finished() || is_gated {
        return Verdict::Ignore;
    }
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let (mut unready, mut tainted, mut unwanted) = (0, 0, 0);
    let mut fitting = Vec::new();
    for node in nodes {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        if !is_ready(node) {
            unready += 1;
        } else if !accepts(&spec, node) {
            unwanted += 1;
        } else if untolerated(node, tolerations, &["NoSchedule", "NoExecute"]).is_some() {
            tainted += 1;
        } else {
            fitting.push((load(name), name));
        }
    }
    match fitting.into_iter().min() {
        Some((_, name)) => Verdict::Bind(name.to_owned()),
        None => {
            let reasons = [
                (unready, "node(s) were not ready or unschedulable"),
                (unwanted, "node(s) didn't match Pod's node affinity/selector"),
                (tainted, "node(s) had untolerated taint(s)"),
            ];
            let reasons: Vec<_> = reasons
                .iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, reason)| format!("{count} {reason}"))
                .collect();
            let reasons = if reasons.is_empty() { "no nodes".into() } else { reasons.join(", ") };
            Verdict::Nowhere(format!("0/{} nodes are available: {reasons}.", nodes.len()))
        }
    }
}

/// A node that is cordoned is repelled by its taint too, but that comes a little later.
fn is_ready(node: &Node) -> bool {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_ready = conditions.any(|one| one.type_ == "Ready" && one.status == "True");
    is_ready && node.spec.as_ref().and_then(|spec| spec.unschedulable) != Some(true)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{NodeSpec, PodSchedulingGate, Toleration};

    use super::*;
    use crate::controllers::fixture::{labels, node, pod, tainted};

    fn silent(name: &str) -> Node {
        Node { status: None, ..node(name) }
    }

    fn cordoned(name: &str) -> Node {
        let spec = NodeSpec { unschedulable: Some(true), ..NodeSpec::default() };
        Node { spec: Some(spec), ..node(name) }
    }

    #[test]
    fn a_pod_goes_where_it_may_and_where_there_are_fewest() {
        let wanting = |value: &str| {
            pod("a").spec(|spec| spec.node_selector = Some(labels(&[("zone", value)])))
        };
        let everything = Toleration { operator: Some("Exists".into()), ..Toleration::default() };
        let tolerant = pod("a").spec(|spec| spec.tolerations = Some(vec![everything]));
        let gate = PodSchedulingGate { name: "wait".into() };
        let gated = pod("a").spec(|spec| spec.scheduling_gates = Some(vec![gate]));
        let mut zoned = node("n2");
        zoned.metadata.labels = Some(labels(&[("zone", "b")]));
        let bind = |name: &str| Verdict::Bind(name.into());
        let nowhere = |text: &str| Verdict::Nowhere(text.into());
        let cases = [
            ("one node", pod("a"), vec![node("n1")], bind("n1")),
            ("fewest pods", pod("a"), vec![node("n1"), node("n2")], bind("n2")),
            ("selected", wanting("b"), vec![node("n1"), zoned.clone()], bind("n2")),
            (
                "none selected",
                wanting("c"),
                vec![node("n1"), zoned],
                nowhere(
                    "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.",
                ),
            ),
            (
                "tainted and silent",
                pod("a"),
                vec![tainted(node("n1"), "x", "NoSchedule"), silent("n2")],
                nowhere(
                    "0/2 nodes are available: 1 node(s) were not ready or unschedulable, \
                     1 node(s) had untolerated taint(s).",
                ),
            ),
            ("tolerated", tolerant, vec![tainted(node("n1"), "x", "NoExecute")], bind("n1")),
            (
                "cordoned",
                pod("a"),
                vec![cordoned("n1")],
                nowhere("0/1 nodes are available: 1 node(s) were not ready or unschedulable."),
            ),
            ("no nodes", pod("a"), vec![], nowhere("0/0 nodes are available: no nodes.")),
            ("bound", pod("a").on("n9"), vec![node("n1")], Verdict::Ignore),
            ("leaving", pod("a").terminating(), vec![node("n1")], Verdict::Ignore),
            ("gated", gated, vec![node("n1")], Verdict::Ignore),
        ];
        for (name, pod, nodes, want) in cases {
            let nodes: Vec<_> = nodes.into_iter().map(Arc::new).collect();
            let load = |node: &str| if node == "n1" { 3 } else { 1 };
            assert_eq!(place(&pod.build(), &nodes, load), want, "{name}");
        }
    }
}
