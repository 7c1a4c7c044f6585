//! What does Prometheus see of this agent?
//!
//! Names, labels and types are those of `api::protocol::metric`. Counters and histograms live as
//! long as the process. Gauges are published in whole groups: a part replaces its group at once, so
//! the series of an object that is gone disappear with the next group and no scrape sees half of one.

mod own;
mod process;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::protocol::metric::agent::{external, internal};
use api::protocol::metric::{Endpoint, Kind, Metric};
use parking_lot::Mutex;
use prometheus::core::Collector;
use prometheus::{
    Encoder, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, TextEncoder,
};
use tracing::warn;

use crate::health::Health;

pub use own::{COLLECTOR_FAILURES, LOOP_AGE, NODE_METRIC_WRITES, SERIES_POINTS, WAKE_DELAY};

/// One value of a gauge.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    metric: &'static Metric,
    labels: Vec<String>,
    value: f64,
}

/// Gauges that belong together, replaced as one.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    node: String,
    samples: Vec<Sample>,
}

impl Group {
    fn new(node: &str) -> Self {
        Self { node: node.to_owned(), samples: Vec::new() }
    }

    /// Adds a value; `labels` are those after `node`.
    pub fn set(&mut self, metric: &'static Metric, labels: &[&str], value: f64) {
        let node = has_node(metric).then_some(self.node.as_str());
        let labels = node.into_iter().chain(labels.iter().copied()).map(str::to_owned).collect();
        self.samples.push(Sample { metric, labels, value });
    }
}

fn has_node(metric: &Metric) -> bool {
    metric.labels.first() == Some(&"node")
}

/// A function that reads gauges when they are asked for.
type Live = Box<dyn Fn(&mut Group) + Send + Sync>;

/// All metrics of this process.
#[derive(Clone)]
pub struct Exposition(Arc<Inner>);

struct Inner {
    node: String,
    counters: BTreeMap<&'static str, IntCounterVec>,
    histograms: BTreeMap<&'static str, HistogramVec>,
    groups: Mutex<BTreeMap<&'static str, Group>>,
    live: Mutex<Vec<Live>>,
}

impl std::fmt::Debug for Exposition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exposition").field("node", &self.0.node).finish_non_exhaustive()
    }
}

fn all() -> impl Iterator<Item = &'static Metric> {
    internal::ALL.iter().chain(external::ALL).chain(own::ALL)
}

impl Exposition {
    pub fn new(node: &str) -> Self {
        let mut counters = BTreeMap::new();
        let mut histograms = BTreeMap::new();
        for metric in all() {
            match metric.kind {
                Kind::Counter => {
                    let made =
                        IntCounterVec::new(Opts::new(metric.name, metric.help), metric.labels);
                    counters.extend(usable(metric, made));
                }
                Kind::Histogram(buckets) => {
                    let options = HistogramOpts::new(metric.name, metric.help);
                    let options = options.buckets(buckets.upper_bounds());
                    histograms.extend(usable(metric, HistogramVec::new(options, metric.labels)));
                }
                Kind::Gauge => {}
            }
        }
        let inner = Inner {
            node: node.to_owned(),
            counters,
            histograms,
            groups: Mutex::default(),
            live: Mutex::default(),
        };
        Self(Arc::new(inner))
    }

    /// Counts one more; `labels` are those after `node`.
    pub fn count(&self, metric: &'static Metric, labels: &[&str]) {
        let labels = self.labels(metric, labels);
        match self
            .0
            .counters
            .get(metric.name)
            .map(|made| made.get_metric_with_label_values(&labels))
        {
            Some(Ok(counter)) => counter.inc(),
            _ => warn!(metric = metric.name, "cannot count: not a counter with these labels"),
        }
    }

    /// Adds a value to a histogram; `labels` are those after `node`.
    pub fn observe(&self, metric: &'static Metric, labels: &[&str], value: f64) {
        let labels = self.labels(metric, labels);
        match self
            .0
            .histograms
            .get(metric.name)
            .map(|made| made.get_metric_with_label_values(&labels))
        {
            Some(Ok(histogram)) => histogram.observe(value),
            _ => warn!(metric = metric.name, "cannot observe: not a histogram with these labels"),
        }
    }

    pub(crate) fn kubelet_request(&self, path: &str, code: &str, elapsed: Duration) {
        let labels = ["GET", path, code];
        self.observe(&internal::KUBELET_REQUEST_DURATION, &labels, elapsed.as_secs_f64());
    }

    fn labels<'l>(&'l self, metric: &Metric, labels: &[&'l str]) -> Vec<&'l str> {
        let node = has_node(metric).then_some(self.0.node.as_str());
        node.into_iter().chain(labels.iter().copied()).collect()
    }

    /// Replaces a group of gauges.
    pub fn publish(&self, name: &'static str, fill: impl FnOnce(&mut Group)) {
        let mut group = Group::new(&self.0.node);
        fill(&mut group);
        self.0.groups.lock().insert(name, group);
    }

    /// Gauges that are read at each scrape.
    pub fn read_live(&self, read: impl Fn(&mut Group) + Send + Sync + 'static) {
        self.0.live.lock().push(Box::new(read));
    }

    /// Age of each loop's heartbeat.
    pub fn show_health(&self, health: Health) {
        self.read_live(move |group| {
            for (name, age) in health.ages(Instant::now()) {
                group.set(&LOOP_AGE, &[name], age.as_secs_f64());
            }
        });
    }

    /// The text of one endpoint; `None` is all of them.
    pub fn text(&self, endpoint: Option<Endpoint>) -> String {
        let shown = |metric: &Metric| endpoint.is_none_or(|endpoint| metric.endpoint == endpoint);
        let registry = Registry::new();
        for metric in all().filter(|metric| shown(metric)) {
            if let Some(counter) = self.0.counters.get(metric.name) {
                register(&registry, metric.name, counter.clone());
            }
            if let Some(histogram) = self.0.histograms.get(metric.name) {
                register(&registry, metric.name, histogram.clone());
            }
        }
        for (metric, gauge) in self.gauges() {
            if shown(metric) {
                register(&registry, metric.name, gauge);
            }
        }
        let mut text = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&registry.gather(), &mut text) {
            warn!(%error, "cannot print metrics");
        }
        let mut text = String::from_utf8(text).unwrap_or_default();
        if endpoint != Some(Endpoint::External) {
            text.push_str(&process::text());
        }
        text
    }

    fn gauges(&self) -> Vec<(&'static Metric, GaugeVec)> {
        let mut live = Group::new(&self.0.node);
        for read in self.0.live.lock().iter() {
            read(&mut live);
        }
        let groups = self.0.groups.lock();
        let samples = groups.values().chain([&live]).flat_map(|group| &group.samples);
        let mut gauges: BTreeMap<&'static str, (&'static Metric, GaugeVec)> = BTreeMap::new();
        for sample in samples {
            let metric = sample.metric;
            if !gauges.contains_key(metric.name) {
                let made = GaugeVec::new(Opts::new(metric.name, metric.help), metric.labels);
                gauges.extend(usable(metric, made).map(|(name, made)| (name, (metric, made))));
            }
            let Some((_, gauge)) = gauges.get(metric.name) else { continue };
            match gauge.get_metric_with_label_values(&sample.labels) {
                Ok(gauge) => gauge.set(sample.value),
                Err(error) => warn!(metric = metric.name, %error, "cannot set a gauge"),
            }
        }
        gauges.into_values().collect()
    }
}

fn usable<V>(metric: &'static Metric, made: prometheus::Result<V>) -> Option<(&'static str, V)> {
    match made {
        Ok(made) => Some((metric.name, made)),
        Err(error) => {
            warn!(metric = metric.name, %error, "cannot define a metric");
            None
        }
    }
}

fn register(registry: &Registry, name: &str, collector: impl Collector + 'static) {
    if let Err(error) = registry.register(Box::new(collector)) {
        warn!(metric = name, %error, "cannot show a metric");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn koordlet_lines(text: &str) -> Vec<&str> {
        text.lines().filter(|line| line.starts_with("koordlet_")).collect()
    }

    #[test]
    fn series_of_gone_objects_disappear() {
        let metrics = Exposition::new("n1");
        metrics.publish("pools", |group| {
            group.set(&internal::SHARE_POOL_INFO, &["0"], 1.0);
            group.set(&internal::SHARE_POOL_INFO, &["1"], 1.0);
        });
        metrics.publish("other", |group| group.set(&internal::SHARE_POOL, &[], 2.0));
        let text = metrics.text(None);
        assert_eq!(
            koordlet_lines(&text),
            [
                "koordlet_cpuset_share_pool_cpu_cores{node=\"n1\"} 2",
                "koordlet_cpuset_share_pool_info{cpu=\"0\",node=\"n1\"} 1",
                "koordlet_cpuset_share_pool_info{cpu=\"1\",node=\"n1\"} 1",
            ]
        );
        metrics.publish("pools", |group| group.set(&internal::SHARE_POOL_INFO, &["1"], 1.0));
        let text = metrics.text(None);
        assert!(!text.contains("cpu=\"0\""), "{text}");
        assert!(text.contains("koordlet_cpuset_share_pool_cpu_cores"), "other groups stay: {text}");
    }

    #[test]
    fn counters_and_histograms_keep_their_names() {
        let metrics = Exposition::new("n1");
        metrics.count(&internal::COLLECT_CPU_INFO, &["succeeded"]);
        metrics.count(&internal::COLLECT_CPU_INFO, &["succeeded"]);
        metrics.kubelet_request("/pods/", "200", Duration::from_millis(3));
        let text = metrics.text(Some(Endpoint::Internal));
        let line = "koordlet_collect_node_cpu_info_status{node=\"n1\",status=\"succeeded\"} 2";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("koordlet_kubelet_request_duration_seconds_bucket{code=\"200\",path=\"/pods/\",verb=\"GET\",le=\"0.004\"} 1"), "{text}");
        assert!(text.contains("koordlet_kubelet_request_duration_seconds_bucket{code=\"200\",path=\"/pods/\",verb=\"GET\",le=\"0.001\"} 0"), "{text}");
    }

    #[test]
    fn each_endpoint_shows_its_own() {
        let metrics = Exposition::new("n1");
        metrics.publish("both", |group| {
            group.set(&internal::SHARE_POOL, &[], 2.0);
            group.set(&external::NODE_ALLOCATABLE, &["kubernetes.io/batch-cpu", "core"], 4.0);
        });
        let internal = metrics.text(Some(Endpoint::Internal));
        let external = metrics.text(Some(Endpoint::External));
        assert_eq!(koordlet_lines(&internal).len(), 1, "{internal}");
        assert_eq!(koordlet_lines(&external).len(), 1, "{external}");
        assert_eq!(koordlet_lines(&metrics.text(None)).len(), 2);
        assert!(internal.contains("process_resident_memory_bytes"), "{internal}");
        assert!(!external.contains("process_"), "{external}");
    }

    #[test]
    fn wrong_labels_are_left_out_and_nothing_else() {
        let metrics = Exposition::new("n1");
        metrics.count(&internal::COLLECT_CPU_INFO, &[]);
        metrics.observe(&internal::SHARE_POOL, &[], 1.0);
        metrics.publish("pools", |group| {
            group.set(&internal::SHARE_POOL, &["too", "many"], 1.0);
            group.set(&internal::BE_SHARE_POOL, &[], 1.0);
        });
        assert_eq!(koordlet_lines(&metrics.text(None)).len(), 1);
    }
}
