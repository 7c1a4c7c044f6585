//! What does a DaemonSet say about itself?

use k8s_openapi::api::apps::v1::DaemonSetStatus;

use super::View;
use crate::controllers::pod::PodFacts;

pub(super) fn status(view: &View<'_>) -> DaemonSetStatus {
    let mut status = DaemonSetStatus::default();
    let (mut updated, mut available) = (0, 0);
    for (node, verdict) in view.nodes() {
        let pods = view.on(node);
        if !verdict.runs {
            status.number_misscheduled += i32::from(!pods.is_empty());
            continue;
        }
        status.desired_number_scheduled += 1;
        // The oldest stands for the node.
        let Some(first) = pods.first() else { continue };
        status.current_number_scheduled += 1;
        status.number_ready += i32::from(first.is_ready());
        available += i32::from(view.is_available(first));
        updated += i32::from(view.is_updated(first));
    }
    let before = view.observed.set.status.as_ref();
    status.number_available = positive(available);
    status.number_unavailable = positive(status.desired_number_scheduled - available);
    status.updated_number_scheduled = positive(updated);
    status.observed_generation = view.observed.set.metadata.generation;
    status.collision_count = before.and_then(|before| before.collision_count);
    status.conditions = before.and_then(|before| before.conditions.clone());
    status
}

/// Zero is absent on the wire.
fn positive(count: i32) -> Option<i32> {
    Some(count).filter(|count| *count > 0)
}
