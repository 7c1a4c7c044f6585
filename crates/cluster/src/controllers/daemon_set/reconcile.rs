//! The DaemonSet controller: looks, plans, writes.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet},
    core::v1::{Node, Pod},
};
use kube::{api::DeleteParams, core::Selector};
use reconcile::drive::Controller;
use reconcile::key::{Key, ObjectVersion};
use reconcile::queue::{Next, Queue};
use reconcile::watch::Change;
use reconcile::write::WriteError;
use tracing::debug;

use super::{Observed, Plan, View, Why, nodes, plan};
use crate::{
    controllers::{
        Tools,
        caches::Caches,
        claim::{Owner, settle},
        expectations::LOOK_AGAIN,
        owners::{Workload, controllers, wake_owners},
        pods::PodWriter,
        revision::{self, Subject},
        revisions::{self, Outcome},
    },
    well_known::CONTROLLER_REVISION_HASH,
};

const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(1);
const LAST_PAUSE: SignedDuration = SignedDuration::from_mins(15);
const AFTER_COLLISION: Duration = Duration::from_millis(20);

pub(crate) struct DaemonSets {
    caches: Caches,
    pods: PodWriter,
    pauses: Pauses,
}

/// How long a failed daemon pod waits on its node before it is replaced: longer each time.
#[derive(Debug, Default)]
struct Pauses(HashMap<Key, HashMap<String, (SignedDuration, Timestamp)>>);

impl Pauses {
    fn until(&self, set: &Key) -> HashMap<String, Timestamp> {
        let nodes = self.0.get(set).into_iter().flatten();
        nodes.map(|(node, (_, until))| (node.clone(), *until)).collect()
    }

    fn failed(&mut self, set: &Key, node: &str, now: Timestamp) {
        let nodes = self.0.entry(set.clone()).or_default();
        let pause = match nodes.get(node) {
            // Nothing has failed for a long time: start over.
            Some((_, until)) if now.duration_since(*until) > LAST_PAUSE * 2 => FIRST_PAUSE,
            Some((pause, _)) => (*pause * 2).min(LAST_PAUSE),
            None => FIRST_PAUSE,
        };
        nodes.insert(node.to_owned(), (pause, now + pause));
    }
}

impl DaemonSets {
    pub(crate) fn new(Tools { caches, writer, events }: Tools) -> (Self, Queue<Key>) {
        let queue = Queue::default();
        wake_owners(&caches.daemon_sets, &caches.pods, &queue, |key| key);
        let keys = queue.clone();
        caches.revisions.subscribe(move |change| {
            controllers("DaemonSet", change).for_each(|key| keys.add(key));
        });
        let (keys, sets) = (queue.clone(), caches.daemon_sets.clone());
        caches.nodes.subscribe(move |change| {
            if decides_placement(change) {
                sets.all().iter().for_each(|set| keys.add(Key::of(&**set)));
            }
        });
        (Self { caches, pods: PodWriter::new(writer, events), pauses: Pauses::default() }, queue)
    }

    /// The set's pods and revisions, adopted and released as needed.
    async fn claims(
        &self,
        set: &DaemonSet,
        selector: &Selector,
    ) -> Result<(Vec<Arc<Pod>>, Vec<Arc<ControllerRevision>>), WriteError> {
        let (writer, owner) = (&self.pods.writer, Owner::of(set));
        let namespace = &owner.key.namespace;
        let pods = self.caches.pods.controlled_by(&owner.uid).into_iter();
        let pods = pods.chain(self.caches.pods.uncontrolled(namespace));
        let pods = settle::<DaemonSet, Pod>(writer, &owner, selector, pods).await?;
        let kept = self.caches.revisions.controlled_by(&owner.uid).into_iter();
        let kept = kept.chain(self.caches.revisions.uncontrolled(namespace));
        let kept = settle::<DaemonSet, ControllerRevision>(writer, &owner, selector, kept).await?;
        Ok((pods, kept))
    }

    async fn act(&mut self, view: &View<'_>, plan: &Plan, now: Timestamp) -> Option<WriteError> {
        let set = view.observed.set;
        let owner = Owner::of(set);
        for (pod, why) in &plan.delete {
            let node = super::target(pod).unwrap_or_default();
            let pod = Key::of(&**pod);
            match why {
                Why::Failed => {
                    self.pauses.failed(&owner.key, node, now);
                    let text = format!(
                        "Found failed daemon pod {pod} on node {node}, will try to kill it"
                    );
                    self.pods.events.warning(set, "FailedDaemonPod", text);
                }
                Why::Succeeded => {
                    let text = format!(
                        "Found succeeded daemon pod {pod} on node {node}, will try to delete it"
                    );
                    self.pods.events.normal(set, "SucceededDaemonPod", text);
                }
                _ => debug!(object = %owner.key, %pod, ?why, "replacing a daemon pod"),
            }
        }
        let pods: Vec<_> = plan.create.iter().map(|node| nodes::pod(view, &owner, node)).collect();
        let created = self.pods.create(set, &pods, now).await;
        let victims: Vec<_> = plan.delete.iter().map(|(pod, _)| pod.clone()).collect();
        let deleted = self.pods.delete(set, &victims, now).await;
        created.and(deleted).err()
    }

    async fn trim(
        &self,
        set: &DaemonSet,
        pods: &[Arc<Pod>],
        kept: &[Arc<ControllerRevision>],
        present: &str,
    ) -> Result<(), WriteError> {
        let limit = set.spec.as_ref().and_then(|spec| spec.revision_history_limit).unwrap_or(10);
        let used: BTreeSet<_> = pods
            .iter()
            .filter_map(|pod| pod.metadata.labels.as_ref()?.get(CONTROLLER_REVISION_HASH))
            .map(String::as_str)
            .chain([present])
            .collect();
        let is_used = |kept: &ControllerRevision| {
            revision::hash(kept, CONTROLLER_REVISION_HASH).is_some_and(|hash| used.contains(hash))
        };
        for revision in revision::surplus(kept, is_used, limit) {
            let background = DeleteParams::background();
            self.pods
                .writer
                .delete_exactly::<ControllerRevision>(&ObjectVersion::of(&*revision), background)
                .await?;
        }
        Ok(())
    }
}

/// Nodes report every few seconds; only labels and taints decide who may run there.
fn decides_placement(change: &Change<Node>) -> bool {
    let facts = |node: &Arc<Node>| {
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone());
        (node.metadata.labels.clone(), taints)
    };
    change.before.as_ref().map(facts) != change.after.as_ref().map(facts)
}

impl Controller for DaemonSets {
    type Key = Key;

    const NAME: &'static str = "daemonset-controller";

    async fn reconcile(&mut self, key: &Key, now: Timestamp) -> Result<Next, WriteError> {
        let Some(set) = self.caches.daemon_sets.get(key) else {
            self.pods.expectations.forget(key);
            self.pauses.0.remove(key);
            return Ok(Next::Settled);
        };
        let Some(selector) = set.selector() else {
            debug!(object = %key, "skipping a DaemonSet that selects everything");
            return Ok(Next::Settled);
        };
        let is_current = self.pods.expectations.are_met(key, &self.caches.pods, now);
        let (pods, kept) = self.claims(&set, &selector).await?;
        let owner = Owner::of(&*set);
        let template = set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
        let subject = Subject {
            owner: &owner,
            template: &template,
            annotations: set.metadata.annotations.as_ref(),
            hash_label: CONTROLLER_REVISION_HASH,
            collisions: set.status.as_ref().and_then(|status| status.collision_count),
        };
        let present = revision::present(&subject, &kept);
        let present = match revisions::keep(&self.pods.writer, &owner, present).await? {
            Outcome::Kept(revision) => revision,
            Outcome::Collision => {
                let mut status = set.status.clone().unwrap_or_default();
                status.collision_count =
                    Some(status.collision_count.unwrap_or(0).saturating_add(1));
                self.pods.writer.write_status(&*set, set.status.as_ref(), &status).await?;
                return Ok(Next::After(AFTER_COLLISION));
            }
        };
        let hash = revision::hash(&present, CONTROLLER_REVISION_HASH).unwrap_or_default();
        let all_nodes = self.caches.nodes.all();
        let held = self.pauses.until(key);
        let observed =
            Observed { set: &set, nodes: &all_nodes, pods: &pods, hash, held: &held, is_current };
        let plan = plan(&observed, now);
        let error = self.act(&View::new(&observed, now), &plan, now).await;
        self.pods.writer.write_status(&*set, set.status.as_ref(), &plan.status).await?;
        self.trim(&set, &pods, &kept, hash).await?;
        match error {
            Some(error) => Err(error),
            None if plan.recheck.is_none() && !is_current => Ok(Next::After(LOOK_AGAIN)),
            None => Ok(Next::at(plan.recheck, now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::fixture::{NOW, node, tainted};

    #[test]
    fn pauses_grow_and_are_forgotten() {
        let mut pauses = Pauses::default();
        let key = Key::new("default", "agent");
        let mut now = NOW;
        let mut waits = Vec::new();
        for _ in 0..12 {
            pauses.failed(&key, "n1", now);
            let until = pauses.until(&key)["n1"];
            waits.push(until.duration_since(now).as_secs());
            now = until;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);
        now += SignedDuration::from_hours(2);
        pauses.failed(&key, "n1", now);
        assert_eq!(pauses.until(&key)["n1"].duration_since(now).as_secs(), 1);
    }

    #[test]
    fn a_heartbeat_wakes_no_daemon_set() {
        let change = |before, after| Change { before, after };
        let n1 = || Some(Arc::new(node("n1")));
        let mut beating = node("n1");
        beating.metadata.resource_version = Some("2".into());
        beating.status = None;
        assert!(!decides_placement(&change(n1(), Some(Arc::new(beating)))));
        assert!(decides_placement(&change(None, n1())));
        assert!(decides_placement(&change(n1(), None)));
        let tainted = tainted(node("n1"), "a", "NoSchedule");
        assert!(decides_placement(&change(n1(), Some(Arc::new(tainted)))));
    }
}
