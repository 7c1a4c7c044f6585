//! What does Prometheus see of what was decided?

use api::protocol::metric::agent::internal::{CORE_SCHED_COOKIE, CORE_SCHED_STATUS};
use qos::wake::{Measured, Verdict};

use super::cookies::Round;
use crate::exposition::{Exposition, WAKE_DELAY};

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

/// Who has which cookie, and whether it could be given.
pub(super) fn cookies(exposition: &Exposition, round: &Round) {
    for (group, worked) in &round.done {
        let status = if *worked { "succeeded" } else { "failed" };
        exposition.count(&CORE_SCHED_STATUS, &[group.as_str(), status]);
    }
    exposition.publish("cookies", |group| {
        for shown in &round.shown {
            let cookie = shown.cookie.to_string();
            let labels = [
                &shown.pod,
                &shown.namespace,
                &shown.uid,
                &shown.container,
                &shown.id,
                &shown.group,
                &cookie,
            ];
            group.set(&CORE_SCHED_COOKIE, &labels.map(String::as_str), 1.0);
        }
    });
}
