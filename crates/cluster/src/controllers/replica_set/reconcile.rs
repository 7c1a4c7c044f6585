//! The ReplicaSet controller: looks, plans, writes.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
use reconcile::drive::Controller;
use reconcile::key::{Key, controller_of, uid};
use reconcile::queue::{Next, Queue};
use reconcile::write::WriteError;
use tracing::debug;

use super::{
    Action, Failure, Observed, Verdict, min_ready_seconds, plan, rank::by_node, status, wanted,
};
use crate::controllers::{
    Tools,
    amount::{count, length},
    caches::Caches,
    claim::{Owner, selects, settle},
    expectations::LOOK_AGAIN,
    owners::{Workload, wake_owners},
    pod::{is_active, is_leaving, next_available},
    pods::PodWriter,
    template,
};

pub(crate) struct ReplicaSets {
    caches: Caches,
    pods: PodWriter,
}

impl ReplicaSets {
    pub(crate) fn new(Tools { caches, writer, events }: Tools) -> (Self, Queue<Key>) {
        let queue = Queue::default();
        wake_owners(&caches.replica_sets, &caches.pods, &queue, |key| key);
        (Self { caches, pods: PodWriter::new(writer, events) }, queue)
    }

    /// Active pods of this set and of its siblings, by node: what a scale-down should spread.
    fn neighbours(&self, set: &ReplicaSet, active: &[Arc<Pod>]) -> HashMap<String, usize> {
        let Some(controller) = controller_of(&set.metadata) else { return by_node(active) };
        let siblings = self.caches.replica_sets.controlled_by(&controller.uid);
        let pods: Vec<_> = siblings
            .iter()
            .flat_map(|sibling| self.caches.pods.controlled_by(uid(&**sibling)))
            .collect();
        by_node(&pods)
    }

    async fn act(
        &mut self,
        set: &ReplicaSet,
        action: Action,
        now: Timestamp,
    ) -> (Option<Failure>, Option<WriteError>) {
        let (acted, reason) = match action {
            Action::Create(count) => {
                let template = set.spec.as_ref().and_then(|spec| spec.template.clone());
                let pod = template::pod(&Owner::of(set), &template.unwrap_or_default());
                (self.pods.create(set, &vec![pod; count], now).await, "FailedCreate")
            }
            Action::Delete(victims) => {
                let deleted = self.pods.delete(set, &victims, now).await;
                if let Err(error) = &deleted {
                    let text = format!("Error deleting: {}", error.message());
                    self.pods.events.warning(set, "FailedDelete", text);
                }
                (deleted, "FailedDelete")
            }
        };
        let error = acted.err();
        (error.as_ref().map(|error| Failure { reason, message: error.message() }), error)
    }
}

impl Controller for ReplicaSets {
    type Key = Key;

    const NAME: &'static str = "replicaset-controller";

    async fn reconcile(&mut self, key: &Key, now: Timestamp) -> Result<Next, WriteError> {
        let Some(set) = self.caches.replica_sets.get(key) else {
            self.pods.expectations.forget(key);
            return Ok(Next::Settled);
        };
        let Some(selector) = set.selector() else {
            debug!(object = %key, "skipping a ReplicaSet that selects everything");
            return Ok(Next::Settled);
        };
        // Ask before looking: what the cache learns in between must not be missed.
        let is_current = self.pods.expectations.are_met(key, &self.caches.pods, now);
        let controlled = self.caches.pods.controlled_by(uid(&*set));
        let leaving =
            controlled.iter().filter(|pod| is_leaving(pod) && selects(&selector, &***pod)).count();
        let orphans = self.caches.pods.uncontrolled(&key.namespace);
        let candidates = controlled.into_iter().chain(orphans).filter(|pod| is_active(pod));
        let (writer, owner) = (&self.pods.writer, Owner::of(&*set));
        let active = settle::<ReplicaSet, Pod>(writer, &owner, &selector, candidates).await?;

        let neighbours = match active.len() > length(wanted(&set)) {
            true => self.neighbours(&set, &active),
            false => HashMap::new(),
        };
        let observed = Observed { set: &set, active: &active, neighbours: &neighbours, is_current };
        let plan = plan(&observed, now);
        if plan.why.verdict != Verdict::Enough {
            debug!(object = %key, why = ?plan.why, "replicas");
        }
        let (failure, error) = match plan.action {
            Some(action) => self.act(&set, action, now).await,
            None => (None, None),
        };
        let status = status(&set, &active, leaving, failure.as_ref(), now);
        self.pods.writer.write_status(&*set, set.status.as_ref(), &status).await?;
        if let Some(error) = error {
            return Err(error);
        }
        let is_waiting = status.replicas == wanted(&set)
            && status.available_replicas.unwrap_or(0) < count(active.len());
        let pods = active.iter().map(|pod| &**pod);
        let next = next_available(pods, min_ready_seconds(&set), now).filter(|_| is_waiting);
        if next.is_none() && !is_current {
            return Ok(Next::After(LOOK_AGAIN));
        }
        Ok(Next::at(next, now))
    }
}
