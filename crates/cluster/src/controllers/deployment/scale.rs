//! How does a Deployment change its size while a rollout may be under way?
//!
//! With one active ReplicaSet that one gets the new size. With several, the change is spread in
//! proportion to their sizes, so that a rollout goes on from where it was; what rounding leaves
//! over goes to the largest.
//!
//! ```text
//! share = round(replicas * (wanted + surge) / (wanted + surge at the last change)) - replicas
//! ```

use super::sets::{Rollout, Set};
use super::{Limits, Strategy};
use crate::well_known::{DESIRED_REPLICAS, MAX_REPLICAS};

/// Has the Deployment changed its size since a ReplicaSet was last given one?
pub(super) fn is_due(rollout: &Rollout<'_>) -> bool {
    let wanted = i64::from(rollout.limits.replicas);
    let active = rollout.sets.iter().filter(|set| set.is_active());
    active.filter_map(|set| set.number(DESIRED_REPLICAS)).any(|desired| desired != wanted)
}

pub(super) fn scale(rollout: &mut Rollout<'_>) {
    let limits = rollout.limits;
    if let Some(only) = active_or_latest(rollout) {
        // Even if it has that size already, it must remember what it has it for.
        return only.resize(limits.replicas, &limits);
    }
    if rollout.new_set().is_some_and(|set| is_saturated(set, &limits)) {
        for set in rollout.old_sets_mut().filter(|set| set.is_active()) {
            set.resize(0, &limits);
        }
        return;
    }
    match limits.strategy {
        Strategy::Rolling => spread(rollout),
        Strategy::Recreate => {
            for set in rollout.sets.iter_mut().filter(|set| set.is_active()) {
                set.resize(set.replicas(), &limits);
            }
        }
    }
}

/// The one ReplicaSet that has pods, or, if none has, the newest.
fn active_or_latest<'a>(rollout: &'a mut Rollout<'_>) -> Option<&'a mut Set> {
    match rollout.sets.iter().filter(|set| set.is_active()).count() {
        0 if rollout.new_set().is_some() => rollout.new_set_mut(),
        0 => rollout.sets.last_mut(),
        1 => rollout.sets.iter_mut().find(|set| set.is_active()),
        _ => None,
    }
}

/// Does the new ReplicaSet have everything the Deployment wants?
fn is_saturated(set: &Set, limits: &Limits) -> bool {
    set.replicas() == limits.replicas
        && set.number(DESIRED_REPLICAS) == Some(limits.replicas.into())
        && set.available() == limits.replicas
}

fn spread(rollout: &mut Rollout<'_>) {
    let limits = rollout.limits;
    let allowed = if limits.replicas > 0 { limits.most() } else { 0 };
    let change = allowed.saturating_sub(rollout.total());
    let before = rollout.status.replicas.unwrap_or(0);
    let mut active: Vec<_> = rollout.sets.iter_mut().filter(|set| set.is_active()).collect();
    // The largest first; growing prefers the newer of equals, shrinking the older.
    active.sort_by(|left, right| {
        let sizes = right.replicas().cmp(&left.replicas());
        sizes.then_with(|| match change > 0 {
            true => right.older_first(left),
            false => left.older_first(right),
        })
    });
    let mut spent = 0i32;
    let mut sizes = Vec::new();
    for set in &active {
        let share = share(set, &limits, change, spent, before);
        spent = spent.saturating_add(share);
        sizes.push(set.replicas().saturating_add(share));
    }
    if let Some(largest) = sizes.first_mut() {
        *largest = largest.saturating_add(change.saturating_sub(spent));
    }
    for (set, size) in active.into_iter().zip(sizes) {
        set.resize(size.max(0), &limits);
    }
}

/// What this ReplicaSet gets of the change, never more than is left of it.
fn share(set: &Set, limits: &Limits, change: i32, spent: i32, before: i32) -> i32 {
    let left = change.saturating_sub(spent);
    if change == 0 || left == 0 {
        return 0;
    }
    let fraction = fraction(set, limits, before);
    if change > 0 { fraction.min(left) } else { fraction.max(left) }
}

fn fraction(set: &Set, limits: &Limits, before: i32) -> i32 {
    let has = set.replicas();
    if limits.replicas == 0 {
        return -has;
    }
    let most_before = set.number(MAX_REPLICAS).filter(|most| *most != 0).unwrap_or(before.into());
    if most_before <= 0 {
        return 0;
    }
    let scaled = i64::from(has).saturating_mul(limits.most().into());
    let rounded = scaled.saturating_mul(2).saturating_add(most_before) / (2 * most_before);
    i32::try_from(rounded).unwrap_or(i32::MAX).saturating_sub(has)
}
