//! What does NodeMetric.status say?
//!
//! | field | from |
//! |---|---|
//! | `nodeUsage`, `systemUsage`, `podUsage`, host applications, NUMA nodes | means over the aggregate window |
//! | `aggregated*Usages` | mean and percentiles of each configured window; empty entries while the samples span less than half of it |
//! | `prodReclaimableMetric`, `prodPeakMetric` | the predictor |
//! | `updateTime` | now, unless the node itself could not be measured: then consumers must see the report age |
//!
//! CPU is cut to whole milli-cores and memory to whole bytes, printed as decimal and binary quantities.
//! A pod or host application without samples is left out; it is not idle, it is unknown.

use std::collections::BTreeMap;
use std::time::Duration;

use api::kind::node_metric::{
    AggregatedUsage, HostApplicationUsage, NodeMetricStatus, NodeUsage, NumaUsage, PodUsage,
    Prediction as PredictedUsage,
};
use api::kind::shape::ResourceMap;
use api::protocol::resource::{CPU, MEMORY};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use qos::node::Pod;
use stats::Summary;
use units::{Bytes, CpuMemory, Format, GoDuration, MilliCpu, Quantity};

use crate::predict::Prediction;
use crate::series::{Measure, Metrics, Subject};
use qos::node::MemoryPolicy;
use qos::node::NodeState;

/// Everything a report may look at.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    pub metrics: &'a Metrics,
    pub state: &'a NodeState,
    /// `None` while prediction is turned off.
    pub prediction: Option<&'a Prediction>,
    /// Time since the agent started, for windows.
    pub now: Duration,
    /// Wall clock, for people and other machines.
    pub wall: Timestamp,
}

/// A report and what is worth knowing about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub status: NodeMetricStatus,
    /// The node itself was not measured; keep the `updateTime` that is there.
    pub is_node_missing: bool,
    /// The memory policy could not be followed and this one was used instead.
    pub fell_back_to: Option<MemoryPolicy>,
    /// Why there is no prediction.
    pub prediction_error: Option<String>,
}

/// Puts the report together.
pub fn assemble(inputs: &Inputs<'_>) -> Report {
    let window = inputs.state.policy.aggregate;
    let (memory, fell_back_to) = memory_measure(inputs);
    let node_usage = mean(inputs, Subject::Node, memory, window);
    let is_node_missing = node_usage.is_none();
    let (pods_metric, sampled) = pods(inputs, memory);
    let (reclaimable, peak, prediction_error) = predictions(inputs, &sampled);
    let status = NodeMetricStatus {
        update_time: (!is_node_missing).then_some(Time(inputs.wall)),
        node_metric: Some(NodeUsage {
            node_usage: Some(node_usage.unwrap_or_default()),
            aggregated_node_usages: windows(inputs, Subject::Node, memory),
            system_usage: Some(
                mean(inputs, Subject::System, Measure::Memory, window).unwrap_or_default(),
            ),
            aggregated_system_usages: windows(inputs, Subject::System, Measure::Memory),
            numa_usages: numa_nodes(inputs),
        }),
        pods_metric,
        host_application_metric: host_applications(inputs, memory),
        prod_reclaimable_metric: reclaimable,
        prod_peak_metric: peak,
    };
    Report { status, is_node_missing, fell_back_to, prediction_error }
}

/// What counts as used memory, and the policy that was followed if it was not the wanted one.
fn memory_measure(inputs: &Inputs<'_>) -> (Measure, Option<MemoryPolicy>) {
    let wanted = match inputs.state.policy.memory {
        MemoryPolicy::WithoutPageCache => return (Measure::Memory, None),
        MemoryPolicy::WithHotPageCache => Measure::MemoryWithHotPages,
        MemoryPolicy::WithPageCache => Measure::MemoryWithPageCache,
    };
    let window = inputs.state.policy.aggregate;
    match inputs.metrics.recent(Subject::Node, wanted, inputs.now, window) {
        Some(_) => (wanted, None),
        None => (Measure::Memory, Some(MemoryPolicy::WithoutPageCache)),
    }
}

/// Mean CPU and memory of a subject; `None` unless both are known.
fn mean(
    inputs: &Inputs<'_>,
    subject: Subject<'_>,
    memory: Measure,
    window: Duration,
) -> Option<ResourceMap> {
    let average = |measure| inputs.metrics.average(subject, measure, inputs.now, window);
    Some(resources(cut(average(Measure::Cpu)?, average(memory)?)))
}

fn windows(inputs: &Inputs<'_>, subject: Subject<'_>, memory: Measure) -> Vec<AggregatedUsage> {
    let windows = inputs.state.policy.windows.iter();
    windows.map(|window| aggregated(inputs, subject, memory, *window)).collect()
}

/// Picks one aggregate out of a summary.
type Pick = fn(&Summary) -> f64;

/// The reported aggregates.
const AGGREGATES: [(&str, Pick); 5] = [
    ("avg", |summary| summary.avg),
    ("p50", |summary| summary.p50),
    ("p90", |summary| summary.p90),
    ("p95", |summary| summary.p95),
    ("p99", |summary| summary.p99),
];

fn aggregated(
    inputs: &Inputs<'_>,
    subject: Subject<'_>,
    memory: Measure,
    window: Duration,
) -> AggregatedUsage {
    let summary = |measure| {
        let summary = inputs.metrics.summary(subject, measure, inputs.now, window)?;
        summary.covers_half_of(window).then_some(summary)
    };
    let both = summary(Measure::Cpu).zip(summary(memory));
    let usage = |pick: Pick| {
        let both = both.as_ref();
        both.map_or_else(ResourceMap::default, |(cpu, memory)| {
            resources(cut(pick(cpu), pick(memory)))
        })
    };
    AggregatedUsage {
        duration: Some(GoDuration::from_std(window)),
        usage: AGGREGATES.iter().map(|(name, pick)| ((*name).to_owned(), usage(*pick))).collect(),
    }
}

fn numa_nodes(inputs: &Inputs<'_>) -> Vec<NumaUsage> {
    let window = inputs.state.policy.aggregate;
    let nodes = inputs.metrics.numa_nodes().into_iter();
    nodes
        .filter_map(|id| {
            Some(NumaUsage {
                numa_node_id: i32::try_from(id).ok()?,
                node_usage: Some(mean(inputs, Subject::Numa(id), Measure::Memory, window)?),
                system_usage: mean(inputs, Subject::NumaSystem(id), Measure::Memory, window),
            })
        })
        .collect()
}

/// Pods with samples, as reported and as the predictor wants them.
fn pods<'a>(inputs: &Inputs<'a>, memory: Measure) -> (Vec<PodUsage>, Vec<&'a Pod>) {
    let window = inputs.state.policy.aggregate;
    let mut sampled: Vec<(&Pod, ResourceMap)> = inputs
        .state
        .pods
        .values()
        .filter_map(|pod| Some((&**pod, mean(inputs, Subject::Pod(&pod.uid), memory, window)?)))
        .collect();
    sampled.sort_by(|(a, _), (b, _)| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    let pods = sampled.iter().map(|(pod, _)| *pod).collect();
    let reported = sampled.into_iter().map(|(pod, usage)| PodUsage {
        name: Some(pod.name.clone()),
        namespace: Some(pod.namespace.clone()),
        pod_usage: Some(usage),
        priority: Some(pod.priority_class.as_str().to_owned()),
        qos: Some(pod.qos.as_str().to_owned()),
        extensions: None,
    });
    (reported.collect(), pods)
}

fn host_applications(inputs: &Inputs<'_>, memory: Measure) -> Vec<HostApplicationUsage> {
    let window = inputs.state.policy.aggregate;
    let mut reported: Vec<HostApplicationUsage> = inputs
        .state
        .host_applications
        .iter()
        .filter_map(|app| {
            Some(HostApplicationUsage {
                name: Some(app.name.clone()),
                usage: Some(mean(inputs, Subject::HostApplication(&app.name), memory, window)?),
                priority: app.priority.map(|class| class.as_str().to_owned()),
                qos: app.qos.map(|class| class.as_str().to_owned()),
            })
        })
        .collect();
    reported.sort_by(|a, b| a.name.cmp(&b.name));
    reported
}

/// Reclaimable and peak; what cannot be predicted is an empty resource and nothing.
fn predictions(
    inputs: &Inputs<'_>,
    sampled: &[&Pod],
) -> (Option<PredictedUsage>, Option<PredictedUsage>, Option<String>) {
    let Some(prediction) = inputs.prediction else { return (None, None, None) };
    let predicted = |amounts| Some(PredictedUsage { resource: Some(resources(amounts)) });
    let nothing = Some(PredictedUsage { resource: Some(ResourceMap::default()) });
    let Some(node) = &inputs.state.node else {
        return (nothing, None, Some("the Node object was not seen yet".to_owned()));
    };
    let pods = sampled.iter().copied();
    match prediction.estimate(node.real_allocatable(), pods, inputs.wall) {
        Ok(estimate) => (predicted(estimate.reclaimable), predicted(estimate.peak), None),
        Err(error) => (nothing, None, Some(error.to_string())),
    }
}

/// Cores and bytes, cut to whole milli-cores and bytes.
///
/// Samples are kept in single precision, where 4.49 lies just below 4490 m; what single precision
/// cannot tell from a whole milli-core is one.
#[expect(clippy::cast_possible_truncation, reason = "cutting is the rule, and casts saturate")]
fn cut(cores: f64, bytes: f64) -> CpuMemory {
    let milli = cores * 1000.0 * (1.0 + f64::from(f32::EPSILON));
    CpuMemory { cpu: MilliCpu(milli as i64), memory: Bytes(bytes as i64) }
}

fn resources(amounts: CpuMemory) -> ResourceMap {
    let cpu = Quantity::from_milli(amounts.cpu.0, Format::DecimalSi);
    let memory = Quantity::from_int(amounts.memory.0, Format::BinarySi);
    ResourceMap {
        resources: BTreeMap::from([(CPU.to_owned(), cpu), (MEMORY.to_owned(), memory)]),
        devices: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
