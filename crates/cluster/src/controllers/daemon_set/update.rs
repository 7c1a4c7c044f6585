//! Which old pod makes room for a new one next?
//!
//! Old pods that are not available are replaced at once: nothing is lost. Of the others as many
//! as `maxUnavailable` leaves, or, when surging, as many get a new pod beside them as `maxSurge`
//! leaves.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::{Changes, Limits, View, Why};
use crate::controllers::{amount::length, pod::PodFacts};

/// The old and the new pod of a node, if there is at most one of each.
struct Pair<'a> {
    new: Option<&'a Arc<Pod>>,
    old: Option<&'a Arc<Pod>>,
}

fn pair<'a>(view: &View<'a>, pods: &[&'a Arc<Pod>]) -> Option<Pair<'a>> {
    let mut pair = Pair { new: None, old: None };
    for pod in pods.iter().filter(|pod| !pod.is_terminating()) {
        let side = if view.is_updated(pod) { &mut pair.new } else { &mut pair.old };
        if side.replace(pod).is_some() {
            return None;
        }
    }
    Some(pair)
}

pub(super) fn roll(view: &View<'_>, changes: &mut Changes) {
    match view.limits {
        Limits::OnDelete => {}
        Limits::Unavailable(limit) => delete_first(view, limit, changes),
        Limits::Surge(limit) => create_first(view, limit, changes),
    }
}

fn delete_first(view: &View<'_>, limit: i32, changes: &mut Changes) {
    let mut unavailable = 0;
    let (mut broken, mut serving) = (Vec::new(), Vec::new());
    for pods in view.by_node.values() {
        match pair(view, pods) {
            Some(Pair { new: Some(new), old: None }) => {
                unavailable += i32::from(!view.is_available(new));
            }
            Some(Pair { new: None, old: Some(old) }) => {
                if view.is_available(old) {
                    serving.push(old);
                } else {
                    unavailable += 1;
                    broken.push(old);
                }
            }
            // None yet, or one too many: the nodes are not settled.
            _ => unavailable += 1,
        }
    }
    serving.truncate(length(limit.saturating_sub(unavailable)));
    let victims = broken.into_iter().chain(serving);
    changes.delete.extend(victims.map(|pod| (pod.clone(), Why::Outdated)));
}

fn create_first(view: &View<'_>, limit: i32, changes: &mut Changes) {
    let mut surged = 0;
    let (mut broken, mut serving) = (Vec::new(), Vec::new());
    for (node, pods) in &view.by_node {
        match pair(view, pods) {
            Some(Pair { old: None, .. }) => {}
            Some(Pair { new: None, old: Some(old) }) => match view.is_available(old) {
                true => serving.push((*node).to_owned()),
                false => broken.push((*node).to_owned()),
            },
            Some(Pair { new: Some(new), old: Some(old) }) => match view.is_available(new) {
                true => changes.delete.push((old.clone(), Why::Replaced)),
                false => surged += 1,
            },
            None => surged += 1,
        }
    }
    serving.truncate(length(limit.saturating_sub(surged)));
    changes.create.extend(broken);
    changes.create.extend(serving);
}
