//! The pod garbage collector: looks at all pods every 20 seconds.

use std::{collections::BTreeMap, fmt, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, PodCondition};
use kube::{Api, Resource, api::DeleteParams};
use reconcile::clock::stamp;
use reconcile::drive::Controller;
use reconcile::key::{Key, ObjectVersion};
use reconcile::merge::precondition;
use reconcile::queue::{Next, Queue};
use reconcile::write::{WriteError, Writer, missing_is_fine};
use serde_json::json;
use tracing::info;

use super::{FINISHED_LIMIT, Missing, Why, plan};
use crate::controllers::{
    Tools,
    caches::Caches,
    pod::{PodFacts, with_condition},
};

const PERIOD: Duration = Duration::from_secs(20);

pub(crate) struct PodGarbage {
    caches: Caches,
    writer: Writer,
    missing: Missing,
}

/// There is one thing to look at: all pods together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AllPods;

impl fmt::Display for AllPods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("all pods")
    }
}

impl PodGarbage {
    pub(crate) fn new(Tools { caches, writer, .. }: Tools) -> (Self, Queue<AllPods>) {
        let queue = Queue::default();
        queue.add(AllPods);
        (Self { caches, writer, missing: Missing::new() }, queue)
    }

    /// Asks the server itself: the cache may not have seen a new node yet.
    async fn is_gone(&self, node: &str) -> Result<bool, WriteError> {
        let api: Api<Node> = Api::all(self.writer.client.clone());
        let (kind, key) = (Node::kind(&()), Key::new("", node));
        let found = self.writer.ask("get", &kind, &key, api.get_metadata_opt(node)).await?;
        Ok(found.is_none())
    }

    async fn remove(&self, pod: &Pod, why: Why, now: Timestamp) -> Result<(), WriteError> {
        let (key, mut seen) = (Key::of(pod), ObjectVersion::of(pod));
        info!(pod = %key, ?why, "removing a pod that nobody else would");
        if let Some(message) = why.message().filter(|_| !pod.is_finished()) {
            let condition = PodCondition {
                type_: "DisruptionTarget".into(),
                status: "True".into(),
                reason: Some("DeletionByPodGC".into()),
                message: Some(message.into()),
                last_transition_time: Some(stamp(now)),
                ..PodCondition::default()
            };
            let status = json!({ "phase": "Failed", "conditions": with_condition(pod, condition) });
            let patch = json!({ "metadata": precondition(&seen), "status": status });
            match missing_is_fine(self.writer.patch_status::<Pod>(&key, &patch).await)? {
                Some(written) => seen = ObjectVersion::of(&written),
                None => return Ok(()),
            }
        }
        self.writer.delete_exactly::<Pod>(&seen, DeleteParams::default().grace_period(0)).await
    }
}

impl Controller for PodGarbage {
    type Key = AllPods;

    const NAME: &'static str = "pod-garbage-collector";

    async fn reconcile(&mut self, _: &AllPods, now: Timestamp) -> Result<Next, WriteError> {
        let (pods, nodes) = (self.caches.pods.all(), self.caches.nodes.all());
        let plan = plan(&pods, &nodes, &self.missing, FINISHED_LIMIT, now);
        self.missing = plan.missing;
        let mut gone = BTreeMap::new();
        for (pod, why) in plan.remove {
            if why == Why::NodeGone {
                let node = pod.node().unwrap_or_default().to_owned();
                if !gone.contains_key(&node) {
                    gone.insert(node.clone(), self.is_gone(&node).await?);
                }
                if gone.get(&node) != Some(&true) {
                    continue;
                }
            }
            match self.remove(&pod, why, now).await {
                Err(error) if error.is_conflict() => {}
                other => other?,
            }
        }
        Ok(Next::After(PERIOD))
    }
}
