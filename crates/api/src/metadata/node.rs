//! Values on nodes: what an administrator or another system says about a machine.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{CpuSet, GoDuration, Ratio};

use super::{ResourceList, Wire, json_wire, records, words};
use crate::finding::Finding;
use crate::shape;
use crate::strategy::ColocationStrategy;

json_wire!(ColocationStrategy);

records! {
    /// What pods may not have of a node.
    NodeReservation {
        resources: ResourceList,
        /// Counts over `resources.cpu` when CPUs are chosen.
        #[serde(rename = "reservedCPUs")]
        reserved_cpus: CpuSet,
        apply_policy: Option<ReservationApplyPolicy>,
    }
}

words! {
    #[derive(Default)]
    ReservationApplyPolicy {
        /// Schedulable resources shrink too, except batch and mid.
        #[default]
        Default = "Default",
        /// Only the CPUs are kept free.
        ReservedCpusOnly = "ReservedCPUsOnly",
    }
}

records! {
    /// CPUs of SYSTEM pods.
    SystemQosResource {
        cpuset: CpuSet,
        /// Without it the CPUs are exclusive.
        cpuset_exclusive: Option<bool>,
    }
}

impl SystemQosResource {
    pub fn is_exclusive(&self) -> bool {
        self.cpuset_exclusive.unwrap_or(true)
    }
}

records! {
    /// Batch resources before other systems' share is taken off.
    OriginAllocatable { resources: ResourceList }

    /// What other systems, such as YARN, have taken of the lent resources.
    ThirdPartyAllocations { allocations: Vec<ThirdPartyAllocation> }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThirdPartyAllocation {
    pub name: String,
    /// A priority class name; only `koord-batch` is taken off.
    pub priority: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: ResourceList,
}

impl ThirdPartyAllocations {
    /// What allocations of this priority class add up to.
    pub fn total(&self, priority: &str) -> ResourceList {
        let mut total = ResourceList::new();
        let allocations = self.allocations.iter().filter(|found| found.priority == priority);
        for (name, amount) in allocations.flat_map(|allocation| &allocation.resources) {
            *total.entry(name.clone()).or_default() += *amount;
        }
        total
    }
}

records! {
    /// A node's own thresholds for load-aware scheduling, in percent.
    UsageThresholds {
        usage_thresholds: BTreeMap<String, i64>,
        prod_usage_thresholds: BTreeMap<String, i64>,
        aggregated_usage: Option<AggregatedThresholds>,
    }

    AggregatedThresholds {
        usage_thresholds: BTreeMap<String, i64>,
        usage_aggregation_type: Option<Aggregation>,
        usage_aggregated_duration: Option<GoDuration>,
    }
}

words! {
    /// Whether the agent of a node acts.
    NodeSwitch { On = "on", Off = "off" }
}

words! {
    /// What a window of samples is summed up to.
    Aggregation { Avg = "avg", P50 = "p50", P90 = "p90", P95 = "p95", P99 = "p99" }
}

/// Factors by resource name, written with exactly two decimals: `{"cpu":1.20}`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AmplificationRatios(pub BTreeMap<String, Ratio>);

impl Wire for AmplificationRatios {
    /// A negative ratio is refused with the rest of the text.
    fn parse(text: &str) -> (Option<Self>, Vec<Finding>) {
        let (numbers, mut findings) = shape::read::<BTreeMap<String, f64>>(text);
        let Some(numbers) = numbers else { return (None, findings) };
        let mut ratios = BTreeMap::new();
        for (resource, number) in numbers {
            let (ratio, found) = Ratio::parse(&number.to_string());
            ratios.extend(ratio.map(|ratio| (resource.clone(), ratio)));
            findings.extend(found.into_iter().map(|finding| finding.path(resource.as_str())));
        }
        let is_usable = !findings.iter().any(Finding::is_error);
        (is_usable.then_some(Self(ratios)), findings)
    }

    fn print(&self) -> String {
        let entries = self.0.iter().map(|(resource, ratio)| {
            let name = super::print_json(resource);
            format!("{name}:{ratio}")
        });
        format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
    }
}

words! {
    /// How a node makes pods bind CPUs.
    NodeCpuBindPolicy {
        None = "None",
        FullPcpusOnly = "FullPCPUsOnly",
        SpreadByPcpus = "SpreadByPCPUs",
    }
}

words! {
    /// Which NUMA node is filled first.
    NumaAllocateStrategy {
        MostAllocated = "MostAllocated",
        LeastAllocated = "LeastAllocated",
        DistributeEvenly = "DistributeEvenly",
    }
}
