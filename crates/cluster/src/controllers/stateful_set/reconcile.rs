//! The StatefulSet controller: looks, plans, writes.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, StatefulSet, StatefulSetStatus},
    core::v1::{PersistentVolumeClaim, Pod},
};
use kube::{ResourceExt, api::DeleteParams, core::Selector};
use reconcile::drive::Controller;
use reconcile::key::{Key, ObjectVersion, is_terminating};
use reconcile::merge;
use reconcile::queue::{Next, Queue};
use reconcile::record::Recorder;
use reconcile::write::{WriteError, Writer};
use serde_json::json;
use tracing::debug;

use super::{Action, Observed, View, Why, identity, plan};
use crate::{
    controllers::{
        Tools,
        caches::Caches,
        claim::{Owner, settle},
        expectations::{Expectations, LOOK_AGAIN},
        owners::{Workload, wake_owners},
        revision::{self, Subject},
        revisions::{self, Outcome},
    },
    well_known::{CONTROLLER_REVISION_HASH, POD_INDEX, STATEFUL_SET_POD_NAME},
};

/// Label of ControllerRevisions of StatefulSets.
const HASH_LABEL: &str = "controller.kubernetes.io/hash";
const AFTER_COLLISION: Duration = Duration::from_millis(20);
/// A volume claim that has to go before its pod can be made wakes nobody when it does.
const CLAIM_PAUSE: Duration = Duration::from_secs(1);

pub(crate) struct StatefulSets {
    caches: Caches,
    writer: Writer,
    events: Recorder,
    expectations: Expectations<Key>,
}

impl StatefulSets {
    pub(crate) fn new(Tools { caches, writer, events }: Tools) -> (Self, Queue<Key>) {
        let queue = Queue::default();
        wake_owners(&caches.stateful_sets, &caches.pods, &queue, |key| key);
        (Self { caches, writer, events, expectations: Expectations::new() }, queue)
    }

    /// The set's pods and revisions, adopted and released as needed.
    async fn claims(
        &self,
        set: &StatefulSet,
        selector: &Selector,
    ) -> Result<(Vec<Arc<Pod>>, Vec<Arc<ControllerRevision>>), WriteError> {
        let owner = Owner::of(set);
        let namespace = &owner.key.namespace;
        let pods = self.caches.pods.controlled_by(&owner.uid).into_iter();
        // A pod whose name is not of the row can never have a place in it.
        let orphans = self.caches.pods.uncontrolled(namespace).into_iter();
        let orphans = orphans.filter(|pod| identity::ordinal(&owner.key.name, pod).is_some());
        let (writer, pods) = (&self.writer, pods.chain(orphans));
        let pods = settle::<StatefulSet, Pod>(writer, &owner, selector, pods).await?;
        let kept = self.caches.revisions.controlled_by(&owner.uid).into_iter();
        let kept = kept.chain(self.caches.revisions.uncontrolled(namespace));
        let kept =
            settle::<StatefulSet, ControllerRevision>(writer, &owner, selector, kept).await?;
        Ok((pods, kept))
    }

    async fn act(&mut self, view: &View<'_>, actions: &[Action]) -> Result<(), WriteError> {
        let set = view.observed.set;
        for action in actions {
            match action {
                Action::Claims { ordinal, missing } => {
                    for name in missing {
                        self.create_claim(view, *ordinal, name).await?;
                    }
                }
                Action::Create { ordinal, version } => {
                    let pod = identity::pod(view, *ordinal, *version);
                    let what =
                        format!("create Pod {} in StatefulSet {}", pod.name_any(), view.name);
                    match self.writer.create(&pod).await {
                        Ok(created) => {
                            self.expectations.created(&Key::of(set), &created, view.now);
                            let message = format!("{what} successful");
                            self.events.normal(set, "SuccessfulCreate", message);
                        }
                        Err(error) if error.is_namespace_ending() => return Ok(()),
                        Err(error) => {
                            let message = format!("{what} failed error: {}", error.message());
                            self.events.warning(set, "FailedCreate", message);
                            return Err(error);
                        }
                    }
                }
                Action::Delete { pod, why } => self.delete(view, pod, *why).await?,
                Action::Relabel(pod) => {
                    let mut metadata = merge::precondition(&ObjectVersion::of(&**pod));
                    let ordinal = identity::ordinal(view.name, pod).unwrap_or_default();
                    let labels = json!({
                        STATEFUL_SET_POD_NAME: pod.metadata.name,
                        POD_INDEX: ordinal.to_string(),
                    });
                    metadata.insert("labels".into(), labels);
                    let patch = json!({ "metadata": metadata });
                    self.writer.patch::<Pod>(&Key::of(&**pod), &patch).await?;
                }
            }
        }
        Ok(())
    }

    async fn create_claim(
        &self,
        view: &View<'_>,
        ordinal: i32,
        claim: &str,
    ) -> Result<(), WriteError> {
        let Some(object) = identity::claim(view, ordinal, claim) else { return Ok(()) };
        match self.writer.create::<PersistentVolumeClaim>(&object).await {
            Ok(_) => {
                let pod = identity::pod_name(view.name, ordinal);
                let message =
                    format!("create Claim {claim} Pod {pod} in StatefulSet {} success", view.name);
                self.events.normal(view.observed.set, "SuccessfulCreate", message);
                Ok(())
            }
            Err(error) if error.is_taken() || error.is_namespace_ending() => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn delete(&mut self, view: &View<'_>, pod: &Pod, why: Why) -> Result<(), WriteError> {
        let set = view.observed.set;
        let (key, victim) = (Key::of(set), pod.name_any());
        match why {
            Why::Failed => {
                let message = format!("StatefulSet {key} is recreating failed Pod {victim}");
                self.events.warning(set, "RecreatingFailedPod", message);
            }
            Why::Succeeded => {
                let message = format!("StatefulSet {key} is recreating terminated Pod {victim}");
                self.events.normal(set, "RecreatingTerminatedPod", message);
            }
            Why::Beyond | Why::Outdated => {}
        }
        self.writer.delete_exactly::<Pod>(&ObjectVersion::of(pod), DeleteParams::default()).await?;
        self.expectations.deleted(&key, pod, view.now);
        let message = format!("delete Pod {victim} in StatefulSet {} successful", view.name);
        self.events.normal(set, "SuccessfulDelete", message);
        Ok(())
    }

    async fn trim(
        &self,
        view: &View<'_>,
        kept: &[Arc<ControllerRevision>],
    ) -> Result<(), WriteError> {
        let observed = view.observed;
        let used: BTreeSet<_> = observed
            .pods
            .iter()
            .filter_map(|pod| pod.metadata.labels.as_ref()?.get(CONTROLLER_REVISION_HASH))
            .chain(&observed.current.metadata.name)
            .chain(&observed.update.metadata.name)
            .collect();
        let is_used = |kept: &ControllerRevision| {
            kept.metadata.name.as_ref().is_some_and(|name| used.contains(name))
        };
        let limit = view.spec.revision_history_limit.unwrap_or(10);
        for revision in revision::surplus(kept, is_used, limit) {
            let background = DeleteParams::background();
            self.writer
                .delete_exactly::<ControllerRevision>(&ObjectVersion::of(&*revision), background)
                .await?;
        }
        Ok(())
    }

    async fn write_status(
        &mut self,
        set: &StatefulSet,
        after: &StatefulSetStatus,
    ) -> Result<(), WriteError> {
        let written = self.writer.write_status(set, set.status.as_ref(), after).await?;
        if let Some(written) = written {
            self.expectations.written(&Key::of(set), &written);
        }
        Ok(())
    }

    /// The revision of the present template, kept; `None` after a collision of names.
    async fn present(
        &mut self,
        set: &StatefulSet,
        kept: &[Arc<ControllerRevision>],
    ) -> Result<Option<Box<ControllerRevision>>, WriteError> {
        let owner = Owner::of(set);
        let template = set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
        let subject = Subject {
            owner: &owner,
            template: &template,
            annotations: set.metadata.annotations.as_ref(),
            hash_label: HASH_LABEL,
            collisions: set.status.as_ref().and_then(|status| status.collision_count),
        };
        let present = revision::present(&subject, kept);
        match revisions::keep(&self.writer, &owner, present).await? {
            Outcome::Kept(revision) => Ok(Some(revision)),
            Outcome::Collision => {
                let mut status = set.status.clone().unwrap_or_default();
                let collisions = status.collision_count.unwrap_or(0).saturating_add(1);
                status.collision_count = Some(collisions);
                self.write_status(set, &status).await?;
                Ok(None)
            }
        }
    }
}

impl Controller for StatefulSets {
    type Key = Key;

    const NAME: &'static str = "statefulset-controller";

    async fn reconcile(&mut self, key: &Key, now: Timestamp) -> Result<Next, WriteError> {
        let Some(set) = self.caches.stateful_sets.get(key) else {
            self.expectations.forget(key);
            return Ok(Next::Settled);
        };
        let is_current = self.expectations.is_fresh(key, &*set)
            && self.expectations.are_met(key, &self.caches.pods, now);
        if !is_current {
            return Ok(Next::After(LOOK_AGAIN));
        }
        let Some(selector) = set.selector() else {
            debug!(object = %key, "skipping a StatefulSet that selects everything");
            return Ok(Next::Settled);
        };
        let (pods, kept) = self.claims(&set, &selector).await?;
        let Some(update) = self.present(&set, &kept).await? else {
            return Ok(Next::After(AFTER_COLLISION));
        };
        let current = set.status.as_ref().and_then(|status| status.current_revision.as_ref());
        let current = current
            .and_then(|name| kept.iter().find(|has| has.metadata.name.as_ref() == Some(name)));
        let current = current.map_or(&*update, |current| &**current);
        let volume_claims: HashMap<_, _> = self
            .caches
            .volume_claims
            .in_namespace(&key.namespace)
            .iter()
            .map(|claim| (claim.name_any(), is_terminating(&**claim)))
            .collect();
        let observed =
            Observed { set: &set, pods: &pods, claims: &volume_claims, current, update: &update };
        let plan = plan(&observed, now);
        debug!(object = %key, wait = ?plan.wait, actions = plan.actions.len(), "row of pods");
        let view = View::new(&observed, now);
        let acted = self.act(&view, &plan.actions).await;
        self.write_status(&set, &plan.status).await?;
        acted?;
        self.trim(&view, &kept).await?;
        match plan.wait {
            super::Wait::Claim(_) => Ok(Next::After(CLAIM_PAUSE)),
            _ => Ok(Next::at(plan.recheck, now)),
        }
    }
}
