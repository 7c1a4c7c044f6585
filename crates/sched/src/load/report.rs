//! What a node reported, as columns.

use std::time::Duration;

use api::kind::NodeMetric;
use api::kind::node_metric::NodeUsage;
use api::kind::shape::ResourceMap;
use api::metadata::node::Aggregation;
use api::priority::PriorityClass;
use api::protocol::resource::CPU;
use units::GoDuration;

use super::args::{Aggregate, Column, Settings};
use crate::model::{Names, Symbol};
use crate::time::Time;

/// Between two reports when the policy does not say.
const INTERVAL: Duration = Duration::from_secs(60);

/// One NodeMetric.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// When it was made; without a time it is too old.
    pub updated: Option<Time>,
    /// How far back its averages reach.
    pub interval: Duration,
    /// `None` while the node measures nothing.
    pub usage: Option<Usage>,
    /// Sorted by namespace and name.
    pods: Vec<PodUsage>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    pub node: Box<[i64]>,
    pub system: Box<[i64]>,
    /// By kind, then by duration, the longest last.
    aggregated: Vec<(Aggregation, Duration, Box<[i64]>)>,
}

#[derive(Debug, Clone, PartialEq)]
struct PodUsage {
    namespace: Symbol,
    name: Box<str>,
    /// The node counts it as prod.
    is_prod: bool,
    usage: Box<[i64]>,
}

/// What an aggregate gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found<'a> {
    Amounts(&'a [i64]),
    /// A window was named and there is none of that length.
    Missing,
}

impl Report {
    pub fn read(metric: &NodeMetric, settings: &Settings, names: &mut Names) -> Self {
        let columns = &settings.columns;
        let policy = metric.spec.metric_collect_policy.as_ref();
        let seconds = policy.and_then(|policy| policy.report_interval_seconds);
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok()).filter(|s| *s > 0);
        let interval = seconds.map_or(INTERVAL, Duration::from_secs);
        let Some(status) = &metric.status else {
            return Self { interval, ..Self::default() };
        };
        let mut pods: Vec<PodUsage> = status
            .pods_metric
            .iter()
            .filter_map(|pod| {
                Some(PodUsage {
                    namespace: names.intern(pod.namespace.as_deref()?),
                    name: pod.name.as_deref()?.into(),
                    is_prod: pod.priority.as_deref() == Some(PriorityClass::Prod.as_str()),
                    usage: amounts(columns, pod.pod_usage.as_ref()?),
                })
            })
            .collect();
        pods.sort_by(|a, b| a.key().cmp(&b.key()));
        pods.dedup_by(|next, kept| next.key() == kept.key());
        Self {
            updated: status.update_time.as_ref().map(Time::from_wire),
            interval,
            usage: status.node_metric.as_ref().map(|usage| Usage::read(usage, columns)),
            pods,
        }
    }

    /// Usage of a pod, and whether the node counts it as prod.
    pub fn pod(&self, namespace: Symbol, name: &str) -> Option<(&[i64], bool)> {
        let at = self.pods.binary_search_by(|pod| pod.key().cmp(&(namespace, name))).ok()?;
        self.pods.get(at).map(|pod| (&pod.usage[..], pod.is_prod))
    }

    /// The moment from which on it is too old.
    pub fn expires(&self, settings: &Settings) -> Option<Time> {
        match (self.updated, settings.expires_after) {
            (None, _) => Some(Time(i64::MIN)),
            (Some(updated), Some(after)) => Some(updated + after),
            (Some(_), None) => None,
        }
    }
}

impl PodUsage {
    fn key(&self) -> (Symbol, &str) {
        (self.namespace, &self.name)
    }
}

impl Usage {
    fn read(wire: &NodeUsage, columns: &[Column]) -> Self {
        let map = |map: &Option<ResourceMap>| match map {
            Some(map) => amounts(columns, map),
            None => columns.iter().map(|_| 0).collect(),
        };
        let mut aggregated = Vec::new();
        for window in &wire.aggregated_node_usages {
            let duration = window.duration.and_then(GoDuration::to_std).unwrap_or_default();
            for (kind, usage) in &window.usage {
                let kind = Aggregation::from_word(kind).filter(|_| !usage.resources.is_empty());
                if let Some(kind) = kind {
                    aggregated.push((kind, duration, amounts(columns, usage)));
                }
            }
        }
        aggregated.sort_by_key(|(kind, duration, _)| (*kind, *duration));
        Self { node: map(&wire.node_usage), system: map(&wire.system_usage), aggregated }
    }

    /// An aggregate of the node's usage; without a duration the longest window, or the average.
    pub fn aggregate(&self, wanted: Aggregate) -> Found<'_> {
        let mut same = self.aggregated.iter().filter(|(kind, ..)| *kind == wanted.kind);
        let found = match wanted.duration {
            Some(duration) => same.find(|(_, own, _)| *own == duration),
            None => same.next_back(),
        };
        match (found, wanted.duration) {
            (Some((.., amounts)), _) => Found::Amounts(amounts),
            (None, None) => Found::Amounts(&self.node),
            (None, Some(_)) => Found::Missing,
        }
    }
}

/// CPU in milli-cores, everything else in its unit.
fn amounts(columns: &[Column], map: &ResourceMap) -> Box<[i64]> {
    let amount = |column: &Column| {
        let found = map.resources.get(&column.name).copied().unwrap_or_default();
        if column.name == CPU { found.milli_value() } else { found.value() }
    };
    columns.iter().map(amount).collect()
}
