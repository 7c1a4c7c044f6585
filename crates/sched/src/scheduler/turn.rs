//! One try: pop, decide, assume, reserve; or reject, make room, wait.

use std::sync::Arc;

use super::apply::ticket;
use super::attempt::{
    Attempt, BindFailure, Nominate, Outcome, Place, Placement, PodRef, Ranked, Reject, Victim,
    VolumeWork,
};
use super::{EXTENDER, Kept, Scheduler};
use crate::cycle::{Choice, Cycle, Decision, Refused};
use crate::framework::Framework;
use crate::lap::{Begun, Ending, Timed};
use crate::plugin::{Patch, Refusal};
use crate::plugins;
use crate::preempt::{self, Candidate};
use crate::profile::Point;
use crate::queue::{Actions, Failure, PluginSet};
use crate::snapshot::{NodeIx, Phase, PodIx};
use crate::time::Time;
use crate::verdict::{Code, Rejection};

impl Scheduler {
    /// Takes the next pod off the queue and decides; a placed pod is assumed on its node.
    pub fn next(&mut self, now: Time) -> Option<Attempt> {
        self.expire(now);
        let (uid, pod) = loop {
            let uid = self.queue.pop(now)?;
            match self.snapshot.pods.find(&uid) {
                Some(pod) => break (uid, pod),
                None => {
                    self.queue.done(&uid);
                    self.queue.delete(&uid);
                }
            }
        };
        let attempts = self.queue.get(&uid).map_or(1, |record| record.attempts);
        let outcome = self.attempt(pod, now);
        self.tell_released(now);
        let profile = self.profile_of(pod);
        let scheduler_name = self.frameworks.get(profile)?.scheduler_name.clone();
        Some(Attempt { pod: self.pod_ref(pod), scheduler_name, attempts, outcome })
    }

    fn attempt(&mut self, pod: PodIx, now: Time) -> Outcome {
        let Some(found) = self.snapshot.pods.get(pod) else {
            return Outcome::Skip { reason: "pod is gone" };
        };
        let uid = Arc::clone(&found.uid);
        if found.is_terminating || found.phase != Phase::Pending {
            let is_gone = found.is_terminating;
            self.queue.done(&uid);
            let reason = if is_gone { "pod is being deleted" } else { "pod is placed already" };
            return Outcome::Skip { reason };
        }
        let profile = self.profile_of(pod);
        if let Some(consulted) = &self.consulted
            && consulted.about_nodes(&found.class)
        {
            return self.ask(pod, profile, now);
        }
        let Self { snapshot, frameworks, nominator, standings, pass, .. } = self;
        let Some(framework) = frameworks.get(profile) else {
            self.queue.done(&uid);
            return Outcome::Skip { reason: "pod belongs to no profile" };
        };
        let begun = framework.laps.begin();
        let decision = Cycle { snapshot, framework, nominator }.decide(standings, pass, pod);
        if framework.laps.is_on() {
            self.time(begun, pod, profile, &decision);
        }
        match decision {
            Decision::Place(choice) => self.place(pod, profile, choice, now),
            Decision::Reject(refused) => self.reject(pod, profile, refused, now),
        }
    }

    /// Notes how long a decision took, and what each plugin takes for one node.
    fn time(&self, begun: Begun, pod: PodIx, profile: usize, decision: &Decision) {
        let Some(Framework { laps, .. }) = self.frameworks.get(profile) else { return };
        let (ending, node) = match decision {
            Decision::Place(choice) => (Ending::Success, Some(choice.node)),
            Decision::Reject(refused) => {
                let first = refused.nodes.first().and_then(|(_, nodes)| nodes.first());
                (Ending::Rejected(Code::Unschedulable), first.copied())
            }
        };
        laps.end(begun, Timed::Point { point: Point::Filter, ending });
        let class = self.snapshot.pods.get(pod).map(|found| &found.class);
        let standing = class.and_then(|class| self.standings.last(class));
        if let (Some(standing), Some(node)) = (standing, node) {
            standing.time(&self.snapshot, node, laps);
        }
    }

    pub(super) fn place(
        &mut self,
        pod: PodIx,
        profile: usize,
        choice: Choice,
        now: Time,
    ) -> Outcome {
        let node = choice.node;
        let Some(symbol) = self.snapshot.node(node).map(|node| node.name) else {
            // A decision names a node of this very snapshot; should it not, the pod is retried.
            let is_error = true;
            let rejection = Rejection { is_error, ..Rejection::default() };
            return self.refuse(pod, rejection, now);
        };
        let name = self.snapshot.names.text(symbol).to_owned();
        let promised = self.snapshot.pods.get(pod).and_then(|found| found.nominated);
        if promised == Some(symbol) {
            self.withdraw(pod);
        } else {
            self.release(pod);
        }
        if let Some(found) = self.snapshot.pods.get_mut(pod) {
            found.phase = Phase::Assumed;
        }
        self.snapshot.attach(pod, symbol);
        if let Err((plugin, refusal)) = self.reserve(pod, profile, node) {
            self.unassume(pod);
            let rejection = Rejection {
                nodes: self.snapshot.live(),
                before: Some(refusal.reason),
                plugins: [plugin].into(),
                ..Rejection::default()
            };
            return self.refuse(pod, rejection, now);
        }
        let why = self.placement(&choice);
        let patch = self.patch(pod, profile, node);
        if let Some(found) = self.snapshot.pods.get(pod) {
            let uid = Arc::clone(&found.uid);
            self.queue.done(&uid);
            self.placements.insert(&uid, Kept { choice });
        }
        let promised = self.snapshot.extras.storage.promised(pod);
        let volumes = promised.map(|one| VolumeWork::of(one, &self.snapshot.names));
        let volumes = volumes.unwrap_or_default();
        Outcome::Place(Box::new(Place { node: name, patch, volumes, why }))
    }

    fn reserve(
        &mut self,
        pod: PodIx,
        profile: usize,
        node: NodeIx,
    ) -> Result<(), (&'static str, Refusal)> {
        let Some(framework) = self.frameworks.get(profile) else { return Ok(()) };
        for plugin in framework.reserves.iter().filter_map(|at| framework.get(*at)) {
            let begun = framework.laps.begin();
            let reserved = plugin.reserve(&mut self.snapshot, pod, node);
            let failed = reserved.as_ref().err().map(|refusal| Ending::Rejected(refusal.code));
            let ending = failed.unwrap_or(Ending::Success);
            let (plugin, point) = (plugin.name(), Point::Reserve);
            framework.laps.end(begun, Timed::Plugin { plugin, point, ending });
            reserved.map_err(|refusal| (plugin, refusal))?;
        }
        Ok(())
    }

    /// Gives back what all plugins reserved for an assumed pod, last first.
    pub(super) fn unreserve(&mut self, pod: PodIx) {
        let Some(node) = self.snapshot.pods.get(pod).and_then(|found| found.node) else { return };
        let profile = self.profile_of(pod);
        let Some(framework) = self.frameworks.get(profile) else { return };
        for plugin in framework.reserves.iter().rev().filter_map(|at| framework.get(*at)) {
            plugin.unreserve(&mut self.snapshot, pod, node);
        }
    }

    /// An assumed pod is pending again.
    fn unassume(&mut self, pod: PodIx) {
        self.unreserve(pod);
        self.snapshot.detach(pod);
        if let Some(found) = self.snapshot.pods.get_mut(pod) {
            found.phase = Phase::Pending;
        }
    }

    fn patch(&self, pod: PodIx, profile: usize, node: NodeIx) -> Patch {
        let mut patch = Patch::default();
        if let Some(framework) = self.frameworks.get(profile) {
            for plugin in framework.patches.iter().filter_map(|at| framework.get(*at)) {
                plugin.patch(&self.snapshot, pod, node, &mut patch);
            }
        }
        patch
    }

    pub(super) fn placement(&self, choice: &Choice) -> Placement {
        let ranked = |node: NodeIx, total| Ranked {
            node: self.snapshot.node_name(node).to_owned(),
            total,
            parts: Vec::new(),
        };
        Placement {
            nodes: self.snapshot.live(),
            feasible: choice.feasible,
            winner: Ranked { parts: choice.parts.clone(), ..ranked(choice.node, choice.total) },
            runners_up: choice.second.iter().map(|(node, total)| ranked(*node, *total)).collect(),
            was_nominated: choice.was_nominated,
        }
    }

    /// Rejected after a node was chosen: nothing to preempt, nothing promised.
    fn refuse(&mut self, pod: PodIx, rejection: Rejection, now: Time) -> Outcome {
        self.requeue(pod, &rejection, now);
        Outcome::Reject(Box::new(Reject {
            why: rejection,
            nominate: Nominate::Clear,
            victims: Vec::new(),
            unnominated: Vec::new(),
        }))
    }

    pub(super) fn reject(
        &mut self,
        pod: PodIx,
        profile: usize,
        refused: Refused,
        now: Time,
    ) -> Outcome {
        let mut reject = Reject {
            why: refused.rejection.clone(),
            nominate: Nominate::Leave,
            victims: Vec::new(),
            unnominated: Vec::new(),
        };
        let preempts = self.frameworks.get(profile).is_some_and(|framework| framework.preempts);
        if preempts && !refused.rejection.is_error {
            if self.consulted.is_some()
                && let Some(question) = self.ask_room(pod, profile, &refused)
            {
                return question;
            }
            self.make_room(pod, profile, &refused, &mut reject);
        }
        self.requeue(pod, &reject.why, now);
        Outcome::Reject(Box::new(reject))
    }

    /// Preemption: victims on the best node, a nomination, and who loses theirs.
    fn make_room(&mut self, pod: PodIx, profile: usize, refused: &Refused, reject: &mut Reject) {
        let Self { snapshot, frameworks, nominator, standings, budgets, ledgers, options, .. } =
            self;
        let Some(framework) = frameworks.get(profile) else { return };
        let mut cycle = Cycle { snapshot, framework, nominator };
        let mut search = preempt::Search { budgets, ledgers, seed: options.seed };
        let begun = framework.laps.begin();
        let found = search.find(&mut cycle, standings, pod, refused);
        let ending = match &found {
            preempt::Found::Room(_) => Ending::Success,
            _ => Ending::Rejected(Code::Unschedulable),
        };
        let (plugin, point) = (plugins::DEFAULT_PREEMPTION, Point::PostFilter);
        framework.laps.end(begun, Timed::Plugin { plugin, point, ending });
        match found {
            preempt::Found::Nothing { message } => {
                reject.why.preemption = message;
                if self.release(pod) {
                    reject.nominate = Nominate::Clear;
                }
            }
            preempt::Found::Waiting { message } => reject.why.preemption = Some(message),
            preempt::Found::Room(candidate) => self.nominate(pod, &candidate, reject),
        }
    }

    pub(super) fn nominate(&mut self, pod: PodIx, candidate: &Candidate, reject: &mut Reject) {
        let Some(node) = self.snapshot.node(candidate.node).map(|node| node.name) else { return };
        let Some(found) = self.snapshot.pods.get(pod) else { return };
        let (uid, priority) = (Arc::clone(&found.uid), found.class.priority);
        let losers = self.nominator.below(priority, &node);
        let losers: Vec<PodIx> = losers.filter_map(|uid| self.snapshot.pods.find(uid)).collect();
        for loser in losers {
            self.release(loser);
            reject.unnominated.push(self.pod_ref(loser));
        }
        self.promise(pod, node);
        reject.nominate = Nominate::Set(self.snapshot.names.text(node).to_owned());
        reject.victims = candidate
            .victims
            .iter()
            .filter_map(|(at, violates_pdb)| {
                let victim = self.snapshot.pods.get(*at)?;
                Some(Victim {
                    pod: self.pod_ref(*at),
                    priority: victim.class.priority,
                    violates_pdb: *violates_pdb,
                    is_terminating: victim.is_terminating,
                })
            })
            .collect();
        if reject.victims.iter().any(|victim| !victim.is_terminating) {
            self.preempting.insert(uid);
        }
    }

    pub(super) fn requeue(&mut self, pod: PodIx, rejection: &Rejection, now: Time) {
        let Some(found) = self.snapshot.pods.get(pod) else { return };
        let uid = Arc::clone(&found.uid);
        let plugins: PluginSet =
            rejection.plugins.iter().filter_map(|name| plugins::id(name)).collect();
        // Nothing tells when extenders change their mind, so time must.
        let by_time = rejection.is_error || rejection.plugins.contains(EXTENDER);
        let failure = if by_time { Failure::ERROR } else { Failure::rejected(plugins) };
        let (queue, policy) = self.queue_and_policy();
        queue.fail(&uid, failure, &policy, now);
    }

    /// The pod was bound.
    pub fn bound(&mut self, uid: &str, now: Time) {
        let Some(pod) = self.snapshot.pods.find(uid) else { return };
        let Some(found) = self.snapshot.pods.get_mut(pod) else { return };
        if found.phase != Phase::Assumed {
            return;
        }
        found.phase = Phase::Bound;
        let (uid, class) = (Arc::clone(&found.uid), Arc::clone(&found.class));
        self.queue.delete(&uid);
        self.pod_event(Actions::ADD, None, Some(class), now);
    }

    /// The pod could not be bound: its node is free again and the pod waits.
    pub fn bind_failed(&mut self, uid: &str, failure: BindFailure, now: Time) {
        let Some(pod) = self.snapshot.pods.find(uid) else { return };
        let Some(found) = self.snapshot.pods.get(pod) else { return };
        if found.phase != Phase::Assumed {
            return;
        }
        let (uid, class) = (Arc::clone(&found.uid), Arc::clone(&found.class));
        if failure == BindFailure::Gone {
            self.remove_pod(pod, now);
            return;
        }
        self.unassume(pod);
        let failure = match failure {
            BindFailure::Rejected { plugin, .. } => {
                Failure::rejected(plugins::id(plugin).into_iter().collect())
            }
            BindFailure::Error(_) | BindFailure::Gone => Failure::ERROR,
        };
        let ticket = ticket(&uid, &class);
        let (queue, policy) = self.queue_and_policy();
        if queue.get(&uid).is_none() {
            queue.add(ticket, &policy, now);
        } else {
            queue.fail(&uid, failure, &policy, now);
        }
        self.pod_event(Actions::DELETE, Some(class), None, now);
    }

    /// The victims of this pod's preemption have been told to go, or could not be told.
    pub fn preempted(&mut self, uid: &str, now: Time) {
        let Some(pod) = self.snapshot.pods.find(uid) else { return };
        let Some(uid) = self.snapshot.pods.get(pod).map(|found| Arc::clone(&found.uid)) else {
            return;
        };
        if self.preempting.remove(&uid) && self.is_gated(&uid) {
            let (queue, policy) = self.queue_and_policy();
            queue.activate([&uid], &policy, now);
        }
    }

    pub(super) fn pod_ref(&self, pod: PodIx) -> PodRef {
        let found = self.snapshot.pods.get(pod);
        PodRef {
            namespace: found.map_or("", |pod| self.snapshot.names.text(pod.namespace)).to_owned(),
            name: found.map_or("", |pod| &*pod.name).to_owned(),
            uid: found.map_or_else(|| "".into(), |pod| Arc::clone(&pod.uid)),
        }
    }
}
