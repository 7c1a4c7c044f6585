//! Changes of objects that are neither pods nor nodes: where they go and which event they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Change, Update};
use crate::model::{Labels, Selector};
use crate::plugin::{Epoch, Event, Subject};
use crate::queue::{Actions, Resource};
use crate::read::Reader;
use crate::snapshot::{ClaimKey, Controller, Snapshot, Storage, Workloads};

/// Takes note of a namespace, a workload or a storage object. `None` when nothing is different,
/// or when the change is of another kind.
pub(crate) fn apply(snapshot: &mut Snapshot, change: &Change) -> Option<Event> {
    match change {
        Change::Namespace(update) => {
            let labels =
                |reader: &mut Reader<'_>, meta: &ObjectMeta| reader.labels(meta.labels.as_ref());
            let (key, value) = read(snapshot, update, |reader, one| labels(reader, &one.metadata));
            let set =
                |all: &mut Workloads, value: Option<Labels>| all.set_namespace(key.name, value);
            workload(snapshot, Resource::Namespace, Epoch::Namespaces, value, set)
        }
        Change::Service(update) => {
            let (key, value) = read(snapshot, update, |reader, one| {
                reader.label_map(one.spec.as_ref().and_then(|spec| spec.selector.as_ref()))
            });
            let set = |all: &mut Workloads, to: Option<Selector>| {
                all.set_service(key.namespace, key.name, to)
            };
            workload(snapshot, Resource::Workload, Epoch::Workloads, value, set)
        }
        Change::ReplicationController(update) => {
            let (key, value) = read(snapshot, update, |reader, one| {
                reader.label_map(one.spec.as_ref().and_then(|spec| spec.selector.as_ref()))
            });
            controller(snapshot, Controller::ReplicationController, key, value)
        }
        Change::ReplicaSet(update) => {
            let (key, value) = read(snapshot, update, |reader, one| {
                reader.selector(one.spec.as_ref().map(|spec| &spec.selector))
            });
            controller(snapshot, Controller::ReplicaSet, key, value)
        }
        Change::StatefulSet(update) => {
            let (key, value) = read(snapshot, update, |reader, one| {
                reader.selector(one.spec.as_ref().map(|spec| &spec.selector))
            });
            controller(snapshot, Controller::StatefulSet, key, value)
        }
        _ => storage(snapshot, change),
    }
}

fn storage(snapshot: &mut Snapshot, change: &Change) -> Option<Event> {
    match change {
        Change::Pvc(update) => {
            let (key, value) = read(snapshot, update, |reader, one| Arc::new(reader.claim(one)));
            let set = |all: &mut Storage| put(&mut all.claims, key, value);
            stored(snapshot, Resource::PersistentVolumeClaim, key, set)
        }
        Change::Pv(update) => {
            let (key, value) =
                read(snapshot, update, |reader, one| Arc::new(reader.volume_object(one)));
            let set = |all: &mut Storage| put(&mut all.volumes, key.name, value);
            stored(snapshot, Resource::PersistentVolume, key, set)
        }
        Change::StorageClass(update) => {
            let (key, value) = read(snapshot, update, |reader, one| reader.storage_class(one));
            let set = |all: &mut Storage| put(&mut all.classes, key.name, value);
            stored(snapshot, Resource::StorageClass, key, set)
        }
        Change::CsiNode(update) => {
            let (key, value) =
                read(snapshot, update, |reader, one| reader.limits(one).into_iter().collect());
            let set = |all: &mut Storage| put(&mut all.limits, key.name, value);
            stored(snapshot, Resource::CsiNode, key, set)
        }
        Change::CsiDriver(update) => {
            let (key, counts) =
                read(snapshot, update, |_, one| one.spec.storage_capacity == Some(true));
            let set = |all: &mut Storage| match counts {
                Some(true) => change_of(all.counted_drivers.insert(key.name), Actions::ADD),
                _ => change_of(all.counted_drivers.remove(&key.name), Actions::DELETE),
            };
            stored(snapshot, Resource::CsiDriver, key, set)
        }
        Change::CsiCapacity(update) => {
            let (key, value) = read(snapshot, update, |reader, one| reader.capacity(one));
            let set = |all: &mut Storage| put(&mut all.capacities, key, value);
            stored(snapshot, Resource::CsiStorageCapacity, key, set)
        }
        Change::VolumeAttachment(update) => {
            let (key, value) = read(snapshot, update, |reader, one| reader.attachment(one));
            let set = |all: &mut Storage| put(&mut all.attachments, key.name, value);
            stored(snapshot, Resource::VolumeAttachment, key, set)
        }
        _ => None,
    }
}

/// The name of an object and what it says now; nothing when it is gone.
fn read<T: Metadata<Ty = ObjectMeta>, V>(
    snapshot: &mut Snapshot,
    update: &Update<T>,
    value: impl FnOnce(&mut Reader<'_>, &T) -> V,
) -> (ClaimKey, Option<V>) {
    let mut reader = Reader { names: &mut snapshot.names, resources: &mut snapshot.resources };
    match update {
        Update::Upsert(object) => {
            let meta = object.metadata();
            let namespace = meta.namespace.as_deref().unwrap_or_default();
            let name = meta.name.as_deref().unwrap_or_default();
            let value = value(&mut reader, object);
            (reader.claim_key(namespace, name), Some(value))
        }
        Update::Delete(key) => (reader.claim_key(&key.namespace, &key.name), None),
    }
}

fn workload<V>(
    snapshot: &mut Snapshot,
    resource: Resource,
    epoch: Epoch,
    value: Option<V>,
    set: impl FnOnce(&mut Workloads, Option<V>) -> bool,
) -> Option<Event> {
    let actions = if value.is_some() { Actions::UPDATE.or(Actions::ADD) } else { Actions::DELETE };
    if !set(&mut snapshot.extras.workloads, value) {
        return None;
    }
    snapshot.advance(epoch);
    Some(Event::new(resource, actions, Subject::Other))
}

fn controller(
    snapshot: &mut Snapshot,
    kind: Controller,
    key: ClaimKey,
    value: Option<Selector>,
) -> Option<Event> {
    let set = |all: &mut Workloads, to: Option<Selector>| {
        all.set_controller(kind, key.namespace, key.name, to)
    };
    workload(snapshot, Resource::Workload, Epoch::Workloads, value, set)
}

fn stored(
    snapshot: &mut Snapshot,
    resource: Resource,
    key: ClaimKey,
    set: impl FnOnce(&mut Storage) -> Option<Actions>,
) -> Option<Event> {
    let actions = set(&mut snapshot.extras.storage)?;
    snapshot.advance(Epoch::Storage);
    let is_claim = resource == Resource::PersistentVolumeClaim;
    let subject = if is_claim { Subject::Claim(key) } else { Subject::Other };
    Some(Event::new(resource, actions, subject))
}

fn change_of(is_different: bool, actions: Actions) -> Option<Actions> {
    is_different.then_some(actions)
}

fn put<K: Ord, V: PartialEq>(map: &mut BTreeMap<K, V>, key: K, to: Option<V>) -> Option<Actions> {
    let Some(value) = to else { return map.remove(&key).map(|_| Actions::DELETE) };
    match map.get(&key) {
        Some(known) if *known == value => None,
        known => {
            let actions = if known.is_some() { Actions::OTHER } else { Actions::ADD };
            map.insert(key, value);
            Some(actions)
        }
    }
}
