//! What can be said to each plugin?
//!
//! Fields, names and defaults are the wire's. Every type's `Default` is what a
//! plugin gets when nothing is said; [`Completed::complete`] fills the places
//! that depend on others, such as a map that must not be empty.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeAffinity, TopologySpreadConstraint};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::GoDuration;

use crate::metadata::node::Aggregation;
use crate::metadata::words;

/// Arguments of one plugin.
pub trait Completed {
    /// Fills in what is derived.
    fn complete(&mut self) {}
}

macro_rules! args {
    ($($(#[$doc:meta])* $name:ident {
        $($(#[$attr:meta])* $field:ident: $type:ty = $default:expr),* $(,)?
    })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(default, rename_all = "camelCase")]
        pub struct $name {
            $($(#[$attr])* pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    )*};
}

args! {
    DefaultPreemptionArgs {
        /// How many nodes are tried at least, in percent of all.
        min_candidate_nodes_percentage: i32 = 10,
        /// How many nodes are tried at least.
        min_candidate_nodes_absolute: i32 = 100,
    }

    InterPodAffinityArgs {
        /// What a required term of a pod that runs already counts for an incoming one, 0 to 100.
        hard_pod_affinity_weight: i32 = 1,
        /// Do not look at what running pods prefer when the incoming pod prefers nothing.
        ignore_preferred_terms_of_existing_pods: bool = false,
    }

    NodeAffinityArgs {
        /// Demanded of every pod of the profile beside its own affinity.
        added_affinity: Option<NodeAffinity> = None,
    }

    /// A resource and what it counts.
    WeighedResource {
        name: String = String::new(),
        weight: i64 = 1,
    }

    NodeResourcesBalancedAllocationArgs {
        resources: Vec<WeighedResource> = plain(&["cpu", "memory"]),
    }

    /// One corner of a curve from utilisation (0 to 100) to score (0 to 10).
    UtilizationShapePoint {
        utilization: i32 = 0,
        score: i32 = 0,
    }

    RequestedToCapacityRatio {
        shape: Vec<UtilizationShapePoint> = Vec::new(),
    }

    ScoringStrategy {
        r#type: ScoringStrategyType = ScoringStrategyType::LeastAllocated,
        resources: Vec<WeighedResource> = plain(&["cpu", "memory"]),
        requested_to_capacity_ratio: Option<RequestedToCapacityRatio> = None,
    }

    NodeResourcesFitArgs {
        /// Extended resources that are not looked at.
        ignored_resources: Vec<String> = Vec::new(),
        /// Groups of extended resources, such as `example.com`, that are not looked at.
        ignored_resource_groups: Vec<String> = Vec::new(),
        scoring_strategy: ScoringStrategy = ScoringStrategy::default(),
    }

    PodTopologySpreadArgs {
        /// Used for pods that have none, when `defaultingType` is `List`.
        default_constraints: Vec<TopologySpreadConstraint> = Vec::new(),
        defaulting_type: DefaultingType = DefaultingType::System,
    }

    VolumeBindingArgs {
        /// How long volumes of a placed pod may take.
        bind_timeout_seconds: i64 = 600,
        shape: Vec<UtilizationShapePoint> = Vec::new(),
    }

    DynamicResourcesArgs {
        filter_timeout: Option<GoDuration> = None,
    }

    LoadAwareSchedulingArgs {
        filter_expired_node_metrics: bool = true,
        /// When a report is stale; 0 means never.
        node_metric_expiration_seconds: i64 = 180,
        enable_schedule_when_node_metrics_expired: bool = false,
        /// What each resource counts in the score; `cpu` and `memory` alike when nothing is said.
        resource_weights: BTreeMap<String, i64> = BTreeMap::new(),
        /// What the worst resource counts in addition.
        dominant_resource_weight: i64 = 0,
        /// Percent of allocatable above which a node is not chosen; 0 is not checked.
        usage_thresholds: BTreeMap<String, i64> = BTreeMap::new(),
        prod_usage_thresholds: BTreeMap<String, i64> = BTreeMap::new(),
        prod_usage_include_sys: bool = false,
        score_according_prod_usage: bool = false,
        aggregated: Option<LoadAwareAggregated> = None,
        estimator: String = "defaultEstimator".to_owned(),
        /// Percent of a pod's request that it is expected to use.
        estimated_scaling_factors: BTreeMap<String, i64> = BTreeMap::new(),
        estimated_seconds_after_pod_scheduled: Option<i64> = None,
        estimated_seconds_after_initialized: Option<i64> = None,
        allow_customize_estimation: bool = false,
        supported_resources: Vec<String> = Vec::new(),
        /// Ours: the score of a node that has no report.
        missing_metric_score: i64 = 0,
    }

    LoadAwareAggregated {
        usage_thresholds: BTreeMap<String, i64> = BTreeMap::new(),
        usage_aggregation_type: Option<Aggregation> = None,
        usage_aggregated_duration: Option<GoDuration> = None,
        score_aggregation_type: Option<Aggregation> = None,
        score_aggregated_duration: Option<GoDuration> = None,
    }

    NodeNUMAResourceArgs {
        #[serde(rename = "defaultCPUBindPolicy")]
        default_cpu_bind_policy: DefaultCpuBindPolicy = DefaultCpuBindPolicy::FullPcpus,
        scoring_strategy: ScoringStrategy = ScoringStrategy::default(),
        numa_scoring_strategy: ScoringStrategy = ScoringStrategy::default(),
    }

    /// How one resource is scored.
    ResourcesType {
        r#type: ScoringStrategyType = ScoringStrategyType::LeastAllocated,
        weight: i64 = 1,
    }

    NodeResourcesFitPlusArgs {
        resources: BTreeMap<String, ResourcesType> = BTreeMap::new(),
    }

    ScarceResourceAvoidanceArgs {
        resources: Vec<String> = Vec::new(),
    }

    SchedulingHintArgs {
        /// How many preferred nodes are tried.
        max_hint_nodes: i64 = 100,
    }
}

words! {
    ScoringStrategyType {
        LeastAllocated = "LeastAllocated",
        MostAllocated = "MostAllocated",
        RequestedToCapacityRatio = "RequestedToCapacityRatio",
    }
}

words! {
    /// Where constraints come from for pods that have none.
    DefaultingType { System = "System", List = "List" }
}

words! {
    DefaultCpuBindPolicy { FullPcpus = "FullPCPUs", SpreadByPcpus = "SpreadByPCPUs" }
}

fn plain(names: &[&str]) -> Vec<WeighedResource> {
    names.iter().map(|name| WeighedResource { name: (*name).to_owned(), weight: 1 }).collect()
}

impl Completed for DefaultPreemptionArgs {}
impl Completed for InterPodAffinityArgs {}
impl Completed for NodeAffinityArgs {}
impl Completed for PodTopologySpreadArgs {}
impl Completed for DynamicResourcesArgs {}
impl Completed for NodeResourcesFitPlusArgs {}
impl Completed for ScarceResourceAvoidanceArgs {}
impl Completed for SchedulingHintArgs {}

/// `weight: 0` and no weight are the same on the wire.
fn complete_weights(resources: &mut Vec<WeighedResource>) {
    if resources.is_empty() {
        *resources = plain(&["cpu", "memory"]);
    }
    for resource in resources {
        if resource.weight == 0 {
            resource.weight = 1;
        }
    }
}

impl Completed for NodeResourcesBalancedAllocationArgs {
    fn complete(&mut self) {
        complete_weights(&mut self.resources);
    }
}

impl Completed for NodeResourcesFitArgs {
    fn complete(&mut self) {
        complete_weights(&mut self.scoring_strategy.resources);
    }
}

impl Completed for NodeNUMAResourceArgs {
    fn complete(&mut self) {
        complete_weights(&mut self.scoring_strategy.resources);
        complete_weights(&mut self.numa_scoring_strategy.resources);
    }
}

impl Completed for VolumeBindingArgs {}

impl Completed for LoadAwareSchedulingArgs {
    fn complete(&mut self) {
        let pair =
            |cpu, memory| BTreeMap::from([("cpu".to_owned(), cpu), ("memory".to_owned(), memory)]);
        if self.resource_weights.is_empty() && self.dominant_resource_weight == 0 {
            self.resource_weights = pair(1, 1);
        }
        if self.usage_thresholds.is_empty() {
            self.usage_thresholds = pair(65, 95);
        }
        for (name, factor) in pair(85, 70) {
            self.estimated_scaling_factors.entry(name).or_insert(factor);
        }
        if self.estimator.is_empty() {
            Self::default().estimator.clone_into(&mut self.estimator);
        }
    }
}

/// Everything that is said to the plugins of a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Arguments {
    pub default_preemption: DefaultPreemptionArgs,
    pub inter_pod_affinity: InterPodAffinityArgs,
    pub node_affinity: NodeAffinityArgs,
    pub balanced_allocation: NodeResourcesBalancedAllocationArgs,
    pub fit: NodeResourcesFitArgs,
    pub spread: PodTopologySpreadArgs,
    pub volume_binding: VolumeBindingArgs,
    pub load_aware: LoadAwareSchedulingArgs,
    pub numa: NodeNUMAResourceArgs,
    pub fit_plus: NodeResourcesFitPlusArgs,
    pub scarce: ScarceResourceAvoidanceArgs,
    pub hint: SchedulingHintArgs,
}

/// What holds when nothing is said to anybody.
impl Default for Arguments {
    fn default() -> Self {
        let mut load_aware = LoadAwareSchedulingArgs::default();
        load_aware.complete();
        Self {
            default_preemption: DefaultPreemptionArgs::default(),
            inter_pod_affinity: InterPodAffinityArgs::default(),
            node_affinity: NodeAffinityArgs::default(),
            balanced_allocation: NodeResourcesBalancedAllocationArgs::default(),
            fit: NodeResourcesFitArgs::default(),
            spread: PodTopologySpreadArgs::default(),
            volume_binding: VolumeBindingArgs::default(),
            load_aware,
            numa: NodeNUMAResourceArgs::default(),
            fit_plus: NodeResourcesFitPlusArgs::default(),
            scarce: ScarceResourceAvoidanceArgs::default(),
            hint: SchedulingHintArgs::default(),
        }
    }
}
