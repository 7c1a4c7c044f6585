//! The Deployment controller: looks, plans, writes.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{Deployment, DeploymentStatus, ReplicaSet},
    core::v1::Pod,
};
use kube::ResourceExt;
use kube::api::DeleteParams;
use reconcile::drive::Controller;
use reconcile::key::{Key, ObjectVersion, controller_of, uid};
use reconcile::merge::{self, precondition};
use reconcile::queue::{Next, Queue};
use reconcile::record::Recorder;
use reconcile::write::{WriteError, Writer};
use serde_json::{Value, json};
use tracing::debug;

use super::{Action, Observed, plan, refused, sets::is_own};
use crate::{
    controllers::{
        Tools,
        caches::Caches,
        claim::{Owner, settle},
        owners::{Workload, owner_key, wake_owners},
        replica_set::wanted,
    },
    well_known::REVISION,
};

/// How soon to look again after the hash of a template was taken.
const AFTER_COLLISION: Duration = Duration::from_millis(20);

pub(crate) struct Deployments {
    caches: Caches,
    writer: Writer,
    events: Recorder,
}

/// How the actions of a plan went.
enum Outcome {
    Done,
    /// Something else has the new ReplicaSet's name.
    Collision,
    /// The cache does not know our own ReplicaSet yet, or nothing can be created any more.
    Wait,
    Refused(WriteError),
}

impl Deployments {
    pub(crate) fn new(Tools { caches, writer, events }: Tools) -> (Self, Queue<Key>) {
        let queue = Queue::default();
        wake_owners(&caches.deployments, &caches.replica_sets, &queue, |key| key);
        // A rollout that recreates waits for the last old pod.
        let (keys, sets) = (queue.clone(), caches.replica_sets.clone());
        caches.pods.subscribe(move |change| {
            if change.after.is_none()
                && let Some(pod) = &change.before
                && let Some(set) = owner_key(&**pod, "ReplicaSet").and_then(|key| sets.get(&key))
                && let Some(deployment) = owner_key(&*set, "Deployment")
            {
                keys.add(deployment);
            }
        });
        (Self { caches, writer, events }, queue)
    }

    async fn act(
        &self,
        deployment: &Deployment,
        actions: Vec<Action>,
    ) -> Result<Outcome, WriteError> {
        for action in actions {
            match action {
                Action::Create(set) => match self.writer.create(&*set).await {
                    Ok(_) => self.tell_scaled(deployment, &set.name_any(), 0, wanted(&set)),
                    Err(error) if error.is_taken() => {
                        return self.who_has(deployment, &set).await;
                    }
                    Err(error) if error.is_namespace_ending() => return Ok(Outcome::Wait),
                    Err(error) => return Ok(Outcome::Refused(error)),
                },
                Action::Update { before, after } => {
                    if let Some(patch) =
                        merge::object(&ObjectVersion::of(&*before), &*before, &*after)
                    {
                        self.writer.patch::<ReplicaSet>(&Key::of(&*before), &patch).await?;
                        let (from, to) = (wanted(&before), wanted(&after));
                        self.tell_scaled(deployment, &before.name_any(), from, to);
                    }
                }
                Action::Delete(set) => {
                    let background = DeleteParams::background();
                    self.writer
                        .delete_exactly::<ReplicaSet>(&ObjectVersion::of(&*set), background)
                        .await?;
                }
            }
        }
        Ok(Outcome::Done)
    }

    async fn who_has(
        &self,
        deployment: &Deployment,
        wanted: &ReplicaSet,
    ) -> Result<Outcome, WriteError> {
        match self.writer.get::<ReplicaSet>(&Key::of(wanted)).await? {
            Some(found) if !is_own(deployment, &found, wanted) => Ok(Outcome::Collision),
            _ => Ok(Outcome::Wait),
        }
    }

    fn tell_scaled(&self, deployment: &Deployment, set: &str, from: i32, to: i32) {
        let direction = match from.cmp(&to) {
            std::cmp::Ordering::Equal => return,
            std::cmp::Ordering::Less => "up",
            std::cmp::Ordering::Greater => "down",
        };
        let message = format!("Scaled {direction} replica set {set} from {from} to {to}");
        self.events.normal(deployment, "ScalingReplicaSet", message);
    }

    async fn write_status(
        &self,
        deployment: &Deployment,
        after: &DeploymentStatus,
        revision: Option<String>,
    ) -> Result<(), WriteError> {
        let seen = ObjectVersion::of(deployment);
        let mut patch = merge::status(&seen, deployment.status.as_ref(), after);
        if let Some(revision) = revision {
            let patch = patch.get_or_insert_with(|| json!({ "metadata": precondition(&seen) }));
            if let Some(metadata) = patch.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.insert("annotations".into(), json!({ REVISION: revision }));
            }
        }
        match patch {
            Some(patch) => {
                self.writer.patch_status::<Deployment>(&seen.key, &patch).await.map(drop)
            }
            None => Ok(()),
        }
    }

    fn pods_of(&self, sets: &[Arc<ReplicaSet>]) -> Vec<Arc<Pod>> {
        sets.iter().flat_map(|set| self.caches.pods.controlled_by(uid(&**set))).collect()
    }
}

impl Controller for Deployments {
    type Key = Key;

    const NAME: &'static str = "deployment-controller";

    async fn reconcile(&mut self, key: &Key, now: Timestamp) -> Result<Next, WriteError> {
        let Some(deployment) = self.caches.deployments.get(key) else { return Ok(Next::Settled) };
        let Some(selector) = deployment.selector() else {
            debug!(object = %key, "skipping a Deployment that selects everything");
            return Ok(Next::Settled);
        };
        let owner = Owner::of(&*deployment);
        let candidates = self.caches.replica_sets.controlled_by(&owner.uid).into_iter();
        let candidates = candidates.chain(self.caches.replica_sets.uncontrolled(&key.namespace));
        let mut sets =
            settle::<Deployment, ReplicaSet>(&self.writer, &owner, &selector, candidates).await?;
        sets.retain(|set| controller_of(&set.metadata).is_some());
        let pods = self.pods_of(&sets);
        let observed = Observed { deployment: &deployment, sets: &sets, pods: &pods };
        let plan = plan(&observed, now);
        debug!(object = %key, why = ?plan.why, actions = plan.actions.len(), "rollout");

        match self.act(&deployment, plan.actions).await? {
            Outcome::Done => {
                self.write_status(&deployment, &plan.status, plan.revision).await?;
                Ok(Next::at(plan.recheck, now))
            }
            Outcome::Wait => Ok(Next::Settled),
            Outcome::Collision => {
                let mut status = deployment.status.clone().unwrap_or_default();
                let collisions = status.collision_count.unwrap_or(0).saturating_add(1);
                status.collision_count = Some(collisions);
                self.write_status(&deployment, &status, None).await?;
                Ok(Next::After(AFTER_COLLISION))
            }
            Outcome::Refused(error) => {
                let set = format!("{}-", key.name);
                let status = refused(&observed, &set, &error.message(), now);
                self.write_status(&deployment, &status, None).await?;
                Err(error)
            }
        }
    }
}
