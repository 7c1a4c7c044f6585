//! The taint eviction controller: looks at a pod when it, or its node's taints, change.

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use kube::api::DeleteParams;
use reconcile::clock::stamp;
use reconcile::drive::Controller;
use reconcile::key::{Key, ObjectVersion, uid};
use reconcile::merge::precondition;
use reconcile::queue::{Next, Queue};
use reconcile::record::Recorder;
use reconcile::write::{WriteError, Writer, missing_is_fine};
use serde_json::json;
use tracing::info;

use super::{Verdict, verdict};
use crate::controllers::{
    Tools,
    caches::Caches,
    pod::{PodFacts, with_condition},
};

pub(crate) struct Evictions {
    caches: Caches,
    writer: Writer,
    events: Recorder,
    /// When a pod was first seen on a tainted node, and its id.
    noticed: HashMap<Key, (String, Timestamp)>,
}

impl Evictions {
    pub(crate) fn new(Tools { caches, writer, events }: Tools) -> (Self, Queue<Key>) {
        let queue = Queue::default();
        let (keys, nodes) = (queue.clone(), caches.nodes.clone());
        caches.pods.subscribe(move |change| {
            let Some(pod) = change.latest() else { return };
            let node = pod.node().and_then(|node| nodes.get(&Key::new("", node)));
            let has_taints = node.is_some_and(|node| {
                let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
                taints.is_some_and(|taints| taints.iter().any(|taint| taint.effect == "NoExecute"))
            });
            if has_taints {
                keys.add(Key::of(&**pod));
            }
        });
        let (keys, all) = (queue.clone(), caches.clone());
        caches.nodes.subscribe(move |change| {
            let taints = |node: &std::sync::Arc<k8s_openapi::api::core::v1::Node>| {
                node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default()
            };
            let before = change.before.as_ref().map(taints).unwrap_or_default();
            let Some(node) = change.after.as_ref().filter(|node| taints(node) != before) else {
                return;
            };
            for pod in all.pods_on(node.metadata.name.as_deref().unwrap_or_default()) {
                keys.add(Key::of(&*pod));
            }
        });
        (Self { caches, writer, events, noticed: HashMap::new() }, queue)
    }

    async fn evict(&self, pod: &Pod, now: Timestamp) -> Result<(), WriteError> {
        let key = Key::of(pod);
        info!(pod = %key, node = pod.node(), "evicting a pod: it does not tolerate its node's taint");
        self.events.normal(pod, "TaintManagerEviction", format!("Marking for deletion Pod {key}"));
        let condition = PodCondition {
            type_: "DisruptionTarget".into(),
            status: "True".into(),
            reason: Some("DeletionByTaintManager".into()),
            message: Some("Taint manager: deleting due to NoExecute taint".into()),
            last_transition_time: Some(stamp(now)),
            ..PodCondition::default()
        };
        let seen = ObjectVersion::of(pod);
        let metadata = precondition(&seen);
        let conditions = with_condition(pod, condition);
        let patch = json!({ "metadata": metadata, "status": { "conditions": conditions } });
        if missing_is_fine(self.writer.patch_status::<Pod>(&key, &patch).await)?.is_none() {
            return Ok(());
        }
        self.writer.delete_exactly::<Pod>(&seen, DeleteParams::default()).await
    }
}

impl Controller for Evictions {
    type Key = Key;

    const NAME: &'static str = "taint-eviction-controller";

    async fn reconcile(&mut self, key: &Key, now: Timestamp) -> Result<Next, WriteError> {
        let pod = self.caches.pods.get(key);
        let on = pod.as_ref().and_then(|pod| pod.node());
        let node = on.and_then(|node| self.caches.nodes.get(&Key::new("", node)));
        let (Some(pod), Some(node)) = (&pod, node) else {
            self.noticed.remove(key);
            return Ok(Next::Settled);
        };
        let noticed = self.noticed.get(key).filter(|(id, _)| id == uid(&**pod));
        let noticed = noticed.map_or(now, |(_, at)| *at);
        match verdict(pod, &node, noticed) {
            Verdict::Stay => {
                self.noticed.remove(key);
                Ok(Next::Settled)
            }
            Verdict::Leave(at) if at <= now => {
                self.evict(pod, now).await?;
                self.noticed.remove(key);
                Ok(Next::Settled)
            }
            Verdict::Leave(at) => {
                self.noticed.insert(key.clone(), (uid(&**pod).to_owned(), noticed));
                Ok(Next::at(Some(at), now))
            }
        }
    }
}
