//! Whom does a change of a pod concern?

use std::sync::Arc;

use kube::{Resource, core::Selector};

use super::{
    cache::{Cache, Change},
    claim::selects,
    key::{Key, controller_of},
    queue::Queue,
};

/// Wakes the controllers, of this kind, that the object had before the change and has after it.
pub(crate) fn enqueue_owner<K: Resource>(queue: &Queue<Key>, kind: &str, change: &Change<K>) {
    for object in change.sides() {
        if let Some(key) = owner_key(&**object, kind) {
            queue.add(key);
        }
    }
}

/// The object's controller, if it is of this kind.
pub(crate) fn owner_key(object: &impl Resource, kind: &str) -> Option<Key> {
    let owner = controller_of(object.meta()).filter(|owner| owner.kind == kind)?;
    Some(Key::new(object.meta().namespace.as_deref().unwrap_or_default(), &owner.name))
}

/// Wakes all owners that might adopt an object that nobody controls. Only labels and references
/// matter for that, so a change of anything else wakes nobody.
pub(crate) fn enqueue_selecting<O, K>(
    queue: &Queue<Key>,
    owners: &Cache<O>,
    change: &Change<K>,
    selector: impl Fn(&O) -> Option<Selector>,
) where
    O: Resource + Send + Sync + 'static,
    K: Resource,
{
    let Some(after) = change.after.as_ref().filter(|after| is_orphan(after)) else { return };
    let same = |before: &Arc<K>| is_orphan(before) && before.meta().labels == after.meta().labels;
    if change.before.as_ref().is_some_and(same) {
        return;
    }
    let namespace = after.meta().namespace.as_deref().unwrap_or_default();
    for owner in owners.in_namespace(namespace) {
        if selector(&owner).is_some_and(|selector| selects(&selector, &**after)) {
            queue.add(Key::of(&*owner));
        }
    }
}

fn is_orphan<K: Resource>(object: &Arc<K>) -> bool {
    controller_of(object.meta()).is_none()
}
