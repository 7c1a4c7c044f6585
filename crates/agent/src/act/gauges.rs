//! What does Prometheus see of what was decided?

use api::protocol::metric::agent::internal::{CORE_SCHED_COOKIE, CORE_SCHED_STATUS};
use qos::wake::{Measured, Verdict};

use crate::exposition::{Exposition, WAKE_DELAY};
use qos::node::strategy::cookies::ContainerLabels;

/// How late threads woke up in each mode, and which mode was chosen.
pub(super) fn wake(exposition: &Exposition, verdict: &Verdict) {
    exposition.publish("wake", |group| {
        for Measured { mode, delays } in &verdict.why.measured {
            for (quantile, delay) in [("0.5", delays.p50), ("0.99", delays.p99)] {
                let is_chosen = if *mode == verdict.mode { "true" } else { "false" };
                #[expect(clippy::cast_precision_loss, reason = "far below 2^52 microseconds")]
                let seconds = delay.0 as f64 / 1e6;
                group.set(&WAKE_DELAY, &[mode.letter(), quantile, is_chosen], seconds);
            }
        }
    });
}

/// Whether a group of pods could be given its cookie.
pub(super) fn cookie_status(exposition: &Exposition, group: &str, worked: bool) {
    let status = if worked { "succeeded" } else { "failed" };
    exposition.count(&CORE_SCHED_STATUS, &[group, status]);
}

/// Who has which cookie.
pub(super) fn cookies(exposition: &Exposition, containers: &[(ContainerLabels, u64)]) {
    exposition.publish("cookies", |group| {
        for (container, cookie) in containers {
            let cookie = cookie.to_string();
            let labels = [
                &container.pod,
                &container.namespace,
                &container.uid,
                &container.container,
                &container.id,
                &container.group,
                &cookie,
            ];
            group.set(&CORE_SCHED_COOKIE, &labels.map(String::as_str), 1.0);
        }
    });
}
