//! Which pod of a numbered row is created, awaited or deleted next?
//!
//! The pods of a StatefulSet are a row of numbers with names, `web-0`, `web-1`, and each keeps its
//! name, its volume claims and its place. Three passes, and with `OrderedReady` the first thing
//! that has to be waited for ends the call:
//!
//! 1. **fill**, upwards: a missing pod is created, a finished one deleted to be made anew, one
//!    that is not available yet is waited for;
//! 2. **trim**, downwards: pods beyond the wanted numbers are deleted, one at a time;
//! 3. **update**, downwards to the partition: pods of another revision are deleted, as many as may
//!    be unavailable, and come back new in the next fill.
//!
//! With `Parallel`, nothing is waited for in the first two. However many pods a set asks for, one call
//! plans at most a burst of them: what it costs follows the pods that are there and not a number in an
//! object.

mod identity;
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
    apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec, StatefulSetStatus},
    core::v1::Pod,
};

pub(crate) use self::reconcile::StatefulSets;
use super::{
    key::is_terminating,
    pod::{PodFacts, next_available},
};
use crate::well_known::{CONTROLLER_REVISION_HASH, STATEFUL_SET_POD_NAME};

/// Steps that one call plans at most: the next call looks again whether they are still wanted.
const BURST: usize = 100;

/// What one decision looks at.
#[derive(Debug)]
pub(crate) struct Observed<'a> {
    pub(crate) set: &'a StatefulSet,
    /// All pods of the set.
    pub(crate) pods: &'a [Arc<Pod>],
    /// The volume claims of the namespace by name, and whether they are on their way out.
    pub(crate) claims: &'a HashMap<String, bool>,
    /// The revision that was rolled out last.
    pub(crate) current: &'a ControllerRevision,
    /// The revision of the present template.
    pub(crate) update: &'a ControllerRevision,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// Make the volume claims that a pod needs, if they are missing.
    Claims {
        ordinal: i32,
        missing: Vec<String>,
    },
    Create {
        ordinal: i32,
        version: Version,
    },
    Delete {
        pod: Arc<Pod>,
        why: Why,
    },
    /// Give a pod the labels of its place back.
    Relabel(Arc<Pod>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    Current,
    Update,
}

/// Why a pod goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    Failed,
    Succeeded,
    /// Its number is not wanted any more.
    Beyond,
    Outdated,
}

/// What the set is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Nothing,
    /// A pod to be created, to become available or to go: its number.
    Pod(i32),
    /// A volume claim that is on its way out, needed by this number.
    Claim(i32),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    /// In this order; a failure ends it.
    pub(crate) actions: Vec<Action>,
    pub(crate) status: StatefulSetStatus,
    /// When to look again although nothing has happened.
    pub(crate) recheck: Option<Timestamp>,
    pub(crate) wait: Wait,
}

/// Everything the passes need, worked out once.
struct View<'a> {
    observed: &'a Observed<'a>,
    spec: StatefulSetSpec,
    name: &'a str,
    now: Timestamp,
    /// The set's pods by number.
    pods: BTreeMap<i32, &'a Arc<Pod>>,
}

impl<'a> View<'a> {
    fn new(observed: &'a Observed<'a>, now: Timestamp) -> Self {
        let name = observed.set.metadata.name.as_deref().unwrap_or_default();
        let numbered = |pod: &'a Arc<Pod>| Some((identity::ordinal(name, pod)?, pod));
        Self {
            observed,
            spec: observed.set.spec.clone().unwrap_or_default(),
            name,
            now,
            pods: observed.pods.iter().filter_map(numbered).collect(),
        }
    }

    /// The wanted numbers.
    fn wanted(&self) -> std::ops::Range<i32> {
        let start = self.spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0);
        start..start.saturating_add(self.replicas())
    }

    fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    fn min_ready(&self) -> i32 {
        self.spec.min_ready_seconds.unwrap_or(0)
    }

    fn is_ordered(&self) -> bool {
        self.spec.pod_management_policy.as_deref() != Some("Parallel")
    }

    fn is_rolling(&self) -> bool {
        let strategy = self.spec.update_strategy.as_ref();
        strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("OnDelete")
    }

    fn is_available(&self, pod: &Pod) -> bool {
        is_running_and_ready(pod) && pod.is_available(self.min_ready(), self.now)
    }

    /// Is it of this revision?
    fn has_revision(&self, pod: &Pod, revision: &ControllerRevision) -> bool {
        let labels = pod.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get(CONTROLLER_REVISION_HASH))
            == revision.metadata.name.as_ref()
    }
}

fn is_running_and_ready(pod: &Pod) -> bool {
    pod.phase() == "Running" && pod.is_ready()
}

pub(crate) fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let view = View::new(observed, now);
    let mut actions = Vec::new();
    let mut wait = Wait::Nothing;
    if !is_terminating(observed.set) {
        wait = fill(&view, &mut actions);
        if wait == Wait::Nothing {
            wait = trim(&view, &mut actions);
        }
        if wait == Wait::Nothing && view.is_rolling() {
            update::roll(&view, &mut actions);
        }
    }
    let pods = view.pods.values().map(|pod| &***pod);
    let recheck = next_available(pods, view.min_ready(), now);
    Plan { actions, status: status::status(&view), recheck, wait }
}

/// Brings every wanted number to an available pod.
fn fill(view: &View<'_>, actions: &mut Vec<Action>) -> Wait {
    for ordinal in view.wanted() {
        let wait = fill_one(view, ordinal, actions);
        if (wait != Wait::Nothing && view.is_ordered()) || actions.len() >= BURST {
            return wait;
        }
    }
    Wait::Nothing
}

fn fill_one(view: &View<'_>, ordinal: i32, actions: &mut Vec<Action>) -> Wait {
    let Some(pod) = view.pods.get(&ordinal) else {
        let missing = match claims(view, ordinal) {
            Ok(missing) => missing,
            Err(wait) => return wait,
        };
        if !missing.is_empty() {
            actions.push(Action::Claims { ordinal, missing });
        }
        actions.push(Action::Create { ordinal, version: update::version(view, ordinal) });
        return Wait::Pod(ordinal);
    };
    if pod.is_finished() {
        if !pod.is_terminating() {
            let why = if pod.phase() == "Failed" { Why::Failed } else { Why::Succeeded };
            actions.push(Action::Delete { pod: (*pod).clone(), why });
        }
        return Wait::Pod(ordinal);
    }
    if pod.phase() == "Pending"
        && let Ok(missing) = claims(view, ordinal)
        && !missing.is_empty()
    {
        actions.push(Action::Claims { ordinal, missing });
    }
    if pod.is_terminating() || !view.is_available(pod) {
        return Wait::Pod(ordinal);
    }
    let labels = pod.metadata.labels.as_ref();
    let label = labels.and_then(|labels| labels.get(STATEFUL_SET_POD_NAME));
    if label != pod.metadata.name.as_ref() {
        actions.push(Action::Relabel((*pod).clone()));
    }
    Wait::Nothing
}

/// The claims a pod needs that are not there; or the wait for one that has to go first.
fn claims(view: &View<'_>, ordinal: i32) -> Result<Vec<String>, Wait> {
    let mut missing = Vec::new();
    for template in view.spec.volume_claim_templates.iter().flatten() {
        let name = identity::claim_name(view.name, template, ordinal);
        match view.observed.claims.get(&name) {
            Some(true) => return Err(Wait::Claim(ordinal)),
            Some(false) => {}
            None => missing.push(name),
        }
    }
    Ok(missing)
}

/// Deletes the pods beyond the wanted numbers, highest first.
fn trim(view: &View<'_>, actions: &mut Vec<Action>) -> Wait {
    let wanted = view.wanted();
    let beyond = || view.pods.iter().rev().filter(|(ordinal, _)| !wanted.contains(ordinal));
    // All wanted ones are fine when order matters, so the first broken one is the lowest here.
    let mut broken = beyond().filter(|(_, pod)| !view.is_available(pod) || pod.is_terminating());
    let first_broken = broken.next_back().map(|(ordinal, _)| *ordinal);
    for (ordinal, pod) in beyond() {
        if pod.is_terminating() {
            if view.is_ordered() {
                return Wait::Pod(*ordinal);
            }
            continue;
        }
        // An ordered set does not take a serving pod away while another one is broken, but the
        // broken one itself may go.
        if view.is_ordered() && !view.is_available(pod) && first_broken != Some(*ordinal) {
            return Wait::Pod(*ordinal);
        }
        actions.push(Action::Delete { pod: (*pod).clone(), why: Why::Beyond });
        if view.is_ordered() || actions.len() >= BURST {
            return Wait::Pod(*ordinal);
        }
    }
    Wait::Nothing
}
