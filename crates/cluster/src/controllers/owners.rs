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

/// All owners that might adopt an object that nobody controls. Only labels and references matter
/// for that, so a change of anything else concerns nobody.
pub(crate) fn selecting<O, K>(
    owners: &Cache<O>,
    change: &Change<K>,
    selector: impl Fn(&O) -> Option<Selector>,
) -> Vec<Key>
where
    O: Resource + Send + Sync + 'static,
    K: Resource,
{
    let Some(after) = change.after.as_ref().filter(|after| is_orphan(after)) else {
        return Vec::new();
    };
    let same = |before: &Arc<K>| is_orphan(before) && before.meta().labels == after.meta().labels;
    if change.before.as_ref().is_some_and(same) {
        return Vec::new();
    }
    let namespace = after.meta().namespace.as_deref().unwrap_or_default();
    let owners = owners.in_namespace(namespace);
    let adopters = owners
        .iter()
        .filter(|owner| selector(owner).is_some_and(|selector| selects(&selector, &**after)));
    adopters.map(|owner| Key::of(&**owner)).collect()
}

fn is_orphan<K: Resource>(object: &Arc<K>) -> bool {
    controller_of(object.meta()).is_none()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::ReplicaSet;

    use super::*;
    use crate::controllers::{
        claim::workload_selector,
        fixture::{PodBuilder, pod, replica_set},
    };

    #[test]
    fn only_a_new_orphan_wakes_its_adopters() {
        let sets: Cache<ReplicaSet> = Cache::new(|_| None);
        sets.apply(replica_set("web", 1));
        let web = || pod("a").label("app", "web");
        let cases = [
            ("a new one that matches", None, Some(web()), true),
            ("a new one that does not", None, Some(pod("a")), false),
            ("one that somebody has", None, Some(web().owner("ReplicaSet", "x", "u")), false),
            ("one elsewhere", None, Some(web().namespace("other")), false),
            ("unchanged labels", Some(web()), Some(web().running()), false),
            ("changed labels", Some(pod("a")), Some(web()), true),
            ("released", Some(web().owner("ReplicaSet", "x", "u")), Some(web()), true),
            ("gone", Some(web()), None, false),
        ];
        for (name, before, after, want) in cases {
            let built = |pod: Option<PodBuilder>| pod.map(|pod| Arc::new(pod.build()));
            let change = Change { before: built(before), after: built(after) };
            let woken =
                selecting(&sets, &change, |set| workload_selector(&set.spec.as_ref()?.selector));
            assert_eq!(!woken.is_empty(), want, "{name}");
        }
    }
}
