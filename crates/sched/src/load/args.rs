//! How the load-aware plugin is configured, and what that means for each resource.
//!
//! [`Args`] is the wire; [`Settings`] is what is computed with: one [`Column`] for each resource
//! that any map names, in order of name, besides cpu and memory which are always there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::finding::{Code, Finding};
use api::metadata::node::{AggregatedThresholds, Aggregation, UsageThresholds};
use api::protocol::resource::{CPU, MEMORY};
use serde::Deserialize;
use units::GoDuration;

use crate::model::{ResourceId, Resources};

/// `LoadAwareSchedulingArgs`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Args {
    /// Turn nodes away whose report is too old.
    pub filter_expired_node_metrics: bool,
    /// When a report is too old; 0: never, if it has a time.
    pub node_metric_expiration_seconds: i64,
    /// Let nodes with a report that is too old pass after all.
    pub enable_schedule_when_node_metrics_expired: bool,
    pub resource_weights: BTreeMap<String, i64>,
    /// Weight of the resource that is scarcest on a node.
    pub dominant_resource_weight: i64,
    /// In percent of what a node has; 0 is not checked.
    pub usage_thresholds: BTreeMap<String, i64>,
    /// For prod pods alone, of what prod pods use.
    pub prod_usage_thresholds: BTreeMap<String, i64>,
    pub prod_usage_include_sys: bool,
    pub score_according_prod_usage: bool,
    pub aggregated: Option<Aggregated>,
    pub estimator: String,
    /// In percent of a pod's request or limit.
    pub estimated_scaling_factors: BTreeMap<String, i64>,
    pub estimated_seconds_after_pod_scheduled: Option<i64>,
    pub estimated_seconds_after_initialized: Option<i64>,
    /// Pods may bring factors and times of their own.
    pub allow_customize_estimation: bool,
    pub supported_resources: Vec<String>,
    /// Score of a node that never reported.
    pub missing_metric_score: i64,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Aggregated {
    pub usage_thresholds: BTreeMap<String, i64>,
    pub usage_aggregation_type: Option<Aggregation>,
    pub usage_aggregated_duration: Option<GoDuration>,
    pub score_aggregation_type: Option<Aggregation>,
    pub score_aggregated_duration: Option<GoDuration>,
}

impl Default for Args {
    fn default() -> Self {
        Self {
            filter_expired_node_metrics: true,
            node_metric_expiration_seconds: 180,
            enable_schedule_when_node_metrics_expired: false,
            resource_weights: BTreeMap::new(),
            dominant_resource_weight: 0,
            usage_thresholds: BTreeMap::new(),
            prod_usage_thresholds: BTreeMap::new(),
            prod_usage_include_sys: false,
            score_according_prod_usage: false,
            aggregated: None,
            estimator: ESTIMATOR.to_owned(),
            estimated_scaling_factors: BTreeMap::new(),
            estimated_seconds_after_pod_scheduled: None,
            estimated_seconds_after_initialized: None,
            allow_customize_estimation: false,
            supported_resources: Vec::new(),
            missing_metric_score: 0,
        }
    }
}

const ESTIMATOR: &str = "defaultEstimator";

impl Args {
    /// Fills in what is absent. An empty map is absent; factors are merged.
    #[must_use]
    pub fn completed(mut self) -> Self {
        let map = |pairs: [(&str, i64); 2]| pairs.map(|(name, value)| (name.to_owned(), value));
        if self.resource_weights.is_empty() && self.dominant_resource_weight == 0 {
            self.resource_weights = map([(CPU, 1), (MEMORY, 1)]).into();
        }
        if self.usage_thresholds.is_empty() {
            self.usage_thresholds = map([(CPU, 65), (MEMORY, 95)]).into();
        }
        for (name, factor) in map([(CPU, 85), (MEMORY, 70)]) {
            self.estimated_scaling_factors.entry(name).or_insert(factor);
        }
        self
    }

    /// Everything that is wrong with completed args.
    pub fn check(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut bound = |path: String, value: i64, lowest: i64| {
            if !(lowest..=100).contains(&value) {
                let rule = format!("must be between {lowest} and 100");
                let finding = Finding::error(Code::OutOfRange, rule, "use a percentage");
                findings.push(finding.path(path).value(value.to_string()));
            }
        };
        let aggregated = self.aggregated.clone().unwrap_or_default();
        let maps = [
            ("resourceWeights", &self.resource_weights, 1),
            ("usageThresholds", &self.usage_thresholds, 0),
            ("prodUsageThresholds", &self.prod_usage_thresholds, 0),
            ("aggregated.usageThresholds", &aggregated.usage_thresholds, 0),
            ("estimatedScalingFactors", &self.estimated_scaling_factors, 1),
        ];
        for (path, map, lowest) in maps {
            for (resource, value) in map {
                bound(format!("{path}.{resource}"), *value, lowest);
            }
        }
        bound("dominantResourceWeight".to_owned(), self.dominant_resource_weight, 0);
        bound("missingMetricScore".to_owned(), self.missing_metric_score, 0);
        for resource in self.resource_weights.keys() {
            if !self.estimated_scaling_factors.contains_key(resource) {
                let rule = "every weighted resource needs an estimated scaling factor";
                let fix = format!("add estimatedScalingFactors.{resource}");
                let path = format!("resourceWeights.{resource}");
                findings.push(Finding::error(Code::OutOfRange, rule, fix).path(path));
            }
        }
        if self.node_metric_expiration_seconds < 0 {
            let finding = Finding::error(Code::OutOfRange, "must not be negative", "use 180");
            findings.push(finding.path("nodeMetricExpirationSeconds"));
        }
        if self.estimator != ESTIMATOR {
            let rule = "the only estimator is defaultEstimator, which is used";
            let finding = Finding::warning(Code::UnknownPolicy, rule, "remove the field");
            findings.push(finding.path("estimator").value(format!("{:?}", self.estimator)));
        }
        findings
    }
}

/// One resource of the vectors all sums are kept in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub id: ResourceId,
    /// In percent; resources without one are not estimated.
    pub factor: Option<i64>,
    pub weight: i64,
    /// Counts when the scarcest resource is looked for.
    pub has_say: bool,
}

/// Thresholds by column, in percent; 0 is not checked.
pub type Thresholds = Box<[i64]>;

/// An aggregate of reported usage; without a duration the longest there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Aggregate {
    pub kind: Aggregation,
    pub duration: Option<Duration>,
}

/// What a node is filtered by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    pub plain: Thresholds,
    /// For prod pods; `None` when there are none of their own.
    pub prod: Option<Thresholds>,
    /// In place of the plain ones.
    pub aggregated: Option<(Thresholds, Aggregate)>,
}

/// The configuration as it is computed with.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub columns: Vec<Column>,
    pub policy: Policy,
    pub filters_expired: bool,
    pub passes_expired: bool,
    /// `None`: only a report without a time is too old.
    pub expires_after: Option<Duration>,
    pub dominant_weight: i64,
    pub prod_includes_system: bool,
    pub scores_prod_by_prod: bool,
    pub score_aggregate: Option<Aggregate>,
    pub after_scheduled: Option<Duration>,
    pub after_initialized: Option<Duration>,
    pub honours_pods: bool,
    pub missing_score: i64,
}

impl Settings {
    /// From completed args.
    pub fn new(args: &Args, resources: &mut Resources) -> Self {
        let aggregated = args.aggregated.clone().unwrap_or_default();
        let thresholds =
            [&args.usage_thresholds, &args.prod_usage_thresholds, &aggregated.usage_thresholds];
        let maps = [&args.resource_weights, &args.estimated_scaling_factors];
        let mut names: BTreeSet<&str> = [CPU, MEMORY].into();
        names.extend(args.supported_resources.iter().map(String::as_str));
        names.extend(thresholds.iter().chain(&maps).flat_map(|map| map.keys()).map(String::as_str));
        let column = |name: &str| {
            let weight = args.resource_weights.get(name).copied().unwrap_or(0);
            let is_bounded = thresholds.iter().any(|map| map.get(name).is_some_and(|at| *at > 0));
            Column {
                name: name.to_owned(),
                id: resources.intern(name),
                factor: args.estimated_scaling_factors.get(name).copied(),
                weight,
                has_say: weight > 0 || is_bounded,
            }
        };
        let columns: Vec<Column> = names.into_iter().map(column).collect();
        let policy = Policy {
            plain: by_column(&columns, &args.usage_thresholds),
            prod: non_empty(&columns, &args.prod_usage_thresholds),
            aggregated: aggregated.usage_aggregation_type.and_then(|kind| {
                let thresholds = non_empty(&columns, &aggregated.usage_thresholds)?;
                let duration = positive(aggregated.usage_aggregated_duration);
                Some((thresholds, Aggregate { kind, duration }))
            }),
        };
        let seconds = |seconds: Option<i64>| {
            seconds.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs)
        };
        Self {
            columns,
            policy,
            filters_expired: args.filter_expired_node_metrics,
            passes_expired: args.enable_schedule_when_node_metrics_expired,
            expires_after: seconds(Some(args.node_metric_expiration_seconds))
                .filter(|span| !span.is_zero()),
            dominant_weight: args.dominant_resource_weight,
            prod_includes_system: args.prod_usage_include_sys,
            scores_prod_by_prod: args.score_according_prod_usage,
            score_aggregate: aggregated.score_aggregation_type.map(|kind| Aggregate {
                kind,
                duration: positive(aggregated.score_aggregated_duration),
            }),
            after_scheduled: seconds(args.estimated_seconds_after_pod_scheduled),
            after_initialized: seconds(args.estimated_seconds_after_initialized),
            honours_pods: args.allow_customize_estimation,
            missing_score: args.missing_metric_score,
        }
    }

    /// How many resources there are.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// What a node's own thresholds make of the policy: each part that says something replaces
    /// that part as a whole. `None` when nothing does.
    pub fn overridden(&self, own: &UsageThresholds) -> Option<Policy> {
        let plain = non_empty(&self.columns, &own.usage_thresholds);
        let prod = non_empty(&self.columns, &own.prod_usage_thresholds);
        let aggregated = own.aggregated_usage.as_ref().and_then(|own| {
            let AggregatedThresholds { usage_thresholds, usage_aggregation_type, .. } = own;
            let thresholds = non_empty(&self.columns, usage_thresholds)?;
            let duration = positive(own.usage_aggregated_duration);
            Some((thresholds, Aggregate { kind: (*usage_aggregation_type)?, duration }))
        });
        if plain.is_none() && prod.is_none() && aggregated.is_none() {
            return None;
        }
        Some(Policy {
            plain: plain.unwrap_or_else(|| self.policy.plain.clone()),
            prod: prod.or_else(|| self.policy.prod.clone()),
            aggregated: aggregated.or_else(|| self.policy.aggregated.clone()),
        })
    }
}

fn by_column(columns: &[Column], map: &BTreeMap<String, i64>) -> Thresholds {
    columns.iter().map(|column| map.get(&column.name).copied().unwrap_or(0)).collect()
}

fn non_empty(columns: &[Column], map: &BTreeMap<String, i64>) -> Option<Thresholds> {
    (!map.is_empty()).then(|| by_column(columns, map))
}

fn positive(duration: Option<GoDuration>) -> Option<Duration> {
    duration?.to_std().filter(|span| !span.is_zero())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn args(value: serde_json::Value) -> Args {
        serde_json::from_value::<Args>(value).unwrap().completed()
    }

    fn paths(value: serde_json::Value) -> Vec<String> {
        args(value).check().into_iter().map(|finding| finding.path.unwrap()).collect()
    }

    #[test]
    fn absent_maps_get_defaults_and_given_ones_stay() {
        let all = args(json!({}));
        assert_eq!(all.usage_thresholds, [("cpu".into(), 65), ("memory".into(), 95)].into());
        assert_eq!(all.resource_weights, [("cpu".into(), 1), ("memory".into(), 1)].into());
        assert_eq!(
            all.estimated_scaling_factors,
            [("cpu".into(), 85), ("memory".into(), 70)].into()
        );
        assert!(all.check().is_empty());
        let given = args(json!({
            "usageThresholds": {"cpu": 0},
            "dominantResourceWeight": 1,
            "estimatedScalingFactors": {"cpu": 50},
        }));
        assert_eq!(given.usage_thresholds, [("cpu".into(), 0)].into());
        assert!(given.resource_weights.is_empty(), "a dominant weight stands for itself");
        assert_eq!(given.estimated_scaling_factors["memory"], 70, "merged");
    }

    #[test]
    fn what_is_out_of_bounds_is_named() {
        let cases = [
            (json!({"resourceWeights": {"cpu": 100}}), vec![]),
            (json!({"resourceWeights": {"cpu": 0}}), vec!["resourceWeights.cpu"]),
            (json!({"usageThresholds": {"cpu": 101}}), vec!["usageThresholds.cpu"]),
            (json!({"prodUsageThresholds": {"cpu": -1}}), vec!["prodUsageThresholds.cpu"]),
            (
                json!({"aggregated": {"usageThresholds": {"cpu": 101}}}),
                vec!["aggregated.usageThresholds.cpu"],
            ),
            (
                json!({"estimatedScalingFactors": {"memory": 0}}),
                vec!["estimatedScalingFactors.memory"],
            ),
            (json!({"resourceWeights": {"x": 1}}), vec!["resourceWeights.x"]),
            (json!({"nodeMetricExpirationSeconds": -1}), vec!["nodeMetricExpirationSeconds"]),
            (json!({"estimator": "mine"}), vec!["estimator"]),
            (json!({"missingMetricScore": 101}), vec!["missingMetricScore"]),
        ];
        for (value, want) in cases {
            assert_eq!(paths(value.clone()), want, "{value}");
        }
        assert!(serde_json::from_value::<Args>(json!({"usageThreshold": {}})).is_err());
    }

    #[test]
    fn columns_are_every_name_in_order() {
        let mut resources = Resources::default();
        let args = args(json!({
            "supportedResources": ["nvidia.com/gpu"],
            "usageThresholds": {"a/b": 10, "cpu": 0},
        }));
        let settings = Settings::new(&args, &mut resources);
        let names: Vec<_> = settings.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["a/b", "cpu", "memory", "nvidia.com/gpu"]);
        let says: Vec<_> = settings.columns.iter().map(|column| column.has_say).collect();
        assert_eq!(says, [true, true, true, false], "by threshold, by weight, not at all");
        assert_eq!(settings.policy.plain[..], [10, 0, 0, 0]);
        assert_eq!(settings.policy.prod, None);
    }

    #[test]
    fn a_node_replaces_parts_as_a_whole() {
        let mut resources = Resources::default();
        let settings =
            Settings::new(&args(json!({"prodUsageThresholds": {"cpu": 55}})), &mut resources);
        let own =
            |value: serde_json::Value| settings.overridden(&serde_json::from_value(value).unwrap());
        let policy = own(json!({"usageThresholds": {"memory": 80, "unknown": 5}})).unwrap();
        assert_eq!((&policy.plain[..], policy.prod.as_deref()), (&[0, 80][..], Some(&[55, 0][..])));
        let policy = own(json!({"aggregatedUsage": {
            "usageThresholds": {"cpu": 70}, "usageAggregationType": "p95",
            "usageAggregatedDuration": "5m"}}))
        .unwrap();
        let aggregate =
            Aggregate { kind: Aggregation::P95, duration: Some(Duration::from_mins(5)) };
        assert_eq!(policy.aggregated, Some(([70, 0].into(), aggregate)));
        assert_eq!(own(json!({})), None);
        let typeless = json!({"aggregatedUsage": {"usageThresholds": {"cpu": 70}}});
        assert_eq!(own(typeless), None, "needs thresholds and a type");
    }
}
