//! What is wrong with the labels and annotations of a node?

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use units::{CpuSet, Rounding, Scale};

use super::Report;
use crate::config;
use crate::finding::{Code, Finding};
use crate::metadata::{Key, Wire};
use crate::protocol::node::{
    COLOCATION_STRATEGY, CPU_BIND_POLICY, CPU_NORMALIZATION_ENABLED, CPU_RECLAIM_RATIO,
    MEMORY_RECLAIM_RATIO, MID_STATIC_CPU_RATIO, MID_STATIC_MEMORY_RATIO, NETWORK_BANDWIDTH,
    NUMA_ALLOCATE_STRATEGY, NUMA_TOPOLOGY_POLICY, RESERVATION, SYSTEM_QOS_RESOURCE,
    THIRD_PARTY_ALLOCATIONS, USAGE_THRESHOLDS,
};
use crate::protocol::resource::CPU;
use crate::resources::amount;

/// Everything wrong with the node's own words. CPU lists are compared with the
/// node's capacity, where the node states one.
pub fn check_node(node: &Node) -> Vec<Finding> {
    let meta = &node.metadata;
    let mut report = Report::new("Node", meta);
    colocation_strategy(&mut report, meta);
    for key in
        [CPU_RECLAIM_RATIO, MEMORY_RECLAIM_RATIO, MID_STATIC_CPU_RATIO, MID_STATIC_MEMORY_RATIO]
    {
        report.read(&key, meta, Code::NodeRatio, "the label is ignored");
        label_as_annotation(&mut report, &key, meta);
    }
    let instead = "the node lends no more than it did";
    report.read(&THIRD_PARTY_ALLOCATIONS, meta, Code::ThirdParty, instead);

    let instead = "nothing is reserved";
    let reserved = report.read(&RESERVATION, meta, Code::NodeReservation, instead);
    let reserved = reserved.map(|reservation| reservation.reserved_cpus);
    cpus_beyond(&mut report, &RESERVATION, node, reserved, Code::NodeReservation, instead);
    let instead = "SYSTEM pods get no CPUs of their own";
    let system = report.read(&SYSTEM_QOS_RESOURCE, meta, Code::SystemQos, instead);
    let system = system.map(|system| system.cpuset);
    cpus_beyond(&mut report, &SYSTEM_QOS_RESOURCE, node, system, Code::SystemQos, instead);

    let instead = "the NodeSLO keeps its previous systemStrategy";
    report.read(&NETWORK_BANDWIDTH, meta, Code::NodeBandwidth, instead);
    let instead = "the normalization ratio stays as it is";
    report.read(&CPU_NORMALIZATION_ENABLED, meta, Code::NormalizationSwitch, instead);
    let instead = "the scheduler uses the thresholds of its own configuration";
    report.read(&USAGE_THRESHOLDS, meta, Code::UsageThresholds, instead);

    word(&mut report, &CPU_BIND_POLICY, meta);
    word(&mut report, &NUMA_ALLOCATE_STRATEGY, meta);
    word(&mut report, &NUMA_TOPOLOGY_POLICY, meta);
    report.findings
}

/// The annotation is one layer of `colocation-config` and has its limits.
fn colocation_strategy(report: &mut Report, meta: &ObjectMeta) {
    let Some(text) = COLOCATION_STRATEGY.raw(meta) else { return };
    let key = config::Key::Colocation;
    let findings = config::check_key(key, text, None, "", config::Options::default());
    let findings = COLOCATION_STRATEGY.name_in(findings);
    let instead = "the annotation is ignored and the ConfigMap's strategy stays in force";
    report.extend(findings, Code::NodeStrategy, instead);
}

fn label_as_annotation<T>(report: &mut Report, key: &Key<T>, meta: &ObjectMeta) {
    let annotation = meta.annotations.as_ref().and_then(|map| map.get(key.name));
    if let Some(text) = annotation {
        let rule = "an annotation of this name has no effect; the label is read";
        let node = meta.name.as_deref().unwrap_or("NAME");
        let fix = format!("use a label: kubectl label node {node} {}={text}", key.name);
        let finding = Finding::error(Code::LabelAsAnnotation, rule, fix).value(format!("{text:?}"));
        report.push_at(key, finding);
    }
}

/// CPUs are numbered from 0, so a list beyond the machine's count names CPUs that are not there.
fn cpus_beyond<T>(
    report: &mut Report,
    key: &Key<T>,
    node: &Node,
    cpus: Option<CpuSet>,
    code: Code,
    instead: &str,
) {
    let capacity = node.status.as_ref().and_then(|status| status.capacity.as_ref());
    let count = capacity.and_then(|list| list.get(CPU)).map(amount);
    let (Some(count), Some(cpus)) = (count, cpus) else { return };
    let count = count.to_int(Scale::One, Rounding::Down);
    let Some(last) = cpus.last().filter(|last| i64::from(*last) >= count) else { return };
    let rule = format!("CPU {last} does not exist, the node has {count} CPUs; {instead}");
    let fix = format!("use CPUs from 0 to {}", count.saturating_sub(1).max(0));
    let finding = Finding::error(code, rule, fix).value(cpus.to_string());
    report.push_at(key, finding);
}

/// An unknown word is a warning by itself; here its code says that it is a node's.
fn word<T: Wire>(report: &mut Report, key: &Key<T>, meta: &ObjectMeta) {
    for finding in key.read(meta).1 {
        report.push(Finding { code: Code::NodeWord, ..finding });
    }
}
