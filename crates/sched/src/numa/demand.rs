//! What does a pod want of CPUs and NUMA nodes, wherever it goes?
//!
//! Only LSE and LSR pods of the prod class choose CPUs, by their label alone; what a node makes of
//! every pod is the node's matter ([`super::State`]).

use api::metadata::pod::{
    CpuBindPolicy, CpuExclusivePolicy, NumaExclusive, NumaTopologyPolicy, NumaTopologySpec,
    ResourceSpec,
};
use api::priority::PriorityClass;
use api::qos::QosClass;

use super::state::Allocation;
use super::take::{Bind, Exclusive};
use crate::model::{Requests, ResourceId};

/// The part of a pod that this plugin reads, the same for all replicas.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Demand {
    pub requests: Requests,
    /// The pod asks for CPUs of its own, chosen this way.
    pub bind: Option<Bind>,
    /// The way it asks for is a condition.
    pub bind_is_required: bool,
    pub exclusive: Exclusive,
    pub policy: Option<NumaTopologyPolicy>,
    /// The pod must not mix with pods that span NUMA nodes, or the other way round.
    pub numa_is_exclusive: bool,
    /// What an outside planner chose already; only checked.
    pub designated: Option<Allocation>,
}

/// What [`Demand::read`] looks at.
#[derive(Debug, Clone, Default)]
pub struct Source {
    pub requests: Requests,
    /// As the label says, without a default.
    pub qos: Option<QosClass>,
    /// With the default that follows from the QoS class.
    pub class: Option<PriorityClass>,
    pub spec: ResourceSpec,
    pub numa: NumaTopologySpec,
    pub default_bind: Option<Bind>,
    pub designated: Option<Allocation>,
}

/// The pod can be placed nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the requested CPUs must be integer")]
pub struct Fractional;

impl Demand {
    /// A pod without any request has no demand: `None`.
    pub fn read(source: Source) -> Result<Option<Self>, Fractional> {
        if source.requests.iter().all(|(_, amount)| amount == 0) {
            return Ok(None);
        }
        let may_bind = source.qos.is_some_and(QosClass::wants_cpus)
            && source.class == Some(PriorityClass::Prod);
        let required = source.spec.required_cpu_bind_policy;
        let policy = required.or(source.spec.preferred_cpu_bind_policy);
        let bind = match policy {
            None | Some(CpuBindPolicy::Default) => source.default_bind,
            Some(CpuBindPolicy::FullPcpus) => Some(Bind::Full),
            Some(CpuBindPolicy::SpreadByPcpus) => Some(Bind::Spread),
            Some(CpuBindPolicy::ConstrainedBurst) => None,
        };
        let cpu = source.requests.get(ResourceId::CPU);
        let bind = bind.filter(|_| may_bind && cpu > 0);
        if bind.is_some() && cpu % 1_000 != 0 {
            return Err(Fractional);
        }
        let exclusive = match source.spec.preferred_cpu_exclusive_policy {
            None | Some(CpuExclusivePolicy::None) => Exclusive::None,
            Some(CpuExclusivePolicy::PcpuLevel) => Exclusive::Core,
            Some(CpuExclusivePolicy::NumaNodeLevel) => Exclusive::Node,
        };
        let numa_is_exclusive = match source.numa.single_numa_node_exclusive {
            Some(exclusive) => exclusive == NumaExclusive::Required,
            None => source.numa.numa_topology_policy.is_some(),
        };
        Ok(Some(Self {
            requests: source.requests,
            bind,
            bind_is_required: bind.is_some() && required.is_some(),
            exclusive,
            policy: source.numa.numa_topology_policy,
            numa_is_exclusive,
            designated: source.designated,
        }))
    }

    /// In milli-cores.
    pub fn cpu(&self) -> i64 {
        self.requests.get(ResourceId::CPU)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(milli: i64) -> Source {
        Source {
            requests: [(ResourceId::CPU, milli)].into_iter().collect(),
            qos: Some(QosClass::Lsr),
            class: Some(PriorityClass::Prod),
            default_bind: Some(Bind::Full),
            ..Source::default()
        }
    }

    fn spec(required: Option<CpuBindPolicy>, preferred: Option<CpuBindPolicy>) -> ResourceSpec {
        ResourceSpec {
            required_cpu_bind_policy: required,
            preferred_cpu_bind_policy: preferred,
            ..ResourceSpec::default()
        }
    }

    #[test]
    fn class_and_policy_decide_who_binds() {
        use CpuBindPolicy::{ConstrainedBurst, Default, FullPcpus, SpreadByPcpus};
        let (full, spread) = (Some(Bind::Full), Some(Bind::Spread));
        let class = |qos, class| Source { qos, class, ..pod(2_000) };
        let with = |required, preferred| Source { spec: spec(required, preferred), ..pod(2_000) };
        let prod = Some(PriorityClass::Prod);
        let cases = [
            ("LSR", class(Some(QosClass::Lsr), prod), full, false),
            ("LSE", class(Some(QosClass::Lse), prod), full, false),
            ("LS", class(Some(QosClass::Ls), prod), None, false),
            ("no label, though Guaranteed", class(None, prod), None, false),
            ("LSR below prod", class(Some(QosClass::Lsr), Some(PriorityClass::Mid)), None, false),
            ("preferred", with(None, Some(SpreadByPcpus)), spread, false),
            ("required over preferred", with(Some(SpreadByPcpus), Some(FullPcpus)), spread, true),
            ("default", with(Some(Default), Some(SpreadByPcpus)), full, true),
            ("burst is not bound", with(None, Some(ConstrainedBurst)), None, false),
            ("required burst is not bound", with(Some(ConstrainedBurst), None), None, false),
            (
                "no cpu",
                Source { requests: [(ResourceId::MEMORY, 1)].into_iter().collect(), ..pod(0) },
                None,
                false,
            ),
        ];
        for (name, source, bind, required) in cases {
            let demand = Demand::read(source).unwrap().unwrap();
            assert_eq!((demand.bind, demand.bind_is_required), (bind, required), "{name}");
        }
        assert_eq!(Demand::read(pod(0)), Ok(None), "asks for nothing");
    }

    #[test]
    fn only_whole_cpus_can_be_bound() {
        assert_eq!(Demand::read(pod(1_500)), Err(Fractional));
        assert!(Demand::read(Source { qos: Some(QosClass::Ls), ..pod(1_500) }).is_ok());
        let burst = spec(None, Some(CpuBindPolicy::ConstrainedBurst));
        assert!(Demand::read(Source { spec: burst, ..pod(1_500) }).is_ok());
    }

    #[test]
    fn an_own_policy_is_exclusive_unless_it_says_otherwise() {
        let numa = |policy, exclusive| {
            let numa = NumaTopologySpec {
                numa_topology_policy: policy,
                single_numa_node_exclusive: exclusive,
            };
            Demand::read(Source { numa, ..pod(1_000) }).unwrap().unwrap().numa_is_exclusive
        };
        let policy = Some(NumaTopologyPolicy::SingleNumaNode);
        assert!(numa(policy, None));
        assert!(!numa(policy, Some(NumaExclusive::Preferred)));
        assert!(numa(None, Some(NumaExclusive::Required)));
        assert!(!numa(None, None));
    }
}
