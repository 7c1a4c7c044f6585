//! Has the cache seen what this controller has just done?
//!
//! A controller that creates a pod and looks at a cache without that pod would create another
//! one. So every write leaves an expectation, and until the cache has met all of them the
//! controller neither creates nor deletes for that owner:
//!
//! - a created object carries the version of its creation, and versions of one server only grow:
//!   the cache must have reached it;
//! - a deleted object must be gone from the cache, or be marked for deletion there;
//! - an owner whose status was written must have come back through the watch. A job that has let
//!   its counted pods go knows only from its own status that they ever were.
//!
//! An expectation that is not met within five minutes is dropped, so that a lost event delays an
//! owner and does not freeze it.

use std::{collections::HashMap, hash::Hash, time::Duration};

use jiff::{SignedDuration, Timestamp};
use kube::Resource;
use reconcile::key::{Key, is_terminating, uid};
use reconcile::watch::{Cache, version};

const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// When to look again at an owner whose expectations are not met: after patience has ended. What
/// is expected comes with an event, so this is only for an event that got lost.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(301);

/// What one controller waits for, by owner.
#[derive(Debug)]
pub(crate) struct Expectations<T> {
    owners: HashMap<T, Expected>,
    /// The version in which an owner itself was last written.
    written: HashMap<T, u64>,
}

#[derive(Debug, Default)]
struct Expected {
    created: u64,
    deleted: Vec<(Key, String)>,
    since: Timestamp,
}

impl<T: Eq + Hash + Clone> Expectations<T> {
    pub(crate) fn new() -> Self {
        Self { owners: HashMap::new(), written: HashMap::new() }
    }

    pub(crate) fn created(&mut self, owner: &T, object: &impl Resource, now: Timestamp) {
        let expected = self.of(owner, now);
        expected.created = expected.created.max(version(object.meta()));
    }

    pub(crate) fn deleted(&mut self, owner: &T, object: &impl Resource, now: Timestamp) {
        self.of(owner, now).deleted.push((Key::of(object), uid(object).to_owned()));
    }

    /// Is the cache as new as what was written for this owner?
    pub(crate) fn are_met<K>(&mut self, owner: &T, cache: &Cache<K>, now: Timestamp) -> bool
    where
        K: Resource + Send + Sync + 'static,
    {
        let Some(expected) = self.owners.get_mut(owner) else { return true };
        expected.deleted.retain(|(key, id)| {
            cache.get(key).is_some_and(|object| uid(&*object) == id && !is_terminating(&*object))
        });
        let is_met = expected.deleted.is_empty() && cache.has_reached(expected.created);
        let is_old = now.duration_since(expected.since) > PATIENCE;
        if is_met || is_old {
            self.owners.remove(owner);
        }
        is_met || is_old
    }

    /// The owner itself was written.
    pub(crate) fn written(&mut self, owner: &T, object: &impl Resource) {
        self.written.insert(owner.clone(), version(object.meta()));
    }

    /// Is this owner, as the cache has it, as new as our last write of it? If not, the watch will
    /// bring it.
    pub(crate) fn is_fresh(&self, owner: &T, cached: &impl Resource) -> bool {
        self.written.get(owner).is_none_or(|written| version(cached.meta()) >= *written)
    }

    /// The owner is gone.
    pub(crate) fn forget(&mut self, owner: &T) {
        self.owners.remove(owner);
        self.written.remove(owner);
    }

    fn of(&mut self, owner: &T, now: Timestamp) -> &mut Expected {
        let expected = self.owners.entry(owner.clone()).or_default();
        expected.since = now;
        expected
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::controllers::fixture::{NOW, pod};

    fn cache() -> Cache<Pod> {
        Cache::by_controller()
    }

    #[test]
    fn a_creation_is_met_when_the_cache_reaches_its_version() {
        let (cache, mut expectations) = (cache(), Expectations::new());
        assert!(expectations.are_met(&"rs", &cache, NOW), "nothing was expected");
        expectations.created(&"rs", &pod("a").version(7).build(), NOW);
        expectations.created(&"rs", &pod("b").version(6).build(), NOW);
        cache.apply(pod("b").version(6).build());
        assert!(!expectations.are_met(&"rs", &cache, NOW));
        assert!(expectations.are_met(&"other", &cache, NOW), "owners do not wait for each other");
        cache.apply(pod("c").version(8).build());
        assert!(expectations.are_met(&"rs", &cache, NOW), "even if the pod itself is gone already");
    }

    #[test]
    fn a_deletion_is_met_when_the_object_is_marked_gone_or_replaced() {
        let victim = || pod("a").uid("u1");
        type Row = (&'static str, fn(&Cache<Pod>), bool);
        let cases: [Row; 4] = [
            ("untouched", |_| {}, false),
            ("marked", |cache| cache.apply(pod("a").uid("u1").terminating().build()), true),
            ("gone", |cache| cache.remove(&pod("a").build()), true),
            ("replaced", |cache| cache.apply(pod("a").uid("u2").build()), true),
        ];
        for (name, happens, want) in cases {
            let (cache, mut expectations) = (cache(), Expectations::new());
            cache.apply(victim().build());
            expectations.deleted(&"rs", &victim().build(), NOW);
            happens(&cache);
            assert_eq!(expectations.are_met(&"rs", &cache, NOW), want, "{name}");
        }
    }

    #[test]
    fn an_owner_is_fresh_once_its_last_write_is_back() {
        let mut expectations = Expectations::new();
        let at = |version| pod("a").version(version).build();
        assert!(expectations.is_fresh(&"job", &at(3)), "it was never written");
        expectations.written(&"job", &at(7));
        assert!(!expectations.is_fresh(&"job", &at(6)));
        assert!(expectations.is_fresh(&"job", &at(7)) && expectations.is_fresh(&"job", &at(8)));
        expectations.forget(&"job");
        assert!(expectations.is_fresh(&"job", &at(1)));
    }

    #[test]
    fn patience_ends() {
        let (cache, mut expectations) = (cache(), Expectations::new());
        expectations.created(&"rs", &pod("a").version(7).build(), NOW);
        assert!(!expectations.are_met(&"rs", &cache, NOW + PATIENCE));
        assert!(expectations.are_met(&"rs", &cache, NOW + PATIENCE + SignedDuration::from_secs(1)));
    }
}
