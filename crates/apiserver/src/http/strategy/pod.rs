//! What does the server decide about a pod?
//!
//! A pod with scheduling gates says from the start why nobody schedules it; its class of service
//! is written once, at creation.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::http::meta;
use crate::http::source::seconds;

pub(super) fn prepare_create(pod: &mut Value, now: Timestamp) {
    let gates = pod.pointer("/spec/schedulingGates").and_then(Value::as_array);
    if gates.is_some_and(|gates| !gates.is_empty()) {
        pod["status"]["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastTransitionTime": seconds(now),
        }]);
    }
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
