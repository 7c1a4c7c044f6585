//! Which nodes run the daemon, and what is on them?

use std::{collections::HashSet, sync::Arc};

use k8s_openapi::api::core::v1::{
    Affinity, Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod,
    PodSpec, Toleration,
};

use super::{Changes, Limits, View, Why};
use crate::{
    controllers::{
        claim::Owner,
        placement::{accepts, untolerated},
        pod::PodFacts,
        template,
    },
    well_known::{
        CONTROLLER_REVISION_HASH, TAINT_DISK_PRESSURE, TAINT_MEMORY_PRESSURE,
        TAINT_NETWORK_UNAVAILABLE, TAINT_NOT_READY, TAINT_PID_PRESSURE, TAINT_UNREACHABLE,
        TAINT_UNSCHEDULABLE,
    },
};

/// What a node means to the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    /// A pod should be here.
    pub(super) runs: bool,
    /// A pod that is here may stay: a taint that only keeps new pods away does not drive it out.
    pub(super) keeps: bool,
}

pub(super) fn verdict(spec: &PodSpec, tolerations: &[Toleration], node: &Node) -> Verdict {
    let is_named = spec
        .node_name
        .as_deref()
        .is_none_or(|name| name.is_empty() || node.metadata.name.as_deref() == Some(name));
    if !is_named || !accepts(spec, node) {
        return Verdict { runs: false, keeps: false };
    }
    Verdict {
        runs: untolerated(node, tolerations, &["NoSchedule", "NoExecute"]).is_none(),
        keeps: untolerated(node, tolerations, &["NoExecute"]).is_none(),
    }
}

/// The template's tolerations and those every daemon has: it stays where others must leave.
pub(super) fn tolerations(spec: &PodSpec) -> Vec<Toleration> {
    let mut tolerations = spec.tolerations.clone().unwrap_or_default();
    let mut add = |key: &str, effect: &str| {
        let toleration = Toleration {
            key: Some(key.into()),
            operator: Some("Exists".into()),
            effect: Some(effect.into()),
            ..Toleration::default()
        };
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    };
    add(TAINT_NOT_READY, "NoExecute");
    add(TAINT_UNREACHABLE, "NoExecute");
    add(TAINT_DISK_PRESSURE, "NoSchedule");
    add(TAINT_MEMORY_PRESSURE, "NoSchedule");
    add(TAINT_PID_PRESSURE, "NoSchedule");
    add(TAINT_UNSCHEDULABLE, "NoSchedule");
    if spec.host_network == Some(true) {
        add(TAINT_NETWORK_UNAVAILABLE, "NoSchedule");
    }
    tolerations
}

/// Brings every node to exactly the pods it should have, whatever their version.
pub(super) fn settle(view: &View<'_>, changes: &mut Changes) {
    let mut known = HashSet::new();
    for (name, verdict) in view.nodes() {
        known.insert(name);
        let pods = view.on(name);
        if verdict.runs && pods.is_empty() {
            changes.create.push(name.to_owned());
        } else if verdict.keeps {
            keep(view, name, pods, changes);
        } else {
            let here = pods.iter().filter(|pod| !pod.is_terminating());
            changes.delete.extend(here.map(|pod| ((*pod).clone(), Why::Misplaced)));
        }
    }
    for (_, pods) in view.by_node.iter().filter(|(node, _)| !known.contains(*node)) {
        let waiting = pods.iter().filter(|pod| pod.node().is_none() && !pod.is_terminating());
        changes.delete.extend(waiting.map(|pod| ((*pod).clone(), Why::NodeGone)));
    }
}

fn keep(view: &View<'_>, node: &str, pods: &[&Arc<Pod>], changes: &mut Changes) {
    let mut running = Vec::new();
    for pod in pods.iter().filter(|pod| !pod.is_terminating()) {
        match pod.phase() {
            "Failed" => match view.observed.held.get(node) {
                Some(until) if *until > view.now => changes.look_again(*until),
                _ => changes.delete.push(((*pod).clone(), Why::Failed)),
            },
            "Succeeded" => changes.delete.push(((*pod).clone(), Why::Succeeded)),
            _ => running.push(*pod),
        }
    }
    match view.limits {
        Limits::Surge(_) => keep_two(view, &running, changes),
        Limits::OnDelete | Limits::Unavailable(_) => {
            let seconds = running.into_iter().skip(1).map(|pod| (pod.clone(), Why::Second));
            changes.delete.extend(seconds);
        }
    }
}

/// While versions change hands by surging, one old and one new pod may be here: as long as the
/// old one serves and the new one does not yet.
fn keep_two(view: &View<'_>, running: &[&Arc<Pod>], changes: &mut Changes) {
    let (new, old): (Vec<&Arc<Pod>>, Vec<&Arc<Pod>>) =
        running.iter().partition(|pod| view.is_updated(pod));
    let seconds = new.iter().skip(1).chain(old.iter().skip(1));
    changes.delete.extend(seconds.map(|pod| ((*pod).clone(), Why::Second)));
    if let (Some(new), Some(old)) = (new.first(), old.first())
        && (!old.is_ready() || view.is_available(new))
    {
        changes.delete.push(((*old).clone(), Why::Replaced));
    }
}

/// The pod for one node.
pub(super) fn pod(view: &View<'_>, owner: &Owner, node: &str) -> Pod {
    let mut pod = template::pod(owner, &view.template);
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(CONTROLLER_REVISION_HASH.into(), view.observed.hash.to_owned());
    let spec = pod.spec.get_or_insert_default();
    spec.tolerations = Some(tolerations(spec));
    pin(spec, node);
    pod
}

/// Replaces required node affinity, which was judged already, by the node's name.
fn pin(spec: &mut PodSpec, node: &str) {
    let by_name = NodeSelectorRequirement {
        key: "metadata.name".into(),
        operator: "In".into(),
        values: Some(vec![node.to_owned()]),
    };
    let term = NodeSelectorTerm { match_fields: Some(vec![by_name]), match_expressions: None };
    let affinity: &mut Affinity = spec.affinity.get_or_insert_default();
    let affinity: &mut NodeAffinity = affinity.node_affinity.get_or_insert_default();
    affinity.required_during_scheduling_ignored_during_execution =
        Some(NodeSelector { node_selector_terms: vec![term] });
}
