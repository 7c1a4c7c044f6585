//! Nodes: what they offer once reservations are taken off.

use api::finding::Finding;
use api::metadata::ResourceList;
use api::metadata::node::ReservationApplyPolicy;
use api::protocol::node::RESERVATION;
use api::protocol::resource::{CPU, MEMORY};
use api::resources::{amounts, native_of, resolve_aliases};
use k8s_openapi::api::core::v1 as wire;
use units::{Format, Quantity};

use super::Reader;
use super::pod::effect_of;
use crate::model::{Image, Node, Requests, Taint};

const PODS: &str = "pods";

impl Reader<'_> {
    pub fn node(&mut self, node: &wire::Node) -> Node {
        let meta = &node.metadata;
        let name = meta.name.as_deref().unwrap_or_default();
        let mut findings = Vec::new();
        let status = node.status.as_ref();
        let offered = status.and_then(|status| status.allocatable.as_ref());
        let mut offered = offered.map(amounts).unwrap_or_default();
        resolve_aliases(&mut offered);
        reserve(node, &mut offered, &mut findings);
        for finding in &mut findings {
            finding.object = format!("Node {name}");
            finding.key = Some(RESERVATION.name.to_owned());
        }
        let max_pods = offered.remove(PODS).map_or(0, Quantity::value);
        let spec = node.spec.as_ref();
        let taints = spec.and_then(|spec| spec.taints.as_ref()).into_iter().flatten();
        let conditions = status.and_then(|status| status.conditions.as_ref());
        Node {
            name: self.names.intern(name),
            uid: meta.uid.as_deref().unwrap_or_default().into(),
            labels: self.labels(meta.labels.as_ref()),
            annotations: self.annotations(meta.annotations.as_ref()),
            taints: taints.filter_map(|taint| self.taint(taint)).collect(),
            unschedulable: spec.and_then(|spec| spec.unschedulable).unwrap_or(false),
            allocatable: self.offered(&offered),
            max_pods,
            images: self.images(status),
            conditions: conditions
                .into_iter()
                .flatten()
                .map(|one| self.pair(&one.type_, &one.status))
                .collect(),
            findings,
        }
    }

    fn offered(&mut self, list: &ResourceList) -> Requests {
        let read = list.iter().map(|(name, amount)| {
            let value = if name == CPU { amount.milli_value() } else { amount.value() };
            (self.resources.intern(name), value.max(0))
        });
        read.collect()
    }

    fn taint(&mut self, taint: &wire::Taint) -> Option<Taint> {
        let (key, value) = self.pair(&taint.key, taint.value.as_deref().unwrap_or_default());
        Some(Taint { key, value, effect: effect_of(&taint.effect)? })
    }

    fn images(&mut self, status: Option<&wire::NodeStatus>) -> Box<[Image]> {
        let mut read: Vec<Image> = Vec::new();
        for image in status.and_then(|status| status.images.as_ref()).into_iter().flatten() {
            let size = image.size_bytes.unwrap_or(0);
            for name in image.names.iter().flatten() {
                read.push(Image { name: self.names.intern(name), size });
            }
        }
        read.sort_by_key(|image| image.name);
        read.dedup_by_key(|image| image.name);
        read.into()
    }
}

/// Takes off what the node's reservation keeps from pods; what is lent out is not touched.
fn reserve(node: &wire::Node, offered: &mut ResourceList, findings: &mut Vec<Finding>) {
    let (reservation, found) = RESERVATION.read(&node.metadata);
    findings.extend(found);
    let Some(reservation) = reservation else { return };
    if reservation.apply_policy == Some(ReservationApplyPolicy::ReservedCpusOnly) {
        return;
    }
    let mut kept = reservation.resources.clone();
    resolve_aliases(&mut kept);
    if !reservation.reserved_cpus.is_empty() {
        let cpus = i64::try_from(reservation.reserved_cpus.len()).unwrap_or(i64::MAX);
        kept.insert(CPU.to_owned(), Quantity::from_int(cpus, Format::DecimalSi));
    }
    for (name, amount) in kept {
        let is_lent = name != CPU && name != MEMORY && native_of(&name).is_some();
        if let Some(left) = offered.get_mut(&name).filter(|_| !is_lent) {
            *left = (*left - amount).max(Quantity::ZERO);
        }
    }
}
