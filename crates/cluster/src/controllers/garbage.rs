//! Which objects have lost their last owner?
//!
//! Objects name their owners. An object with at least one owner that exists stays; when the last
//! one is gone, so is the object. How an owner goes is its deleter's choice, which the server
//! writes down as a finalizer:
//!
//! | policy | finalizer | what happens |
//! |---|---|---|
//! | background | – | the owner goes at once, dependents follow |
//! | foreground | `foregroundDeletion` | dependents go first; those with `blockOwnerDeletion` are waited for |
//! | orphan | `orphan` | dependents lose the reference and stay |
//!
//! A [`Graph`] of all objects remembers who depends on whom and says whom a change concerns. It is
//! never trusted with a deletion: before each, the object and its owners are read from the server.
//!
//! Owners are looked for where they may be: a namespaced owner only in the namespace of its
//! dependent. A cluster-scoped object with a namespaced owner names something it cannot have; it
//! is left alone, and so is an object whose owner's kind the server does not know (yet).

mod graph;
mod monitor;
mod reconcile;
#[cfg(test)]
mod tests;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::PropagationPolicy;

pub(crate) use self::{
    graph::{Dependent, Graph, Object},
    monitor::{Monitors, follow_shared},
    reconcile::Garbage,
};
use super::key::has_finalizer;
use crate::well_known::{FOREGROUND_DELETION, ORPHAN_DEPENDENTS};

/// How an owner fares, as the server says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is there.
    Solid,
    /// It is there, and waits for its dependents to go first.
    Waiting,
    /// It is not there, or something else has its name.
    Absent,
    /// It cannot be looked for.
    Unresolvable,
}

/// What one decision looks at, read from the server just now.
#[derive(Debug)]
pub(crate) struct Observed<'a> {
    pub(crate) meta: &'a ObjectMeta,
    /// The object's owners, each with its standing, in order.
    pub(crate) owners: &'a [(OwnerReference, Standing)],
    /// The objects that name this one as their owner, as the graph knows them.
    pub(crate) dependents: &'a [Dependent],
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    Delete(PropagationPolicy),
    /// Take references to these owners away.
    DropOwners(Vec<String>),
    /// Let no owner wait for this object any more.
    Unblock,
    RemoveFinalizer(&'static str),
    /// Take the reference to this object away from all its dependents.
    OrphanDependents,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    /// In this order; a failure ends it.
    pub(crate) actions: Vec<Action>,
    pub(crate) why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// Nobody owns it.
    Free,
    /// An owner is there.
    Owned,
    /// An owner is there, others are not.
    PartlyOwned,
    /// It is on its way out already.
    Leaving,
    /// It waits for dependents.
    Blocked,
    /// The dependents it waited for are gone.
    Unblocked,
    /// Its dependents are to stay.
    Orphaning,
    /// An owner cannot be looked for.
    Unresolvable,
    /// All its owners are gone, or wait for it to go.
    Abandoned,
    /// Its owner waits for it, and it for a dependent that waits in turn.
    Circle,
}

/// Is the object waiting for its dependents to go first?
pub(crate) fn awaits_dependents(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some() && has_finalizer(meta, FOREGROUND_DELETION)
}

/// Is the object leaving its dependents behind?
pub(crate) fn orphans_dependents(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some() && has_finalizer(meta, ORPHAN_DEPENDENTS)
}

pub(crate) fn plan(observed: &Observed<'_>) -> Plan {
    let Observed { meta, owners, dependents } = observed;
    let plan = |why, actions| Plan { actions, why };
    if orphans_dependents(meta) {
        let actions = vec![Action::OrphanDependents, Action::RemoveFinalizer(ORPHAN_DEPENDENTS)];
        return plan(Why::Orphaning, actions);
    }
    if awaits_dependents(meta) {
        return match dependents.iter().any(|dependent| dependent.blocks) {
            true => plan(Why::Blocked, vec![]),
            false => plan(Why::Unblocked, vec![Action::RemoveFinalizer(FOREGROUND_DELETION)]),
        };
    }
    if meta.deletion_timestamp.is_some() {
        return plan(Why::Leaving, vec![]);
    }
    if owners.is_empty() {
        return plan(Why::Free, vec![]);
    }
    let has = |standing: Standing| owners.iter().any(|(_, has)| *has == standing);
    if has(Standing::Unresolvable) {
        return plan(Why::Unresolvable, vec![]);
    }
    if has(Standing::Solid) {
        let lost = owners.iter().filter(|(_, standing)| *standing != Standing::Solid);
        let lost: Vec<_> = lost.map(|(owner, _)| owner.uid.clone()).collect();
        return match lost.is_empty() {
            true => plan(Why::Owned, vec![]),
            false => plan(Why::PartlyOwned, vec![Action::DropOwners(lost)]),
        };
    }
    if has(Standing::Waiting) && !dependents.is_empty() {
        let is_circle = dependents.iter().any(|dependent| dependent.waits);
        let mut actions = vec![Action::Delete(PropagationPolicy::Foreground)];
        if is_circle {
            actions.insert(0, Action::Unblock);
        }
        return plan(if is_circle { Why::Circle } else { Why::Abandoned }, actions);
    }
    let policy =
        match (has_finalizer(meta, ORPHAN_DEPENDENTS), has_finalizer(meta, FOREGROUND_DELETION)) {
            (true, _) => PropagationPolicy::Orphan,
            (false, true) => PropagationPolicy::Foreground,
            (false, false) => PropagationPolicy::Background,
        };
    plan(Why::Abandoned, vec![Action::Delete(policy)])
}
