//! Which nodes have fallen silent, and what does that mean for their pods?
//!
//! A node renews a lease every few seconds. What counts is when *we* last saw something new from
//! it: its clock may be wrong. A node that has been silent for the grace period gets its
//! conditions set to `Unknown`. Its conditions then become taints:
//!
//! | condition | taint |
//! |---|---|
//! | Ready is False | `not-ready`: NoSchedule, NoExecute |
//! | Ready is Unknown | `unreachable`: NoSchedule, NoExecute |
//! | pressure of memory, disk, processes | NoSchedule |
//! | network unavailable, unschedulable | NoSchedule |
//!
//! NoExecute drives pods away, so it comes slowly, one node every ten seconds; slower still when
//! more than half of a large cluster is silent; and not at all when everything is silent, because
//! then it is us who hear nothing. Nodes are not told apart by zone.

mod reconcile;
mod taints;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, NodeCondition, Pod, Taint},
};

pub(crate) use self::reconcile::NodeHealth;
use super::{
    clock::{plus_seconds, stamp},
    pod::PodFacts,
};

/// How long a node may take to report for the first time.
const STARTUP_GRACE: SignedDuration = SignedDuration::from_secs(60);

/// What one look at all nodes sees.
#[derive(Debug)]
pub(crate) struct Observed<'a> {
    pub(crate) nodes: &'a [Arc<Node>],
    /// Leases by node.
    pub(crate) leases: &'a HashMap<String, Arc<Lease>>,
    pub(crate) grace: SignedDuration,
}

/// What is remembered from one look to the next.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Memory {
    heard: BTreeMap<String, Heard>,
    /// When a node was last given a taint that drives pods away.
    last_driven: Option<Timestamp>,
}

/// The last sign of life of a node, and when we saw it.
#[derive(Debug, Clone, PartialEq)]
struct Heard {
    sign: (Option<Timestamp>, Option<Timestamp>),
    at: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    Conditions { node: Arc<Node>, conditions: Vec<NodeCondition> },
    Taints { node: Arc<Node>, taints: Vec<Taint>, why: Why },
}

/// How taints that drive pods away are dealt out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// Most nodes are well.
    Normal,
    /// More than half are not.
    Partial,
    /// None is: we are the one who is cut off.
    Full,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) actions: Vec<Action>,
    /// Nodes whose pods do not serve any more.
    pub(crate) unready: Vec<String>,
    pub(crate) memory: Memory,
}

pub(crate) fn plan(observed: &Observed<'_>, memory: &Memory, now: Timestamp) -> Plan {
    let mut next = Memory { heard: BTreeMap::new(), last_driven: memory.last_driven };
    let mut plan = Plan { actions: Vec::new(), unready: Vec::new(), memory: Memory::default() };
    let mut nodes = Vec::new();
    for node in observed.nodes {
        let name = node.metadata.name.clone().unwrap_or_default();
        let heard = hear(observed, memory.heard.get(&name), node, &name, now);
        let conditions = judge(node, &heard, observed.grace, now);
        next.heard.insert(name.clone(), heard);
        let is_ready = status_of(&conditions, "Ready") == Some("True");
        if !is_ready {
            plan.unready.push(name);
        }
        let before = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        if before != Some(&conditions) && !conditions.is_empty() {
            let conditions = conditions.clone();
            plan.actions.push(Action::Conditions { node: node.clone(), conditions });
        }
        nodes.push((node, conditions));
    }
    taints::deal(&nodes, &mut next, &mut plan.actions, now);
    plan.memory = next;
    plan
}

/// The last sign of life. A node that has never reported counts from its creation.
fn hear(
    observed: &Observed<'_>,
    before: Option<&Heard>,
    node: &Node,
    name: &str,
    now: Timestamp,
) -> Heard {
    let ready = condition(node, "Ready");
    let beat = ready.and_then(|ready| ready.last_heartbeat_time.as_ref()).map(|time| time.0);
    let lease = observed.leases.get(name).and_then(|lease| lease.spec.as_ref());
    let renewed = lease.and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0);
    let sign = (beat, renewed);
    let created = node.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    match before {
        Some(before) if before.sign == sign => before.clone(),
        None if ready.is_none() && renewed.is_none() => Heard { sign, at: created },
        _ => Heard { sign, at: now },
    }
}

/// The node's conditions, set to unknown when it has been silent for too long.
fn judge(node: &Node, heard: &Heard, grace: SignedDuration, now: Timestamp) -> Vec<NodeCondition> {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.clone());
    let mut conditions = conditions.unwrap_or_default();
    let grace = if condition(node, "Ready").is_some() { grace } else { grace.max(STARTUP_GRACE) };
    if now.duration_since(heard.at) <= grace {
        return conditions;
    }
    for kind in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
        match conditions.iter_mut().find(|condition| condition.type_ == kind) {
            Some(condition) if condition.status == "Unknown" => {}
            Some(condition) => {
                condition.status = "Unknown".into();
                condition.reason = Some("NodeStatusUnknown".into());
                condition.message = Some("Kubelet stopped posting node status.".into());
                condition.last_transition_time = Some(stamp(now));
            }
            None => conditions.push(NodeCondition {
                type_: kind.into(),
                status: "Unknown".into(),
                reason: Some("NodeStatusNeverUpdated".into()),
                message: Some("Kubelet never posted node status.".into()),
                last_heartbeat_time: node.metadata.creation_timestamp.clone(),
                last_transition_time: Some(stamp(now)),
            }),
        }
    }
    conditions
}

fn condition<'a>(node: &'a Node, kind: &str) -> Option<&'a NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

fn status_of<'a>(conditions: &'a [NodeCondition], kind: &str) -> Option<&'a str> {
    let found = conditions.iter().find(|condition| condition.type_ == kind)?;
    Some(found.status.as_str())
}

/// Pods that say they serve although their node is not there to let them.
pub(crate) fn falsely_ready(pods: Vec<Arc<Pod>>) -> Vec<Arc<Pod>> {
    pods.into_iter().filter(|pod| pod.is_ready() && !pod.is_terminating()).collect()
}

/// When the next look is due.
pub(crate) fn next_look(now: Timestamp) -> Timestamp {
    plus_seconds(now, 5)
}
