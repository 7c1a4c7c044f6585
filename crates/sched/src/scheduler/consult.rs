//! Pods about which others have a say.
//!
//! Extenders live behind a network, and the engine calls nobody. For pods they care about an
//! attempt stops half way and says what to ask; the process asks and comes back with the answer:
//!
//! ```text
//! next() -> Ask: nodes that fit        filter, prioritize -> answer()      -> Place or Reject
//!           AskRoom: nodes to clear    preempt            -> answer_room() -> Reject
//! ```
//!
//! Meanwhile the pod is in flight and other pods are decided, so an answer is held against the
//! cluster as it is when it arrives. A pod that others refused is tried again after its pause:
//! no event tells when they change their mind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Scheduler;
use super::attempt::{
    Answer, Ask, AskRoom, Attempt, Nominate, Outcome, Reject, RoomOffer, Victim, VictimRef,
};
use crate::cycle::{Choice, Cycle, Refused};
use crate::model::{Class, ResourceId};
use crate::preempt::{self, Candidate};
use crate::snapshot::{NodeIx, Phase, PodIx};
use crate::time::Time;
use crate::verdict::{Code, Group, Rejection};

/// Whose word it is when extenders refuse a node.
pub const EXTENDER: &str = "Extender";

/// Which pods others have a say about, and in what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Consult {
    /// Pods that ask for one of these resources; `None` for all pods.
    pub resources: Option<BTreeSet<String>>,
    /// About nodes: they filter or score.
    pub nodes: bool,
    /// About who is preempted.
    pub victims: bool,
}

/// The same with resources by number.
#[derive(Debug, Default)]
pub(super) struct Consulted {
    resources: Option<BTreeSet<ResourceId>>,
    nodes: bool,
    victims: bool,
}

impl Consulted {
    fn means(&self, class: &Class) -> bool {
        let Some(resources) = &self.resources else { return true };
        class.containers.iter().any(|one| {
            let asked = one.requests.iter().chain(one.limits.iter());
            asked.into_iter().any(|(id, _)| resources.contains(&id))
        })
    }

    pub(super) fn about_nodes(&self, class: &Class) -> bool {
        self.nodes && self.means(class)
    }

    pub(super) fn about_victims(&self, class: &Class) -> bool {
        self.victims && self.means(class)
    }
}

impl Scheduler {
    /// From now on others have a say about some pods.
    pub fn consult(&mut self, consult: &Consult) {
        let ids = |names: &BTreeSet<String>| {
            names.iter().map(|name| self.snapshot.resources.intern(name)).collect()
        };
        let resources = consult.resources.as_ref().map(ids);
        let Consult { nodes, victims, .. } = *consult;
        self.consulted = Some(Consulted { resources, nodes, victims });
    }

    /// Nodes that fit, for others to judge.
    pub(super) fn ask(&mut self, pod: PodIx, profile: usize, now: Time) -> Outcome {
        let Self { snapshot, frameworks, nominator, standings, pass, .. } = self;
        let Some(framework) = frameworks.get(profile) else {
            return Outcome::Skip { reason: "pod belongs to no profile" };
        };
        match (Cycle { snapshot, framework, nominator }).offer(standings, pass, pod) {
            Err(refused) => self.reject(pod, profile, *refused, now),
            Ok(mut nodes) => {
                nodes.sort_unstable();
                let name = |node: NodeIx| self.snapshot.node_name(node).to_owned();
                Outcome::Ask(Box::new(Ask { nodes: nodes.into_iter().map(name).collect() }))
            }
        }
    }

    /// What others said about the nodes of an [`Ask`]. `None` when the pod is gone.
    pub fn answer(&mut self, uid: &str, answer: Answer, now: Time) -> Option<Attempt> {
        self.resume(uid, now, |engine, pod, profile| match answer {
            Answer::Failed(text) => engine.fail(pod, text, now),
            Answer::Nodes { accepted, refused } => {
                engine.weigh(pod, profile, &accepted, &refused, now)
            }
        })
    }

    /// Which of the nodes of an [`AskRoom`] others agree to clear, best first, or why they could
    /// not be asked. `None` when the pod is gone.
    pub fn answer_room(
        &mut self,
        uid: &str,
        why: Rejection,
        kept: Result<Vec<RoomOffer>, String>,
        now: Time,
    ) -> Option<Attempt> {
        self.resume(uid, now, |engine, pod, _| match kept {
            Err(text) => engine.fail(pod, text, now),
            Ok(kept) => engine.clear(pod, why, &kept, now),
        })
    }

    /// Goes on with a pod that others were asked about.
    fn resume(
        &mut self,
        uid: &str,
        now: Time,
        go_on: impl FnOnce(&mut Self, PodIx, usize) -> Outcome,
    ) -> Option<Attempt> {
        self.expire(now);
        let Some(pod) = self.snapshot.pods.find(uid) else {
            self.queue.done(&Arc::from(uid));
            return None;
        };
        let found = self.snapshot.pods.get(pod)?;
        let uid = Arc::clone(&found.uid);
        let attempts = self.queue.get(&uid).map_or(1, |record| record.attempts);
        let outcome = if found.is_terminating || found.phase != Phase::Pending {
            self.queue.done(&uid);
            Outcome::Skip { reason: "pod was placed or deleted while others were asked" }
        } else {
            let profile = self.profile_of(pod);
            go_on(self, pod, profile)
        };
        self.tell_released(now);
        let profile = self.profile_of(pod);
        let scheduler_name = self.frameworks.get(profile)?.scheduler_name.clone();
        Some(Attempt { pod: self.pod_ref(pod), scheduler_name, attempts, outcome })
    }

    /// Asking came to nothing: tried again after a pause.
    fn fail(&mut self, pod: PodIx, text: String, now: Time) -> Outcome {
        let (nodes, before) = (self.snapshot.live(), Some(text));
        let why = Rejection { nodes, before, is_error: true, ..Rejection::default() };
        self.requeue(pod, &why, now);
        Outcome::Reject(Box::new(Reject {
            why,
            nominate: Nominate::Leave,
            victims: Vec::new(),
            unnominated: Vec::new(),
        }))
    }

    fn weigh(
        &mut self,
        pod: PodIx,
        profile: usize,
        accepted: &[(String, i64)],
        refused: &[(String, Code, String)],
        now: Time,
    ) -> Outcome {
        let known = |name: &str| self.snapshot.find_node(name);
        let added: BTreeMap<NodeIx, i64> =
            accepted.iter().filter_map(|(name, score)| Some((known(name)?, *score))).collect();
        let theirs = refused.iter().filter_map(|(name, code, why)| {
            let reasons = vec![why.clone()];
            Some((known(name)?, Group { plugin: EXTENDER, code: *code, reasons, nodes: 1 }))
        });
        let theirs: BTreeMap<NodeIx, Group> = theirs.collect();
        let Self { snapshot, frameworks, nominator, standings, pass, .. } = self;
        let Some(framework) = frameworks.get(profile) else {
            return Outcome::Skip { reason: "pod belongs to no profile" };
        };
        let mut cycle = Cycle { snapshot, framework, nominator };
        match cycle.choose(standings, pass, pod, &added) {
            Ok(choice) => self.place(pod, profile, choice, now),
            Err(mut mine) => {
                join(&mut mine, theirs);
                self.reject(pod, profile, *mine, now)
            }
        }
    }

    /// What others must agree to before pods are preempted, if they have a say.
    pub(super) fn ask_room(
        &mut self,
        pod: PodIx,
        profile: usize,
        refused: &Refused,
    ) -> Option<Outcome> {
        let class = &self.snapshot.pods.get(pod)?.class;
        self.consulted.as_ref().filter(|own| own.about_victims(class))?;
        let Self { snapshot, frameworks, nominator, standings, budgets, ledgers, options, .. } =
            self;
        let mut cycle = Cycle { snapshot, framework: frameworks.get(profile)?, nominator };
        let mut search = preempt::Search { budgets, ledgers, seed: options.seed };
        let candidates = search.all(&mut cycle, standings, pod, refused);
        if candidates.is_empty() {
            return None;
        }
        let rooms = candidates.iter().map(|one| RoomOffer {
            node: self.snapshot.node_name(one.node).to_owned(),
            victims: one.victims.iter().filter_map(|own| self.victim_ref(*own)).collect(),
        });
        let ask = AskRoom { why: refused.rejection.clone(), rooms: rooms.collect() };
        Some(Outcome::AskRoom(Box::new(ask)))
    }

    fn victim_ref(&self, (pod, violates_pdb): (PodIx, bool)) -> Option<VictimRef> {
        let found = self.snapshot.pods.get(pod)?;
        Some(VictimRef { uid: Arc::clone(&found.uid), violates_pdb })
    }

    fn clear(&mut self, pod: PodIx, why: Rejection, kept: &[RoomOffer], now: Time) -> Outcome {
        let mut reject = Reject {
            why,
            nominate: Nominate::Leave,
            victims: Vec::<Victim>::new(),
            unnominated: Vec::new(),
        };
        match kept.first().map(|room| self.candidate(room)) {
            Some(Err(text)) => return self.fail(pod, text, now),
            Some(Ok(candidate)) => self.nominate(pod, &candidate, &mut reject),
            None => {
                let text = "preemption: extenders agree to none of the nodes.";
                reject.why.preemption = Some(text.to_owned());
                if self.release(pod) {
                    reject.nominate = Nominate::Clear;
                }
            }
        }
        self.requeue(pod, &reject.why, now);
        Outcome::Reject(Box::new(reject))
    }

    /// A node to be cleared in the engine's terms, if everybody is still there.
    fn candidate(&self, room: &RoomOffer) -> Result<Candidate, String> {
        let node = self.snapshot.find_node(&room.node);
        let node = node.ok_or_else(|| format!("node {} is gone", room.node))?;
        let there = |own: &VictimRef| {
            let pod = self.snapshot.pods.find(&own.uid)?;
            let found = self.snapshot.pods.get(pod)?;
            (found.node == Some(node)).then_some((pod, own.violates_pdb))
        };
        let gone = |own: &VictimRef| format!("pod {} is not on node {}", own.uid, room.node);
        let victims = room.victims.iter().map(|own| there(own).ok_or_else(|| gone(own)));
        Ok(Candidate { node, victims: victims.collect::<Result<_, _>>()? })
    }
}

/// Adds nodes that others refused to those that do not fit.
fn join(mine: &mut Refused, theirs: BTreeMap<NodeIx, Group>) {
    for (node, group) in theirs {
        if mine.nodes.iter().any(|(_, nodes)| nodes.contains(&node)) {
            continue;
        }
        let same = |own: &&mut (Group, Vec<NodeIx>)| {
            own.0.plugin == EXTENDER && own.0.code == group.code && own.0.reasons == group.reasons
        };
        if group.code == Code::Unschedulable {
            mine.resolvable.push(node);
        }
        match mine.nodes.iter_mut().find(same) {
            Some((group, nodes)) => {
                group.nodes += 1;
                nodes.push(node);
            }
            None => mine.nodes.push((group, vec![node])),
        }
    }
    mine.resolvable.sort_unstable();
    mine.rejection.groups = mine.nodes.iter().map(|(group, _)| group.clone()).collect();
    mine.rejection.plugins.insert(EXTENDER);
}

impl Cycle<'_> {
    /// Every node that fits, with its total.
    pub(crate) fn offer(
        &mut self,
        standings: &mut crate::standing::cache::Standings,
        pass: &mut crate::standing::pass::Pass,
        pod: PodIx,
    ) -> Result<Vec<NodeIx>, Box<Refused>> {
        self.pass_over(standings, pass, pod, None)
            .map(|_| pass.totals().map(|(node, _)| node).collect())
    }

    /// The best of these nodes, with what others add to their scores.
    pub(crate) fn choose(
        &mut self,
        standings: &mut crate::standing::cache::Standings,
        pass: &mut crate::standing::pass::Pass,
        pod: PodIx,
        added: &BTreeMap<NodeIx, i64>,
    ) -> Result<Choice, Box<Refused>> {
        let nominated = self.snapshot.pods.get(pod).and_then(|found| found.nominated);
        let nominated = nominated.and_then(|name| self.snapshot.node_by_name(name));
        let standing = self.pass_over(standings, pass, pod, Some(added))?;
        if let Some(node) = nominated.filter(|node| pass.totals().any(|(one, _)| one == *node)) {
            return Ok(Choice { was_nominated: true, ..Choice::of(node) });
        }
        let feasible = u32::try_from(pass.feasible()).ok();
        pass.add(added);
        let (first, second) = pass.best(standing, self.snapshot);
        let Some((node, total)) = first else { return Err(Box::default()) };
        let mut parts = standing.parts_in(self.snapshot, pass, node);
        parts.extend(added.get(&node).filter(|own| **own != 0).map(|own| (EXTENDER, *own)));
        Ok(Choice { node, total, feasible, second, was_nominated: false, parts })
    }
}
