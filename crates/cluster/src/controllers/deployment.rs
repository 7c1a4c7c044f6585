//! What is the next step of a rollout?
//!
//! A Deployment owns one ReplicaSet for each pod template it has had. The one whose template is
//! the Deployment's is *new*, all others are *old*. Every call makes one step and reports the
//! status; the step changes ReplicaSets, their controllers change pods, and the changed counts
//! lead to the next call:
//!
//! | situation | step |
//! |---|---|
//! | being deleted | only the status |
//! | paused, or the replicas have changed | `scale`: keep the proportions of what is there |
//! | strategy `RollingUpdate` | `rolling`: new ones up within the surge, old ones down within what may be unavailable |
//! | strategy `Recreate` | `recreate`: all old ones down, wait for their pods, new one up |
//!
//! A template that was rolled out before is found again by comparing, not by its hash; its
//! ReplicaSet becomes new with a new revision number. That is all a rollback is.

mod progress;
mod reconcile;
mod recreate;
mod rolling;
mod scale;
mod sets;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStatus, ReplicaSet},
        core::v1::Pod,
    },
    apimachinery::pkg::util::intstr::IntOrString,
};

pub(crate) use self::reconcile::Deployments;
use self::sets::Rollout;
use super::{
    amount::{rounded_down, rounded_up},
    key::is_terminating,
};

/// What one step looks at.
#[derive(Debug)]
pub(crate) struct Observed<'a> {
    pub(crate) deployment: &'a Deployment,
    /// The ReplicaSets it controls.
    pub(crate) sets: &'a [Arc<ReplicaSet>],
    /// The pods of those ReplicaSets.
    pub(crate) pods: &'a [Arc<Pod>],
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    Create(Box<ReplicaSet>),
    Update {
        before: Arc<ReplicaSet>,
        after: Box<ReplicaSet>,
    },
    /// An old ReplicaSet beyond the history limit.
    Delete(Arc<ReplicaSet>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    /// In this order.
    pub(crate) actions: Vec<Action>,
    pub(crate) status: DeploymentStatus,
    /// The number of the rollout, if the Deployment does not carry it yet. It is written with the
    /// status: by itself it would count as a new generation.
    pub(crate) revision: Option<String>,
    /// When to look again although nothing has happened.
    pub(crate) recheck: Option<Timestamp>,
    pub(crate) why: Why,
}

/// Which step was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    Leaving,
    Paused,
    Scaled,
    /// New pods within the surge.
    NewUp,
    /// New pods beyond what is wanted now.
    NewDown,
    /// Old pods, within what may be unavailable.
    OldDown,
    /// Old pods are still there.
    OldRunning,
    /// Nothing to do for this rollout, or nothing yet.
    Holding,
    Complete,
}

pub(crate) fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let mut rollout = Rollout::new(observed, now);
    let deployment = observed.deployment;
    if is_terminating(deployment) {
        return rollout.finish_without_progress(Why::Leaving);
    }
    progress::note_pause(&mut rollout);
    let is_paused = rollout.spec.paused == Some(true);
    if is_paused || scale::is_due(&rollout) {
        rollout.find_new();
        scale::scale(&mut rollout);
        if is_paused {
            rollout.trim_history();
        }
        let why = if is_paused { Why::Paused } else { Why::Scaled };
        return rollout.finish_without_progress(why);
    }
    let why = match rollout.limits.strategy {
        Strategy::Recreate => recreate::step(&mut rollout, observed.pods),
        Strategy::Rolling => rolling::step(&mut rollout),
    };
    rollout.finish(why)
}

/// The status after the server has refused to create the new ReplicaSet.
pub(crate) fn refused(
    observed: &Observed<'_>,
    set: &str,
    message: &str,
    now: Timestamp,
) -> DeploymentStatus {
    progress::refused(&Rollout::new(observed, now), set, message)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strategy {
    Rolling,
    Recreate,
}

/// How far a rollout may deviate from the wanted number of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    strategy: Strategy,
    replicas: i32,
    surge: i32,
    unavailable: i32,
}

impl Limits {
    /// Surge rounds up, unavailability rounds down; when both come out as zero nothing could ever
    /// move, and one pod may be unavailable.
    fn of(spec: &DeploymentSpec) -> Self {
        let replicas = spec.replicas.unwrap_or(1);
        let strategy = spec.strategy.as_ref();
        if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate") {
            return Self { strategy: Strategy::Recreate, replicas, surge: 0, unavailable: 0 };
        }
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let quarter = IntOrString::String("25%".into());
        let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref()).unwrap_or(&quarter);
        let unavailable =
            rolling.and_then(|rolling| rolling.max_unavailable.as_ref()).unwrap_or(&quarter);
        let surge = rounded_up(surge, replicas);
        let mut unavailable = rounded_down(unavailable, replicas);
        if surge == 0 && unavailable == 0 {
            unavailable = 1;
        }
        let unavailable = unavailable.min(replicas);
        Self { strategy: Strategy::Rolling, replicas, surge, unavailable }
    }

    /// As many pods as there may be.
    fn most(&self) -> i32 {
        self.replicas.saturating_add(self.surge)
    }

    /// As many available pods as there must be.
    fn fewest(&self) -> i32 {
        self.replicas.saturating_sub(self.unavailable)
    }
}
