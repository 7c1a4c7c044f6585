//! How is this node to be measured? NodeMetric.spec with defaults and limits.

use std::time::Duration;

use api::kind::node_metric::{CollectPolicy, NodeMetricSpec};

/// No window is shorter, and no report more frequent.
const MIN_AGGREGATE: Duration = Duration::from_secs(60);
const MIN_REPORT: Duration = Duration::from_secs(30);

/// NodeMetric.spec with its defaults and limits applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricPolicy {
    /// Window of `nodeUsage`, `systemUsage` and `podUsage`; at least a minute.
    pub aggregate: Duration,
    /// Time between two reports; at least half a minute.
    pub report: Duration,
    /// Windows of the percentiles, in the order they are reported.
    pub windows: Vec<Duration>,
    pub memory: MemoryPolicy,
}

impl Default for MetricPolicy {
    fn default() -> Self {
        Self {
            aggregate: Duration::from_secs(300),
            report: Duration::from_secs(60),
            windows: [300, 600, 1800].map(Duration::from_secs).to_vec(),
            memory: MemoryPolicy::WithoutPageCache,
        }
    }
}

/// What counts as used memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryPolicy {
    /// `usageWithoutPageCache`.
    #[default]
    WithoutPageCache,
    /// `usageWithHotPageCache`; needs a kernel that finds cold pages.
    WithHotPageCache,
    /// `usageWithPageCache`; needs the page-cache collector.
    WithPageCache,
}

/// The policy the agent follows.
pub fn metric_policy(spec: &NodeMetricSpec) -> MetricPolicy {
    let default = MetricPolicy::default();
    let none = CollectPolicy::default();
    let given = spec.metric_collect_policy.as_ref().unwrap_or(&none);
    let seconds =
        |value: Option<i64>| value.and_then(|s| u64::try_from(s).ok()).map(Duration::from_secs);
    let windows: Vec<Duration> = given
        .node_aggregate_policy
        .iter()
        .flat_map(|policy| policy.durations.iter().flatten())
        .filter_map(|window| window.to_std())
        .filter(|window| !window.is_zero())
        .collect();
    MetricPolicy {
        aggregate: seconds(given.aggregate_duration_seconds)
            .unwrap_or(default.aggregate)
            .max(MIN_AGGREGATE),
        report: seconds(given.report_interval_seconds).unwrap_or(default.report).max(MIN_REPORT),
        windows: if windows.is_empty() { default.windows } else { windows },
        memory: match given.node_memory_collect_policy.as_deref() {
            Some("usageWithHotPageCache") => MemoryPolicy::WithHotPageCache,
            Some("usageWithPageCache") => MemoryPolicy::WithPageCache,
            _ => MemoryPolicy::WithoutPageCache,
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(policy_json: serde_json::Value) -> MetricPolicy {
        let spec = json!({ "metricCollectPolicy": policy_json });
        metric_policy(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn absent_fields_have_the_reference_s_defaults() {
        assert_eq!(metric_policy(&NodeMetricSpec::default()), MetricPolicy::default());
        assert_eq!(read(json!({})), MetricPolicy::default());
    }

    #[test]
    fn fields_are_followed_within_their_limits() {
        let followed = read(json!({
            "aggregateDurationSeconds": 120, "reportIntervalSeconds": 45,
            "nodeAggregatePolicy": { "durations": ["1m0s", "2m0s"] },
            "nodeMemoryCollectPolicy": "usageWithPageCache",
        }));
        assert_eq!(followed.aggregate, Duration::from_secs(120));
        assert_eq!(followed.report, Duration::from_secs(45));
        assert_eq!(followed.windows, [60, 120].map(Duration::from_secs));
        assert_eq!(followed.memory, MemoryPolicy::WithPageCache);

        let limited = read(json!({
            "aggregateDurationSeconds": 1, "reportIntervalSeconds": 1,
            "nodeAggregatePolicy": { "durations": ["0s", "-5m"] },
            "nodeMemoryCollectPolicy": "some",
        }));
        assert_eq!((limited.aggregate, limited.report), (MIN_AGGREGATE, MIN_REPORT));
        assert_eq!(limited.windows, MetricPolicy::default().windows);
        assert_eq!(limited.memory, MemoryPolicy::WithoutPageCache);
        assert_eq!(
            read(json!({ "reportIntervalSeconds": -1 })).report,
            MetricPolicy::default().report
        );
    }
}
