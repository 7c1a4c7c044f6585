//! The status kubelet would write for a pod in this state.
//!
//! The new status is the one the API has with the parts that belong to the node replaced, so a
//! condition somebody else has added stays, and comparing the two tells whether there is anything to write.

mod condition;
mod container;
mod phase;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{HostIP, Pod, PodIP, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::state::Observed;
use super::{Host, Outcome};
use crate::node::resource::QosClass;

pub(super) use phase::api_phase_is_terminal;

pub(super) fn build(
    pod: &Pod,
    spec: &PodSpec,
    seen: &Observed,
    outcome: Outcome,
    host: Host,
    now: Timestamp,
) -> PodStatus {
    let before = pod.status.clone().unwrap_or_default();
    if api_phase_is_terminal(pod) && seen.containers.is_empty() {
        // It ended before our time. What was written about it is all there is to know.
        return before;
    }
    let inits = spec.init_containers.as_deref().unwrap_or_default();
    let view = container::View { pod, spec, seen, outcome, now };
    let init_statuses: Vec<_> = inits.iter().map(|own| view.status(own, true)).collect();
    let statuses: Vec<_> = spec.containers.iter().map(|own| view.status(own, false)).collect();
    let phase = phase::of(pod, spec, seen, outcome, &init_statuses, &statuses);

    let mut status = PodStatus {
        phase: Some(phase.to_owned()),
        qos_class: before.qos_class.clone().or_else(|| Some(QosClass::of(spec).name().to_owned())),
        start_time: Some(Time(whole_seconds(seen.started_at))),
        observed_generation: pod.metadata.generation.or(before.observed_generation),
        container_statuses: Some(statuses).filter(|list| !list.is_empty()),
        init_container_statuses: Some(init_statuses).filter(|list| !list.is_empty()),
        ..before
    };
    if matches!(outcome, Outcome::OutOfTime) && !api_phase_is_terminal(pod) {
        status.reason = Some("DeadlineExceeded".into());
        let message = "Pod was active on the node longer than the specified deadline";
        status.message = Some(message.into());
    }
    let address = host.address.to_string();
    status.host_ip = Some(address.clone());
    status.host_ips = Some(vec![HostIP { ip: address.clone() }]);
    status.pod_ip = Some(address.clone());
    status.pod_ips = Some(vec![PodIP { ip: address }]);
    condition::set(&mut status, pod, spec, seen, now);
    status
}

/// Does the API have this status already? Should a server keep it in other words than it was sent,
/// what it has acknowledged counts until the object changes.
pub(super) fn is_written(pod: &Pod, seen: &Observed, status: &PodStatus) -> bool {
    if pod.status.as_ref() == Some(status) {
        return true;
    }
    seen.acknowledged.as_ref().is_some_and(|(version, acknowledged)| {
        *version == pod.metadata.resource_version && acknowledged == status
    })
}

/// Times in a status have no fraction.
pub(super) fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
