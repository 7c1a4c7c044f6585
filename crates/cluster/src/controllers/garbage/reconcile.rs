//! The garbage collector: reads an object and its owners from the server, plans, writes.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, Patch, Preconditions, PropagationPolicy};
use reconcile::drive::Controller;
use reconcile::key::Key;
use reconcile::queue::Next;
use reconcile::write::{WriteError, Writer, missing_is_fine};
use serde_json::{Value, json};
use tracing::{debug, info};

use super::{Action, Monitors, Object, Observed, Standing, Why, awaits_dependents, plan};
use crate::controllers::kinds::ServedKind;

/// When to look again for an owner whose kind is not known.
const UNRESOLVABLE_PAUSE: Duration = Duration::from_secs(30);

pub(crate) struct Garbage {
    writer: Writer,
    monitors: Monitors,
}

impl Garbage {
    pub(crate) fn new(writer: Writer, monitors: Monitors) -> Self {
        Self { writer, monitors }
    }

    async fn read(&self, kind: &ServedKind, key: &Key) -> Result<Option<ObjectMeta>, WriteError> {
        let api = kind.api(&self.writer.client, &key.namespace);
        let reading = api.get_metadata_opt(&key.name);
        let found = self.writer.ask("get", &kind.resource.kind, key, reading).await?;
        Ok(found.map(|found| found.metadata))
    }

    /// How an owner fares. Its kind may be served in another version than the reference says.
    async fn standing(
        &self,
        item: &Object,
        owner: &OwnerReference,
    ) -> Result<Standing, WriteError> {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        let kinds = self.monitors.kinds.lock().clone();
        let Some(kind) = kinds.iter().find(|kind| kind.is(group, &owner.kind)) else {
            return Ok(Standing::Unresolvable);
        };
        if kind.is_namespaced && item.key.namespace.is_empty() {
            return Ok(Standing::Unresolvable);
        }
        let key = kind.key_beside(&item.key, &owner.name);
        let live = self.read(kind, &key).await?;
        Ok(match live.filter(|live| live.uid.as_deref() == Some(owner.uid.as_str())) {
            None => Standing::Absent,
            Some(live) if awaits_dependents(&live) => Standing::Waiting,
            Some(_) => Standing::Solid,
        })
    }

    async fn act(
        &self,
        item: &Object,
        meta: &ObjectMeta,
        action: &Action,
    ) -> Result<ObjectMeta, WriteError> {
        let owners = || meta.owner_references.clone().unwrap_or_default();
        match action {
            Action::Delete(policy) => {
                self.delete(item, meta, policy).await?;
                Ok(meta.clone())
            }
            Action::DropOwners(lost) => {
                let mut kept = owners();
                kept.retain(|owner| !lost.contains(&owner.uid));
                self.patch(item, meta, "ownerReferences", json!(kept)).await
            }
            Action::Unblock => {
                let mut free = owners();
                for owner in &mut free {
                    owner.block_owner_deletion = owner.block_owner_deletion.map(|_| false);
                }
                self.patch(item, meta, "ownerReferences", json!(free)).await
            }
            Action::RemoveFinalizer(finalizer) => {
                let mut kept = meta.finalizers.clone().unwrap_or_default();
                kept.retain(|one| one != finalizer);
                self.patch(item, meta, "finalizers", json!(kept)).await
            }
            Action::OrphanDependents => {
                self.orphan_dependents(&item.uid).await?;
                Ok(meta.clone())
            }
        }
    }

    async fn orphan_dependents(&self, owner: &str) -> Result<(), WriteError> {
        let dependents: Vec<_> = {
            let graph = self.monitors.graph.lock();
            let ids = graph.dependents(owner);
            ids.iter().filter_map(|dependent| graph.get(&dependent.uid).cloned()).collect()
        };
        for dependent in dependents {
            let live = self.read(&dependent.kind, &dependent.key).await?;
            let live = live.filter(|live| live.uid.as_deref() == Some(dependent.uid.as_str()));
            let Some(live) = live else { continue };
            let drop = Action::DropOwners(vec![owner.to_owned()]);
            missing_is_fine(Box::pin(self.act(&dependent, &live, &drop)).await)?;
        }
        Ok(())
    }

    async fn patch(
        &self,
        item: &Object,
        meta: &ObjectMeta,
        field: &str,
        value: Value,
    ) -> Result<ObjectMeta, WriteError> {
        let patch = json!({ "metadata": {
            "uid": item.uid,
            "resourceVersion": meta.resource_version,
            field: value,
        } });
        let (params, patch) = (self.writer.patch_params(), Patch::Merge(&patch));
        let api = item.kind.api(&self.writer.client, &item.key.namespace);
        let patching = api.patch_metadata(&item.key.name, &params, &patch);
        let kind = &item.kind.resource.kind;
        Ok(self.writer.send("patch", kind, &item.key, patching).await?.metadata)
    }

    /// Deletes exactly what was read.
    async fn delete(
        &self,
        item: &Object,
        meta: &ObjectMeta,
        policy: &PropagationPolicy,
    ) -> Result<(), WriteError> {
        let kind = &item.kind.resource.kind;
        info!(kind, object = %item.key, ?policy, "deleting an object without owners");
        let params = DeleteParams {
            propagation_policy: Some(policy.clone()),
            preconditions: Some(Preconditions {
                uid: Some(item.uid.clone()),
                resource_version: meta.resource_version.clone(),
            }),
            ..DeleteParams::default()
        };
        let api = item.kind.api(&self.writer.client, &item.key.namespace);
        let deleting = api.delete(&item.key.name, &params);
        missing_is_fine(self.writer.send("delete", kind, &item.key, deleting).await).map(drop)
    }
}

impl Controller for Garbage {
    type Key = String;

    const NAME: &'static str = "garbage-collector";

    async fn reconcile(&mut self, uid: &String, _now: Timestamp) -> Result<Next, WriteError> {
        let (item, dependents) = {
            let graph = self.monitors.graph.lock();
            let Some(item) = graph.get(uid).cloned() else { return Ok(Next::Settled) };
            (item, graph.dependents(uid))
        };
        let live = self.read(&item.kind, &item.key).await?;
        let Some(mut meta) = live.filter(|live| live.uid.as_ref() == Some(uid)) else {
            // The watch will say so too.
            return Ok(Next::Settled);
        };
        let mut owners = Vec::new();
        for owner in meta.owner_references.iter().flatten() {
            owners.push((owner.clone(), self.standing(&item, owner).await?));
        }
        let plan = plan(&Observed { meta: &meta, owners: &owners, dependents: &dependents });
        debug!(object = %item.key, kind = item.kind.resource.kind, why = ?plan.why, "garbage?");
        if plan.why == Why::Blocked {
            // One that has come after the owner began to wait has not been told to go.
            let blocking =
                dependents.iter().filter(|dependent| dependent.blocks && !dependent.waits);
            blocking.for_each(|dependent| self.monitors.queue.add(dependent.uid.clone()));
        }
        for action in &plan.actions {
            match self.act(&item, &meta, action).await {
                Ok(next) => meta = next,
                Err(error) if error.is_missing() => return Ok(Next::Settled),
                Err(error) => return Err(error),
            }
        }
        Ok(match plan.why {
            Why::Unresolvable => Next::After(UNRESOLVABLE_PAUSE),
            _ => Next::Settled,
        })
    }
}
