//! The namespace controller: empties namespaces that are on their way out.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, NamespaceStatus};
use kube::{
    Resource, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
    core::{DynamicObject, ObjectList, PartialObjectMeta},
    discovery::verbs,
};
use reconcile::drive::Controller;
use reconcile::key::{Key, ObjectVersion};
use reconcile::queue::{Next, Queue};
use reconcile::write::{WriteError, Writer, missing_is_fine};
use tracing::{debug, info};

use super::{Remaining, Survey, is_ours, plan};
use crate::{
    controllers::{
        Tools,
        caches::Caches,
        kinds::{ServedKind, discover},
    },
    well_known::NAMESPACE_FINALIZER,
};

/// Content takes a moment to go; looking again at once would only find it on its way.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);

pub(crate) struct Namespaces {
    caches: Caches,
    writer: Writer,
}

impl Namespaces {
    pub(crate) fn new(Tools { caches, writer, .. }: Tools) -> (Self, Queue<Key>) {
        let queue = Queue::default();
        let keys = queue.clone();
        caches.namespaces.subscribe(move |change| {
            if let Some(namespace) = change.after.as_ref().filter(|namespace| is_ours(namespace)) {
                keys.add(Key::of(&**namespace));
            }
        });
        (Self { caches, writer }, queue)
    }

    /// Deletes what is there and says what remains: pods alone first, then the rest.
    async fn empty(&self, namespace: &str) -> Survey {
        let mut survey = Survey::default();
        let kinds = match discover(&self.writer.client).await {
            Ok(kinds) => kinds,
            Err(error) => {
                survey.discovery = Some(error.to_string());
                return survey;
            }
        };
        let is_deletable = |kind: &&Arc<ServedKind>| {
            kind.is_namespaced && kind.has_verb(verbs::LIST) && kind.has_verb(verbs::DELETE)
        };
        let (pods, others): (Vec<_>, Vec<_>) =
            kinds.iter().filter(is_deletable).partition(|kind| kind.is("", "Pod"));
        for kinds in [pods, others] {
            for kind in kinds {
                match self.empty_kind(kind, namespace).await {
                    Ok(remaining) => survey.remaining.extend(remaining),
                    Err(error) => survey.failures.push(format!("{} ({error})", kind.full_name())),
                }
            }
            if !survey.remaining.is_empty() {
                break;
            }
        }
        survey
    }

    async fn empty_kind(
        &self,
        kind: &ServedKind,
        namespace: &str,
    ) -> kube::Result<Option<Remaining>> {
        let api = kind.api(&self.writer.client, namespace);
        let all = ListParams::default();
        let found = match api.list_metadata(&all).await {
            Ok(found) => found,
            // The kind has just been removed, and its objects with it.
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        if found.items.is_empty() {
            return Ok(None);
        }
        let unmarked = found.items.iter().filter(|item| item.metadata.deletion_timestamp.is_none());
        let unmarked: Vec<_> = unmarked.map(ResourceExt::name_any).collect();
        if unmarked.is_empty() {
            return Ok(remaining(kind, &found));
        }
        let background = DeleteParams::background();
        if kind.has_verb(verbs::DELETE_COLLECTION) {
            api.delete_collection(&background, &all).await?;
        } else {
            for name in unmarked {
                match api.delete(&name, &background).await {
                    Err(kube::Error::Api(status)) if status.is_not_found() => {}
                    other => drop(other?),
                }
            }
        }
        Ok(remaining(kind, &api.list_metadata(&all).await?))
    }

    /// Takes our finalizer away, which ends the namespace unless somebody else has one.
    async fn finalize(
        &self,
        namespace: &Namespace,
        seen: &ObjectVersion,
    ) -> Result<(), WriteError> {
        info!(namespace = seen.key.name, "namespace is empty");
        let mut last = namespace.clone();
        last.metadata.resource_version = Some(seen.version.clone());
        if let Some(finalizers) = last.spec.get_or_insert_default().finalizers.as_mut() {
            finalizers.retain(|finalizer| finalizer != NAMESPACE_FINALIZER);
        }
        let (api, params) = (self.writer.api::<Namespace>(&seen.key), PostParams::default());
        let ending = api.replace_subresource("finalize", &seen.key.name, &params, &last);
        let kind = Namespace::kind(&());
        missing_is_fine(self.writer.send("finalize", &kind, &seen.key, ending).await).map(drop)
    }
}

type Found = ObjectList<PartialObjectMeta<DynamicObject>>;

fn remaining(kind: &ServedKind, found: &Found) -> Option<Remaining> {
    let mut finalizers = BTreeMap::new();
    for finalizer in found.items.iter().flat_map(|item| item.metadata.finalizers.iter().flatten()) {
        *finalizers.entry(finalizer.clone()).or_default() += 1;
    }
    let count = found.items.len();
    (count > 0).then(|| Remaining { kind: kind.full_name(), count, finalizers })
}

impl Controller for Namespaces {
    type Key = Key;

    const NAME: &'static str = "namespace-controller";

    async fn reconcile(&mut self, key: &Key, now: Timestamp) -> Result<Next, WriteError> {
        let namespace = self.caches.namespaces.get(key).filter(|namespace| is_ours(namespace));
        let Some(namespace) = namespace else { return Ok(Next::Settled) };
        let survey = self.empty(&key.name).await;
        let plan = plan(&namespace, &survey, now);
        debug!(namespace = key.name, remaining = survey.remaining.len(), "emptying a namespace");
        let status = NamespaceStatus {
            phase: Some("Terminating".into()),
            conditions: Some(plan.conditions),
        };
        let written =
            self.writer.write_status(&*namespace, namespace.status.as_ref(), &status).await?;
        let seen = ObjectVersion::of(written.as_ref().unwrap_or(&*namespace));
        if plan.is_done {
            self.finalize(&namespace, &seen).await?;
        }
        Ok(match Next::at(plan.recheck, now) {
            Next::After(delay) => Next::After(delay.max(SHORTEST_PAUSE)),
            other => other,
        })
    }
}
