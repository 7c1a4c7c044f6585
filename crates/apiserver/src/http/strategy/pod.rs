//! What does the server decide about a pod?
//!
//! The quality-of-service class follows from the containers' requests and limits and is written
//! once, at creation. A pod with scheduling gates says from the start why nobody schedules it.

use jiff::Timestamp;
use serde_json::{Value, json};
use units::Quantity;

use crate::http::meta;
use crate::http::source::seconds;

pub(super) fn prepare_create(pod: &mut Value, now: Timestamp) {
    let class = qos_class(pod);
    let gated = pod
        .pointer("/spec/schedulingGates")
        .and_then(Value::as_array)
        .is_some_and(|gates| !gates.is_empty());
    let Some(fields) = pod.as_object_mut() else { return };
    let mut status = json!({"phase": "Pending", "qosClass": class});
    if gated {
        status["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastTransitionTime": seconds(now),
        }]);
    }
    fields.insert("status".into(), status);
}

/// A node may report everything about a pod but its class.
pub(super) fn keep_status_rules(new: &mut Value, old: &Value) {
    if let (Some(class), Some(status)) =
        (old.pointer("/status/qosClass"), new.get_mut("status").and_then(Value::as_object_mut))
    {
        status.insert("qosClass".into(), class.clone());
    }
    meta::copy(new, "deletionTimestamp", old);
}

/// Guaranteed: every container has CPU and memory limits equal to its requests. BestEffort: no
/// container asks for or is limited in either. Burstable: the rest. Resources of the pod as a
/// whole, where given, count instead of its containers'.
fn qos_class(pod: &Value) -> &'static str {
    let Some(spec) = pod.get("spec") else { return "BestEffort" };
    let containers: Vec<&Value> = match spec.get("resources") {
        Some(_) => vec![spec],
        None => ["containers", "initContainers"]
            .iter()
            .filter_map(|list| spec.get(list).and_then(Value::as_array))
            .flatten()
            .collect(),
    };
    let mut best_effort = true;
    let mut guaranteed = true;
    for container in containers {
        for resource in ["cpu", "memory"] {
            let amount = |list: &str| {
                let text = container.get("resources")?.get(list)?.get(resource)?;
                quantity(text).filter(|amount| amount.sign().is_gt())
            };
            let (request, limit) = (amount("requests"), amount("limits"));
            best_effort &= request.is_none() && limit.is_none();
            guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (best_effort, guaranteed) {
        (true, _) => "BestEffort",
        (_, true) => "Guaranteed",
        _ => "Burstable",
    }
}

fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_follows_requests_and_limits() {
        let container = |requests: Value, limits: Value| json!({"resources": {"requests": requests, "limits": limits}});
        let full = json!({"cpu": "1", "memory": "1Gi"});
        let cases = [
            ("nothing asked", vec![json!({})], "BestEffort"),
            ("zero is nothing", vec![container(json!({"cpu": "0"}), json!({}))], "BestEffort"),
            ("limits equal requests", vec![container(full.clone(), full.clone())], "Guaranteed"),
            ("limits alone", vec![container(json!({}), full.clone())], "Guaranteed"),
            (
                "the same amount written otherwise",
                vec![container(json!({"cpu": "1000m", "memory": "1024Mi"}), full.clone())],
                "Guaranteed",
            ),
            (
                "one container without",
                vec![container(full.clone(), full.clone()), json!({})],
                "Burstable",
            ),
            ("only a request", vec![container(json!({"cpu": 1}), json!({}))], "Burstable"),
            (
                "other resources do not count",
                vec![container(json!({"koordinator.sh/batch-cpu": "1"}), json!({}))],
                "BestEffort",
            ),
        ];
        for (name, containers, want) in cases {
            assert_eq!(qos_class(&json!({"spec": {"containers": containers}})), want, "{name}");
        }
        let whole = json!({"spec": {"containers": [{}], "resources": {"limits": full}}});
        assert_eq!(qos_class(&whole), "Guaranteed");
    }
}
