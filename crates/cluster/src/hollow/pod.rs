//! The few fields of a pod that a hollow node looks at.
//!
//! Everything else is skipped while reading: a hundred thousand pods go by here.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use api::protocol::pod::{HOLLOW_EXIT_CODE, HOLLOW_RUN_SECONDS, HOLLOW_START_SECONDS};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use kube::api::ApiResource;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct HollowPod {
    #[serde(default)]
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    pub(super) spec: Spec,
    #[serde(default)]
    pub(super) status: Status,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Spec {
    pub(super) node_name: String,
    pub(super) restart_policy: String,
    pub(super) containers: Vec<Container>,
    pub(super) init_containers: Vec<Container>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) image: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Status {
    pub(super) phase: String,
    pub(super) start_time: Option<Time>,
}

impl Resource for HollowPod {
    type DynamicType = ApiResource;
    type Scope = k8s_openapi::NamespaceResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// What a pod pretends to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Script {
    pub(super) start: Duration,
    pub(super) run: Option<Duration>,
    pub(super) exit_code: i32,
}

impl Script {
    /// Annotations that cannot be read count as absent.
    pub(super) fn of(annotations: Option<&BTreeMap<String, String>>, start: Duration) -> Self {
        let text = |name: &str| annotations.and_then(|own| own.get(name)).map(String::as_str);
        let seconds = |name: &str| {
            let seconds: f64 = text(name)?.parse().ok()?;
            Duration::try_from_secs_f64(seconds).ok()
        };
        Self {
            start: seconds(HOLLOW_START_SECONDS.name).unwrap_or(start),
            run: seconds(HOLLOW_RUN_SECONDS.name),
            exit_code: text(HOLLOW_EXIT_CODE.name).and_then(|code| code.parse().ok()).unwrap_or(0),
        }
    }
}

impl HollowPod {
    pub(super) fn is_leaving(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    pub(super) fn started_at(&self) -> Option<Timestamp> {
        self.status.start_time.as_ref().map(|time| time.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_read_from_annotations() {
        let delay = Duration::from_secs(1);
        let script = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            Script::of(Some(&pairs.collect()), delay)
        };
        let plain = Script { start: delay, run: None, exit_code: 0 };
        assert_eq!(Script::of(None, delay), plain);
        let full = script(&[
            (HOLLOW_START_SECONDS.name, "0.5"),
            (HOLLOW_RUN_SECONDS.name, "30"),
            (HOLLOW_EXIT_CODE.name, "3"),
        ]);
        let want = Script {
            start: Duration::from_millis(500),
            run: Some(Duration::from_secs(30)),
            exit_code: 3,
        };
        assert_eq!(full, want);
        for bad in ["", "x", "-1", "inf", "nan"] {
            let read = script(&[
                (HOLLOW_START_SECONDS.name, bad),
                (HOLLOW_RUN_SECONDS.name, bad),
                (HOLLOW_EXIT_CODE.name, "x"),
            ]);
            assert_eq!(read, plain, "{bad:?}");
        }
    }

    #[test]
    fn a_pod_of_any_size_can_be_read() {
        let pod: HollowPod = serde_json::from_str(r#"{"metadata": {"uid": "u"}}"#).unwrap();
        assert_eq!(pod.spec.node_name, "");
        let pod = r#"{"metadata": {}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i", "env": []}],
            "tolerations": []}, "status": {"phase": "Running", "conditions": []}}"#;
        let pod: HollowPod = serde_json::from_str(pod).unwrap();
        assert_eq!((pod.spec.node_name.as_str(), pod.status.phase.as_str()), ("n", "Running"));
        assert_eq!(pod.spec.containers[0].name, "c");
    }
}
