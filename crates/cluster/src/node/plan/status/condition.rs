//! The conditions that belong to the node.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::super::state::{Observed, Setup};
use super::phase::is_untouched;
use super::whole_seconds;
use crate::node::resource::is_sidecar;

/// What a condition says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Finding {
    holds: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl Finding {
    fn holds() -> Self {
        Self { holds: true, ..Self::default() }
    }

    fn fails(reason: &'static str, message: Option<String>) -> Self {
        Self { holds: false, reason: Some(reason), message }
    }
}

pub(super) fn set(
    status: &mut PodStatus,
    pod: &Pod,
    spec: &PodSpec,
    seen: &Observed,
    now: Timestamp,
) {
    let containers_ready = containers_ready(spec, status);
    let findings = [
        (
            "PodReadyToStartContainers",
            Finding { holds: seen.setup == Setup::Ready, ..Finding::default() },
        ),
        ("Initialized", initialized(spec, status)),
        ("Ready", ready(spec, status, &containers_ready)),
        ("ContainersReady", containers_ready),
        ("PodScheduled", Finding::holds()),
    ];
    let mut conditions = status.conditions.take().unwrap_or_default();
    for (kind, finding) in findings {
        put(&mut conditions, kind, finding, pod.metadata.generation, now);
    }
    status.conditions = Some(conditions);
}

/// Sets one condition; its time moves only when its status does.
fn put(
    conditions: &mut Vec<PodCondition>,
    kind: &str,
    finding: Finding,
    generation: Option<i64>,
    now: Timestamp,
) {
    let at = conditions.iter().position(|condition| condition.type_ == kind);
    let before = at.and_then(|at| conditions.get(at));
    let status = if finding.holds { "True" } else { "False" };
    let since = before
        .filter(|before| before.status == status)
        .and_then(|before| before.last_transition_time.clone());
    let condition = PodCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: finding.reason.map(str::to_owned),
        message: finding.message,
        last_transition_time: since.or_else(|| Some(Time(whole_seconds(now)))),
        last_probe_time: None,
        observed_generation: generation,
    };
    match at.and_then(|at| conditions.get_mut(at)) {
        Some(place) => *place = condition,
        None => conditions.push(condition),
    }
}

/// The phase speaks for the containers of a pod that has ended.
fn by_phase(status: &PodStatus) -> Option<&'static str> {
    match status.phase.as_deref() {
        Some("Succeeded") => Some("PodCompleted"),
        Some("Failed") => Some("PodFailed"),
        _ => None,
    }
}

fn initialized(spec: &PodSpec, status: &PodStatus) -> Finding {
    if by_phase(status) == Some("PodCompleted") {
        return Finding { reason: Some("PodCompleted"), ..Finding::holds() };
    }
    let has_begun = status.container_statuses.iter().flatten().any(|own| !is_untouched(own));
    let inits = spec.init_containers.iter().flatten();
    let missing: Vec<&str> = inits
        .zip(status.init_container_statuses.iter().flatten())
        .filter(
            |(own, status)| {
                if is_sidecar(own) { status.started != Some(true) } else { !status.ready }
            },
        )
        .map(|(own, _)| own.name.as_str())
        .collect();
    if missing.is_empty() || has_begun {
        return Finding::holds();
    }
    let message = format!("containers with incomplete status: [{}]", missing.join(" "));
    Finding::fails("ContainersNotInitialized", Some(message))
}

fn containers_ready(spec: &PodSpec, status: &PodStatus) -> Finding {
    if let Some(reason) = by_phase(status) {
        return Finding::fails(reason, None);
    }
    let inits = spec.init_containers.iter().flatten();
    let sidecars = inits
        .zip(status.init_container_statuses.iter().flatten())
        .filter(|(own, _)| is_sidecar(own))
        .map(|(_, status)| status);
    let all = sidecars.chain(status.container_statuses.iter().flatten());
    let unready = |own: &&ContainerStatus| !own.ready;
    let missing: Vec<&str> = all.filter(unready).map(|own| own.name.as_str()).collect();
    if missing.is_empty() {
        return Finding::holds();
    }
    let message = format!("containers with unready status: [{}]", missing.join(" "));
    Finding::fails("ContainersNotReady", Some(message))
}

/// Ready are all containers, and everything else the pod waits for.
fn ready(spec: &PodSpec, status: &PodStatus, containers: &Finding) -> Finding {
    if !containers.holds {
        return containers.clone();
    }
    let problem = |gate: &str| {
        let mut conditions = status.conditions.iter().flatten();
        match conditions.find(|condition| condition.type_ == gate) {
            None => Some(format!(
                "corresponding condition of pod readiness gate \"{gate}\" does not exist."
            )),
            Some(condition) if condition.status != "True" => Some(format!(
                "the status of pod readiness gate \"{gate}\" is not \"True\", but {}",
                condition.status
            )),
            Some(_) => None,
        }
    };
    let gates = spec.readiness_gates.iter().flatten();
    let problems: Vec<String> = gates.filter_map(|gate| problem(&gate.condition_type)).collect();
    if problems.is_empty() {
        return Finding::holds();
    }
    Finding::fails("ReadinessGatesNotReady", Some(problems.join(", ")))
}
