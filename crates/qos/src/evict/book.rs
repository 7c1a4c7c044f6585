//! Who was told to leave, who is leaving, and who must be left in peace?
//!
//! ```text
//!            needed                 still needed at its hour      accepted
//!   (pod) ──────────> noticed ──────────────────────────> asked ──────────> leaving ──> gone
//!                        │                                  │ refused
//!                        └── not needed any more ──> (pod) <┘ and left alone for a while
//! ```
//!
//! Nobody is sent away without notice, and nobody who need not go: a notice is taken back when the need
//! passes. Whoever was told, asked or is leaving counts as gone already, so that slow departures do not
//! cost further victims. After a departure the node rests, and longer than that the owner of the pod:
//! what it started instead is not hit again.
//!
//! Memory that runs out in spite of all that is the one case without manners: notice is dropped, owners
//! at rest are asked after all others, and at last, if the operator allowed it, the processes of a pod
//! that was asked in vain are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::round::{Ask, Need, Outcome, Resource, Round};

/// How people are treated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manners {
    /// Between notice and eviction.
    pub cpu_notice: Duration,
    pub memory_notice: Duration,
    /// Between two departures from a node.
    pub cpu_rest: Duration,
    pub memory_rest: Duration,
    /// Between two departures of one owner's pods from a node.
    pub owner_rest: Duration,
    /// How many may be told or asked at the same time.
    pub at_once: usize,
    /// How long a pod counts as gone of which it is not known whether it accepted.
    pub unsure: Duration,
    /// How long memory must have been critical before processes are killed; `None` never kills.
    pub kill_after: Option<Duration>,
}

impl Default for Manners {
    /// The rests of the reference, which gives no notice and knows no owners.
    fn default() -> Self {
        Self {
            cpu_notice: Duration::from_secs(10),
            memory_notice: Duration::from_secs(2),
            cpu_rest: Duration::from_secs(20),
            memory_rest: Duration::from_secs(4),
            owner_rest: Duration::from_secs(300),
            at_once: 4,
            unsure: Duration::from_secs(15),
            kill_after: None,
        }
    }
}

/// How long a pod that accepted counts as gone while it is still there.
const LEAVING: Duration = Duration::from_secs(120);

/// A pod that refused is left alone so long, doubling to [`LONGEST_PEACE`].
const PEACE: Duration = Duration::from_secs(10);
const LONGEST_PEACE: Duration = Duration::from_secs(300);

/// How long a notice may take to disappear before it is taken back once more.
const AGAIN: Duration = Duration::from_secs(5);

/// Between two kills of the same pod.
const BETWEEN_KILLS: Duration = Duration::from_secs(30);

/// What a round knows of a pod that is on the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Present {
    /// Who would start it anew.
    pub owner: String,
    /// Until when its deletion, by whomever, may take; `None` when nobody deletes it.
    pub deleted_by: Option<Duration>,
    /// The hour of a notice of ours that it carries.
    pub noticed_for: Option<Duration>,
}

/// Something to do; none of these may be decided again by whoever does it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<Id> {
    /// Tell the pod that it will be evicted in so much time.
    Notify { ask: Ask<Id>, left: Duration },
    /// Take the notice back: it may stay.
    Withdraw(Id),
    /// Ask it to leave; [`Book::take`] wants to know what came of it.
    Evict(Ask<Id>),
    /// Kill its processes.
    Kill(Ask<Id>),
}

/// What a pod's answer was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Leaves,
    /// It is not there any more, or another one has its name.
    Gone,
    /// Not before so much time.
    Refuses {
        wait: Duration,
    },
    /// No answer in time; it may have left all the same.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Leaving {
    until: Duration,
    owner: String,
    resource: Resource,
    /// Whether it accepted.
    is_sure: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    until: Duration,
    times: u32,
}

/// All departures of a node: what is remembered from round to round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Book<Id> {
    /// The hour of each notice.
    notices: BTreeMap<Id, Duration>,
    /// Notices that have to be taken back, and when that was last tried.
    unneeded: BTreeMap<Id, Option<Duration>>,
    asked: BTreeMap<Id, (String, Resource)>,
    leaving: BTreeMap<Id, Leaving>,
    refusals: BTreeMap<Id, Refusal>,
    killed: BTreeMap<Id, Duration>,
    /// The last departure of each owner.
    owners: BTreeMap<String, Duration>,
    /// The last departure for each resource.
    last: BTreeMap<Resource, Duration>,
    critical_since: Option<Duration>,
}

/// What has to survive a restart: departures by owner, and pods that were asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory<Id> {
    pub owners: Vec<(String, Duration)>,
    pub asked: Vec<Asked<Id>>,
}

/// A pod that was asked to leave, and may still be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked<Id> {
    pub id: Id,
    pub owner: String,
    pub resource: Resource,
    /// How long it counts as leaving.
    pub until: Duration,
}

impl<Id: Ord + Clone> Book<Id> {
    /// CPU rests from the start of the process: its first averages mean little.
    pub fn new(start: Duration) -> Self {
        Self {
            notices: BTreeMap::new(),
            unneeded: BTreeMap::new(),
            asked: BTreeMap::new(),
            leaving: BTreeMap::new(),
            refusals: BTreeMap::new(),
            killed: BTreeMap::new(),
            owners: BTreeMap::new(),
            last: BTreeMap::from([(Resource::Cpu, start)]),
            critical_since: None,
        }
    }

    /// Whether nobody was told or asked anything that is still open.
    pub fn is_idle(&self) -> bool {
        self.notices.is_empty()
            && self.unneeded.is_empty()
            && self.asked.is_empty()
            && self.leaving.is_empty()
    }

    /// Who was told to leave, and when that would be.
    pub fn notices(&self) -> impl Iterator<Item = (&Id, Duration)> {
        self.notices.iter().map(|(id, due)| (id, *due))
    }

    /// Who was asked and counts as gone.
    pub fn leaving(&self) -> impl Iterator<Item = &Id> {
        self.leaving.keys().chain(self.asked.keys())
    }

    /// Whose pods are left in peace, and since when.
    pub fn owners(&self) -> impl Iterator<Item = (&str, Duration)> {
        self.owners.iter().map(|(owner, since)| (owner.as_str(), *since))
    }

    /// What must not be lost, pods without an answer included.
    pub fn remember(&self, manners: &Manners, now: Duration) -> Memory<Id> {
        let leaving = self.leaving.iter().map(|(id, leaving)| Asked {
            id: id.clone(),
            owner: leaving.owner.clone(),
            resource: leaving.resource,
            until: leaving.until,
        });
        let asked = self.asked.iter().map(|(id, (owner, resource))| Asked {
            id: id.clone(),
            owner: owner.clone(),
            resource: *resource,
            until: now + manners.unsure,
        });
        let owners = self.owners.iter().map(|(owner, at)| (owner.clone(), *at)).collect();
        Memory { owners, asked: leaving.chain(asked).collect() }
    }

    /// Takes over what the last process knew. Whoever was asked counts as gone until it proves otherwise.
    pub fn recall(&mut self, memory: Memory<Id>) {
        for (owner, at) in memory.owners {
            self.owners.insert(owner, at);
        }
        for Asked { id, owner, resource, until } in memory.asked {
            self.leaving.insert(id, Leaving { until, owner, resource, is_sure: false });
        }
    }

    /// What to do now.
    pub fn steps(
        &mut self,
        needs: &[Need<Id>],
        present: &BTreeMap<Id, Present>,
        manners: &Manners,
        now: Duration,
    ) -> Vec<Step<Id>> {
        self.catch_up(present, manners, now);
        let is_critical = needs.iter().any(|need| need.is_critical);
        self.critical_since = is_critical.then(|| self.critical_since.unwrap_or(now));
        let mut steps = Vec::new();
        let asked: Vec<Need<Id>> =
            needs.iter().map(|need| self.askable(need, present, manners, now)).collect();
        let counted = self.counted(present, now);
        let mut round = Round::new(&asked, &counted);
        let mut needed = BTreeSet::new();
        while let Some(ask) = round.choose() {
            let outcome = self.ask(&ask, present, manners, now, &mut needed, &mut steps);
            round.take(outcome);
        }
        self.take_back(&needed, present, now, &mut steps);
        steps.extend(self.kill(needs, present, manners, now));
        steps
    }

    /// What came of a step [`Step::Evict`].
    pub fn take(&mut self, id: &Id, answer: Answer, manners: &Manners, now: Duration) {
        let Some((owner, resource)) = self.asked.remove(id) else { return };
        self.notices.remove(id);
        match answer {
            Answer::Leaves => {
                self.rest(&owner, resource, now);
                let leaving = Leaving { until: now + LEAVING, owner, resource, is_sure: true };
                self.leaving.insert(id.clone(), leaving);
            }
            Answer::Gone => {}
            Answer::Refuses { wait } => {
                let times = self.refusals.get(id).map_or(0, |refusal| refusal.times);
                let peace = PEACE.saturating_mul(1 << times.min(5)).min(LONGEST_PEACE).max(wait);
                let refusal = Refusal { until: now + peace, times: times.saturating_add(1) };
                self.refusals.insert(id.clone(), refusal);
                self.unneeded.insert(id.clone(), None);
            }
            Answer::Unknown => {
                let until = now + manners.unsure;
                let leaving = Leaving { until, owner, resource, is_sure: false };
                self.leaving.insert(id.clone(), leaving);
            }
        }
    }

    fn rest(&mut self, owner: &str, resource: Resource, now: Duration) {
        self.owners.insert(owner.to_owned(), now);
        self.last.insert(resource, now);
    }

    /// Forgets what has passed, and learns what became of pods that did not answer.
    fn catch_up(&mut self, present: &BTreeMap<Id, Present>, manners: &Manners, now: Duration) {
        let is_there = |id: &Id| present.contains_key(id);
        let stays = |id: &Id| present.get(id).is_some_and(|pod| pod.deleted_by.is_none());
        let left: Vec<_> = self.leaving.iter().filter(|(id, l)| !l.is_sure && !stays(id)).collect();
        let left: Vec<_> =
            left.into_iter().map(|(id, l)| (id.clone(), l.owner.clone(), l.resource)).collect();
        for (id, owner, resource) in left {
            // Since when is not known; a recalled one keeps the earlier hour of its owner.
            if !self.owners.contains_key(&owner) {
                self.rest(&owner, resource, now);
            }
            if let Some(leaving) = self.leaving.get_mut(&id) {
                leaving.is_sure = true;
            }
        }
        self.leaving.retain(|id, leaving| is_there(id) && leaving.until > now);
        self.notices.retain(|id, _| is_there(id));
        self.unneeded.retain(|id, tried| {
            let is_fresh = tried.is_none_or(|at| now.saturating_sub(at) < AGAIN);
            present.get(id).is_some_and(|pod| is_fresh || pod.noticed_for.is_some())
        });
        self.killed.retain(|id, _| is_there(id));
        self.refusals.retain(|id, refusal| is_there(id) && refusal.until + LONGEST_PEACE > now);
        self.owners.retain(|_, since| now.saturating_sub(*since) < manners.owner_rest);
        for (id, pod) in present {
            // A notice of an earlier process; it holds, or is taken back in this round.
            if let Some(due) = pod.noticed_for
                && !self.is_known(id)
            {
                self.notices.insert(id.clone(), due);
            }
        }
    }

    fn is_known(&self, id: &Id) -> bool {
        self.notices.contains_key(id)
            || self.unneeded.contains_key(id)
            || self.refusals.contains_key(id)
            || self.asked.contains_key(id)
            || self.leaving.contains_key(id)
    }

    /// The need with those who may be asked now: who was told comes first, so that notices are not
    /// passed around as sizes change, and owners at rest come last, or not at all.
    fn askable(
        &self,
        need: &Need<Id>,
        present: &BTreeMap<Id, Present>,
        manners: &Manners,
        now: Duration,
    ) -> Need<Id> {
        let rests = self.rests(need.target.resource(), manners, now);
        let mut pods: Vec<(u8, (Id, Option<i64>))> = Vec::new();
        for entry in &need.pods {
            let Some(pod) = present.get(&entry.0) else { continue };
            let is_leaving = self.leaving.contains_key(&entry.0)
                || self.asked.contains_key(&entry.0)
                || pod.deleted_by.is_some();
            let refuses = self.refusals.get(&entry.0).is_some_and(|r| r.until > now);
            let place = if is_leaving {
                // Counted where it still may be, and never asked.
                0
            } else if self.notices.contains_key(&entry.0) {
                1
            } else if refuses || rests {
                continue;
            } else if !self.owners.contains_key(&pod.owner) {
                2
            } else if need.is_critical {
                3
            } else {
                continue;
            };
            pods.push((place, entry.clone()));
        }
        pods.sort_by_key(|(place, _)| *place);
        Need { pods: pods.into_iter().map(|(_, entry)| entry).collect(), ..need.clone() }
    }

    fn rests(&self, resource: Resource, manners: &Manners, now: Duration) -> bool {
        let rest = match resource {
            Resource::Cpu => manners.cpu_rest,
            Resource::Memory => manners.memory_rest,
        };
        self.last.get(&resource).is_some_and(|last| now.saturating_sub(*last) < rest)
    }

    /// Who counts as gone: asked, leaving, or being deleted by anybody within its time.
    fn counted(&self, present: &BTreeMap<Id, Present>, now: Duration) -> BTreeSet<Id> {
        let deleted = present.iter().filter(|(_, pod)| pod.deleted_by.is_some_and(|by| by > now));
        deleted.map(|(id, _)| id).chain(self.leaving()).cloned().collect()
    }

    fn ask(
        &mut self,
        ask: &Ask<Id>,
        present: &BTreeMap<Id, Present>,
        manners: &Manners,
        now: Duration,
        needed: &mut BTreeSet<Id>,
        steps: &mut Vec<Step<Id>>,
    ) -> Outcome {
        let Some(pod) = present.get(&ask.id) else { return Outcome::Refuses };
        if pod.deleted_by.is_some() {
            // Overdue: it does not leave, and asking once more would not help.
            return Outcome::Refuses;
        }
        let resource = ask.target.resource();
        let due = match self.notices.get(&ask.id) {
            Some(due) => *due,
            None => {
                if self.notices.len() + self.asked.len() >= manners.at_once {
                    return Outcome::Refuses;
                }
                let notice = match resource {
                    _ if ask.is_critical => Duration::ZERO,
                    Resource::Cpu => manners.cpu_notice,
                    Resource::Memory => manners.memory_notice,
                };
                self.notices.insert(ask.id.clone(), now + notice);
                self.unneeded.remove(&ask.id);
                steps.push(Step::Notify { ask: ask.clone(), left: notice });
                now + notice
            }
        };
        needed.insert(ask.id.clone());
        if due <= now || ask.is_critical {
            self.asked.insert(ask.id.clone(), (pod.owner.clone(), resource));
            steps.push(Step::Evict(ask.clone()));
        }
        Outcome::Leaves
    }

    /// Takes back notices that nobody needs any more.
    fn take_back(
        &mut self,
        needed: &BTreeSet<Id>,
        present: &BTreeMap<Id, Present>,
        now: Duration,
        steps: &mut Vec<Step<Id>>,
    ) {
        let asked = &self.asked;
        let spare: Vec<Id> = self
            .notices
            .keys()
            .filter(|id| !needed.contains(id) && !asked.contains_key(id))
            .cloned()
            .collect();
        for id in spare {
            self.notices.remove(&id);
            self.unneeded.insert(id, None);
        }
        for (id, tried) in &mut self.unneeded {
            let is_due = tried.is_none_or(|at| now.saturating_sub(at) >= AGAIN);
            if is_due && present.get(id).is_some_and(|pod| pod.deleted_by.is_none()) {
                *tried = Some(now);
                steps.push(Step::Withdraw(id.clone()));
            }
        }
    }

    /// The first pod, in order, that was asked in vain.
    fn kill(
        &mut self,
        needs: &[Need<Id>],
        present: &BTreeMap<Id, Present>,
        manners: &Manners,
        now: Duration,
    ) -> Option<Step<Id>> {
        let after = manners.kill_after?;
        if now.saturating_sub(self.critical_since?) < after {
            return None;
        }
        let rests = self.killed.values().any(|at| now.saturating_sub(*at) < manners.memory_rest);
        if rests {
            return None;
        }
        for need in needs.iter().filter(|need| need.is_critical) {
            let victim = need.pods.iter().find(|(id, frees)| {
                let was_asked = self.leaving.contains_key(id)
                    || self.refusals.contains_key(id)
                    || present.get(id).is_some_and(|pod| pod.deleted_by.is_some());
                let again =
                    self.killed.get(id).is_none_or(|at| now.saturating_sub(*at) >= BETWEEN_KILLS);
                frees.is_none_or(|frees| frees > 0)
                    && was_asked
                    && again
                    && present.contains_key(id)
            });
            if let Some((id, frees)) = victim {
                self.killed.insert(id.clone(), now);
                return Some(Step::Kill(Ask {
                    id: id.clone(),
                    feature: need.feature,
                    target: need.target,
                    missing: need.release,
                    frees: *frees,
                    is_critical: true,
                    why: need.why,
                }));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
