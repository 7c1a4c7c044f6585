//! Metrics that the reference does not have.

use api::protocol::metric::{Endpoint, Kind, Metric};

const fn gauge(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Metric {
    Metric { name, help, kind: Kind::Gauge, labels, endpoint: Endpoint::Internal }
}

const fn counter(
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
) -> Metric {
    Metric { name, help, kind: Kind::Counter, labels, endpoint: Endpoint::Internal }
}

pub const LOOP_AGE: Metric = gauge(
    "tidepool_agent_loop_age_seconds",
    "Time since a loop of the agent last said that it is alive.",
    &["loop"],
);

pub const NODE_METRIC_WRITES: Metric = counter(
    "tidepool_agent_node_metric_writes_total",
    "Attempts to write NodeMetric.status, by result.",
    &["result"],
);

pub const SERIES_POINTS: Metric =
    gauge("tidepool_agent_series_points", "Samples that the agent holds in memory.", &[]);

pub const COLLECTOR_FAILURES: Metric = gauge(
    "tidepool_agent_collector_failures",
    "Rounds in which a collector could not read what it needs, since the start.",
    &["collector"],
);

pub const WAKE_DELAY: Metric = gauge(
    "tidepool_agent_wake_delay_seconds",
    "How late a thread of the online side wakes up beside best-effort work, as measured at start, by \
     mode: W least weight, P idle groups.",
    &["mode", "quantile", "chosen"],
);

pub(super) const ALL: &[Metric] =
    &[LOOP_AGE, NODE_METRIC_WRITES, SERIES_POINTS, COLLECTOR_FAILURES, WAKE_DELAY];
