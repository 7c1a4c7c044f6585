//! Does a container that has ended run again, and how long may it take to stop?

use k8s_openapi::api::core::v1::{Container, PodSpec};

use super::state::{Ended, State};
use super::stop::StopWhy;
use crate::node::resource::is_sidecar;

/// What the API fills in.
const DEFAULT_GRACE_SECONDS: i64 = 30;

pub(super) fn grace_seconds(spec: &PodSpec) -> i64 {
    spec.termination_grace_period_seconds.unwrap_or(DEFAULT_GRACE_SECONDS).max(0)
}

pub(super) fn has_succeeded(state: &State) -> bool {
    state.ended().is_some_and(|ended| ended.code == 0)
}

/// A container's own rules come first, then its own policy, then the pod's. An init container of a
/// pod that restarts always is only tried again after a failure.
pub(super) fn restarts(spec: &PodSpec, container: &Container, ended: &Ended) -> bool {
    let is_init = spec.init_containers.iter().flatten().any(|init| init.name == container.name);
    if is_init && is_sidecar(container) {
        return true;
    }
    for rule in container.restart_policy_rules.iter().flatten() {
        let codes = rule.exit_codes.as_ref();
        let is_named = codes.is_some_and(|codes| {
            let is_listed = codes.values.iter().flatten().any(|code| *code == ended.code);
            if codes.operator == "NotIn" { !is_listed } else { is_listed }
        });
        if is_named && rule.action == "Restart" {
            return true;
        }
    }
    let policy = container.restart_policy.as_deref().or(spec.restart_policy.as_deref());
    match policy.unwrap_or("Always") {
        "Never" => false,
        // A container that was stopped because it was not well is tried again however it ended.
        "OnFailure" => ended.code != 0 || matches!(ended.stopped, Some(StopWhy::Unhealthy(_))),
        _ => !is_init || ended.code != 0,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;

    fn ended(code: i32) -> Ended {
        Ended {
            id: "id".into(),
            code,
            signal: None,
            started_at: None,
            finished_at: Timestamp::UNIX_EPOCH,
            reason: "Error".into(),
            message: None,
            stopped: None,
        }
    }

    #[test]
    fn who_runs_again() {
        let plain = || json!({"name": "c"});
        let rule = |operator: &str| {
            json!({
                "name": "c",
                "restartPolicy": "Never",
                "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": operator, "values": [3]}}],
            })
        };
        let cases: [(&str, &str, Value, i32, bool); 12] = [
            ("always, after success", "Always", plain(), 0, true),
            ("always, after failure", "Always", plain(), 1, true),
            ("on failure, after success", "OnFailure", plain(), 0, false),
            ("on failure, after failure", "OnFailure", plain(), 1, true),
            ("never, after success", "Never", plain(), 0, false),
            ("never, after failure", "Never", plain(), 1, false),
            ("own policy wins", "Never", json!({"name": "c", "restartPolicy": "Always"}), 0, true),
            (
                "own policy forbids",
                "Always",
                json!({"name": "c", "restartPolicy": "Never"}),
                1,
                false,
            ),
            ("a rule names the code", "Always", rule("In"), 3, true),
            ("a rule names another code", "Always", rule("In"), 4, false),
            ("a rule names all but this", "Always", rule("NotIn"), 3, false),
            ("a rule names all others", "Always", rule("NotIn"), 4, true),
        ];
        for (name, policy, container, code, want) in cases {
            let spec = json!({"restartPolicy": policy, "containers": [container]});
            let spec: PodSpec = serde_json::from_value(spec).unwrap();
            assert_eq!(restarts(&spec, &spec.containers[0], &ended(code)), want, "{name}");
        }
    }

    #[test]
    fn init_containers_run_again_only_after_failure() {
        let cases = [
            ("Always", json!({"name": "i"}), 0, false),
            ("Always", json!({"name": "i"}), 1, true),
            ("Never", json!({"name": "i"}), 1, false),
            ("Never", json!({"name": "i", "restartPolicy": "Always"}), 0, true),
        ];
        for (policy, init, code, want) in cases {
            let name = format!("{policy} {init} {code}");
            let spec = json!({"restartPolicy": policy, "containers": [], "initContainers": [init]});
            let spec: PodSpec = serde_json::from_value(spec).unwrap();
            let init = &spec.init_containers.as_ref().unwrap()[0];
            assert_eq!(restarts(&spec, init, &ended(code)), want, "{name}");
        }
    }

    #[test]
    fn an_unhealthy_container_that_ended_well_runs_again_on_failure() {
        let spec: PodSpec = serde_json::from_value(
            json!({"restartPolicy": "OnFailure", "containers": [{"name": "c"}]}),
        )
        .unwrap();
        let stopped = Some(StopWhy::Unhealthy(super::super::ProbeKind::Liveness));
        let ended = Ended { stopped, ..ended(0) };
        assert!(restarts(&spec, &spec.containers[0], &ended));
    }
}
