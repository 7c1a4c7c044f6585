//! How are all pods replaced at once?
//!
//! Old ReplicaSets go to zero, then their last pod must be gone, then the new one gets its full
//! size: at no time do two versions run beside each other.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::{Why, sets::Rollout};
use crate::controllers::{
    key::{controller_of, uid},
    pod::PodFacts,
};

pub(super) fn step(rollout: &mut Rollout<'_>, pods: &[Arc<Pod>]) -> Why {
    rollout.find_new();
    let limits = rollout.limits;
    let mut is_shrunk = false;
    for set in rollout.old_sets_mut().filter(|set| set.is_active()) {
        set.resize(0, &limits);
        is_shrunk = true;
    }
    if is_shrunk {
        return Why::OldDown;
    }
    if has_old_pods(rollout, pods) {
        return Why::OldRunning;
    }
    rollout.find_or_create_new();
    if let Some(set) = rollout.new_set_mut()
        && set.replicas() != limits.replicas
    {
        set.resize(limits.replicas, &limits);
        return Why::NewUp;
    }
    if super::status::is_complete(rollout, &super::status::counted(rollout)) {
        rollout.trim_history();
    }
    Why::Holding
}

/// A pod that has not finished may still be running, whatever else is known of it.
fn has_old_pods(rollout: &Rollout<'_>, pods: &[Arc<Pod>]) -> bool {
    let new = rollout.new_set().map(|set| uid(&set.after));
    pods.iter().any(|pod| {
        let owner = controller_of(&pod.metadata).map(|owner| owner.uid.as_str());
        owner != new && !pod.is_finished()
    })
}
