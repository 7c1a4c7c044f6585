//! Which kinds does the server have, custom ones included?

use std::sync::Arc;

use kube::{
    Api, Client, Resource,
    core::DynamicObject,
    discovery::{ApiResource, Discovery, Scope, verbs},
};

use super::key::Key;

/// A kind at its most stable version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServedKind {
    pub(crate) resource: ApiResource,
    pub(crate) is_namespaced: bool,
    verbs: Vec<String>,
}

impl ServedKind {
    /// A kind that the controllers know by type.
    pub(crate) fn of<K: Resource<DynamicType = ()>>() -> Self {
        let resource = ApiResource::erase::<K>(&());
        // Of the kinds in the shared caches, these two are not in namespaces.
        let is_namespaced = !matches!(resource.kind.as_str(), "Node" | "Namespace");
        let verbs = [verbs::LIST, verbs::WATCH, verbs::DELETE].map(str::to_owned).to_vec();
        Self { resource, is_namespaced, verbs }
    }

    pub(crate) fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|has| has == verb)
    }

    pub(crate) fn is(&self, group: &str, kind: &str) -> bool {
        self.resource.group == group && self.resource.kind == kind
    }

    /// `deployments.apps`, or `pods.` without a group.
    pub(crate) fn full_name(&self) -> String {
        format!("{}.{}", self.resource.plural, self.resource.group)
    }

    /// The objects of a namespace, or all if the kind is not in namespaces.
    pub(crate) fn api(&self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        match self.is_namespaced && !namespace.is_empty() {
            true => Api::namespaced_with(client.clone(), namespace, &self.resource),
            false => Api::all_with(client.clone(), &self.resource),
        }
    }

    /// The key of an object of this kind that `beside` refers to: owners live in the namespace of
    /// what they own.
    pub(crate) fn key_beside(&self, beside: &Key, name: &str) -> Key {
        Key::new(if self.is_namespaced { &beside.namespace } else { "" }, name)
    }
}

/// Asks the server for all its kinds, sorted by name.
pub(crate) async fn discover(client: &Client) -> kube::Result<Vec<Arc<ServedKind>>> {
    let discovery = match Discovery::new(client.clone()).run_aggregated().await {
        Ok(discovery) => discovery,
        // An older server has only the long way.
        Err(_) => Discovery::new(client.clone()).run().await?,
    };
    let mut kinds: Vec<_> = discovery
        .groups()
        .flat_map(|group| group.resources_by_stability())
        .map(|(resource, capabilities)| {
            Arc::new(ServedKind {
                resource,
                is_namespaced: capabilities.scope == Scope::Namespaced,
                verbs: capabilities.operations,
            })
        })
        .collect();
    kinds.sort_by_cached_key(|kind| kind.full_name());
    Ok(kinds)
}

/// Is a namespace's or an owner's end their end? Events are not worth the effort.
pub(crate) fn is_event(kind: &ServedKind) -> bool {
    kind.resource.kind == "Event" && matches!(kind.resource.group.as_str(), "" | "events.k8s.io")
}
