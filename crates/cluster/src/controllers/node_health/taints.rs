//! Which taints do conditions become, and how fast?

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};

use super::{Action, Memory, Why, status_of};
use crate::{
    controllers::clock::stamp,
    well_known::{
        TAINT_DISK_PRESSURE, TAINT_MEMORY_PRESSURE, TAINT_NETWORK_UNAVAILABLE, TAINT_NOT_READY,
        TAINT_PID_PRESSURE, TAINT_UNREACHABLE, TAINT_UNSCHEDULABLE,
    },
};

/// Taints with these keys are ours to set and to take away; NoExecute only the first two.
const OURS: [&str; 7] = [
    TAINT_NOT_READY,
    TAINT_UNREACHABLE,
    TAINT_UNSCHEDULABLE,
    TAINT_MEMORY_PRESSURE,
    TAINT_DISK_PRESSURE,
    TAINT_PID_PRESSURE,
    TAINT_NETWORK_UNAVAILABLE,
];

const NORMAL_PAUSE: SignedDuration = SignedDuration::from_secs(10);
const PARTIAL_PAUSE: SignedDuration = SignedDuration::from_secs(100);
/// In clusters up to this size, nobody is driven away while more than half is silent.
const SMALL_CLUSTER: usize = 50;

type Judged<'a> = (&'a Arc<Node>, Vec<NodeCondition>);

pub(super) fn deal(
    nodes: &[Judged<'_>],
    memory: &mut Memory,
    actions: &mut Vec<Action>,
    now: Timestamp,
) {
    let why = disruption(nodes);
    for (node, conditions) in nodes {
        let before = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        let driving = driving(conditions).filter(|_| why != Why::Full).filter(|key| {
            let has = before.iter().any(|taint| taint.key == *key && taint.effect == "NoExecute");
            has || may_drive(why, nodes.len(), memory, now)
        });
        let mut wanted = repelling(node, conditions);
        wanted.extend(driving.map(|key| (key, "NoExecute")));
        let taints = replace(&before, &wanted, now);
        if taints != before {
            actions.push(Action::Taints { node: (*node).clone(), taints, why });
        }
    }
}

/// How much of the cluster is silent or unwell.
fn disruption(nodes: &[Judged<'_>]) -> Why {
    let ready = nodes.iter().filter(|(_, c)| status_of(c, "Ready") == Some("True")).count();
    let unwell = nodes.len() - ready;
    match () {
        () if unwell > 0 && ready == 0 => Why::Full,
        () if unwell > 2 && unwell * 100 >= nodes.len() * 55 => Why::Partial,
        () => Why::Normal,
    }
}

/// Takes the next turn to drive pods from a node, if it has come.
fn may_drive(why: Why, size: usize, memory: &mut Memory, now: Timestamp) -> bool {
    let pause = match why {
        Why::Normal => NORMAL_PAUSE,
        Why::Partial if size > SMALL_CLUSTER => PARTIAL_PAUSE,
        Why::Partial | Why::Full => return false,
    };
    let is_free = memory.last_driven.is_none_or(|last| now.duration_since(last) >= pause);
    if is_free {
        memory.last_driven = Some(now);
    }
    is_free
}

fn driving(conditions: &[NodeCondition]) -> Option<&'static str> {
    match status_of(conditions, "Ready") {
        Some("False") => Some(TAINT_NOT_READY),
        Some("Unknown") => Some(TAINT_UNREACHABLE),
        _ => None,
    }
}

fn repelling(node: &Node, conditions: &[NodeCondition]) -> Vec<(&'static str, &'static str)> {
    let is = |kind: &str| status_of(conditions, kind) == Some("True");
    let is_unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    let mut keys: Vec<&str> = driving(conditions).into_iter().collect();
    keys.extend(Some(TAINT_MEMORY_PRESSURE).filter(|_| is("MemoryPressure")));
    keys.extend(Some(TAINT_DISK_PRESSURE).filter(|_| is("DiskPressure")));
    keys.extend(Some(TAINT_PID_PRESSURE).filter(|_| is("PIDPressure")));
    keys.extend(Some(TAINT_NETWORK_UNAVAILABLE).filter(|_| is("NetworkUnavailable")));
    keys.extend(Some(TAINT_UNSCHEDULABLE).filter(|_| is_unschedulable));
    keys.into_iter().map(|key| (key, "NoSchedule")).collect()
}

/// The taints with ours as wanted. Those that stay keep their time, others' are not touched.
fn replace(before: &[Taint], wanted: &[(&str, &str)], now: Timestamp) -> Vec<Taint> {
    let is_ours = |taint: &Taint| match taint.effect.as_str() {
        "NoSchedule" => OURS.contains(&taint.key.as_str()),
        "NoExecute" => OURS.iter().take(2).any(|key| *key == taint.key),
        _ => false,
    };
    let is_wanted = |taint: &Taint| {
        wanted.iter().any(|(key, effect)| *key == taint.key && *effect == taint.effect)
    };
    let kept = before.iter().filter(|taint| !is_ours(taint) || is_wanted(taint));
    let mut taints: Vec<_> = kept.cloned().collect();
    for (key, effect) in wanted {
        if !taints.iter().any(|taint| taint.key == *key && taint.effect == *effect) {
            taints.push(Taint {
                key: (*key).into(),
                effect: (*effect).into(),
                time_added: Some(stamp(now)),
                value: None,
            });
        }
    }
    taints
}
