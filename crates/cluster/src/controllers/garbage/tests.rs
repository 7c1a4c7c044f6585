//! Owners and dependents, in small families and in random ones.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use k8s_openapi::api::core::v1::ConfigMap;
use proptest::prelude::*;

use super::*;
use crate::controllers::{
    clock::stamp,
    fixture::{NOW, meta},
    kinds::ServedKind,
};

fn owner(uid: &str, blocks: bool) -> OwnerReference {
    OwnerReference {
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        name: uid.into(),
        uid: uid.into(),
        controller: None,
        block_owner_deletion: Some(blocks),
    }
}

fn item(finalizers: &[&str], is_leaving: bool) -> ObjectMeta {
    let mut meta = meta("item");
    meta.finalizers = Some(finalizers.iter().map(|name| (*name).to_owned()).collect());
    meta.deletion_timestamp = is_leaving.then(|| stamp(NOW));
    meta
}

#[test]
fn the_last_owner_decides() {
    use Standing::{Absent, Solid, Unresolvable, Waiting};
    let dependent = |blocks, waits| Dependent { uid: "d".into(), blocks, waits };
    let background = || vec![Action::Delete(PropagationPolicy::Background)];
    let foreground = || vec![Action::Delete(PropagationPolicy::Foreground)];
    let drop = |uids: &[&str]| {
        vec![Action::DropOwners(uids.iter().map(|uid| (*uid).to_owned()).collect())]
    };
    type Row = (&'static str, ObjectMeta, Vec<Standing>, Vec<Dependent>, Why, Vec<Action>);
    let plain = || item(&[], false);
    let cases: Vec<Row> = vec![
        ("no owner", plain(), vec![], vec![], Why::Free, vec![]),
        ("an owner", plain(), vec![Solid], vec![], Why::Owned, vec![]),
        ("the owner is gone", plain(), vec![Absent], vec![], Why::Abandoned, background()),
        (
            "one of two is gone",
            plain(),
            vec![Solid, Absent],
            vec![],
            Why::PartlyOwned,
            drop(&["o1"]),
        ),
        ("both are gone", plain(), vec![Absent, Absent], vec![], Why::Abandoned, background()),
        ("the owner waits", plain(), vec![Waiting], vec![], Why::Abandoned, background()),
        (
            "one waits, one stays",
            plain(),
            vec![Waiting, Solid],
            vec![],
            Why::PartlyOwned,
            drop(&["o0"]),
        ),
        (
            "one waits, one is gone",
            plain(),
            vec![Waiting, Absent],
            vec![],
            Why::Abandoned,
            background(),
        ),
        (
            "the owner waits, and there are dependents",
            plain(),
            vec![Waiting],
            vec![dependent(true, false)],
            Why::Abandoned,
            foreground(),
        ),
        (
            "a circle",
            plain(),
            vec![Waiting],
            vec![dependent(true, true)],
            Why::Circle,
            [vec![Action::Unblock], foreground()].concat(),
        ),
        ("an owner nobody knows", plain(), vec![Unresolvable], vec![], Why::Unresolvable, vec![]),
        (
            "one unknown, one gone",
            plain(),
            vec![Absent, Unresolvable],
            vec![],
            Why::Unresolvable,
            vec![],
        ),
        (
            "gone, with a wish for its dependents",
            item(&["orphan"], false),
            vec![Absent],
            vec![],
            Why::Abandoned,
            vec![Action::Delete(PropagationPolicy::Orphan)],
        ),
        (
            "gone, with a wish to go last",
            item(&["foregroundDeletion"], false),
            vec![Absent],
            vec![],
            Why::Abandoned,
            foreground(),
        ),
        ("leaving", item(&["a/hold"], true), vec![Absent], vec![], Why::Leaving, vec![]),
        (
            "waiting for a dependent",
            item(&["foregroundDeletion"], true),
            vec![],
            vec![dependent(true, false)],
            Why::Blocked,
            vec![],
        ),
        (
            "a dependent that does not block",
            item(&["foregroundDeletion"], true),
            vec![],
            vec![dependent(false, false)],
            Why::Unblocked,
            vec![Action::RemoveFinalizer("foregroundDeletion")],
        ),
        (
            "leaving dependents behind",
            item(&["orphan"], true),
            vec![],
            vec![dependent(true, false)],
            Why::Orphaning,
            vec![Action::OrphanDependents, Action::RemoveFinalizer("orphan")],
        ),
    ];
    for (name, meta, standings, dependents, why, actions) in cases {
        let owners: Vec<_> = standings
            .into_iter()
            .enumerate()
            .map(|(n, standing)| (owner(&format!("o{n}"), true), standing))
            .collect();
        let plan = plan(&Observed { meta: &meta, owners: &owners, dependents: &dependents });
        assert_eq!((plan.why, plan.actions), (why, actions), "{name}");
    }
}

fn kind() -> Arc<ServedKind> {
    Arc::new(ServedKind::of::<ConfigMap>())
}

fn object(uid: &str, owners: &[(&str, bool)], finalizers: &[&str], is_leaving: bool) -> Object {
    let mut meta = item(finalizers, is_leaving);
    meta.uid = Some(uid.into());
    meta.owner_references = Some(owners.iter().map(|(uid, blocks)| owner(uid, *blocks)).collect());
    Object::of(&kind(), &meta)
}

#[test]
fn the_graph_says_whom_a_change_concerns() {
    let mut graph = Graph::default();
    let none: [&str; 0] = [];
    assert_eq!(graph.observe(object("a", &[], &[], false)), none);
    assert_eq!(graph.observe(object("b", &[("a", true)], &[], false)), none, "its owner is known");
    assert_eq!(graph.observe(object("c", &[("x", true)], &[], false)), ["c"], "its owner is not");
    assert_eq!(graph.observe(object("c", &[("x", true)], &[], false)), none, "nothing has changed");
    assert_eq!(graph.unsure(), ["c"]);
    let waits = object("a", &[], &["foregroundDeletion"], true);
    assert_eq!(graph.observe(waits), ["a", "b"], "the dependents shall go");
    assert_eq!(graph.dependents("a"), [Dependent { uid: "b".into(), blocks: true, waits: false }]);
    let late = graph.observe(object("d", &[("a", true)], &[], false));
    assert_eq!(late, ["a"], "a late one is found by its owner");
    assert_eq!(graph.observe(object("b", &[("a", false)], &[], false)), ["a"], "it blocks no more");
    assert_eq!(graph.forget("d"), ["a"], "the owner may be free");
    assert_eq!(graph.forget("a"), ["b"]);
    assert_eq!(graph.forget("a"), none);
    assert_eq!(graph.of_kind(&kind()).len(), 2);
}

/// A server with objects of one kind, and the collector beside it.
#[derive(Debug, Default)]
struct World {
    live: BTreeMap<String, ObjectMeta>,
    graph: Graph,
    /// Changes the collector has not heard of yet.
    news: VecDeque<String>,
    queue: VecDeque<String>,
    collected: Vec<String>,
    made: usize,
}

impl World {
    fn create(&mut self, owners: Vec<OwnerReference>) -> String {
        self.made += 1;
        let uid = format!("u{}", self.made);
        let mut meta = meta(&uid);
        meta.uid = Some(uid.clone());
        meta.owner_references = Some(owners);
        self.live.insert(uid.clone(), meta);
        self.news.push_back(uid.clone());
        uid
    }

    /// What the server does with a deletion.
    fn delete(&mut self, uid: &str, policy: &PropagationPolicy) {
        let Some(meta) = self.live.get_mut(uid) else { return };
        meta.deletion_timestamp = Some(stamp(NOW));
        let wish = match policy {
            PropagationPolicy::Background => None,
            PropagationPolicy::Foreground => Some("foregroundDeletion"),
            PropagationPolicy::Orphan => Some("orphan"),
        };
        let finalizers = meta.finalizers.get_or_insert_default();
        finalizers.retain(|name| name != "foregroundDeletion" && name != "orphan");
        finalizers.extend(wish.map(str::to_owned));
        self.settle(uid);
    }

    fn settle(&mut self, uid: &str) {
        let Some(meta) = self.live.get(uid) else { return };
        let is_held = meta.finalizers.as_ref().is_some_and(|all| !all.is_empty());
        if meta.deletion_timestamp.is_some() && !is_held {
            self.live.remove(uid);
        }
        self.news.push_back(uid.to_owned());
    }

    fn hear(&mut self) -> bool {
        let Some(uid) = self.news.pop_front() else { return false };
        let concerned = match self.live.get(&uid) {
            Some(meta) => self.graph.observe(Object::of(&kind(), meta)),
            None => self.graph.forget(&uid),
        };
        self.queue.extend(concerned);
        true
    }

    fn standing(&self, uid: &str) -> Standing {
        match self.live.get(uid) {
            None => Standing::Absent,
            Some(meta) if awaits_dependents(meta) => Standing::Waiting,
            Some(_) => Standing::Solid,
        }
    }

    fn collect(&mut self) -> bool {
        let Some(uid) = self.queue.pop_front() else { return false };
        if self.graph.get(&uid).is_none() {
            return true;
        }
        let Some(meta) = self.live.get(&uid).cloned() else { return true };
        let owners: Vec<_> = meta
            .owner_references
            .iter()
            .flatten()
            .map(|owner| (owner.clone(), self.standing(&owner.uid)))
            .collect();
        let dependents = self.graph.dependents(&uid);
        let plan = plan(&Observed { meta: &meta, owners: &owners, dependents: &dependents });
        if plan.why == Why::Blocked {
            let blocking = dependents.iter().filter(|one| one.blocks && !one.waits);
            self.queue.extend(blocking.map(|one| one.uid.clone()));
        }
        for action in plan.actions {
            self.act(&uid, action);
        }
        true
    }

    fn act(&mut self, uid: &str, action: Action) {
        let owners = |live: &mut BTreeMap<String, ObjectMeta>, uid: &str| {
            live.get_mut(uid).and_then(|meta| meta.owner_references.clone()).unwrap_or_default()
        };
        match action {
            Action::Delete(policy) => {
                for owner in owners(&mut self.live, uid) {
                    assert_ne!(self.standing(&owner.uid), Standing::Solid, "{uid} has an owner");
                }
                self.collected.push(uid.to_owned());
                self.delete(uid, &policy);
            }
            Action::DropOwners(lost) => {
                let mut kept = owners(&mut self.live, uid);
                kept.retain(|owner| !lost.contains(&owner.uid));
                self.set_owners(uid, kept);
            }
            Action::Unblock => {
                let mut free = owners(&mut self.live, uid);
                free.iter_mut().for_each(|owner| owner.block_owner_deletion = Some(false));
                self.set_owners(uid, free);
            }
            Action::RemoveFinalizer(name) => {
                if let Some(meta) = self.live.get_mut(uid) {
                    meta.finalizers.get_or_insert_default().retain(|one| one != name);
                }
                self.settle(uid);
            }
            Action::OrphanDependents => {
                for dependent in self.graph.dependents(uid) {
                    self.act(&dependent.uid, Action::DropOwners(vec![uid.to_owned()]));
                }
            }
        }
    }

    fn set_owners(&mut self, uid: &str, owners: Vec<OwnerReference>) {
        if let Some(meta) = self.live.get_mut(uid) {
            meta.owner_references = Some(owners);
            self.news.push_back(uid.to_owned());
        }
    }

    /// Until nothing happens any more.
    fn rest(&mut self) {
        for _ in 0..10_000 {
            let (heard, collected) = (self.hear(), self.collect());
            if !heard && !collected {
                return;
            }
        }
        panic!("never rests: {self:?}");
    }

    fn names(&self) -> Vec<&str> {
        self.live.keys().map(String::as_str).collect()
    }
}

/// A chain u1 <- u2 <- u3 in which everybody blocks.
fn chain() -> World {
    let mut world = World::default();
    let first = world.create(vec![]);
    let second = world.create(vec![owner(&first, true)]);
    world.create(vec![owner(&second, true)]);
    world.rest();
    world
}

#[test]
fn a_family_goes_as_its_head_was_told_to() {
    let cases = [
        ("background", PropagationPolicy::Background, vec![], vec!["u2", "u3"]),
        ("foreground", PropagationPolicy::Foreground, vec![], vec!["u2", "u3"]),
        ("orphan", PropagationPolicy::Orphan, vec!["u2", "u3"], vec![]),
    ];
    for (name, policy, left, collected) in cases {
        let mut world = chain();
        world.delete("u1", &policy);
        world.rest();
        assert_eq!(
            (world.names(), world.collected.clone()),
            (left, collected.iter().map(|s| (*s).to_owned()).collect()),
            "{name}"
        );
    }
}

#[test]
fn foreground_means_children_first() {
    let mut world = chain();
    world.live.get_mut("u3").unwrap().finalizers = Some(vec!["a/hold".into()]);
    world.delete("u1", &PropagationPolicy::Foreground);
    world.rest();
    assert_eq!(world.names(), ["u1", "u2", "u3"], "the youngest is held, and all wait");
    world.act("u3", Action::RemoveFinalizer("a/hold"));
    world.rest();
    assert_eq!(world.names(), [""; 0]);
}

#[test]
fn an_object_with_an_owner_that_never_was_goes() {
    let mut world = World::default();
    world.create(vec![owner("ghost", true)]);
    let stays = world.create(vec![]);
    world.create(vec![owner("ghost", true), owner(&stays, true)]);
    world.rest();
    assert_eq!(world.names(), ["u2", "u3"]);
    let left = world.live["u3"].owner_references.clone().unwrap();
    assert_eq!(left.len(), 1, "the reference to the ghost is gone");
}

#[test]
fn a_circle_is_broken_when_one_of_it_goes() {
    for policy in [PropagationPolicy::Foreground, PropagationPolicy::Background] {
        let mut world = World::default();
        let first = world.create(vec![]);
        let second = world.create(vec![owner(&first, true)]);
        world.set_owners(&first, vec![owner(&second, true)]);
        world.rest();
        assert_eq!(world.names().len(), 2, "a circle by itself is left alone");
        world.delete(&first, &policy);
        world.rest();
        assert_eq!(world.names(), [""; 0], "{policy:?}");
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// Owners by position, and whether they block; 9 is one that does not exist.
    Create(Vec<(usize, bool)>),
    Delete(usize, u8),
    Hear,
    Collect,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => prop::collection::vec((0..10usize, any::<bool>()), 0..3).prop_map(Step::Create),
        2 => (0..8usize, 0..3u8).prop_map(|(nth, policy)| Step::Delete(nth, policy)),
        4 => Just(Step::Hear),
        4 => Just(Step::Collect),
    ]
}

proptest! {
    /// However creations, deletions, late news and the collector's work interleave: nothing with
    /// a living owner is deleted (`World::act` checks), nothing without one is left, and nothing
    /// waits forever.
    #[test]
    fn what_is_owned_stays_and_what_is_not_goes(steps in prop::collection::vec(step(), 0..60)) {
        let mut world = World::default();
        let mut told: BTreeSet<String> = BTreeSet::new();
        for step in steps {
            let nth = |world: &World, nth: usize| world.live.keys().nth(nth).cloned();
            match step {
                Step::Create(wanted) => {
                    let owners = wanted.into_iter().map(|(position, blocks)| {
                        let uid = nth(&world, position).unwrap_or_else(|| "ghost".into());
                        owner(&uid, blocks)
                    });
                    let owners: Vec<_> = owners.collect();
                    world.create(owners);
                }
                Step::Delete(position, policy) => {
                    if let Some(uid) = nth(&world, position) {
                        let policy = match policy {
                            0 => PropagationPolicy::Background,
                            1 => PropagationPolicy::Foreground,
                            _ => PropagationPolicy::Orphan,
                        };
                        world.delete(&uid, &policy);
                        told.insert(uid);
                    }
                }
                Step::Hear => { world.hear(); }
                Step::Collect => { world.collect(); }
            }
        }
        world.rest();
        for (uid, meta) in &world.live {
            prop_assert!(meta.deletion_timestamp.is_none(), "{uid} waits forever");
            let owners: Vec<_> = meta.owner_references.iter().flatten().collect();
            let has_one = owners.iter().any(|owner| world.live.contains_key(&owner.uid));
            prop_assert!(owners.is_empty() || has_one, "{uid} has lost its owners");
        }
        prop_assert!(told.iter().all(|uid| !world.live.contains_key(uid)));
    }
}
