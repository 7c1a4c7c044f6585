//! How many pods may be disrupted right now?
//!
//! ```text
//! allowed = healthy - wanted healthy, never below zero
//! wanted healthy = minAvailable, or expected - maxUnavailable
//! expected = pods that match; for percentages and maxUnavailable what their controllers want
//! ```
//!
//! A pod that the eviction API has accepted but that is not marked for deletion yet is no longer
//! healthy for this sum; it is forgotten after two minutes, because something has held it back.
//! A budget that cannot be worked out allows nothing.

mod reconcile;

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        core::v1::Pod,
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus},
    },
    apimachinery::pkg::{
        apis::meta::v1::{Condition, Time},
        util::intstr::IntOrString,
    },
};

pub(crate) use self::reconcile::Budgets;
use super::{
    amount::{count, rounded_up},
    clock::{plus_seconds, stamp},
    key::controller_of,
    pod::PodFacts,
};

/// How long an eviction may take from acceptance to deletion.
const EVICTION_SECONDS: i64 = 120;

/// What one decision looks at.
#[derive(Debug)]
pub(crate) struct Observed<'a> {
    pub(crate) budget: &'a PodDisruptionBudget,
    /// The pods that the budget selects.
    pub(crate) pods: &'a [Arc<Pod>],
    /// What the controllers of these pods want, by the id of the pod's direct controller.
    pub(crate) scales: &'a BTreeMap<String, Scale>,
}

/// What a controller says about its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scale {
    /// The id of the controller that has the size, and the size.
    Wants(String, i32),
    Unknown(String),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) status: PodDisruptionBudgetStatus,
    /// When an accepted eviction is forgotten.
    pub(crate) recheck: Option<Timestamp>,
}

pub(crate) fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let before = observed.budget.status.clone().unwrap_or_default();
    let (disrupted, recheck) = disrupted(observed, &before, now);
    let mut status = PodDisruptionBudgetStatus {
        observed_generation: observed.budget.metadata.generation,
        ..before
    };
    let (allowed, reason, message) = match expected(observed) {
        Err(message) => (0, "SyncFailed", message),
        Ok((expected, wanted)) => {
            let is_healthy = |pod: &&Arc<Pod>| {
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                pod.is_ready() && !pod.is_terminating() && !disrupted.contains_key(name)
            };
            let healthy = count(observed.pods.iter().filter(is_healthy).count());
            let allowed = if expected > 0 { healthy.saturating_sub(wanted).max(0) } else { 0 };
            status.current_healthy = healthy;
            status.desired_healthy = wanted;
            status.expected_pods = expected;
            let reason = if allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
            (allowed, reason, String::new())
        }
    };
    status.disruptions_allowed = allowed;
    status.disrupted_pods = Some(disrupted).filter(|pods| !pods.is_empty());
    set_condition(&mut status, allowed > 0, reason, message, now);
    Plan { status, recheck }
}

/// How many pods there should be, and how many of them healthy.
fn expected(observed: &Observed<'_>) -> Result<(i32, i32), String> {
    let Some(spec) = &observed.budget.spec else { return Ok((0, 0)) };
    match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => {
            let expected = wanted_by_controllers(observed)?;
            Ok((expected, expected.saturating_sub(rounded_up(most, expected)).max(0)))
        }
        (None, Some(IntOrString::Int(fewest))) => Ok((count(observed.pods.len()), *fewest)),
        (None, Some(share)) => {
            let expected = wanted_by_controllers(observed)?;
            Ok((expected, rounded_up(share, expected)))
        }
        (None, None) => Ok((count(observed.pods.len()), 1)),
    }
}

/// The sum over the controllers of all pods, each once; pods without one do not count.
fn wanted_by_controllers(observed: &Observed<'_>) -> Result<i32, String> {
    let mut sizes = BTreeMap::new();
    for pod in observed.pods {
        let Some(owner) = controller_of(&pod.metadata) else { continue };
        match observed.scales.get(&owner.uid) {
            Some(Scale::Wants(uid, size)) => {
                sizes.insert(uid, *size);
            }
            Some(Scale::Unknown(message)) => return Err(message.clone()),
            None => return Err(format!("{} {} is not known", owner.kind, owner.name)),
        }
    }
    Ok(sizes.into_values().fold(0, i32::saturating_add))
}

/// Accepted evictions that have not shown yet, and when the next of them is forgotten.
fn disrupted(
    observed: &Observed<'_>,
    before: &PodDisruptionBudgetStatus,
    now: Timestamp,
) -> (BTreeMap<String, Time>, Option<Timestamp>) {
    let accepted = before.disrupted_pods.iter().flatten();
    let kept: BTreeMap<_, _> = accepted
        .filter(|(name, at)| {
            let is_there = observed
                .pods
                .iter()
                .any(|pod| pod.metadata.name.as_ref() == Some(name) && !pod.is_terminating());
            is_there && plus_seconds(at.0, EVICTION_SECONDS) > now
        })
        .map(|(name, at)| (name.clone(), at.clone()))
        .collect();
    let next = kept.values().map(|at| plus_seconds(at.0, EVICTION_SECONDS)).min();
    (kept, next)
}

fn set_condition(
    status: &mut PodDisruptionBudgetStatus,
    is_allowed: bool,
    reason: &str,
    message: String,
    now: Timestamp,
) {
    let text = if is_allowed { "True" } else { "False" };
    let conditions = status.conditions.get_or_insert_default();
    let old = conditions.iter_mut().find(|condition| condition.type_ == "DisruptionAllowed");
    let since = match &old {
        Some(old) if old.status == text => old.last_transition_time.clone(),
        _ => stamp(now),
    };
    let next = Condition {
        type_: "DisruptionAllowed".into(),
        status: text.into(),
        reason: reason.into(),
        message,
        last_transition_time: since,
        observed_generation: status.observed_generation,
    };
    match old {
        Some(old) => *old = next,
        None => conditions.push(next),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::policy::v1::PodDisruptionBudgetSpec;
    use proptest::prelude::*;

    use super::*;
    use crate::controllers::fixture::{NOW, PodBuilder, ago, meta, pod};

    fn budget(most: Option<IntOrString>, fewest: Option<IntOrString>) -> PodDisruptionBudget {
        PodDisruptionBudget {
            metadata: meta("web"),
            spec: Some(PodDisruptionBudgetSpec {
                max_unavailable: most,
                min_available: fewest,
                ..PodDisruptionBudgetSpec::default()
            }),
            status: None,
        }
    }

    fn int(number: i32) -> Option<IntOrString> {
        Some(IntOrString::Int(number))
    }

    fn percent(number: i32) -> Option<IntOrString> {
        Some(IntOrString::String(format!("{number}%")))
    }

    fn healthy(name: &str) -> PodBuilder {
        pod(name).owner("ReplicaSet", "rs", "u-rs").ready_since(ago(60))
    }

    fn decide(budget: &PodDisruptionBudget, pods: Vec<PodBuilder>, scale: Option<Scale>) -> Plan {
        let pods: Vec<_> = pods.into_iter().map(|pod| Arc::new(pod.build())).collect();
        let scales = scale.into_iter().map(|scale| ("u-rs".to_owned(), scale)).collect();
        plan(&Observed { budget, pods: &pods, scales: &scales }, NOW)
    }

    fn wants(size: i32) -> Option<Scale> {
        Some(Scale::Wants("u-deployment".into(), size))
    }

    /// healthy, wanted, expected, allowed
    #[test]
    fn the_arithmetic_of_budgets() {
        let three = || vec![healthy("a"), healthy("b"), healthy("c")];
        let two_of_three =
            || vec![healthy("a"), healthy("b"), pod("c").owner("ReplicaSet", "rs", "u-rs")];
        let cases = [
            ("at least two of three", budget(None, int(2)), three(), wants(3), (3, 2, 3, 1)),
            ("all needed", budget(None, int(3)), three(), wants(3), (3, 3, 3, 0)),
            (
                "one is missing already",
                budget(None, int(2)),
                two_of_three(),
                wants(3),
                (2, 2, 3, 0),
            ),
            ("half of three rounds up", budget(None, percent(50)), three(), wants(3), (3, 2, 3, 1)),
            (
                "a share of what is wanted, not of what is there",
                budget(None, percent(50)),
                three(),
                wants(10),
                (3, 5, 10, 0),
            ),
            ("at most one", budget(int(1), None), three(), wants(3), (3, 2, 3, 1)),
            (
                "at most a third, rounded up",
                budget(percent(34), None),
                three(),
                wants(3),
                (3, 1, 3, 2),
            ),
            ("at most none", budget(int(0), None), three(), wants(3), (3, 3, 3, 0)),
            ("more than there are", budget(int(9), None), three(), wants(3), (3, 0, 3, 3)),
            (
                "a number counts pods without controller",
                budget(None, int(1)),
                vec![pod("x").ready_since(ago(9))],
                None,
                (1, 1, 1, 0),
            ),
            (
                "others do not",
                budget(int(1), None),
                vec![pod("x").ready_since(ago(9))],
                None,
                (1, 0, 0, 0),
            ),
            ("nothing is there", budget(None, int(0)), vec![], None, (0, 0, 0, 0)),
            (
                "one is leaving",
                budget(None, int(1)),
                vec![healthy("a"), healthy("b").terminating()],
                wants(2),
                (1, 1, 2, 0),
            ),
        ];
        for (name, budget, pods, scale, want) in cases {
            let status = decide(&budget, pods, scale).status;
            let got = (
                status.current_healthy,
                status.desired_healthy,
                status.expected_pods,
                status.disruptions_allowed,
            );
            assert_eq!(got, want, "{name}");
            let condition = &status.conditions.unwrap()[0];
            let text =
                if want.3 > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
            assert_eq!((condition.status.as_str(), condition.reason.as_str()), text, "{name}");
            assert_eq!(status.observed_generation, Some(1), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_worked_out_allows_nothing() {
        let unknown = Some(Scale::Unknown("jobs.batch has no scale".into()));
        for (name, scale) in [("said so", unknown), ("never heard of", None)] {
            let mut budget = budget(int(1), None);
            budget.status = Some(PodDisruptionBudgetStatus {
                disruptions_allowed: 2,
                ..PodDisruptionBudgetStatus::default()
            });
            let status = decide(&budget, vec![healthy("a")], scale).status;
            assert_eq!(status.disruptions_allowed, 0, "{name}");
            let condition = &status.conditions.unwrap()[0];
            assert_eq!(condition.reason, "SyncFailed", "{name}");
            assert!(!condition.message.is_empty(), "{name}");
        }
    }

    #[test]
    fn an_accepted_eviction_counts_until_it_shows_or_is_forgotten() {
        let evicted = |seconds| {
            let mut budget = budget(None, int(1));
            let pods = BTreeMap::from([("b".to_owned(), stamp(ago(seconds)))]);
            budget.status = Some(PodDisruptionBudgetStatus {
                disrupted_pods: Some(pods),
                ..PodDisruptionBudgetStatus::default()
            });
            budget
        };
        let pods = || vec![healthy("a"), healthy("b"), healthy("c")];
        let plan = decide(&evicted(20), pods(), wants(3));
        assert_eq!((plan.status.current_healthy, plan.status.disruptions_allowed), (2, 1));
        assert_eq!(plan.recheck, Some(crate::controllers::fixture::ahead(100)));
        let gone = decide(&evicted(20), vec![healthy("a"), healthy("c")], wants(3));
        assert_eq!((gone.status.disrupted_pods, gone.recheck), (None, None));
        let held_back = decide(&evicted(120), pods(), wants(3));
        assert_eq!(held_back.status.current_healthy, 3);
        let marked = vec![healthy("a"), healthy("b").terminating(), healthy("c")];
        assert_eq!(decide(&evicted(20), marked, wants(3)).status.disrupted_pods, None);
    }

    #[test]
    fn the_condition_keeps_its_time_while_its_status_stays() {
        let mut budget = budget(None, int(1));
        let first = decide(&budget, vec![healthy("a"), healthy("b")], None).status;
        let mut old = first.clone();
        old.conditions.as_mut().unwrap()[0].last_transition_time = stamp(ago(500));
        budget.status = Some(old.clone());
        assert_eq!(decide(&budget, vec![healthy("a"), healthy("b")], None).status, old);
        let changed = decide(&budget, vec![healthy("a")], None).status;
        assert_eq!(changed.conditions.unwrap()[0].last_transition_time, stamp(NOW));
    }

    proptest! {
        /// Disrupting as many as are allowed leaves as many healthy as are wanted.
        #[test]
        fn what_is_allowed_can_be_afforded(
            ready in prop::collection::vec(any::<bool>(), 0..12),
            size in 0..15i32,
            share in 0..130i32,
            most in any::<bool>(),
        ) {
            let budget = match most {
                true => budget(percent(share), None),
                false => budget(None, percent(share)),
            };
            let pods = ready.iter().enumerate().map(|(n, ready)| match ready {
                true => healthy(&format!("p{n}")),
                false => pod(&format!("p{n}")).owner("ReplicaSet", "rs", "u-rs"),
            });
            let status = decide(&budget, pods.collect(), wants(size)).status;
            let left = status.current_healthy - status.disruptions_allowed;
            prop_assert!(status.disruptions_allowed >= 0);
            prop_assert!(status.disruptions_allowed == 0 || left >= status.desired_healthy);
        }
    }
}
