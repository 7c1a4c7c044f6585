//! The provisional binder: looks at a pod when it, or the nodes, change.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Binding, Node, ObjectReference, Pod, PodCondition},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Resource, api::PostParams, core::Status};
use serde_json::json;
use tracing::info;

use super::{Verdict, is_ready, place};
use crate::controllers::{
    cache::Change,
    caches::{Caches, UNBOUND},
    clock::stamp,
    drive::{Controller, Next},
    key::{Key, Seen, uid},
    merge,
    pod::{PodFacts, with_condition},
    queue::Queue,
    writer::{SyncError, Writer},
};

pub(crate) struct Binder {
    caches: Caches,
    writer: Writer,
}

impl Binder {
    pub(crate) fn new(caches: &Caches, writer: Writer) -> (Self, Queue<Key>) {
        let queue = Queue::new();
        let keys = queue.clone();
        caches.pods.subscribe(move |change| {
            if let Some(pod) = change.after.as_ref().filter(|pod| pod.node().is_none()) {
                keys.add(Key::of(&**pod));
            }
        });
        let keys = queue.clone();
        let pods = caches.pods.clone();
        caches.nodes.subscribe(move |change| {
            if matters(change) {
                for pod in pods.tagged(UNBOUND) {
                    keys.add(Key::of(&*pod));
                }
            }
        });
        (Self { caches: caches.clone(), writer }, queue)
    }

    async fn bind(&self, pod: &Pod, node: &str) -> Result<(), SyncError> {
        let key = Key::of(pod);
        let binding = Binding {
            metadata: ObjectMeta {
                name: Some(key.name.clone()),
                namespace: Some(key.namespace.clone()),
                uid: Some(uid(pod).to_owned()),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                api_version: Some("v1".into()),
                kind: Some("Node".into()),
                name: Some(node.to_owned()),
                ..ObjectReference::default()
            },
        };
        let api: Api<Pod> = Api::namespaced(self.writer.client.clone(), &key.namespace);
        let params = PostParams::default();
        let bound = api.create_subresource::<_, Status>("binding", &key.name, &params, &binding);
        bound.await.map_err(|source| SyncError::new("bind", &Pod::kind(&()), &key, source))?;
        info!(pod = %key, node, "bound a pod");
        let message = format!("Successfully assigned {key} to {node}");
        self.writer.normal(pod, "Scheduled", message);
        Ok(())
    }

    async fn refuse(&self, pod: &Pod, message: &str, now: Timestamp) -> Result<(), SyncError> {
        let has = pod.condition("PodScheduled");
        if has.is_some_and(|has| has.status == "False" && has.message.as_deref() == Some(message)) {
            return Ok(());
        }
        self.writer.warning(pod, "FailedScheduling", message.to_owned());
        let condition = PodCondition {
            type_: "PodScheduled".into(),
            status: "False".into(),
            reason: Some("Unschedulable".into()),
            message: Some(message.to_owned()),
            last_transition_time: Some(stamp(now)),
            ..PodCondition::default()
        };
        let conditions = with_condition(pod, condition);
        let metadata = merge::precondition(&Seen::of(pod));
        let patch = json!({ "metadata": metadata, "status": { "conditions": conditions } });
        match self.writer.patch_status::<Pod>(&Key::of(pod), &patch).await {
            Err(error) if error.is_missing() => Ok(()),
            other => other.map(drop),
        }
    }
}

/// Nodes report every few seconds; this is what decides where pods may go.
fn matters(change: &Change<Node>) -> bool {
    let facts = |node: &Arc<Node>| {
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone());
        (node.metadata.labels.clone(), taints, is_ready(node))
    };
    change.after.is_some() && change.before.as_ref().map(facts) != change.after.as_ref().map(facts)
}

impl Controller for Binder {
    type Key = Key;

    const NAME: &'static str = "provisional-binder";

    async fn reconcile(&mut self, key: &Key, now: Timestamp) -> Result<Next, SyncError> {
        let Some(pod) = self.caches.pods.get(key) else { return Ok(Next::Settled) };
        let nodes = self.caches.nodes.all();
        let pods = &self.caches.pods;
        match place(&pod, &nodes, |node| pods.count_tagged(node)) {
            Verdict::Ignore => {}
            Verdict::Bind(node) => match self.bind(&pod, &node).await {
                // Bound by somebody else, or gone.
                Err(error) if error.is_conflict() || error.is_missing() => {}
                other => other?,
            },
            Verdict::Nowhere(message) => self.refuse(&pod, &message, now).await?,
        }
        Ok(Next::Settled)
    }
}
