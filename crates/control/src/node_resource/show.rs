//! What do the metrics say about a node?

use api::protocol::metric::{status, unit};
use api::protocol::resource::{BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY};
use jiff::Timestamp;
use overcommit::amplify::Amplification;
use overcommit::normalize::Normalization;
use overcommit::plan::Plan;

use crate::Shared;
use crate::instruments::Instruments;

/// Resources and the unit they are labelled with. Batch CPU is given in cores and mid CPU in
/// milli-cores although both say `integer`: published dashboards count on it.
const LENT: [(&str, &str); 4] = [
    (BATCH_CPU, unit::INTEGER),
    (BATCH_MEMORY, unit::BYTE),
    (MID_CPU, unit::INTEGER),
    (MID_MEMORY, unit::BYTE),
];

pub(super) fn plan(instruments: &Instruments, node: &str, plan: &Plan) {
    let why = &plan.why;
    let batch = why.published.map(|batch| batch.shown).unwrap_or_default();
    let mid = why.mid_published;
    let values = [
        batch.cpu.map(|milli| milli as f64 / 1_000.0),
        batch.memory.map(|bytes| bytes as f64),
        mid.map(|mid| mid.cpu as f64),
        mid.map(|mid| mid.memory as f64),
    ];
    for ((resource, unit), value) in LENT.into_iter().zip(values) {
        let labels = [node, resource, unit];
        match value {
            Some(value) => instruments.node_allocatable.with_label_values(&labels).set(value),
            None => remove(instruments, &labels),
        }
    }
    let ran = |plugin, reason: Result<(), &str>| {
        let word = if reason.is_ok() { status::SUCCEEDED } else { status::FAILED };
        let labels = [plugin, word, reason.err().unwrap_or_default()];
        instruments.plugin_status.with_label_values(&labels).inc();
    };
    if let Some(normalization) = &why.normalization {
        let is_kept = matches!(normalization, Normalization::Kept(_));
        ran("CPUNormalization", if is_kept { Err("kept") } else { Ok(()) });
    }
    if let Some(amplification) = &why.amplification {
        let is_kept = matches!(amplification, Amplification::Kept(_));
        ran("ResourceAmplification", if is_kept { Err("kept") } else { Ok(()) });
    }
    if why.batch.is_some() {
        ran("BatchResource", Ok(()));
    }
    if why.mid.is_some() {
        ran("MidResource", Ok(()));
    }
}

/// The age of the node's last report by our clock.
pub(super) fn age(shared: &Shared, node: &str, now: Timestamp) {
    let updated = shared.caches.with(|world| {
        let metric = world.get(node).and_then(|entry| entry.metric.as_ref());
        metric.and_then(|metric| metric.facts.as_ref()).and_then(|facts| facts.updated)
    });
    if let Some(updated) = updated {
        let age = now.duration_since(updated).as_secs_f64();
        shared.instruments.node_metric_age.with_label_values(&[node]).set(age);
    }
}

/// Series of a node that is gone disappear.
pub(super) fn forget(instruments: &Instruments, node: &str) {
    for (resource, unit) in LENT {
        remove(instruments, &[node, resource, unit]);
    }
    // An error means that there was no such series.
    let _ = instruments.node_metric_age.remove_label_values(&[node]);
}

fn remove(instruments: &Instruments, labels: &[&str]) {
    let _ = instruments.node_allocatable.remove_label_values(labels);
}
