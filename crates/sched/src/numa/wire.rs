//! From the objects of a cluster to machines and allocations, and back.
//!
//! What cannot be read counts as absent: a malformed annotation must not stop the node's other
//! facts from being used, nor the pods of other nodes from being placed.

use std::collections::BTreeMap;

use api::kind::node_topology::{NodeResourceTopology, Zone as WireZone};
use api::metadata::node::{AmplificationRatios, NodeCpuBindPolicy, NumaAllocateStrategy};
use api::metadata::pod::{NumaNodeResource, NumaTopologyPolicy, ResourceStatus};
use api::metadata::{ResourceList, Wire};
use api::protocol::resource::ALIASES;
use api::protocol::{node, topology};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use units::{CpuSet, Format, Quantity};

use super::state::{Allocation, Machine, Ratios, Settings};
use super::take::Exclusive;
use super::topology::Topology;
use crate::model::{Requests, ResourceId, Resources};

/// Where a node's label or annotation of this name is found.
pub trait Texts {
    fn label(&self, name: &str) -> Option<&str>;
    fn annotation(&self, name: &str) -> Option<&str>;
}

impl Settings {
    pub fn read(node: &impl Texts, resources: &mut Resources) -> Self {
        fn word<T: Wire>(text: Option<&str>) -> Option<T> {
            text.and_then(|text| T::parse(text).0)
        }
        let ratios = match node.annotation(node::AMPLIFICATION_RATIO.name) {
            None => Ratios::default(),
            Some(text) => match AmplificationRatios::parse(text).0 {
                None => Ratios::Unreadable,
                Some(AmplificationRatios(ratios)) => Ratios::Known(
                    ratios.iter().map(|(name, ratio)| (resources.intern(name), *ratio)).collect(),
                ),
            },
        };
        Self {
            bind: word::<NodeCpuBindPolicy>(node.label(node::CPU_BIND_POLICY.name)),
            strategy: word::<NumaAllocateStrategy>(node.label(node::NUMA_ALLOCATE_STRATEGY.name)),
            policy: word::<NumaTopologyPolicy>(node.label(node::NUMA_TOPOLOGY_POLICY.name)),
            ratios,
        }
    }
}

impl Machine {
    pub fn read(object: &NodeResourceTopology, resources: &mut Resources) -> Self {
        let meta = &object.metadata;
        let kubelet = topology::CPU_MANAGER_POLICY.get(meta).unwrap_or_default();
        let mut zones: BTreeMap<u16, Requests> = BTreeMap::new();
        for zone in &object.zones {
            if let Some((id, amounts)) = read_zone(zone, resources) {
                zones.entry(id).or_insert(amounts);
            }
        }
        Self {
            topology: topology::CPU_TOPOLOGY.get(meta).and_then(|wire| Topology::read(&wire)),
            zones: zones.into_iter().collect(),
            policy: object.topology_policies.iter().find_map(|word| kubelet_policy(word)),
            is_full_pcpus_only: kubelet.is_full_pcpus_only(),
            reserved: reserved(meta, &kubelet.reserved_cpus),
            is_amplified: node::AMPLIFICATION_RATIO.is_present(meta),
        }
    }
}

/// CPUs of the kubelet and its pods, of the administrator, and of system pods.
fn reserved(meta: &ObjectMeta, kubelet: &CpuSet) -> CpuSet {
    let mut reserved = kubelet.clone();
    let allocs = topology::POD_CPU_ALLOCS.get(meta).unwrap_or_default().0;
    for alloc in allocs.iter().filter(|alloc| alloc.managed_by_kubelet) {
        reserved.extend(alloc.cpuset.iter());
    }
    let administrator = topology::RESERVATION.get(meta).unwrap_or_default();
    reserved.extend(administrator.reserved_cpus.iter());
    let system = topology::SYSTEM_QOS_RESOURCE.get(meta).unwrap_or_default();
    if system.is_exclusive() {
        reserved.extend(system.cpuset.iter());
    }
    reserved
}

/// The kubelet's policy under the name it has in the object.
fn kubelet_policy(word: &str) -> Option<NumaTopologyPolicy> {
    match word {
        "BestEffort" => Some(NumaTopologyPolicy::BestEffort),
        "Restricted" => Some(NumaTopologyPolicy::Restricted),
        "SingleNUMANodePodLevel" => Some(NumaTopologyPolicy::SingleNumaNode),
        _ => None,
    }
}

fn read_zone(zone: &WireZone, resources: &mut Resources) -> Option<(u16, Requests)> {
    let id = zone.name.strip_prefix("node-").filter(|_| zone.type_ == "Node")?.parse().ok()?;
    let amounts = zone.resources.iter().map(|own| {
        let id = resources.intern(current_name(&own.name));
        (id, in_units(id, own.allocatable))
    });
    Some((id, amounts.collect()))
}

fn current_name(name: &str) -> &str {
    ALIASES.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new)
}

fn in_units(id: ResourceId, amount: Quantity) -> i64 {
    if id == ResourceId::CPU { amount.milli_value() } else { amount.value() }
}

impl Allocation {
    /// What a placed pod's annotation says it holds.
    pub fn read(status: &ResourceStatus, exclusive: Exclusive, resources: &mut Resources) -> Self {
        let share = |own: &NumaNodeResource, resources: &mut Resources| {
            let amounts = own.resources.iter().map(|(name, amount)| {
                let id = resources.intern(current_name(name));
                (id, in_units(id, *amount))
            });
            Some((u16::try_from(own.node).ok()?, amounts.collect::<Requests>()))
        };
        let shares = status.numa_node_resources.iter().filter_map(|own| share(own, resources));
        Self { cpus: status.cpuset.clone(), exclusive, shares: shares.collect() }
    }

    /// As [`Allocation::read`], leaving out resources that nobody has.
    pub fn known(status: &ResourceStatus, exclusive: Exclusive, resources: &Resources) -> Self {
        let share = |own: &NumaNodeResource| {
            let amounts = own.resources.iter().filter_map(|(name, amount)| {
                let id = resources.find(current_name(name))?;
                Some((id, in_units(id, *amount)))
            });
            Some((u16::try_from(own.node).ok()?, amounts.collect::<Requests>()))
        };
        let shares = status.numa_node_resources.iter().filter_map(share);
        Self { cpus: status.cpuset.clone(), exclusive, shares: shares.collect() }
    }

    /// What the node agent reads; `None` when the pod holds nothing in particular.
    pub fn status(&self, resources: &Resources) -> Option<ResourceStatus> {
        let share = |(node, amounts): &(u16, Requests)| {
            let list: ResourceList = amounts
                .iter()
                .map(|(id, amount)| {
                    let quantity = match id {
                        ResourceId::CPU => Quantity::from_milli(amount, Format::DecimalSi),
                        ResourceId::MEMORY => Quantity::from_int(amount, Format::BinarySi),
                        _ => Quantity::from_int(amount, Format::DecimalSi),
                    };
                    (resources.name(id).to_owned(), quantity)
                })
                .collect();
            NumaNodeResource { node: i32::from(*node), resources: list }
        };
        (!self.is_empty()).then(|| ResourceStatus {
            cpuset: self.cpus.clone(),
            numa_node_resources: self.shares.iter().map(share).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Default)]
    struct Pairs(BTreeMap<&'static str, &'static str>);

    impl Texts for Pairs {
        fn label(&self, name: &str) -> Option<&str> {
            self.0.get(name).copied()
        }

        fn annotation(&self, name: &str) -> Option<&str> {
            self.0.get(name).copied()
        }
    }

    fn object(annotations: serde_json::Value) -> NodeResourceTopology {
        serde_json::from_value(json!({
            "metadata": {"name": "n1", "annotations": annotations},
            "topologyPolicies": ["Odd", "SingleNUMANodePodLevel", "Restricted"],
            "zones": [
                {"name": "node-1", "type": "Node", "resources": [
                    {"name": "cpu", "capacity": "4", "allocatable": "3500m", "available": "1"},
                    {"name": "koordinator.sh/batch-cpu", "capacity": "4", "allocatable": "9", "available": "1"},
                ]},
                {"name": "node-0", "type": "Node", "resources": [
                    {"name": "memory", "capacity": "4Gi", "allocatable": "2Gi", "available": "1Gi"},
                ]},
                {"name": "socket-0", "type": "Socket"},
                {"name": "node-x", "type": "Node"},
            ],
        }))
        .unwrap()
    }

    #[test]
    fn a_topology_object_becomes_a_machine() {
        let mut resources = Resources::default();
        let machine = Machine::read(
            &object(json!({
                "node.koordinator.sh/cpu-topology":
                    r#"{"detail":[{"id":0,"core":0,"socket":0,"node":0},{"id":1,"core":0,"socket":0,"node":0}]}"#,
                "kubelet.koordinator.sh/cpu-manager-policy":
                    r#"{"policy":"static","options":{"full-pcpus-only":"true"},"reservedCPUs":"0"}"#,
                "node.koordinator.sh/pod-cpu-allocs":
                    r#"[{"namespace":"a","name":"b","uid":"u","cpuset":"2-3","managedByKubelet":true},
                        {"namespace":"a","name":"c","uid":"v","cpuset":"8"}]"#,
                "node.koordinator.sh/reservation": r#"{"reservedCPUs":"5"}"#,
                "node.koordinator.sh/system-qos-resource": r#"{"cpuset":"6-7"}"#,
            })),
            &mut resources,
        );
        assert_eq!(machine.topology.map(|topology| topology.cpus_per_core()), Some(2));
        let batch = resources.find("kubernetes.io/batch-cpu").unwrap();
        let zones = vec![
            (0, [(ResourceId::MEMORY, 2 << 30)].into_iter().collect()),
            (1, [(ResourceId::CPU, 3_500), (batch, 9)].into_iter().collect()),
        ];
        assert_eq!(machine.zones, zones);
        assert_eq!(machine.policy, Some(NumaTopologyPolicy::SingleNumaNode));
        assert!(machine.is_full_pcpus_only && !machine.is_amplified);
        assert_eq!(machine.reserved, "0,2-3,5-7".parse().unwrap());
    }

    #[test]
    fn what_cannot_be_read_counts_as_absent() {
        let mut resources = Resources::default();
        let machine = Machine::read(
            &object(json!({
                "node.koordinator.sh/cpu-topology": "{",
                "kubelet.koordinator.sh/cpu-manager-policy": "static",
                "node.koordinator.sh/pod-cpu-allocs": "null",
                "node.koordinator.sh/system-qos-resource": r#"{"cpuset":"6-7","cpusetExclusive":false}"#,
                "node.koordinator.sh/resource-amplification-ratio": r#"{"cpu":1.5}"#,
            })),
            &mut resources,
        );
        assert_eq!(machine.topology, None);
        assert!(machine.reserved.is_empty() && !machine.is_full_pcpus_only);
        assert!(machine.is_amplified);
    }

    #[test]
    fn a_node_object_becomes_settings() {
        let mut resources = Resources::default();
        let mut read = |pairs: &[(&'static str, &'static str)]| {
            Settings::read(&Pairs(pairs.iter().copied().collect()), &mut resources)
        };
        let settings = read(&[
            ("node.koordinator.sh/cpu-bind-policy", "SpreadByPCPUs"),
            ("node.koordinator.sh/numa-allocate-strategy", "MostAllocated"),
            ("node.koordinator.sh/numa-topology-policy", "Restricted"),
            ("node.koordinator.sh/resource-amplification-ratio", r#"{"cpu":1.5,"memory":0.5}"#),
        ]);
        assert_eq!(settings.bind, Some(NodeCpuBindPolicy::SpreadByPcpus));
        assert_eq!(settings.strategy, Some(NumaAllocateStrategy::MostAllocated));
        assert_eq!(settings.policy, Some(NumaTopologyPolicy::Restricted));
        assert_eq!(settings.ratios.of(ResourceId::CPU).to_string(), "1.50");
        assert_eq!(settings.ratios.of(ResourceId::MEMORY).to_string(), "1.00", "never below one");
        let odd = read(&[
            ("node.koordinator.sh/cpu-bind-policy", "Full"),
            ("node.koordinator.sh/resource-amplification-ratio", r#"{"cpu":-1}"#),
        ]);
        assert_eq!((odd.bind, odd.ratios), (None, Ratios::Unreadable));
    }

    #[test]
    fn the_annotation_reads_back() {
        let mut resources = Resources::default();
        let allocation = Allocation {
            cpus: "0-3,16".parse().unwrap(),
            exclusive: Exclusive::Core,
            shares: vec![(
                1,
                [(ResourceId::CPU, 4_500), (ResourceId::MEMORY, 1 << 30)].into_iter().collect(),
            )],
        };
        let status = allocation.status(&resources).unwrap();
        assert_eq!(
            status.print(),
            r#"{"cpuset":"0-3,16","numaNodeResources":[{"node":1,"resources":{"cpu":"4500m","memory":"1Gi"}}]}"#
        );
        assert_eq!(Allocation::read(&status, Exclusive::Core, &mut resources), allocation);
        assert_eq!(Allocation::default().status(&resources), None);
        let only_cpus = Allocation { shares: Vec::new(), ..allocation };
        assert_eq!(only_cpus.status(&resources).unwrap().print(), r#"{"cpuset":"0-3,16"}"#);
    }
}
