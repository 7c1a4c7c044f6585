//! A node, as far as lending goes.

use api::metadata::Switch as Wire;
use api::priority::PriorityClass;
use api::protocol::node::{
    AMPLIFICATION_RATIO, CPU_NORMALIZATION_ENABLED, CPU_NORMALIZATION_RATIO, GPU_DRIVER_VERSION,
    GPU_MODEL, GPU_VENDOR, ORIGIN_ALLOCATABLE, RAW_ALLOCATABLE, RESERVATION,
    THIRD_PARTY_ALLOCATIONS,
};
use api::protocol::resource::{BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY};
use api::resources::{WireList, amount};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use units::{MilliCpu, Quantity};

use crate::device::{self, GPU_RESOURCES};
use crate::{Amounts, Pair};

#[derive(Debug, Clone, PartialEq)]
pub struct NodeFacts {
    /// `None` while the node says nothing of cpu or memory; nothing is written to it then.
    pub capacity: Option<Amounts>,
    pub reserved: Reserved,
    pub batch: Pair<Shown>,
    pub mid: Pair<Shown>,
    /// What the node shows of GPUs and RDMA cards, by name.
    pub devices: Vec<(&'static str, Shown)>,
    /// The note on batch resources before other systems' share.
    pub origin: Option<Origin>,
    pub third_party: ThirdParty,
    /// Text of the normalization ratio.
    pub ratio: Option<Box<str>>,
    /// Text of the amplification ratios.
    pub amplification: Option<Box<str>>,
    /// The node's own word on normalization.
    pub normalization: Switch,
    /// Vendor, model and driver of its GPUs, as labelled.
    pub gpu_labels: [Option<Box<str>>; device::LABELS],
}

/// What pods may not have, each resource.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reserved {
    /// Capacity that the kubelet does not offer.
    pub kubelet: Amounts,
    /// What the reservation annotation asks for.
    pub annotation: Amounts,
}

impl Reserved {
    pub fn larger(self) -> Amounts {
        self.kubelet.max(self.annotation)
    }
}

/// One resource in a node's status.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Shown {
    pub capacity: Option<Quantity>,
    pub allocatable: Option<Quantity>,
}

impl Shown {
    pub fn is_absent(self) -> bool {
        self.capacity.is_none() && self.allocatable.is_none()
    }

    /// Does the node show exactly this, in both places?
    pub fn is(self, wanted: Option<Quantity>) -> bool {
        self.capacity == wanted && self.allocatable == wanted
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Origin {
    pub text: Box<str>,
    /// Batch resources in it; `None` where it is silent or cannot be read.
    pub batch: Pair<Option<Quantity>>,
}

/// What other systems, such as YARN, have taken of batch resources.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum ThirdParty {
    #[default]
    Nothing,
    /// Milli-cores and bytes, as batch resources count.
    Taken(Amounts),
    /// The annotation cannot be read, so nobody knows.
    Unreadable,
}

/// A switch on the node over one in the configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Switch {
    #[default]
    Unset,
    Set(bool),
    Unreadable,
}

impl NodeFacts {
    pub fn read(node: &Node) -> Self {
        let meta = &node.metadata;
        let none = WireList::new();
        let status = node.status.as_ref();
        let capacity = status.and_then(|status| status.capacity.as_ref()).unwrap_or(&none);
        let allocatable = status.and_then(|status| status.allocatable.as_ref()).unwrap_or(&none);
        let shown = |name: &str| Shown {
            capacity: capacity.get(name).map(amount),
            allocatable: allocatable.get(name).map(amount),
        };
        let devices = GPU_RESOURCES.iter().chain([&device::RDMA_RESOURCE]);
        let devices =
            devices.map(|name| (*name, shown(name))).filter(|(_, shown)| !shown.is_absent());
        let offered = RAW_ALLOCATABLE.get(meta).map(|raw| Amounts::partly(&raw));
        let offered = or(offered.unwrap_or_default(), Amounts::on_wire(allocatable));
        let text = |raw: Option<&str>| raw.map(Box::from);
        Self {
            capacity: whole(Amounts::on_wire(capacity)).filter(|_| whole(offered).is_some()),
            reserved: reserved(meta, Amounts::on_wire(capacity), offered),
            batch: Pair::new(shown(BATCH_CPU), shown(BATCH_MEMORY)),
            mid: Pair::new(shown(MID_CPU), shown(MID_MEMORY)),
            devices: devices.collect(),
            origin: origin(meta),
            third_party: third_party(meta),
            ratio: text(CPU_NORMALIZATION_RATIO.raw(meta)),
            amplification: text(AMPLIFICATION_RATIO.raw(meta)),
            normalization: match CPU_NORMALIZATION_ENABLED.read(meta) {
                (Some(Wire(is_on)), _) => Switch::Set(is_on),
                (None, findings) if findings.is_empty() => Switch::Unset,
                (None, _) => Switch::Unreadable,
            },
            gpu_labels: [
                text(GPU_VENDOR.raw(meta)),
                text(GPU_MODEL.raw(meta)),
                text(GPU_DRIVER_VERSION.raw(meta)),
            ],
        }
    }
}

fn whole(amounts: Pair<Option<Quantity>>) -> Option<Amounts> {
    Some(Pair::new(amounts.cpu?, amounts.memory?).floored())
}

fn or(first: Pair<Option<Quantity>>, second: Pair<Option<Quantity>>) -> Pair<Option<Quantity>> {
    first.zip(second).map(|(first, second)| first.or(second))
}

/// With amplification on, allocatable exceeds capacity and hides what the kubelet keeps; the
/// annotation with the raw amounts shows it.
fn reserved(
    meta: &ObjectMeta,
    capacity: Pair<Option<Quantity>>,
    offered: Pair<Option<Quantity>>,
) -> Reserved {
    let kept = |(capacity, offered): (Option<Quantity>, Option<Quantity>)| {
        capacity.zip(offered).map(|(capacity, offered)| capacity - offered).unwrap_or_default()
    };
    let reservation = RESERVATION.get(meta).unwrap_or_default();
    let mut annotation = Amounts::of(&reservation.resources);
    if !reservation.reserved_cpus.is_empty() {
        let cpus = i64::try_from(reservation.reserved_cpus.len()).unwrap_or(i64::MAX);
        annotation.cpu = MilliCpu::from_cores(cpus).to_quantity();
    }
    Reserved {
        kubelet: capacity.zip(offered).map(kept).floored(),
        annotation: annotation.floored(),
    }
}

fn origin(meta: &ObjectMeta) -> Option<Origin> {
    let text = ORIGIN_ALLOCATABLE.raw(meta)?;
    let resources = ORIGIN_ALLOCATABLE.get(meta).unwrap_or_default().resources;
    let batch = Pair::new(resources.get(BATCH_CPU), resources.get(BATCH_MEMORY));
    Some(Origin { text: text.into(), batch: batch.map(|amount| amount.copied()) })
}

fn third_party(meta: &ObjectMeta) -> ThirdParty {
    let Some(_) = THIRD_PARTY_ALLOCATIONS.raw(meta) else { return ThirdParty::Nothing };
    let Some(found) = THIRD_PARTY_ALLOCATIONS.get(meta) else { return ThirdParty::Unreadable };
    let total = found.total(PriorityClass::Batch.as_str());
    let taken = |name| total.get(name).copied().unwrap_or_default();
    ThirdParty::Taken(Pair::new(taken(BATCH_CPU), taken(BATCH_MEMORY)).floored())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(annotations: Value, labels: Value, status: Value) -> NodeFacts {
        NodeFacts::read(
            &serde_json::from_value(json!({
                "metadata": {"name": "n", "annotations": annotations, "labels": labels},
                "status": status,
            }))
            .unwrap(),
        )
    }

    fn status() -> Value {
        json!({"capacity": {"cpu": "64", "memory": "256Gi"},
               "allocatable": {"cpu": "62", "memory": "248Gi"}})
    }

    fn on_node(key: &str, text: &str) -> NodeFacts {
        read(json!({ key: text }), json!({}), status())
    }

    #[test]
    fn the_larger_reservation_counts() {
        let key = RESERVATION.name;
        let gib = 1_i64 << 30;
        let cases = [
            ("none", "{}", (2_000, 8 * gib)),
            (
                "cpus count over cpu",
                r#"{"reservedCPUs":"0-5","resources":{"cpu":"20"}}"#,
                (6_000, 8 * gib),
            ),
            ("memory", r#"{"resources":{"memory":"9Gi","cpu":"1"}}"#, (2_000, 9 * gib)),
            (
                "policy is not asked",
                r#"{"applyPolicy":"ReservedCPUsOnly","resources":{"cpu":"3"}}"#,
                (3_000, 8 * gib),
            ),
            ("unreadable", "{", (2_000, 8 * gib)),
        ];
        for (name, text, (cpu, memory)) in cases {
            let reserved = on_node(key, text).reserved.larger();
            assert_eq!(reserved.counts(), Pair::new(cpu, memory), "{name}");
        }
    }

    #[test]
    fn amplified_nodes_keep_their_reserve() {
        let status = json!({"capacity": {"cpu": "64", "memory": "256Gi"},
                            "allocatable": {"cpu": "93", "memory": "248Gi"}});
        let plain = read(json!({}), json!({}), status.clone());
        assert_eq!(plain.reserved.kubelet.cpu, Quantity::ZERO);
        let raw = json!({RAW_ALLOCATABLE.name: r#"{"cpu":"62"}"#});
        let amplified = read(raw, json!({}), status);
        assert_eq!(amplified.reserved.kubelet.counts(), Pair::new(2_000, 8 << 30));
    }

    #[test]
    fn a_node_without_numbers_is_incomplete() {
        let cases = [
            ("complete", status(), true),
            ("no status", json!({}), false),
            ("no allocatable", json!({"capacity": {"cpu": "1", "memory": "1Gi"}}), false),
            ("no memory", json!({"capacity": {"cpu": "1"}, "allocatable": {"cpu": "1"}}), false),
        ];
        for (name, status, want) in cases {
            assert_eq!(read(json!({}), json!({}), status).capacity.is_some(), want, "{name}");
        }
    }

    #[test]
    fn third_parties_are_summed_by_class() {
        let key = THIRD_PARTY_ALLOCATIONS.name;
        let one = |class: &str, cpu: &str| {
            format!(
                r#"{{"name":"y","priority":"{class}","resources":{{"kubernetes.io/batch-cpu":"{cpu}"}}}}"#
            )
        };
        let text = format!(
            r#"{{"allocations":[{},{},{}]}}"#,
            one("koord-batch", "1k"),
            one("koord-batch", "500"),
            one("koord-mid", "9k")
        );
        let ThirdParty::Taken(taken) = on_node(key, &text).third_party else { panic!("taken") };
        assert_eq!(taken.cpu.value(), 1_500);
        assert_eq!(on_node(key, "[").third_party, ThirdParty::Unreadable);
        assert_eq!(on_node("other", "").third_party, ThirdParty::Nothing);
    }

    #[test]
    fn the_switch_is_a_go_boolean() {
        let cases =
            [("T", Switch::Set(true)), ("0", Switch::Set(false)), ("yes", Switch::Unreadable)];
        for (text, want) in cases {
            let labels = json!({CPU_NORMALIZATION_ENABLED.name: text});
            assert_eq!(read(json!({}), labels, status()).normalization, want, "{text}");
        }
        assert_eq!(on_node("other", "").normalization, Switch::Unset);
    }
}
