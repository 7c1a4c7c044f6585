//! The change to a pod's status, as a strategic merge patch.
//!
//! Only what belongs to the node is in it: conditions of others may have changed since we looked.
//! What we drop is set to null, because a merge keeps what it is not told about. The uid makes the
//! API refuse the patch if the name now belongs to another pod.

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde_json::{Map, Value, json};

const OWN_CONDITIONS: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

pub(super) fn status(pod: &Pod, after: &PodStatus) -> Value {
    let before = fields(pod.status.as_ref());
    let mut status = fields(Some(after));
    let old = list(before.get("conditions"));
    let own = list(status.get("conditions"))
        .into_iter()
        .filter(|condition| OWN_CONDITIONS.contains(&kind(condition)))
        .map(|mut condition| {
            let was = old.iter().find(|old| kind(old) == kind(&condition));
            clear_missing(was, &mut condition);
            Value::Object(condition)
        });
    let own: Vec<Value> = own.collect();
    clear_missing(Some(&before), &mut status);
    status.insert("conditions".into(), Value::Array(own));
    json!({"metadata": {"uid": pod.metadata.uid}, "status": status})
}

fn fields(status: Option<&PodStatus>) -> Map<String, Value> {
    match status.map(serde_json::to_value) {
        Some(Ok(Value::Object(fields))) => fields,
        _ => Map::new(),
    }
}

fn list(value: Option<&Value>) -> Vec<Map<String, Value>> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| item.as_object().cloned()).collect()
}

fn kind(condition: &Map<String, Value>) -> &str {
    condition.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn clear_missing(before: Option<&Map<String, Value>>, after: &mut Map<String, Value>) {
    for name in before.into_iter().flat_map(Map::keys) {
        if !after.contains_key(name) {
            after.insert(name.clone(), Value::Null);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_fields_are_cleared_and_conditions_of_others_left_out() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"uid": "u"},
            "status": {
                "phase": "Running",
                "reason": "Old",
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "x"},
                    {"type": "Theirs", "status": "True"},
                ],
            },
        }))
        .unwrap();
        let after: PodStatus = serde_json::from_value(json!({
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "Theirs", "status": "True"}],
        }))
        .unwrap();
        let want = json!({
            "metadata": {"uid": "u"},
            "status": {
                "phase": "Running",
                "reason": null,
                "conditions": [{"type": "Ready", "status": "True", "reason": null, "message": null}],
            },
        });
        assert_eq!(status(&pod, &after), want);
    }
}
