//! A pod's line: the STATUS column is a small story told by its containers.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Head, Sheet, created, int_at, list_at, name, or_none, str_at, text, wide};
use crate::http::meta;
use crate::http::table::age;

pub(super) const PODS: Sheet = Sheet {
    columns: &[
        text("Name"),
        text("Ready"),
        text("Status"),
        Head { name: "Restarts", kind: "string", priority: 0 },
        text("Age"),
        wide("IP"),
        wide("Node"),
        wide("Nominated Node"),
        wide("Readiness Gates"),
    ],
    cells,
};

fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = summarise(pod);
    let restarts = match summary.last_restart {
        Some(moment) if summary.restarts != 0 => {
            let ago = age::human(now.as_second().saturating_sub(moment.as_second()));
            format!("{} ({ago} ago)", summary.restarts)
        }
        _ => summary.restarts.to_string(),
    };
    let ip = match str_at(pod, "/status/podIPs/0/ip") {
        "" => str_at(pod, "/status/podIP"),
        ip => ip,
    };
    vec![
        name(pod),
        json!(format!("{}/{}", summary.ready, summary.total)),
        json!(summary.status),
        json!(restarts),
        created(pod, now),
        or_none(ip),
        or_none(str_at(pod, "/spec/nodeName")),
        or_none(str_at(pod, "/status/nominatedNodeName")),
        gates(pod),
    ]
}

#[derive(Debug)]
struct Summary {
    status: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

impl Summary {
    fn count_restarts(&mut self, container: &Value) {
        self.restarts = self.restarts.saturating_add(int_at(container, "/restartCount"));
        let last = str_at(container, "/lastState/terminated/finishedAt").parse().ok();
        self.last_restart = self.last_restart.max(last);
    }
}

fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a Value> {
    list_at(pod, "/status/conditions").iter().find(|c| str_at(c, "/type") == kind)
}

fn is_true(pod: &Value, kind: &str) -> bool {
    condition(pod, kind).is_some_and(|condition| str_at(condition, "/status") == "True")
}

fn is_sidecar(container: &Value) -> bool {
    str_at(container, "/restartPolicy") == "Always"
}

fn summarise(pod: &Value) -> Summary {
    let sidecars: Vec<&str> = list_at(pod, "/spec/initContainers")
        .iter()
        .filter(|container| is_sidecar(container))
        .map(|container| str_at(container, "/name"))
        .collect();
    let mut summary = Summary {
        status: first_reason(pod).to_owned(),
        ready: 0,
        total: list_at(pod, "/spec/containers").len() + sidecars.len(),
        restarts: 0,
        last_restart: None,
    };
    let initialising = look_at_init_containers(pod, &sidecars, &mut summary);
    if !initialising || is_true(pod, "Initialized") {
        look_at_containers(pod, &sidecars, &mut summary);
    }
    if meta::is_deleting(pod) {
        let phase = str_at(pod, "/status/phase");
        if str_at(pod, "/status/reason") == "NodeLost" {
            summary.status = "Unknown".to_owned();
        } else if !matches!(phase, "Succeeded" | "Failed") {
            summary.status = "Terminating".to_owned();
        }
    }
    summary
}

fn first_reason(pod: &Value) -> &str {
    let gated = condition(pod, "PodScheduled")
        .is_some_and(|condition| str_at(condition, "/reason") == "SchedulingGated");
    match str_at(pod, "/status/reason") {
        _ if gated => "SchedulingGated",
        "" => str_at(pod, "/status/phase"),
        reason => reason,
    }
}

/// True while the pod is still busy with them.
fn look_at_init_containers(pod: &Value, sidecars: &[&str], summary: &mut Summary) -> bool {
    let total = list_at(pod, "/spec/initContainers").len();
    for (at, container) in list_at(pod, "/status/initContainerStatuses").iter().enumerate() {
        summary.count_restarts(container);
        let terminated = container.pointer("/state/terminated").filter(|t| t.is_object());
        let waiting = str_at(container, "/state/waiting/reason");
        let started = container.get("started").and_then(Value::as_bool) == Some(true);
        match terminated {
            Some(end) if int_at(end, "/exitCode") == 0 => continue,
            _ if started && sidecars.contains(&str_at(container, "/name")) => {
                if container.get("ready").and_then(Value::as_bool) == Some(true) {
                    summary.ready += 1;
                }
                continue;
            }
            Some(end) => summary.status = format!("Init:{}", end_of(end)),
            None if !waiting.is_empty() && waiting != "PodInitializing" => {
                summary.status = format!("Init:{waiting}");
            }
            None => summary.status = format!("Init:{at}/{total}"),
        }
        return true;
    }
    false
}

/// Why a container stopped.
fn end_of(terminated: &Value) -> String {
    match (str_at(terminated, "/reason"), int_at(terminated, "/signal")) {
        ("", 0) => format!("ExitCode:{}", int_at(terminated, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn look_at_containers(pod: &Value, sidecars: &[&str], summary: &mut Summary) {
    // Restarts of finished init containers no longer matter.
    (summary.restarts, summary.last_restart) = (0, None);
    for container in list_at(pod, "/status/initContainerStatuses") {
        if sidecars.contains(&str_at(container, "/name")) {
            summary.count_restarts(container);
        }
    }
    let mut running = false;
    for container in list_at(pod, "/status/containerStatuses").iter().rev() {
        summary.count_restarts(container);
        let waiting = str_at(container, "/state/waiting/reason");
        let terminated = container.pointer("/state/terminated").filter(|t| t.is_object());
        let ready = container.get("ready").and_then(Value::as_bool) == Some(true);
        if !waiting.is_empty() {
            summary.status = waiting.to_owned();
        } else if let Some(end) = terminated {
            if !str_at(end, "/reason").is_empty() || summary.status.is_empty() {
                summary.status = end_of(end);
            }
        } else if ready && container.pointer("/state/running").is_some() {
            running = true;
            summary.ready += 1;
        }
    }
    if summary.status == "Completed" && running {
        let word = if is_true(pod, "Ready") { "Running" } else { "NotReady" };
        summary.status = word.to_owned();
    }
}

fn gates(pod: &Value) -> Value {
    let gates = list_at(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return json!("<none>");
    }
    let open = gates.iter().filter(|gate| is_true(pod, str_at(gate, "/conditionType"))).count();
    json!(format!("{open}/{}", gates.len()))
}

/// Marks rows of finished pods, which some clients leave out.
pub(in crate::http::table) fn completed(pod: &Value) -> Option<Value> {
    let (reason, message) = match str_at(pod, "/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!({"type": "Completed", "status": "True", "reason": reason, "message": message}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(pod: &Value) -> String {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let cells = cells(pod, now);
        let words: Vec<&str> = cells[1..4].iter().map(|cell| cell.as_str().unwrap()).collect();
        words.join(" ")
    }

    fn pod(spec: Value, status: Value) -> Value {
        json!({"metadata": {"name": "p"}, "spec": spec, "status": status})
    }

    #[test]
    fn the_status_tells_what_matters_most() {
        let one = json!({"containers": [{"name": "a"}]});
        let with_init = json!({"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]});
        let container = |state: Value| json!({"name": "a", "restartCount": 0, "state": state});
        let running = json!({"name": "a", "ready": true, "state": {"running": {}}});
        let dying = {
            let status = json!({"phase": "Running", "containerStatuses": [running]});
            let mut pod = pod(one.clone(), status);
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            pod
        };
        let crashed = json!({
            "name": "a", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"finishedAt": "2026-01-01T00:55:00Z"}},
        });
        let sidecar = json!({
            "containers": [{"name": "a"}],
            "initContainers": [{"name": "i", "restartPolicy": "Always"}],
        });
        let side = json!({"name": "i", "started": true, "ready": true, "state": {"running": {}}});
        let cases = [
            ("fresh", pod(one.clone(), json!({"phase": "Pending"})), "0/1 Pending 0"),
            (
                "running",
                pod(one.clone(), json!({"phase": "Running", "containerStatuses": [running]})),
                "1/1 Running 0",
            ),
            (
                "crashing",
                pod(one.clone(), json!({"phase": "Running", "containerStatuses": [crashed]})),
                "0/1 CrashLoopBackOff 3 (5m ago)",
            ),
            (
                "done",
                pod(
                    one.clone(),
                    json!({"phase": "Succeeded", "containerStatuses": [
                        container(json!({"terminated": {"exitCode": 0, "reason": "Completed"}})),
                    ]}),
                ),
                "0/1 Completed 0",
            ),
            (
                "killed for memory",
                pod(
                    one.clone(),
                    json!({"phase": "Failed", "containerStatuses": [
                        container(json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}})),
                    ]}),
                ),
                "0/1 OOMKilled 0",
            ),
            (
                "evicted",
                pod(one.clone(), json!({"phase": "Failed", "reason": "Evicted"})),
                "0/1 Evicted 0",
            ),
            (
                "waiting for its first init container",
                pod(
                    with_init.clone(),
                    json!({"phase": "Pending", "initContainerStatuses": [
                        {"name": "i", "state": {"waiting": {"reason": "PodInitializing"}}},
                    ]}),
                ),
                "0/1 Init:0/1 0",
            ),
            (
                "init container failed",
                pod(
                    with_init,
                    json!({"phase": "Pending", "initContainerStatuses": [
                        {"name": "i", "state": {"terminated": {"exitCode": 3}}},
                    ]}),
                ),
                "0/1 Init:ExitCode:3 0",
            ),
            (
                "sidecars count",
                pod(
                    sidecar,
                    json!({
                        "phase": "Running",
                        "initContainerStatuses": [side],
                        "containerStatuses": [running],
                    }),
                ),
                "2/2 Running 0",
            ),
            ("dying", dying, "1/1 Terminating 0"),
            (
                "gated",
                pod(
                    one,
                    json!({"phase": "Pending", "conditions": [
                        {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"},
                    ]}),
                ),
                "0/1 SchedulingGated 0",
            ),
        ];
        for (name, pod, want) in cases {
            assert_eq!(line(&pod), want, "{name}");
        }
    }
}
