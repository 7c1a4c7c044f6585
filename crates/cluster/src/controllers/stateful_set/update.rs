//! Which pods are of the wrong revision, and how many may be replaced now?

use k8s_openapi::api::core::v1::Pod;

use super::{Action, Version, View, Why};
use crate::controllers::{
    amount::{count, rounded_up},
    pod::PodFacts,
};

/// Which revision a new pod is made from: below the partition the one that was rolled out last.
pub(super) fn version(view: &View<'_>, ordinal: i32) -> Version {
    let observed = view.observed;
    if observed.current.metadata.name == observed.update.metadata.name || !view.is_rolling() {
        return Version::Update;
    }
    let strategy = view.spec.update_strategy.as_ref();
    let kept = match strategy.and_then(|strategy| strategy.rolling_update.as_ref()) {
        Some(rolling) => rolling.partition.unwrap_or(0),
        None => {
            let status = observed.set.status.as_ref();
            status.and_then(|status| status.current_replicas).unwrap_or(0)
        }
    };
    match ordinal < view.wanted().start.saturating_add(kept) {
        true => Version::Current,
        false => Version::Update,
    }
}

/// Deletes old pods, highest number first, as long as few enough are unavailable. An old pod that
/// is unavailable anyway costs nothing.
pub(super) fn roll(view: &View<'_>, actions: &mut Vec<Action>) {
    let strategy = view.spec.update_strategy.as_ref();
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let partition = rolling.and_then(|rolling| rolling.partition).unwrap_or(0);
    let limit = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
    let limit = limit.map_or(1, |limit| rounded_up(limit, view.replicas())).max(1);

    let wanted = view.wanted();
    let lowest = wanted.start.saturating_add(partition);
    let serves = |pod: &Pod| !pod.is_terminating() && view.is_available(pod);
    let serving = view.pods.range(wanted.clone()).filter(|(_, pod)| serves(pod)).count();
    let mut unavailable = view.replicas().saturating_sub(count(serving));
    let outdated = view.pods.range(lowest.min(wanted.end)..wanted.end).rev();
    for (_, pod) in outdated {
        if view.has_revision(pod, view.observed.update) || pod.is_terminating() {
            continue;
        }
        if serves(pod) {
            if unavailable >= limit {
                continue;
            }
            unavailable += 1;
        }
        actions.push(Action::Delete { pod: (*pod).clone(), why: Why::Outdated });
    }
}
