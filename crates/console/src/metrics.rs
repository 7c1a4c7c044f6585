//! What does the console tell Prometheus?

use api::protocol::metric::{Endpoint, Kind, Metric};
use prometheus::{Encoder, Opts, Registry, TextEncoder};
use reconcile::metrics::Registrar;

use crate::feed::Feed;
use crate::model::row::State;

macro_rules! metrics {
    ($($id:ident: $kind:ident, $name:literal, [$($label:literal),*], $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $id: Metric = Metric {
                name: concat!("tidepool_", $name),
                help: $help,
                kind: Kind::$kind,
                labels: &[$($label),*],
                endpoint: Endpoint::External,
            };
        )*
        /// All of them.
        pub const ALL: &[Metric] = &[$($id),*];
    };
}

metrics! {
    NODES: Gauge, "nodes", ["state"], "Nodes by state: safe, held, unsafe, unknown, off.";
    CAPACITY: Gauge, "fleet_cpu_capacity_cores", [], "CPU of all measured nodes, in cores.";
    USED: Gauge, "fleet_cpu_used_cores", [], "CPU used on all measured nodes, in cores.";
    BATCH_USED: Gauge, "batch_cpu_used_cores", [], "CPU used by best-effort pods, in cores.";
    BATCH_LENT: Gauge, "batch_cpu_lent_cores", [], "CPU that nodes offer to batch pods, in cores.";
    BATCH_REQUESTED: Gauge, "batch_cpu_requested_cores", [],
        "CPU that batch pods have requested of what is lent, in cores.";
    UTILIZATION_DAY: Gauge, "fleet_cpu_utilization_24h_ratio", [],
        "Busy core-seconds over capacity core-seconds of the last 24 hours, 0 to 1.";
    RECLAIMED: Counter, "reclaimed_core_seconds_total", ["scope"],
        "Core-seconds used by best-effort pods, on shared and on lent nodes.";
    FINDINGS: Gauge, "configuration_findings", ["severity"],
        "What is wrong with the configuration, by severity.";
}

/// The text that Prometheus reads.
pub fn text(feed: &Feed) -> Result<String, prometheus::Error> {
    let registry = Registry::new();
    let published = feed.published();
    let overview = &published.overview;
    // Exact up to 2^53 milli-cores.
    let cores = |milli: i64| milli as f64 / 1_000.0;
    let set = |metric: Metric, rows: &[(&[&str], f64)]| -> Result<(), prometheus::Error> {
        let gauge = Registrar(&registry).float_gauges(&metric)?;
        for (labels, value) in rows {
            gauge.get_metric_with_label_values(labels)?.set(*value);
        }
        Ok(())
    };
    let counts = State::ALL.map(|state| {
        let count = u32::try_from(overview.counts.get(state)).unwrap_or(u32::MAX);
        ([state.word()], f64::from(count))
    });
    let rows: Vec<(&[&str], f64)> =
        counts.iter().map(|(label, n)| (label.as_slice(), *n)).collect();
    set(NODES, &rows)?;
    set(CAPACITY, &[(&[], cores(overview.cpu.capacity.0))])?;
    set(USED, &[(&[], cores(overview.cpu.used.0))])?;
    set(BATCH_USED, &[(&[], cores(overview.batch.used.0))])?;
    set(BATCH_LENT, &[(&[], cores(overview.batch.lent.0))])?;
    set(BATCH_REQUESTED, &[(&[], cores(overview.batch.requested.0))])?;
    let (total, day, findings) = feed.look(|world| {
        let findings = world.config_page().findings;
        (world.ledger().total(), world.ledger().day(), findings)
    });
    if day.capacity > 0 {
        set(UTILIZATION_DAY, &[(&[], cores(day.busy) / cores(day.capacity))])?;
    }
    let reclaimed = [(["shared"], total.shared), (["lent"], total.lent)];
    let counter =
        prometheus::CounterVec::new(Opts::new(RECLAIMED.name, RECLAIMED.help), RECLAIMED.labels)?;
    registry.register(Box::new(counter.clone()))?;
    for (label, sum) in reclaimed {
        counter.get_metric_with_label_values(&label)?.inc_by(cores(sum));
    }
    let errors = findings.iter().filter(|finding| finding.is_error()).count();
    let warnings = findings.len() - errors;
    let count = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    set(FINDINGS, &[(&["error"], count(errors)), (&["warning"], count(warnings))])?;
    let mut text = Vec::new();
    TextEncoder::new().encode(&registry.gather(), &mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
