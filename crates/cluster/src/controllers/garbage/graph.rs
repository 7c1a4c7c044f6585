//! Who depends on whom, as far as we have heard?

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::{awaits_dependents, orphans_dependents};
use crate::controllers::{key::Key, kinds::ServedKind};

/// What the graph knows of an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Object {
    pub(crate) kind: Arc<ServedKind>,
    pub(crate) key: Key,
    pub(crate) uid: String,
    pub(crate) owners: Vec<OwnerReference>,
    is_leaving: bool,
    awaits: bool,
    orphans: bool,
}

impl Object {
    pub(crate) fn of(kind: &Arc<ServedKind>, meta: &ObjectMeta) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self {
            kind: kind.clone(),
            key: Key { namespace: text(&meta.namespace), name: text(&meta.name) },
            uid: text(&meta.uid),
            owners: meta.owner_references.clone().unwrap_or_default(),
            is_leaving: meta.deletion_timestamp.is_some(),
            awaits: awaits_dependents(meta),
            orphans: orphans_dependents(meta),
        }
    }

    fn names(&self, uid: &str) -> Option<&OwnerReference> {
        self.owners.iter().find(|owner| owner.uid == uid)
    }
}

/// A dependent, seen from its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependent {
    pub(crate) uid: String,
    /// Must it go before its owner can?
    pub(crate) blocks: bool,
    /// Does it wait for dependents of its own?
    pub(crate) waits: bool,
}

/// All objects, by id.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    objects: HashMap<String, Object>,
    dependents: HashMap<String, BTreeSet<String>>,
}

impl Graph {
    pub(crate) fn get(&self, uid: &str) -> Option<&Object> {
        self.objects.get(uid)
    }

    pub(crate) fn dependents(&self, uid: &str) -> Vec<Dependent> {
        let ids = self.dependents.get(uid).into_iter().flatten();
        let known = ids.filter_map(|id| self.objects.get(id));
        known
            .map(|object| Dependent {
                uid: object.uid.clone(),
                blocks: object.names(uid).is_some_and(|r| r.block_owner_deletion == Some(true)),
                waits: object.awaits,
            })
            .collect()
    }

    /// Takes in an object and says which objects must be looked at now.
    pub(crate) fn observe(&mut self, object: Object) -> Vec<String> {
        let before = self.objects.get(&object.uid).cloned();
        if before.as_ref() == Some(&object) {
            return Vec::new();
        }
        if let Some(before) = &before {
            self.unlink(before);
        }
        for owner in &object.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(object.uid.clone());
        }
        let mut concerned = Vec::new();
        let is_unknown = |owner: &OwnerReference| !self.objects.contains_key(&owner.uid);
        let has_new_owners = before.as_ref().is_none_or(|before| before.owners != object.owners);
        if has_new_owners && object.owners.iter().any(is_unknown) {
            concerned.push(object.uid.clone());
        }
        if object.awaits || object.orphans {
            concerned.push(object.uid.clone());
        }
        if object.awaits && before.as_ref().is_none_or(|before| !before.awaits) {
            concerned.extend(self.dependents.get(&object.uid).into_iter().flatten().cloned());
        }
        let owners = object.owners.iter().chain(before.iter().flat_map(|before| &before.owners));
        concerned.extend(self.waiting(owners));
        self.objects.insert(object.uid.clone(), object);
        concerned
    }

    /// An object is gone; says which objects must be looked at now.
    pub(crate) fn forget(&mut self, uid: &str) -> Vec<String> {
        let Some(object) = self.objects.remove(uid) else { return Vec::new() };
        self.unlink(&object);
        let mut concerned: Vec<_> =
            self.dependents.get(uid).into_iter().flatten().cloned().collect();
        concerned.extend(self.waiting(object.owners.iter()));
        concerned
    }

    /// Objects with an owner that we have not heard of; to be asked once everything is here.
    pub(crate) fn unsure(&self) -> Vec<String> {
        let is_unknown = |owner: &OwnerReference| !self.objects.contains_key(&owner.uid);
        let unsure = self.objects.values().filter(|object| {
            object.awaits || object.orphans || object.owners.iter().any(is_unknown)
        });
        unsure.map(|object| object.uid.clone()).collect()
    }

    /// All objects of a kind.
    pub(crate) fn of_kind(&self, kind: &ServedKind) -> Vec<String> {
        let same = self.objects.values().filter(|object| *object.kind == *kind);
        same.map(|object| object.uid.clone()).collect()
    }

    /// Those of the owners that wait for their dependents, each once.
    fn waiting<'a>(&self, owners: impl Iterator<Item = &'a OwnerReference>) -> BTreeSet<String> {
        let known = owners.filter_map(|owner| self.objects.get(&owner.uid));
        known.filter(|owner| owner.awaits).map(|owner| owner.uid.clone()).collect()
    }

    fn unlink(&mut self, object: &Object) {
        for owner in &object.owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(&object.uid);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
    }
}
