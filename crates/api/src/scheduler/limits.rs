//! Which values may a plugin be given?

use std::collections::BTreeMap;

use super::args::{
    DefaultPreemptionArgs, DefaultingType, DynamicResourcesArgs, InterPodAffinityArgs,
    LoadAwareSchedulingArgs, NodeAffinityArgs, NodeNUMAResourceArgs,
    NodeResourcesBalancedAllocationArgs, NodeResourcesFitArgs, NodeResourcesFitPlusArgs,
    PodTopologySpreadArgs, ScarceResourceAvoidanceArgs, SchedulingHintArgs, ScoringStrategy,
    ScoringStrategyType, UtilizationShapePoint, VolumeBindingArgs, WeighedResource,
};
use crate::finding::{Code, Finding};

/// What is wrong with values that have the right types. Paths are below the args.
pub(super) trait Limits {
    fn check(&self, out: &mut Out);
}

/// Collects findings below one place.
pub(super) struct Out<'a> {
    path: String,
    findings: &'a mut Vec<Finding>,
}

impl<'a> Out<'a> {
    pub(super) fn new(path: String, findings: &'a mut Vec<Finding>) -> Self {
        Self { path, findings }
    }

    fn push(&mut self, code: Code, path: &str, value: &str, rule: &str, fix: &str) {
        let finding = Finding::error(code, rule, fix).path(format!("{}.{path}", self.path));
        self.findings.push(if value.is_empty() { finding } else { finding.value(value) });
    }

    fn range(&mut self, path: &str, value: i64, low: i64, high: i64) {
        if !(low..=high).contains(&value) {
            let rule = match high {
                i64::MAX => format!("must be at least {low}"),
                _ => format!("must be between {low} and {high}"),
            };
            let near = value.clamp(low, high);
            let fix = format!("use {near}, or remove the field for its default");
            self.push(Code::OutOfRange, path, &value.to_string(), &rule, &fix);
        }
    }

    fn ranges(&mut self, path: &str, values: &BTreeMap<String, i64>, low: i64, high: i64) {
        for (name, value) in values {
            self.range(&format!("{path}.{name}"), *value, low, high);
        }
    }
}

impl Limits for DefaultPreemptionArgs {
    fn check(&self, out: &mut Out) {
        let (percentage, absolute) =
            (self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute);
        out.range("minCandidateNodesPercentage", percentage.into(), 0, 100);
        out.range("minCandidateNodesAbsolute", absolute.into(), 0, i64::MAX);
        if (percentage, absolute) == (0, 0) {
            let rule = "no node would be tried: this and minCandidateNodesPercentage are both 0";
            let fix = "set one of the two above 0";
            out.push(Code::OutOfRange, "minCandidateNodesAbsolute", "0", rule, fix);
        }
    }
}

impl Limits for InterPodAffinityArgs {
    fn check(&self, out: &mut Out) {
        out.range("hardPodAffinityWeight", self.hard_pod_affinity_weight.into(), 0, 100);
    }
}

impl Limits for NodeAffinityArgs {
    fn check(&self, out: &mut Out) {
        let Some(added) = &self.added_affinity else { return };
        let required = added.required_during_scheduling_ignored_during_execution.as_ref();
        if required.is_some_and(|required| required.node_selector_terms.is_empty()) {
            let path = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution";
            let rule = "without nodeSelectorTerms no node would ever do";
            out.push(Code::BadSelector, path, "", rule, "add a term, or remove the field");
        }
    }
}

fn check_weights(resources: &[WeighedResource], path: &str, out: &mut Out) {
    for (index, resource) in resources.iter().enumerate() {
        let place = format!("{path}[{index}]");
        if resource.name.is_empty() {
            let rule = "a resource needs a name";
            out.push(Code::BadText, &format!("{place}.name"), "", rule, "name it, for example cpu");
        }
        out.range(&format!("{place}.weight"), resource.weight, 1, 100);
    }
}

fn check_shape(shape: &[UtilizationShapePoint], path: &str, out: &mut Out) {
    for (index, point) in shape.iter().enumerate() {
        out.range(&format!("{path}[{index}].utilization"), point.utilization.into(), 0, 100);
        out.range(&format!("{path}[{index}].score"), point.score.into(), 0, 10);
    }
    if !shape.is_sorted_by(|a, b| a.utilization < b.utilization) {
        let rule = "utilization must rise from point to point";
        out.push(Code::OutOfOrder, path, "", rule, "sort the points and remove repeated ones");
    }
}

fn check_strategy(strategy: &ScoringStrategy, path: &str, out: &mut Out) {
    check_weights(&strategy.resources, &format!("{path}.resources"), out);
    if strategy.r#type != ScoringStrategyType::RequestedToCapacityRatio {
        return;
    }
    let place = format!("{path}.requestedToCapacityRatio.shape");
    match &strategy.requested_to_capacity_ratio {
        Some(ratio) if !ratio.shape.is_empty() => check_shape(&ratio.shape, &place, out),
        _ => {
            let rule = "this strategy needs at least one point";
            let fix =
                "add points such as {utilization: 0, score: 0}, {utilization: 100, score: 10}";
            out.push(Code::ProfileShape, &place, "", rule, fix);
        }
    }
}

impl Limits for NodeResourcesBalancedAllocationArgs {
    fn check(&self, out: &mut Out) {
        check_weights(&self.resources, "resources", out);
    }
}

impl Limits for NodeResourcesFitArgs {
    fn check(&self, out: &mut Out) {
        check_strategy(&self.scoring_strategy, "scoringStrategy", out);
    }
}

impl Limits for NodeNUMAResourceArgs {
    fn check(&self, out: &mut Out) {
        check_strategy(&self.scoring_strategy, "scoringStrategy", out);
        check_strategy(&self.numa_scoring_strategy, "numaScoringStrategy", out);
        let strategies = [
            ("scoringStrategy", &self.scoring_strategy),
            ("numaScoringStrategy", &self.numa_scoring_strategy),
        ];
        for (path, strategy) in strategies {
            if strategy.r#type == ScoringStrategyType::RequestedToCapacityRatio {
                let rule = "this plugin knows LeastAllocated and MostAllocated only";
                let (place, value) = (format!("{path}.type"), strategy.r#type.as_str());
                out.push(Code::ProfileShape, &place, value, rule, "use LeastAllocated");
            }
        }
    }
}

impl Limits for PodTopologySpreadArgs {
    fn check(&self, out: &mut Out) {
        if self.defaulting_type == DefaultingType::System && !self.default_constraints.is_empty() {
            let rule = "must be empty while defaultingType is System";
            out.push(
                Code::ProfileShape,
                "defaultConstraints",
                "",
                rule,
                "set defaultingType to List, or remove the constraints",
            );
        }
        for (index, constraint) in self.default_constraints.iter().enumerate() {
            let place = |field: &str| format!("defaultConstraints[{index}].{field}");
            out.range(&place("maxSkew"), constraint.max_skew.into(), 1, i64::MAX);
            if constraint.topology_key.is_empty() {
                let fix = "name a node label, for example topology.kubernetes.io/zone";
                out.push(Code::BadText, &place("topologyKey"), "", "must not be empty", fix);
            }
            let action = constraint.when_unsatisfiable.as_str();
            if !["DoNotSchedule", "ScheduleAnyway"].contains(&action) {
                let rule = "must be DoNotSchedule or ScheduleAnyway";
                let fix = "use ScheduleAnyway";
                out.push(Code::BadText, &place("whenUnsatisfiable"), action, rule, fix);
            }
            if constraint.label_selector.is_some() {
                let rule = "a default constraint selects the pods of the pod's own workload";
                out.push(Code::ProfileShape, &place("labelSelector"), "", rule, "remove it");
            }
        }
    }
}

impl Limits for VolumeBindingArgs {
    fn check(&self, out: &mut Out) {
        out.range("bindTimeoutSeconds", self.bind_timeout_seconds, 0, i64::MAX);
        check_shape(&self.shape, "shape", out);
    }
}

impl Limits for DynamicResourcesArgs {
    fn check(&self, _: &mut Out) {}
}

impl Limits for LoadAwareSchedulingArgs {
    fn check(&self, out: &mut Out) {
        out.range("nodeMetricExpirationSeconds", self.node_metric_expiration_seconds, 0, i64::MAX);
        out.ranges("resourceWeights", &self.resource_weights, 1, 100);
        out.range("dominantResourceWeight", self.dominant_resource_weight, 0, 100);
        out.ranges("usageThresholds", &self.usage_thresholds, 0, 100);
        out.ranges("prodUsageThresholds", &self.prod_usage_thresholds, 0, 100);
        if let Some(aggregated) = &self.aggregated {
            out.ranges("aggregated.usageThresholds", &aggregated.usage_thresholds, 0, 100);
        }
        out.ranges("estimatedScalingFactors", &self.estimated_scaling_factors, 1, 100);
        for name in self.resource_weights.keys() {
            if !self.estimated_scaling_factors.contains_key(name) {
                let rule = "a resource with a weight needs an estimatedScalingFactor";
                let fix = format!("add estimatedScalingFactors.{name}, for example 85");
                out.push(Code::ProfileShape, &format!("resourceWeights.{name}"), "", rule, &fix);
            }
        }
        let seconds = [
            ("estimatedSecondsAfterPodScheduled", self.estimated_seconds_after_pod_scheduled),
            ("estimatedSecondsAfterInitialized", self.estimated_seconds_after_initialized),
        ];
        for (path, seconds) in seconds {
            out.range(path, seconds.unwrap_or_default(), 0, i64::MAX);
        }
        if self.estimator != Self::default().estimator {
            let rule = "the only estimator is defaultEstimator";
            out.push(Code::UnknownPolicy, "estimator", &self.estimator, rule, "remove the field");
        }
        out.range("missingMetricScore", self.missing_metric_score, 0, 100);
    }
}

impl Limits for NodeResourcesFitPlusArgs {
    fn check(&self, out: &mut Out) {
        for (name, resource) in &self.resources {
            out.range(&format!("resources.{name}.weight"), resource.weight, 1, 100);
        }
    }
}

impl Limits for ScarceResourceAvoidanceArgs {
    fn check(&self, _: &mut Out) {}
}

impl Limits for SchedulingHintArgs {
    fn check(&self, out: &mut Out) {
        out.range("maxHintNodes", self.max_hint_nodes, 0, i64::MAX);
    }
}
