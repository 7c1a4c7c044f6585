//! As what was a waiting pod last seen?
//!
//! Before a pod is bound it must still be ours, and its label may have given it to another
//! scheduler since it was decided. Whoever binds it *in the version that was seen* need not ask:
//! the API server refuses if the pod has changed at all.

use std::collections::HashMap;

use api::protocol::pod::SCHEDULER_NAME;
use k8s_openapi::api::core::v1::Pod;
use sched::scheduler::{Change, Update};

/// Whose pods those are that name nobody.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The scheduler a pod belongs to.
pub(super) fn scheduler_of(pod: &Pod) -> String {
    let named = pod.spec.as_ref().and_then(|spec| spec.scheduler_name.clone());
    SCHEDULER_NAME.get(&pod.metadata).or(named).unwrap_or_else(|| DEFAULT_SCHEDULER.to_owned())
}

/// Pods that wait for a node and are not on their way out, by uid.
#[derive(Debug, Default)]
pub(super) struct Versions {
    pods: HashMap<Box<str>, Seen>,
}

#[derive(Debug)]
struct Seen {
    version: Box<str>,
    scheduler: Box<str>,
}

impl Versions {
    /// Takes note of a change.
    pub(super) fn see(&mut self, change: &Change) {
        match change {
            Change::Pod(Update::Upsert(pod)) => self.see_pod(pod),
            Change::Pod(Update::Delete(key)) => {
                self.pods.remove(key.uid.as_deref().unwrap_or_default());
            }
            _ => {}
        }
    }

    fn see_pod(&mut self, pod: &Pod) {
        let Some(uid) = pod.metadata.uid.as_deref() else { return };
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let is_waiting =
            node.is_none_or(str::is_empty) && pod.metadata.deletion_timestamp.is_none();
        match pod.metadata.resource_version.as_deref().filter(|_| is_waiting) {
            Some(version) => {
                let scheduler = scheduler_of(pod).into();
                self.pods.insert(uid.into(), Seen { version: version.into(), scheduler });
            }
            None => {
                self.pods.remove(uid);
            }
        }
    }

    /// The version in which a pod belongs to this scheduler, if that is the last one seen.
    pub(super) fn of(&self, uid: &str, scheduler: &str) -> Option<Box<str>> {
        let seen = self.pods.get(uid).filter(|seen| &*seen.scheduler == scheduler)?;
        Some(seen.version.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sched::scheduler::Key;
    use serde_json::{Value, json};

    use super::*;

    fn seen(pod: Value) -> Change {
        Change::Pod(Update::Upsert(Arc::new(serde_json::from_value(pod).unwrap())))
    }

    #[test]
    fn only_a_waiting_pod_of_ours_has_a_version() {
        let good = json!({"metadata": {"uid": "u", "resourceVersion": "7"},
            "spec": {"schedulerName": "ours", "containers": []}});
        let with = |pointer: &str, value: Value| {
            let mut pod = good.clone();
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            pod.pointer_mut(parent).unwrap()[field] = value;
            pod
        };
        let label = json!({"scheduling.koordinator.sh/scheduler-name": "theirs"});
        let cases = [
            ("it waits", good.clone(), Some("7")),
            ("bound", with("/spec/nodeName", json!("n1")), None),
            ("going", with("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")), None),
            ("somebody else's", with("/spec/schedulerName", json!("theirs")), None),
            ("given to somebody else", with("/metadata/labels", label), None),
            ("of no version", with("/metadata/resourceVersion", Value::Null), None),
        ];
        for (name, pod, want) in cases {
            let mut versions = Versions::default();
            versions.see(&seen(good.clone()));
            versions.see(&seen(pod));
            assert_eq!(versions.of("u", "ours").as_deref(), want, "{name}");
        }
    }

    #[test]
    fn a_deleted_pod_is_forgotten() {
        let mut versions = Versions::default();
        versions.see(&seen(json!({"metadata": {"uid": "u", "resourceVersion": "7"}})));
        assert_eq!(versions.of("u", DEFAULT_SCHEDULER).as_deref(), Some("7"));
        let key = Key { uid: Some("u".into()), ..Key::default() };
        versions.see(&Change::Pod(Update::Delete(key)));
        assert!(versions.pods.is_empty());
    }
}
