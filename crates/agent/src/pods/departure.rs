//! What matters about a pod when somebody has to leave?

use api::metadata::eviction::EvictionNotice;
use api::priority;
use api::protocol::eviction as key;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

/// The kubelet's mark on its copies of pods that only it can end.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// A pod as somebody who may have to leave.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Departure {
    /// Its name to the API server, which for static pods is not that of its cgroup.
    pub uid: String,
    /// Who would start it anew: `namespace/Kind/name` of its controller, or the pod itself.
    pub owner: String,
    /// `spec.priority`.
    pub priority: Option<i32>,
    /// The same with the default of its class.
    pub value: i32,
    pub eviction_priority: i32,
    pub sub_priority: i32,
    /// `koordinator.sh/eviction-enabled`.
    pub is_willing: bool,
    /// Rules that may send it away; `None` for all, and none where the annotation is unreadable.
    pub allows: Option<Vec<String>>,
    /// By when its deletion should be over; `None` when nobody deletes it.
    pub deleted_by: Option<Timestamp>,
    pub notice: Option<EvictionNotice>,
    /// Only the kubelet can end it.
    pub is_static: bool,
}

impl Departure {
    pub(super) fn read(pod: &Pod) -> Self {
        let meta = &pod.metadata;
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let mut owners = meta.owner_references.iter().flatten();
        let owner = match owners.find(|owner| owner.controller == Some(true)) {
            Some(owner) => format!("{namespace}/{}/{}", owner.kind, owner.name),
            None => format!("{namespace}/Pod/{}", meta.name.as_deref().unwrap_or_default()),
        };
        let sub_priority = priority::sub_priority(pod).map(|sub| sub.0);
        let allows = key::POLICY.is_present(meta);
        Self {
            uid: meta.uid.clone().unwrap_or_default(),
            owner,
            priority: pod.spec.as_ref().and_then(|spec| spec.priority),
            value: priority::value(pod),
            eviction_priority: key::PRIORITY.get(meta).unwrap_or_default(),
            sub_priority: sub_priority.unwrap_or_default(),
            is_willing: key::ENABLED.get(meta) == Some(true),
            allows: allows.then(|| key::POLICY.get(meta).unwrap_or_default()),
            deleted_by: meta.deletion_timestamp.as_ref().map(|time| time.0),
            notice: key::NOTICE.get(meta),
            is_static: meta.annotations.as_ref().is_some_and(|all| all.contains_key(MIRROR)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(pod: Value) -> Departure {
        Departure::read(&serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn the_owner_is_who_would_start_it_anew() {
        let owned = |controller: bool| {
            of(json!({ "metadata": { "namespace": "d", "name": "web-1", "ownerReferences": [
                { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "2",
                  "controller": controller } ] } }))
            .owner
        };
        assert_eq!(owned(true), "d/ReplicaSet/web");
        assert_eq!(owned(false), "d/Pod/web-1", "a reference alone starts nothing");
    }

    #[test]
    fn an_unreadable_policy_allows_nothing() {
        let allows = |text: &str| {
            of(json!({ "metadata": { "annotations": { "koordinator.sh/eviction-policy": text } } }))
                .allows
        };
        assert_eq!(allows(r#"["CPUEvict"]"#), Some(vec!["CPUEvict".to_owned()]));
        assert_eq!(allows("CPUEvict"), Some(Vec::new()));
        assert_eq!(of(json!({ "metadata": {} })).allows, None);
    }

    #[test]
    fn wishes_and_notices_are_read() {
        let departure = of(json!({ "metadata": {
            "uid": "u", "deletionTimestamp": "2030-01-01T00:00:30Z",
            "labels": { "koordinator.sh/eviction-enabled": "true" },
            "annotations": {
                "koordinator.sh/eviction-priority": "-3",
                "tidepool.io/eviction-notice": r#"{"feature":"BEMemoryEvict","due":"2030-01-01T00:00:00Z"}"#,
                "kubernetes.io/config.mirror": "x",
            } }, "spec": { "priority": 5500, "containers": [] } }));
        assert!(departure.is_willing && departure.is_static);
        assert_eq!((departure.eviction_priority, departure.priority), (-3, Some(5500)));
        assert_eq!(departure.notice.unwrap().feature, "BEMemoryEvict");
        assert_eq!(departure.deleted_by.unwrap().to_string(), "2030-01-01T00:00:30Z");
    }
}
