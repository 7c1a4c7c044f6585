//! The Node object, as far as strategies and reports look at it.

use std::collections::BTreeMap;

use api::metadata::ResourceList;
use api::metadata::node::{NodeReservation, NodeSwitch, SystemQosResource};
use api::protocol::node as key;
use api::protocol::resource::{BATCH_CPU, BATCH_MEMORY, CPU, MEMORY, MID_CPU, MID_MEMORY};
use api::resources::{WireList, amounts};
use k8s_openapi::api::core::v1::Node as NodeObject;
use serde::{Deserialize, Serialize};
use units::{Bytes, CpuMemory, CpuSet, MilliCpu, Ratio, Rounding};

/// The node that is looked after.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    pub name: String,
    /// `status.capacity`.
    pub capacity: CpuMemory,
    /// `status.allocatable`.
    pub allocatable: CpuMemory,
    /// `node.koordinator.sh/raw-allocatable`: what the node offers before amplification.
    pub raw_allocatable: Option<CpuMemory>,
    /// Batch and mid resources of `status.allocatable` in milli-cores and bytes; a resource that is not
    /// there is not lent.
    pub lent: BTreeMap<String, i64>,
    /// CPU that the operator's annotation keeps from pods.
    pub reserved: MilliCpu,
    /// What a core of this machine is worth, compared with the reference machine.
    #[serde(with = "printed_ratio")]
    pub normalization: Option<Ratio>,
    /// CPUs of the SYSTEM class.
    pub system: Option<SystemCpus>,
    /// The node's own switch: `tidepool.io/switch: off`.
    pub is_off: bool,
}

/// CPUs kept for the SYSTEM class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemCpus {
    pub cpus: CpuSet,
    /// Nobody else may run there.
    pub is_exclusive: bool,
}

impl Node {
    pub fn read(object: &NodeObject) -> Self {
        let (meta, status) = (&object.metadata, object.status.as_ref());
        let capacity = status.and_then(|status| status.capacity.as_ref());
        let allocatable = status.and_then(|status| status.allocatable.as_ref());
        let of = |list: Option<&WireList>| {
            list.map(|list| cpu_memory(&amounts(list))).unwrap_or_default()
        };
        let ratio = key::CPU_NORMALIZATION_RATIO.get(meta);
        Self {
            name: meta.name.clone().unwrap_or_default(),
            capacity: of(capacity),
            allocatable: of(allocatable),
            raw_allocatable: key::RAW_ALLOCATABLE.get(meta).map(|list| cpu_memory(&list)),
            lent: lent(allocatable),
            reserved: key::RESERVATION.get(meta).map(reserved).unwrap_or_default(),
            normalization: ratio.filter(|ratio| ratio.hundredths() > 100).map(Ratio::to_printed),
            system: key::SYSTEM_QOS_RESOURCE.get(meta).and_then(system),
            is_off: key::SWITCH.get(meta) == Some(NodeSwitch::Off),
        }
    }

    /// What can really be handed out: the raw amounts where the advertised ones are amplified.
    pub fn real_allocatable(&self) -> CpuMemory {
        self.raw_allocatable.unwrap_or(self.allocatable)
    }
}

fn lent(allocatable: Option<&WireList>) -> BTreeMap<String, i64> {
    let list = allocatable.map(amounts).unwrap_or_default();
    let names = [BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY];
    let known = names.into_iter().filter_map(|name| Some((name, list.get(name)?.value())));
    known.map(|(name, amount)| (name.to_owned(), amount)).collect()
}

fn cpu_memory(list: &ResourceList) -> CpuMemory {
    let amount = |name| list.get(name).copied().unwrap_or_default();
    CpuMemory {
        cpu: MilliCpu::from_quantity(amount(CPU), Rounding::Up),
        memory: Bytes::from_quantity(amount(MEMORY), Rounding::Up),
    }
}

/// Named CPUs count over an amount.
fn reserved(reservation: NodeReservation) -> MilliCpu {
    if !reservation.reserved_cpus.is_empty() {
        let count = i64::try_from(reservation.reserved_cpus.len()).unwrap_or(i64::MAX);
        return MilliCpu::from_cores(count);
    }
    let cpu = reservation.resources.get(CPU).copied().unwrap_or_default();
    MilliCpu::from_quantity(cpu, Rounding::Down)
}

fn system(resource: SystemQosResource) -> Option<SystemCpus> {
    let is_exclusive = resource.is_exclusive();
    (!resource.cpuset.is_empty()).then_some(SystemCpus { cpus: resource.cpuset, is_exclusive })
}

/// A ratio as annotations have it: `1.20`.
mod printed_ratio {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use units::Ratio;

    pub(super) fn serialize<S: Serializer>(
        ratio: &Option<Ratio>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        ratio.map(|ratio| ratio.to_string()).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Ratio>, D::Error> {
        let text: Option<String> = Option::deserialize(from)?;
        text.map(|text| text.parse()).transpose().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(annotations: serde_json::Value) -> Node {
        let node = json!({ "metadata": { "name": "n1", "annotations": annotations } });
        Node::read(&serde_json::from_value(node).unwrap())
    }

    #[test]
    fn annotations_of_the_node_are_followed_or_absent() {
        let reserved =
            |text: &str| read(json!({ "node.koordinator.sh/reservation": text })).reserved;
        assert_eq!(reserved(r#"{"resources":{"cpu":"1500m"}}"#), MilliCpu(1500));
        assert_eq!(
            reserved(r#"{"resources":{"cpu":"4"},"reservedCPUs":"0-1"}"#),
            MilliCpu(2000),
            "named CPUs count over an amount"
        );
        assert_eq!(reserved("{"), MilliCpu::ZERO);

        let ratio =
            |text: &str| read(json!({ "node.koordinator.sh/cpu-normalization-ratio": text }));
        assert_eq!(ratio("1.20").normalization, Some(Ratio::from_hundredths(120)));
        assert_eq!(ratio("1.00").normalization, None, "an equal core changes nothing");

        let system = |text: &str| read(json!({ "node.koordinator.sh/system-qos-resource": text }));
        let cpus = system(r#"{"cpuset":"0-1"}"#).system.unwrap();
        assert_eq!((cpus.cpus.to_string().as_str(), cpus.is_exclusive), ("0-1", true));
        assert_eq!(system("{}").system, None);

        assert!(read(json!({ "tidepool.io/switch": "off" })).is_off);
        assert!(!read(json!({ "tidepool.io/switch": "on" })).is_off);
    }

    #[test]
    fn a_node_is_seen_with_what_it_really_has() {
        let node = serde_json::from_value(json!({
            "metadata": { "name": "n1", "annotations": {
                "node.koordinator.sh/raw-allocatable": r#"{"cpu":"4","memory":"8Gi"}"# } },
            "status": { "capacity": { "cpu": "8" }, "allocatable": {
                "cpu": "6500m", "memory": "1Gi", "kubernetes.io/batch-cpu": "1500" } },
        }));
        let node = Node::read(&node.unwrap());
        let amounts = |cpu, memory| CpuMemory { cpu: MilliCpu(cpu), memory: Bytes(memory) };
        assert_eq!(node.capacity, amounts(8_000, 0));
        assert_eq!(node.allocatable, amounts(6_500, 1 << 30));
        assert_eq!(node.real_allocatable(), amounts(4_000, 8 << 30));
        assert_eq!(node.lent, BTreeMap::from([(BATCH_CPU.to_owned(), 1_500)]));
        assert_eq!(Node::read(&NodeObject::default()), Node::default());
    }
}
