//! The ReplicaSet controller: looks, plans, writes.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{ReplicaSet, ReplicaSetStatus},
    core::v1::Pod,
};
use tracing::debug;

use super::{
    Action, Failure, Observed, Verdict, min_ready_seconds, plan, rank::by_node, status, wanted,
};
use crate::controllers::{
    amount::count,
    caches::Caches,
    claim::{Owner, claim, selects, workload_selector},
    drive::{Controller, Next},
    expectations::{Expectations, LOOK_AGAIN},
    key::{Key, Seen, controller_of, uid},
    merge,
    owners::{enqueue_owner, selecting},
    pod::{is_active, is_leaving, next_available},
    queue::Queue,
    template,
    writer::{SyncError, Writer, name},
};

pub(crate) struct ReplicaSets {
    caches: Caches,
    writer: Writer,
    expectations: Expectations<Key>,
}

impl ReplicaSets {
    pub(crate) fn new(caches: &Caches, writer: Writer) -> (Self, Queue<Key>) {
        let queue = Queue::new();
        let keys = queue.clone();
        caches.replica_sets.subscribe(move |change| {
            if let Some(set) = change.latest() {
                keys.add(Key::of(&**set));
            }
        });
        let keys = queue.clone();
        let sets = caches.replica_sets.clone();
        caches.pods.subscribe(move |change| {
            enqueue_owner(&keys, "ReplicaSet", change);
            for key in
                selecting(&sets, change, |set| workload_selector(&set.spec.as_ref()?.selector))
            {
                keys.add(key);
            }
        });
        let expectations = Expectations::new();
        (Self { caches: caches.clone(), writer, expectations }, queue)
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
    ) -> (Option<Failure>, Option<SyncError>) {
        let key = Key::of(set);
        match action {
            Action::Create(count) => {
                let template = set.spec.as_ref().and_then(|spec| spec.template.clone());
                let pod = template::pod(&Owner::of(set), &template.unwrap_or_default());
                let created = self.writer.create_all(&vec![pod; count]).await;
                for pod in &created.done {
                    self.expectations.created(&key, pod, now);
                    let message = format!("Created pod: {}", name(pod));
                    self.writer.normal(set, "SuccessfulCreate", message);
                }
                let error = created.error.filter(|error| !error.is_namespace_ending());
                let failure = error.as_ref().map(|error| {
                    let message = format!("Error creating: {}", error.message());
                    self.writer.warning(set, "FailedCreate", message);
                    Failure { reason: "FailedCreate", message: error.message() }
                });
                (failure, error)
            }
            Action::Delete(victims) => {
                let deleted = self.writer.delete_all(&victims).await;
                for pod in &deleted.done {
                    self.expectations.deleted(&key, &**pod, now);
                    let message = format!("Deleted pod: {}", name(&**pod));
                    self.writer.normal(set, "SuccessfulDelete", message);
                }
                let failure = deleted.error.as_ref().map(|error| {
                    let message = format!("Error deleting: {}", error.message());
                    self.writer.warning(set, "FailedDelete", message);
                    Failure { reason: "FailedDelete", message: error.message() }
                });
                (failure, deleted.error)
            }
        }
    }

    async fn write_status(
        &self,
        set: &ReplicaSet,
        after: &ReplicaSetStatus,
    ) -> Result<(), SyncError> {
        match merge::status(&Seen::of(set), set.status.as_ref(), after) {
            Some(patch) => {
                self.writer.patch_status::<ReplicaSet>(&Key::of(set), &patch).await.map(drop)
            }
            None => Ok(()),
        }
    }
}

impl Controller for ReplicaSets {
    type Key = Key;

    const NAME: &'static str = "replicaset-controller";

    async fn reconcile(&mut self, key: &Key, now: Timestamp) -> Result<Next, SyncError> {
        let Some(set) = self.caches.replica_sets.get(key) else {
            self.expectations.forget(key);
            return Ok(Next::Settled);
        };
        let selector = set.spec.as_ref().and_then(|spec| workload_selector(&spec.selector));
        let Some(selector) = selector else {
            debug!(object = %key, "skipping a ReplicaSet that selects everything");
            return Ok(Next::Settled);
        };
        // Ask before looking: what the cache learns in between must not be missed.
        let is_current = self.expectations.are_met(key, &self.caches.pods, now);
        let controlled = self.caches.pods.controlled_by(uid(&*set));
        let leaving =
            controlled.iter().filter(|pod| is_leaving(pod) && selects(&selector, &***pod)).count();
        let candidates = controlled
            .into_iter()
            .chain(self.caches.pods.uncontrolled(&key.namespace))
            .filter(|pod| is_active(pod));
        let owner = Owner::of(&*set);
        let claims = claim(&owner, candidates, |pod| selects(&selector, pod));
        let active = self.writer.settle::<ReplicaSet, Pod>(&owner, claims).await?;

        let neighbours = match active.len() > crate::controllers::amount::length(wanted(&set)) {
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
        self.write_status(&set, &status).await?;
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
