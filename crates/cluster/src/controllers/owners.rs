//! Whom does a change of an object concern?

use std::hash::Hash;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use kube::{Resource, core::Selector};
use reconcile::key::{Key, controller_of};
use reconcile::queue::Queue;
use reconcile::watch::{Cache, Change};
use reconcile::write::Kind;

use super::claim::{selects, workload_selector};

/// A kind that controls objects and adopts those that its selector means.
pub(crate) trait Workload: Kind {
    /// `None` selects nothing.
    fn selector(&self) -> Option<Selector>;
}

macro_rules! workloads {
    ($($kind:ty),*) => {
        $(impl Workload for $kind {
            fn selector(&self) -> Option<Selector> {
                workload_selector(&self.spec.as_ref()?.selector)
            }
        })*
    };
}

workloads!(DaemonSet, Deployment, ReplicaSet, StatefulSet);

impl Workload for Job {
    fn selector(&self) -> Option<Selector> {
        workload_selector(self.spec.as_ref()?.selector.as_ref()?)
    }
}

/// Wakes an owner when it changes, and when an object that it controls or might adopt does.
pub(crate) fn wake_owners<O: Workload, K: Kind, T>(
    owners: &Cache<O>,
    objects: &Cache<K>,
    queue: &Queue<T>,
    subject: fn(Key) -> T,
) where
    T: Clone + Ord + Hash + Send + Sync + 'static,
{
    owners.enqueue(queue, subject);
    let (keys, owners) = (queue.clone(), owners.clone());
    objects.subscribe(move |change| {
        for key in controllers(&O::kind(&()), change).chain(adopters(&owners, change)) {
            keys.add(subject(key));
        }
    });
}

/// The controllers, of this kind, that the object had before the change and has after it.
pub(crate) fn controllers<K: Resource>(
    kind: &str,
    change: &Change<K>,
) -> impl Iterator<Item = Key> {
    change.sides().filter_map(move |object| owner_key(&**object, kind))
}

/// The object's controller, if it is of this kind.
pub(crate) fn owner_key(object: &impl Resource, kind: &str) -> Option<Key> {
    let owner = controller_of(object.meta()).filter(|owner| owner.kind == kind)?;
    Some(Key::new(object.meta().namespace.as_deref().unwrap_or_default(), &owner.name))
}

/// All owners that might adopt an object that nobody controls. Only labels and references matter
/// for that, so a change of anything else concerns nobody.
fn adopters<O: Workload, K: Resource>(owners: &Cache<O>, change: &Change<K>) -> Vec<Key> {
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
        .filter(|owner| owner.selector().is_some_and(|selector| selects(&selector, &**after)));
    adopters.map(|owner| Key::of(&**owner)).collect()
}

fn is_orphan<K: Resource>(object: &Arc<K>) -> bool {
    controller_of(object.meta()).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::fixture::{PodBuilder, pod, replica_set};

    #[test]
    fn only_a_new_orphan_wakes_its_adopters() {
        let sets: Cache<ReplicaSet> = Cache::by_controller();
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
            assert_eq!(!adopters(&sets, &change).is_empty(), want, "{name}");
        }
    }
}
