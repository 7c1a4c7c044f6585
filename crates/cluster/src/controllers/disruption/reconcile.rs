//! The controller of PodDisruptionBudgets: looks, plans, writes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::Pod, policy::v1::PodDisruptionBudget},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api,
    core::{DynamicObject, GroupVersionKind, Selector},
    discovery::pinned_kind,
};

use reconcile::drive::Controller;
use reconcile::key::{Key, controller_of, uid};
use reconcile::queue::{Next, Queue};
use reconcile::write::{WriteError, Writer};

use super::{Observed, Scale, plan};
use crate::controllers::{
    Tools,
    caches::Caches,
    claim::{label_selector, selects},
    replica_set::wanted,
};

pub(crate) struct Budgets {
    caches: Caches,
    writer: Writer,
}

impl Budgets {
    pub(crate) fn new(Tools { caches, writer, .. }: Tools) -> (Self, Queue<Key>) {
        let queue = Queue::default();
        caches.budgets.enqueue(&queue, |key| key);
        let (keys, budgets) = (queue.clone(), caches.budgets.clone());
        caches.pods.subscribe(move |change| {
            let Some(pod) = change.latest() else { return };
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            for budget in budgets.in_namespace(namespace) {
                let Some(selector) = selector(&budget) else { continue };
                if change.sides().any(|pod| selects(&selector, &**pod)) {
                    keys.add(Key::of(&*budget));
                }
            }
        });
        (Self { caches, writer }, queue)
    }

    /// What the controller of a pod wants. A ReplicaSet of a Deployment speaks for the Deployment.
    async fn scale(&self, namespace: &str, owner: &OwnerReference) -> Scale {
        let key = Key::new(namespace, &owner.name);
        let unknown = || Scale::Unknown(format!("{} {key} does not exist", owner.kind));
        match (owner.api_version.as_str(), owner.kind.as_str()) {
            ("apps/v1", "ReplicaSet") => {
                let set = self.caches.replica_sets.get(&key);
                let Some(set) = set.filter(|set| uid(&**set) == owner.uid) else {
                    return unknown();
                };
                let above = controller_of(&set.metadata).filter(|above| above.kind == "Deployment");
                let deployment = above.and_then(|above| {
                    self.caches.deployments.get(&Key::new(namespace, &above.name))
                });
                match deployment {
                    Some(deployment) => {
                        let size = deployment.spec.as_ref().and_then(|spec| spec.replicas);
                        Scale::Wants(uid(&*deployment).to_owned(), size.unwrap_or(1))
                    }
                    None => Scale::Wants(owner.uid.clone(), wanted(&set)),
                }
            }
            ("apps/v1", "StatefulSet") => {
                let set = self.caches.stateful_sets.get(&key);
                let Some(set) = set.filter(|set| uid(&**set) == owner.uid) else {
                    return unknown();
                };
                let size = set.spec.as_ref().and_then(|spec| spec.replicas);
                Scale::Wants(owner.uid.clone(), size.unwrap_or(1))
            }
            _ => self.foreign_scale(&key, owner).await,
        }
    }

    /// Any other kind is asked through its scale subresource.
    async fn foreign_scale(&self, key: &Key, owner: &OwnerReference) -> Scale {
        let (group, version) =
            owner.api_version.split_once('/').unwrap_or(("", owner.api_version.as_str()));
        let kind = GroupVersionKind::gvk(group, version, &owner.kind);
        let client = &self.writer.client;
        let asked = async {
            let (resource, _) = pinned_kind(client, &kind).await?;
            let api: Api<DynamicObject> =
                Api::namespaced_with(client.clone(), &key.namespace, &resource);
            api.get_scale(&key.name).await
        };
        match asked.await {
            Ok(scale) => {
                let size = scale.spec.and_then(|spec| spec.replicas).unwrap_or(0);
                Scale::Wants(owner.uid.clone(), size)
            }
            Err(error) => Scale::Unknown(format!("{} {key} has no scale: {error}", owner.kind)),
        }
    }
}

/// No selector selects nothing; an empty one everything.
fn selector(budget: &PodDisruptionBudget) -> Option<Selector> {
    label_selector(budget.spec.as_ref()?.selector.as_ref()?)
}

fn needs_scales(budget: &PodDisruptionBudget) -> bool {
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::String;
    let spec = budget.spec.as_ref();
    spec.is_some_and(|spec| {
        spec.max_unavailable.is_some() || matches!(spec.min_available, Some(String(_)))
    })
}

impl Controller for Budgets {
    type Key = Key;

    const NAME: &'static str = "disruption-controller";

    async fn reconcile(&mut self, key: &Key, now: Timestamp) -> Result<Next, WriteError> {
        let Some(budget) = self.caches.budgets.get(key) else { return Ok(Next::Settled) };
        let mut pods = Vec::new();
        if let Some(selector) = selector(&budget) {
            pods = self.caches.pods.in_namespace(&key.namespace);
            pods.retain(|pod| selects(&selector, &**pod));
        }
        let mut scales = BTreeMap::new();
        if needs_scales(&budget) {
            let owner = |pod: &std::sync::Arc<Pod>| controller_of(&pod.metadata).cloned();
            let owners: BTreeMap<_, _> =
                pods.iter().filter_map(owner).map(|owner| (owner.uid.clone(), owner)).collect();
            for (uid, owner) in owners {
                scales.insert(uid, self.scale(&key.namespace, &owner).await);
            }
        }
        let plan = plan(&Observed { budget: &budget, pods: &pods, scales: &scales }, now);
        self.writer.write_status(&*budget, budget.status.as_ref(), &plan.status).await?;
        Ok(Next::at(plan.recheck, now))
    }
}
