//! Objects for tests, built like the sentence one would say.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{ReplicaSet, ReplicaSetSpec},
        core::v1::{
            Container, ContainerStatus, Node, NodeCondition, NodeSpec, NodeStatus, Pod,
            PodCondition, PodSpec, PodStatus, PodTemplateSpec, Taint,
        },
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference},
};
use kube::Resource;

use super::clock::{plus_seconds, stamp};

/// The moment at which tests take place.
pub(crate) const NOW: Timestamp = Timestamp::constant(1_900_000_000, 0);

pub(crate) fn ago(seconds: i64) -> Timestamp {
    plus_seconds(NOW, -seconds)
}

pub(crate) fn ahead(seconds: i64) -> Timestamp {
    plus_seconds(NOW, seconds)
}

pub(crate) fn meta(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.into()),
        namespace: Some("default".into()),
        uid: Some(format!("uid-{name}")),
        resource_version: Some("1".into()),
        generation: Some(1),
        creation_timestamp: Some(stamp(ago(3_600))),
        ..ObjectMeta::default()
    }
}

pub(crate) fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn selector(pairs: &[(&str, &str)]) -> LabelSelector {
    LabelSelector { match_labels: Some(labels(pairs)), match_expressions: None }
}

/// A template with one label `app` and one container that runs `image`.
pub(crate) fn template(app: &str, image: &str) -> PodTemplateSpec {
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels(&[("app", app)])),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            containers: vec![Container {
                name: "main".into(),
                image: Some(image.into()),
                ..Container::default()
            }],
            ..PodSpec::default()
        }),
    }
}

pub(crate) fn reference<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    super::claim::Owner::of(owner).reference()
}

#[derive(Debug, Clone)]
pub(crate) struct PodBuilder(Pod);

/// A pod that the server has just accepted.
pub(crate) fn pod(name: &str) -> PodBuilder {
    PodBuilder(Pod {
        metadata: meta(name),
        spec: Some(PodSpec::default()),
        status: Some(PodStatus { phase: Some("Pending".into()), ..PodStatus::default() }),
    })
}

impl PodBuilder {
    pub(crate) fn build(self) -> Pod {
        self.0
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Pod)) -> Self {
        change(&mut self.0);
        self
    }

    fn status(mut self, change: impl FnOnce(&mut PodStatus)) -> Self {
        change(self.0.status.get_or_insert_default());
        self
    }

    pub(crate) fn spec(mut self, change: impl FnOnce(&mut PodSpec)) -> Self {
        change(self.0.spec.get_or_insert_default());
        self
    }

    pub(crate) fn namespace(self, namespace: &str) -> Self {
        self.with(|pod| pod.metadata.namespace = Some(namespace.into()))
    }

    pub(crate) fn uid(self, uid: &str) -> Self {
        self.with(|pod| pod.metadata.uid = Some(uid.into()))
    }

    pub(crate) fn version(self, version: u64) -> Self {
        self.with(|pod| pod.metadata.resource_version = Some(version.to_string()))
    }

    pub(crate) fn created(self, at: Timestamp) -> Self {
        self.with(|pod| pod.metadata.creation_timestamp = Some(stamp(at)))
    }

    pub(crate) fn label(self, key: &str, value: &str) -> Self {
        self.with(|pod| {
            pod.metadata.labels.get_or_insert_default().insert(key.into(), value.into());
        })
    }

    pub(crate) fn annotation(self, key: &str, value: &str) -> Self {
        self.with(|pod| {
            pod.metadata.annotations.get_or_insert_default().insert(key.into(), value.into());
        })
    }

    pub(crate) fn finalizer(self, finalizer: &str) -> Self {
        self.with(|pod| pod.metadata.finalizers.get_or_insert_default().push(finalizer.into()))
    }

    pub(crate) fn terminating(self) -> Self {
        self.with(|pod| pod.metadata.deletion_timestamp = Some(stamp(NOW)))
    }

    /// Controlled by this owner.
    pub(crate) fn owner(self, kind: &str, name: &str, uid: &str) -> Self {
        self.push_owner(kind, name, uid, Some(true))
    }

    /// Owned, but not controlled.
    pub(crate) fn other_owner(self, kind: &str, name: &str, uid: &str) -> Self {
        self.push_owner(kind, name, uid, None)
    }

    fn push_owner(self, kind: &str, name: &str, uid: &str, controller: Option<bool>) -> Self {
        let owner = OwnerReference {
            api_version: "apps/v1".into(),
            kind: kind.into(),
            name: name.into(),
            uid: uid.into(),
            controller,
            block_owner_deletion: None,
        };
        self.with(|pod| pod.metadata.owner_references.get_or_insert_default().push(owner))
    }

    pub(crate) fn owned_by<K: Resource<DynamicType = ()>>(self, owner: &K) -> Self {
        let reference = reference(owner);
        self.with(|pod| pod.metadata.owner_references.get_or_insert_default().push(reference))
    }

    pub(crate) fn on(self, node: &str) -> Self {
        self.spec(|spec| spec.node_name = Some(node.into()))
    }

    pub(crate) fn phase(self, phase: &str) -> Self {
        self.status(|status| status.phase = Some(phase.into()))
    }

    pub(crate) fn running(self) -> Self {
        self.phase("Running")
    }

    pub(crate) fn ready_since(self, since: Timestamp) -> Self {
        self.running().status(|status| {
            status.conditions.get_or_insert_default().push(PodCondition {
                type_: "Ready".into(),
                status: "True".into(),
                last_transition_time: Some(stamp(since)),
                ..PodCondition::default()
            });
        })
    }

    pub(crate) fn restarts(self, count: i32) -> Self {
        self.status(|status| {
            status
                .container_statuses
                .get_or_insert_default()
                .push(ContainerStatus { restart_count: count, ..ContainerStatus::default() });
        })
    }
}

/// A ready node without taints.
pub(crate) fn node(name: &str) -> Node {
    let ready = NodeCondition {
        type_: "Ready".into(),
        status: "True".into(),
        last_heartbeat_time: Some(stamp(ago(5))),
        last_transition_time: Some(stamp(ago(3_600))),
        reason: Some("KubeletReady".into()),
        ..NodeCondition::default()
    };
    Node {
        metadata: ObjectMeta { namespace: None, ..meta(name) },
        spec: Some(NodeSpec::default()),
        status: Some(NodeStatus { conditions: Some(vec![ready]), ..NodeStatus::default() }),
    }
}

pub(crate) fn tainted(mut node: Node, key: &str, effect: &str) -> Node {
    let taint = Taint { key: key.into(), effect: effect.into(), ..Taint::default() };
    node.spec.get_or_insert_default().taints.get_or_insert_default().push(taint);
    node
}

/// A ReplicaSet that selects `app=web` and wants this many.
pub(crate) fn replica_set(name: &str, replicas: i32) -> ReplicaSet {
    ReplicaSet {
        metadata: meta(name),
        spec: Some(ReplicaSetSpec {
            replicas: Some(replicas),
            selector: selector(&[("app", "web")]),
            template: Some(template("web", "v1")),
            ..ReplicaSetSpec::default()
        }),
        status: None,
    }
}

impl From<Pod> for PodBuilder {
    fn from(pod: Pod) -> Self {
        Self(pod)
    }
}
