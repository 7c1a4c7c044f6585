//! The incremental engine equals brute force, pod by pod, whatever happens in between.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "small random numbers"
)]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod brute;
mod company;
mod random;

use std::sync::Arc;

use brute::{Answer, Known, Place, World};
use k8s_openapi::api::core::v1::{Node, Pod};
use random::Random;
use sched::profile::Profile;
use sched::scheduler::{
    Attempt, BindFailure, Change, Key, Nominate, Options, Outcome, Scheduler, Update,
};
use sched::time::Time;

/// Both schedulers side by side.
struct Rig {
    engine: Scheduler,
    world: World,
    random: Random,
    now: i64,
    made: u32,
    decisions: u32,
    relabelled: u32,
    /// Placed, but the API server has not said so yet.
    binding: Vec<String>,
    /// Victims that have been told to go, and for whom.
    dying: Vec<(String, Vec<String>)>,
}

impl Rig {
    fn new(seed: u64) -> Self {
        let options = Options { seed, ..Options::default() };
        let profile = Profile::of_defaults("default-scheduler");
        let mut rig = Self {
            engine: Scheduler::new(vec![profile], options).unwrap(),
            world: World { seed, ..World::default() },
            random: Random(seed + 1),
            now: 1_000,
            made: 0,
            decisions: 0,
            relabelled: 0,
            binding: Vec::new(),
            dying: Vec::new(),
        };
        let nodes = 3 + rig.random.below(25);
        for at in 0..nodes {
            rig.set_node(&format!("n{at}"));
        }
        for at in 0..rig.random.below(4) {
            let budget = rig.random.budget(&format!("b{at}"));
            rig.apply(Change::Pdb(Update::Upsert(Arc::new(budget.clone()))));
            rig.world.budgets.push(budget);
        }
        rig
    }

    fn apply(&mut self, change: Change) {
        self.engine.apply(change, Time::from_secs(self.now));
    }

    fn set_node(&mut self, name: &str) {
        let node: Node = self.random.node(name);
        self.world.nodes.insert(name.to_owned(), Place::new(node.clone()));
        self.apply(Change::Node(Update::Upsert(Arc::new(node))));
    }

    fn add_pod(&mut self) {
        self.made += 1;
        let pod: Pod = self.random.pod(self.made);
        self.world.pods.insert(brute::uid(&pod).to_owned(), Known::new(pod.clone()));
        self.apply(Change::Pod(Update::Upsert(Arc::new(pod))));
    }

    /// The pod is gone, from wherever it was.
    fn delete_pod(&mut self, uid: &str) {
        let Some(Known { pod, .. }) = self.world.pods.remove(uid) else { return };
        self.world.nominated.remove(uid);
        self.binding.retain(|one| one != uid);
        let name = pod.metadata.name.as_deref().unwrap();
        let key = Key::new("default", name).with_uid(uid);
        self.apply(Change::Pod(Update::Delete(key)));
    }

    /// The API server confirms a binding.
    fn confirm(&mut self, uid: &str) {
        self.binding.retain(|one| one != uid);
        let Some(Known { pod, node: Some(node), .. }) = self.world.pods.get_mut(uid) else {
            return;
        };
        pod.spec.as_mut().unwrap().node_name = Some(node.clone());
        let pod = pod.clone();
        if self.random.below(2) == 0 {
            self.engine.bound(uid, Time::from_secs(self.now));
        }
        // Saying it twice must not matter.
        for _ in 0..=self.random.below(2) {
            self.apply(Change::Pod(Update::Upsert(Arc::new(pod.clone()))));
        }
    }

    fn fail_binding(&mut self, uid: &str) {
        self.binding.retain(|one| one != uid);
        if let Some(known) = self.world.pods.get_mut(uid) {
            known.node = None;
        }
        let failure = BindFailure::Error("no luck".to_owned());
        self.engine.bind_failed(uid, failure, Time::from_secs(self.now));
    }

    fn pick(&mut self, from: &[String]) -> Option<String> {
        (!from.is_empty()).then(|| from[self.random.below(from.len() as u64) as usize].clone())
    }

    fn placed(&self) -> Vec<String> {
        let pods = self.world.pods.iter().filter(|(_, known)| known.node.is_some());
        pods.map(|(uid, _)| uid.clone()).collect()
    }

    /// A pod gets other labels, wherever it is: others see it differently, and it is of another
    /// class from now on.
    fn relabel(&mut self) {
        let all: Vec<String> = self.world.pods.keys().cloned().collect();
        let Some(uid) = self.pick(&all) else { return };
        let app = self.random.app();
        let Some(known) = self.world.pods.get_mut(&uid) else { return };
        // One on its way is not shown with its node before it is confirmed.
        let is_on_its_way = self.binding.contains(&uid);
        let mut pod = known.pod.clone();
        pod.metadata.labels = Some([("app".to_owned(), app)].into());
        if is_on_its_way {
            return;
        }
        let node = known.node.clone();
        *known = Known::new(pod.clone());
        known.node = node;
        self.apply(Change::Pod(Update::Upsert(Arc::new(pod))));
        self.relabelled += 1;
    }

    fn change_budget(&mut self) {
        if self.world.budgets.is_empty() {
            return;
        }
        let at = self.random.below(self.world.budgets.len() as u64) as usize;
        let budget = self.random.budget(&format!("b{at}"));
        self.world.budgets[at] = budget.clone();
        self.apply(Change::Pdb(Update::Upsert(Arc::new(budget))));
    }

    /// Something happens.
    fn step(&mut self) {
        self.now += self.random.below(3) as i64;
        let nodes: Vec<String> = self.world.nodes.keys().cloned().collect();
        match self.random.below(100) {
            0..60 => self.add_pod(),
            60..70 => {
                let placed = self.placed();
                if let Some(uid) = self.pick(&placed) {
                    self.delete_pod(&uid);
                }
            }
            70..80 => {
                if let Some(node) = self.pick(&nodes) {
                    self.set_node(&node);
                }
            }
            80..83 if nodes.len() > 1 => {
                let node = self.pick(&nodes).unwrap();
                self.world.nodes.remove(&node);
                self.apply(Change::Node(Update::Delete(Key::new("", &node))));
            }
            83..85 => {
                let name = format!("n{}", self.random.below(40));
                self.set_node(&name);
            }
            85..88 => self.relabel(),
            88..89 => self.change_budget(),
            89..92 => {
                let binding = self.binding.clone();
                if let Some(uid) = self.pick(&binding) {
                    self.fail_binding(&uid);
                }
            }
            _ => {
                for uid in self.binding.clone() {
                    self.confirm(&uid);
                }
            }
        }
        self.bury();
        self.engine.tick(Time::from_secs(self.now));
    }

    /// Some of the victims have gone by now.
    fn bury(&mut self) {
        let mut dying = std::mem::take(&mut self.dying);
        dying.retain(|(preemptor, victims)| {
            if self.random.below(3) > 0 {
                return true;
            }
            for victim in victims {
                self.delete_pod(victim);
            }
            self.engine.preempted(preemptor, Time::from_secs(self.now));
            false
        });
        self.dying = dying;
    }

    /// Decides about what waits, comparing each decision.
    fn drain(&mut self) {
        for _ in 0..2 {
            let Some(attempt) = self.engine.next(Time::from_secs(self.now)) else { return };
            self.compare(&attempt);
        }
    }

    fn compare(&mut self, attempt: &Attempt) {
        self.decisions += 1;
        let uid = attempt.pod.uid.to_string();
        let known = &self.world.pods[&uid];
        let want = self.world.decide(known);
        let pod = known.pod.clone();
        let name = &attempt.pod.name;
        match (&attempt.outcome, want) {
            (Outcome::Place(place), Answer::Place { node, total }) => {
                assert_eq!(place.node, node, "{name}: {:?}", place.why);
                if let Some(total) = total {
                    assert_eq!(place.why.winner.total, total, "{name}: {:?}", place.why);
                    let parts: i64 = place.why.winner.parts.iter().map(|(_, part)| part).sum();
                    assert_eq!(parts, total, "{name}: parts add up");
                }
                self.world.pods.get_mut(&uid).unwrap().node = Some(node);
                self.world.nominated.remove(&uid);
                self.binding.push(uid);
            }
            (Outcome::Reject(reject), Answer::Reject { message, nominate, victims }) => {
                assert_eq!(reject.why.message(), message, "{name}");
                let found: Vec<(String, bool)> = reject
                    .victims
                    .iter()
                    .map(|victim| (victim.pod.uid.to_string(), victim.violates_pdb))
                    .collect();
                assert_eq!(found, victims, "{name}: victims");
                match (&reject.nominate, nominate) {
                    (Nominate::Set(node), Some(want)) => {
                        assert_eq!(*node, want, "{name}: nominated");
                        self.nominate(&pod, want);
                        let victims = victims.into_iter().map(|(victim, _)| victim).collect();
                        self.dying.push((uid, victims));
                    }
                    (Nominate::Leave | Nominate::Clear, None) => {
                        self.world.nominated.remove(&uid);
                    }
                    (found, want) => panic!("{name}: {found:?}, brute force {want:?}"),
                }
            }
            (found, want) => panic!("{name}: {found:?}, brute force {want:?}"),
        }
    }

    fn nominate(&mut self, pod: &Pod, node: String) {
        let priority = brute::priority(pod);
        let pods = &self.world.pods;
        self.world.nominated.retain(|other, at| {
            *at != node
                || pods.get(other).is_none_or(|other| brute::priority(&other.pod) >= priority)
        });
        self.world.nominated.insert(brute::uid(pod).to_owned(), node);
    }
}

/// More than ten thousand decisions over forty random clusters.
#[test]
fn the_engine_equals_brute_force() {
    let mut decisions = 0;
    let (mut placed, mut relabelled) = (0, 0);
    for seed in 0..40 {
        let mut rig = Rig::new(seed);
        for _ in 0..330 {
            rig.step();
            rig.drain();
        }
        assert_eq!(rig.engine.check(), Vec::<String>::new(), "seed {seed}");
        decisions += rig.decisions;
        placed += rig.placed().len();
        relabelled += rig.relabelled;
    }
    assert!(decisions > 10_000, "only {decisions} decisions");
    assert!(placed > 1_000, "only {placed} pods placed");
    assert!(relabelled > 200, "only {relabelled} pods relabelled");
}
