//! How do new pods replace old ones without a gap?
//!
//! ```text
//! new up:    as long as all together stay within wanted + surge
//! old down:  as long as available pods stay at wanted - unavailable or above
//! ```
//!
//! Unhealthy old pods go first, since losing them costs nothing. New pods that are not available
//! yet count against the old ones, so a rollout that does not come up stops by itself.

use super::{Why, sets::Rollout};

pub(super) fn step(rollout: &mut Rollout<'_>) -> Why {
    rollout.find_or_create_new();
    if let Some(why) = resize_new(rollout) {
        return why;
    }
    if shrink_old(rollout) {
        return Why::OldDown;
    }
    if super::status::is_complete(rollout, &super::status::counted(rollout)) {
        rollout.trim_history();
    }
    Why::Holding
}

fn resize_new(rollout: &mut Rollout<'_>) -> Option<Why> {
    let limits = rollout.limits;
    let set = rollout.new_set()?;
    let (has, room) = (set.replicas(), rollout.room_for(set));
    let (size, why) = match has.cmp(&limits.replicas) {
        std::cmp::Ordering::Equal => return None,
        std::cmp::Ordering::Greater => (limits.replicas, Why::NewDown),
        std::cmp::Ordering::Less if room == has => return None,
        std::cmp::Ordering::Less => (room, Why::NewUp),
    };
    rollout.new_set_mut()?.resize(size, &limits);
    Some(why)
}

fn shrink_old(rollout: &mut Rollout<'_>) -> bool {
    let limits = rollout.limits;
    if !rollout.old_sets().any(|set| set.is_active()) {
        return false;
    }
    let new_unavailable =
        rollout.new_set().map_or(0, |set| set.replicas().saturating_sub(set.available()));
    let spare = rollout.total().saturating_sub(limits.fewest()).saturating_sub(new_unavailable);
    if spare <= 0 {
        return false;
    }
    let unhealthy = drop_unhealthy(rollout, spare);
    let healthy = drop_healthy(rollout);
    unhealthy + healthy > 0
}

/// Takes away old pods that are not available, oldest ReplicaSet first.
fn drop_unhealthy(rollout: &mut Rollout<'_>, most: i32) -> i32 {
    let limits = rollout.limits;
    let mut dropped = 0;
    for set in rollout.old_sets_mut() {
        let unhealthy = set.replicas().saturating_sub(set.available());
        let down = unhealthy.min(most - dropped);
        if down > 0 {
            set.resize(set.replicas() - down, &limits);
            dropped += down;
        }
    }
    dropped
}

/// Takes away old pods as far as enough available ones remain, oldest ReplicaSet first.
fn drop_healthy(rollout: &mut Rollout<'_>) -> i32 {
    let limits = rollout.limits;
    // A ReplicaSet that has not reported its last reduction yet still counts pods that are as good
    // as gone.
    let available = rollout
        .sets
        .iter()
        .map(|set| set.available().min(set.replicas()))
        .fold(0, i32::saturating_add);
    let most = available.saturating_sub(limits.fewest());
    let mut dropped = 0;
    for set in rollout.old_sets_mut() {
        let down = set.replicas().min(most - dropped);
        if down > 0 {
            set.resize(set.replicas() - down, &limits);
            dropped += down;
        }
    }
    dropped
}
