//! What was measured last, as gauges.

use std::time::Duration;

use api::protocol::metric::Metric;
use api::protocol::metric::agent::external::{
    CONTAINER_CPI, CONTAINER_PSI, POD_PSI, RESCTRL_BANDWIDTH, RESCTRL_LLC,
};
use api::protocol::metric::agent::internal::{NODE_USED_CPU, NODE_USED_MEMORY};
use host::psi::{Pressure, Stall};
use qos::node::Pod;

use crate::collect::Task;
use crate::exposition::{COLLECTOR_FAILURES, Group, SERIES_POINTS};
use crate::series::{Measure, Metrics, PressureSample, Subject};
use qos::node::NodeState;

/// Values older than this are not shown.
const FRESH: Duration = Duration::from_secs(10);

/// Reads everything that has a gauge. Pods that are not on the node have none.
pub fn fill(group: &mut Group, metrics: &Metrics, state: &NodeState, now: Duration) {
    if let Some(cores) = metrics.recent(Subject::Node, Measure::Cpu, now, FRESH) {
        group.set(&NODE_USED_CPU, &[], cores);
    }
    if let Some(bytes) = metrics.recent(Subject::Node, Measure::Memory, now, FRESH) {
        group.set(&NODE_USED_MEMORY, &[], bytes);
    }
    for pod in state.pods.values() {
        fill_pod(group, metrics, pod);
    }
    for used in metrics.facts().cache.iter() {
        let qos = used.class.as_str();
        for cache in &used.caches {
            let id = cache.id.to_string();
            if let Some(bytes) = cache.occupancy {
                group.set(&RESCTRL_LLC, &[&id, qos], float(bytes));
            }
            let traffic =
                [("mbm_local_bytes", cache.local_bytes), ("mbm_total_bytes", cache.total_bytes)];
            for (kind, bytes) in traffic {
                if let Some(bytes) = bytes {
                    group.set(&RESCTRL_BANDWIDTH, &[&id, qos, kind], float(bytes));
                }
            }
        }
    }
    let points = u64::try_from(metrics.size().points).unwrap_or(u64::MAX);
    group.set(&SERIES_POINTS, &[], float(points));
    for task in Task::ALL {
        if let Some(health) = metrics.health(task) {
            group.set(&COLLECTOR_FAILURES, &[task.name()], float(health.failures));
        }
    }
}

fn fill_pod(group: &mut Group, metrics: &Metrics, pod: &Pod) {
    let who = [pod.uid.as_str(), &pod.name, &pod.namespace];
    if let Some(sample) = metrics.pressure(Subject::Pod(&pod.uid)) {
        fill_pressure(group, &POD_PSI, &who, &sample);
    }
    for container in &pod.containers {
        let subject = Subject::Container(&container.id);
        let labels: Vec<&str> =
            [container.id.as_str(), &container.name].into_iter().chain(who).collect();
        if let Some(sample) = metrics.pressure(subject) {
            fill_pressure(group, &CONTAINER_PSI, &labels, &sample);
        }
        if let Some(cpi) = metrics.cpi(subject) {
            for (field, value) in [("cycles", cpi.cycles), ("instructions", cpi.instructions)] {
                let labels: Vec<&str> = labels.iter().copied().chain([field]).collect();
                group.set(&CONTAINER_CPI, &labels, float(value));
            }
        }
    }
}

fn fill_pressure(
    group: &mut Group,
    metric: &'static Metric,
    who: &[&str],
    sample: &PressureSample,
) {
    let has_full = sample.cpu.is_some_and(|cpu| cpu.full.is_some());
    let resources = [("cpu", sample.cpu), ("mem", sample.memory), ("io", sample.io)];
    for (resource, pressure) in resources {
        let Some(Pressure { some, full }) = pressure else { continue };
        for (degree, stall) in [("some", Some(some)), ("full", full)] {
            let Some(Stall { avg10, avg60, avg300, .. }) = stall else { continue };
            for (precision, share) in [("avg10", avg10), ("avg60", avg60), ("avg300", avg300)] {
                let is_full = if has_full { "true" } else { "false" };
                let what = [resource, precision, degree, is_full];
                let labels: Vec<&str> = who.iter().copied().chain(what).collect();
                group.set(metric, &labels, share.percent());
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus knows only floats")]
fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use host::psi::Hundredths;
    use qos::node::{Pod, next};
    use serde_json::json;

    use super::*;
    use crate::exposition::Exposition;
    use crate::series::{Cpi, Store};

    fn state() -> NodeState {
        let pod = serde_json::from_value(json!({
            "metadata": { "namespace": "d", "name": "web", "uid": "u" },
            "status": { "containerStatuses": [{ "name": "c", "containerID": "containerd://ab",
                "image": "", "imageID": "", "ready": true, "restartCount": 0 }] },
        }))
        .unwrap();
        let pod = Pod::read(&pod, &groups::Layout::one_machine()).unwrap();
        NodeState { pods: next(&Arc::default(), [pod]), ..NodeState::default() }
    }

    fn shown(state: &NodeState, metrics: &Metrics, now: Duration) -> Vec<String> {
        let exposition = Exposition::new("n1");
        exposition.publish("measured", |group| fill(group, metrics, state, now));
        let text = exposition.text(None);
        text.lines().filter(|line| line.starts_with("koordlet_")).map(str::to_owned).collect()
    }

    #[test]
    fn pressure_and_cycles_are_shown_for_those_who_are_there() {
        let metrics = Metrics::new(Store::new(Duration::from_secs(1), 1000));
        let stall = Stall { avg10: Hundredths(1234), ..Stall::default() };
        let pressure = Pressure { some: stall, full: None };
        let sample =
            PressureSample { at: Duration::ZERO, cpu: Some(pressure), memory: None, io: None };
        metrics.lock().set_pressure(Subject::Pod("u"), sample);
        let cpi = Cpi { at: Duration::ZERO, cycles: 200, instructions: 100 };
        metrics.lock().set_cpi(Subject::Container("containerd://ab"), cpi);
        let lines = shown(&state(), &metrics, Duration::ZERO);
        let has = |want: &str| assert!(lines.iter().any(|line| line == want), "{want}: {lines:#?}");
        has(
            r#"koordlet_pod_psi{cpu_full_supported="false",node="n1",pod_name="web",pod_namespace="d",pod_uid="u",psi_degree="some",psi_precision="avg10",psi_resource_type="cpu"} 12.34"#,
        );
        has(
            r#"koordlet_container_cpi{container_id="containerd://ab",container_name="c",cpi_field="cycles",node="n1",pod_name="web",pod_namespace="d",pod_uid="u"} 200"#,
        );
        assert_eq!(lines.len(), 5, "{lines:#?}");
        assert_eq!(shown(&NodeState::default(), &metrics, Duration::ZERO), [""; 0]);
    }

    #[test]
    fn usage_that_is_old_is_not_shown() {
        let metrics = Metrics::new(Store::new(Duration::from_secs(1), 1000));
        metrics.lock().push(Subject::Node, Measure::Cpu, Duration::from_secs(1), 1.5);
        let state = NodeState::default();
        let line = "koordlet_node_used_cpu_cores{node=\"n1\"} 1.5";
        assert_eq!(shown(&state, &metrics, Duration::from_secs(5)), [line]);
        assert_eq!(shown(&state, &metrics, Duration::from_secs(12)), [""; 0]);
    }
}
