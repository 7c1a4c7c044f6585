//! Which of the five phases is a pod in?

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodSpec};

use super::super::Outcome;
use super::super::state::{Observed, State};
use crate::node::resource::is_sidecar;

const PENDING: &str = "Pending";
const RUNNING: &str = "Running";
const SUCCEEDED: &str = "Succeeded";
const FAILED: &str = "Failed";

/// The phase the API has, if it is a last one.
pub(super) fn terminal_in_api(pod: &Pod) -> Option<&'static str> {
    match pod.status.as_ref()?.phase.as_deref()? {
        SUCCEEDED => Some(SUCCEEDED),
        FAILED => Some(FAILED),
        _ => None,
    }
}

pub(in super::super) fn api_phase_is_terminal(pod: &Pod) -> bool {
    terminal_in_api(pod).is_some()
}

pub(super) fn of(
    pod: &Pod,
    spec: &PodSpec,
    seen: &Observed,
    outcome: Outcome,
    inits: &[ContainerStatus],
    containers: &[ContainerStatus],
) -> &'static str {
    if let Some(last) = terminal_in_api(pod) {
        return last;
    }
    match outcome {
        Outcome::OutOfTime => return FAILED,
        Outcome::Over => return verdict(spec, seen),
        Outcome::Open | Outcome::RunningOutOfTime => {}
    }
    let init_specs = spec.init_containers.iter().flatten();
    let is_initializing = init_specs.zip(inits).any(|(own, status)| {
        if is_sidecar(own) { status.started != Some(true) } else { !status.ready }
    });
    let has_begun = containers.iter().any(|status| !is_untouched(status));
    if is_initializing && !has_begun {
        return PENDING;
    }
    if containers.iter().any(is_untouched) { PENDING } else { RUNNING }
}

/// Has the container not run even once?
pub(super) fn is_untouched(status: &ContainerStatus) -> bool {
    let states = [status.state.as_ref(), status.last_state.as_ref()];
    let mut states = states.into_iter().flatten();
    states.all(|state| state.running.is_none() && state.terminated.is_none())
}

fn verdict(spec: &PodSpec, seen: &Observed) -> &'static str {
    let has_succeeded = |name: &str| match seen.state(name) {
        State::Ended(ended) => ended.code == 0,
        _ => false,
    };
    if spec.containers.iter().all(|own| has_succeeded(&own.name)) { SUCCEEDED } else { FAILED }
}
