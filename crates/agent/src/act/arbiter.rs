//! The only writer of this machine.
//!
//! Strategies post wishes, each under a name of its own. A round ([`Arbiter::settle`]) looks at every target
//! somebody has a wish for, or that still holds a value of ours:
//!
//! 1. Skip what is as it should be. A target is looked at when somebody's wish for it changed, and otherwise
//!    once a minute, so a quiet round costs next to nothing, twenty times a second if need be.
//! 2. Give what is due to a [`Writer`]: what is written in no time at once, the rest by a
//!    [`Lane`] of its own.
//! 3. Take in what came of it: settled, refused (tried again, less and less often), gone, overridden.
//!
//! A value that is neither ours nor the original is somebody else's change: the target is left alone, reported as
//! overridden, and not managed any more until it is made anew. A value that fell back to the original is a
//! reset by kubelet or systemd, and is written again.

mod target_state;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use groups::{CgroupPath, Knob};
use host::cgroup::Tree;
use parking_lot::Mutex;
use qos::claim::Claim;
use qos::cookies::CookieHolders;
use qos::node::strategy::cookies::CookiesSeen;
use qos::wish::{Target, Wish};
use qos::writes::is_restored_after;

use self::target_state::TargetState;
use super::backend::Limit;
use super::lane::Lane;
use super::ledger::{Ledger, SharedLedger};
use super::writer::{Devices, Order, Report, Writer};
use crate::worker::End;

/// How long a value is trusted to be what was written.
const TRUST: Duration = Duration::from_secs(60);

/// The same where processes that come from elsewhere have to be found.
const TRUST_IN_MEMBERS: Duration = Duration::from_secs(10);

/// How often all targets are looked through.
const SCAN: Duration = Duration::from_secs(1);

/// Something that happened to a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub target: Target,
    /// Who decided; `None` when the original was restored.
    pub owner: Option<&'static str>,
    pub why: String,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Written {
        old: String,
        new: String,
    },
    /// The kernel was asked for something once, and did as much of it as it could.
    Asked {
        value: String,
    },
    /// The kernel would not have it; it is tried again after a pause.
    Refused {
        value: String,
        error: String,
    },
    /// This machine has no such thing; it is not tried again.
    Unsupported,
    /// Somebody else changed it; it is theirs now.
    Overridden {
        ours: String,
        theirs: String,
    },
    /// The ledger cannot be written, so nothing is touched.
    LedgerFailed {
        error: String,
    },
}

#[derive(Debug)]
pub struct Arbiter {
    tree: Tree,
    ledger: SharedLedger,
    quick: Writer,
    slow: Lane,
    owners: BTreeMap<&'static str, Posting>,
    /// Every wish, by its target.
    wishes: BTreeMap<Target, Vec<(&'static str, Wish)>>,
    /// Wishes that are carried out once, and wait for it.
    once: BTreeMap<Target, (&'static str, Wish)>,
    states: BTreeMap<Target, TargetState>,
    /// Targets whose wishes changed, or that have to be tried again.
    dirty: BTreeSet<Target>,
    /// Targets that the slow lane is at, with the reason for what is asked for once.
    in_flight: BTreeMap<Target, String>,
    /// When all targets are looked through for what is due.
    next_scan: Duration,
    /// Targets that are not trusted to stay as they are.
    watched: BTreeSet<Target>,
}

/// What one owner posted.
#[derive(Debug, Default)]
struct Posting {
    wishes: Vec<Wish>,
    /// When they lapse unless posted again.
    until: Option<Duration>,
}

impl Arbiter {
    /// An arbiter that carries everything out at once.
    pub fn new(tree: Tree, ledger: Ledger) -> Self {
        let devices = Devices::of(&tree);
        Self::with_devices(tree, ledger, devices)
    }

    pub(super) fn with_devices(tree: Tree, ledger: Ledger, devices: Devices) -> Self {
        let ledger = Arc::new(Mutex::new(ledger));
        Self {
            quick: Writer::quick(&tree, &ledger),
            slow: Lane::inline(Writer::slow(&tree, devices, &ledger)),
            tree,
            ledger,
            owners: BTreeMap::new(),
            wishes: BTreeMap::new(),
            once: BTreeMap::new(),
            states: BTreeMap::new(),
            dirty: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            next_scan: Duration::ZERO,
            watched: BTreeSet::new(),
        }
    }

    /// From now on a thread of its own carries out what is slow.
    pub(super) fn start_thread(&mut self, devices: Devices) -> io::Result<Option<End>> {
        let writer = Writer::slow(&self.tree, devices, &self.ledger);
        self.slow = Lane::thread(writer)?;
        Ok(self.slow.end())
    }

    /// The same with other devices than the machine's.
    #[cfg(test)]
    pub(super) fn use_devices(&mut self, devices: Devices) {
        self.slow = Lane::inline(Writer::slow(&self.tree, devices, &self.ledger));
    }

    /// What an owner wants at this moment.
    #[cfg(test)]
    pub(super) fn posted(&self, owner: &str) -> Vec<Wish> {
        self.owners.get(owner).map(|posting| posting.wishes.clone()).unwrap_or_default()
    }

    #[cfg(test)]
    pub(super) fn fill_disk(&mut self) {
        self.ledger.lock().fill_disk();
    }

    /// Replaces everything an owner wants. Without `until` it holds until posted otherwise.
    pub fn post(&mut self, owner: &'static str, wishes: Vec<Wish>, until: Option<Duration>) {
        let (once, wishes): (Vec<Wish>, Vec<Wish>) =
            wishes.into_iter().partition(|wish| wish.target.is_one_shot());
        // One that waits already is enough.
        for wish in once {
            self.once.entry(wish.target.clone()).or_insert((owner, wish));
        }
        let posting = self.owners.entry(owner).or_default();
        posting.until = until;
        if posting.wishes == wishes {
            self.owners.retain(|_, posting| !posting.wishes.is_empty());
            return;
        }
        let old = std::mem::replace(&mut posting.wishes, wishes.clone());
        for wish in old {
            if let Some(wanted) = self.wishes.get_mut(&wish.target) {
                wanted.retain(|(name, _)| *name != owner);
            }
            self.mark(wish.target);
        }
        for wish in wishes {
            self.mark(wish.target.clone());
            self.wishes.entry(wish.target.clone()).or_default().push((owner, wish));
        }
        self.wishes.retain(|_, wanted| !wanted.is_empty());
        self.owners.retain(|_, posting| !posting.wishes.is_empty());
    }

    /// Somebody wants something else of a target.
    fn mark(&mut self, target: Target) {
        if let Some(state) = self.states.get_mut(&target) {
            state.is_absent = false;
        }
        self.dirty.insert(target);
    }

    /// Takes all wishes back; the next rounds restore every target, however often it was refused.
    pub fn withdraw_all(&mut self) {
        self.dirty.extend(std::mem::take(&mut self.wishes).into_keys());
        self.dirty.extend(self.ledger.lock().targets().cloned());
        self.owners.clear();
        self.once.clear();
        self.slow.cancel();
        for state in self.states.values_mut() {
            state.forgive();
        }
    }

    /// From now on this knob is looked at in every scan: others are known to reset it.
    pub fn watch(&mut self, group: CgroupPath, knob: Knob) {
        self.watched.insert(Target::knob(group, knob));
    }

    /// Targets that may not hold their original value.
    pub fn held(&self) -> Vec<Target> {
        self.ledger.lock().targets().cloned().collect()
    }

    /// How many there are, with those that only another version knows.
    pub fn held_count(&self) -> usize {
        self.ledger.lock().len()
    }

    /// Whether something is being written at this moment.
    pub fn is_busy(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Whether every target holds its original value, as far as this version knows, and nothing is being written.
    pub fn is_clean(&self) -> bool {
        !self.is_busy() && self.ledger.lock().targets().len() == 0
    }

    /// Why a target is not as it is wanted.
    pub(super) fn trouble(&self, target: &Target) -> Option<&str> {
        self.states.get(target)?.trouble.as_deref()
    }

    /// The wishes for a target, strongest last.
    fn wishes_for(&self, target: &Target) -> Vec<(&'static str, &Wish)> {
        let wanted = self.wishes.get(target).into_iter().flatten();
        let mut wishes: Vec<_> = wanted.map(|(owner, wish)| (*owner, wish)).collect();
        wishes.sort_by_key(|(owner, wish)| (wish.rank, *owner));
        wishes
    }

    /// Brings every target where it should be. `now` counts from any fixed moment and never goes back.
    pub fn settle(&mut self, now: Duration) -> Vec<Change> {
        self.lapse(now);
        if now >= self.next_scan {
            self.next_scan = now.saturating_add(SCAN);
            self.scan(now);
        }
        let mut changes = Vec::new();
        self.ask_once(now);
        let (slow, quick): (BTreeSet<_>, BTreeSet<_>) =
            std::mem::take(&mut self.dirty).into_iter().partition(Target::is_slow);
        for target in slow {
            self.send(target, now);
        }
        for report in self.slow.reports() {
            changes.extend(self.take(report, now));
        }
        let orders = quick.into_iter().filter_map(|target| self.order(target, now)).collect();
        for report in self.quick.settle(orders, &Limit::default()) {
            changes.extend(self.take(report, now));
        }
        changes
    }

    /// Drops the wishes of owners who did not renew them.
    fn lapse(&mut self, now: Duration) {
        let has_lapsed = |posting: &Posting| posting.until.is_some_and(|until| until <= now);
        let lapsed: Vec<&'static str> = self
            .owners
            .iter()
            .filter(|(_, posting)| has_lapsed(posting))
            .map(|(owner, _)| *owner)
            .collect();
        for owner in lapsed {
            self.post(owner, Vec::new(), None);
        }
    }

    /// Marks what nobody looked at for a while, and forgets what nobody cares about.
    fn scan(&mut self, now: Duration) {
        let ledger = self.ledger.lock();
        let wishes = &self.wishes;
        self.states.retain(|target, _| {
            wishes.contains_key(target) || target.is_one_shot() || ledger.entry(target).is_some()
        });
        let all = self.wishes.keys().chain(ledger.targets());
        let is_due = |target: &&Target| {
            self.states.get(*target).is_none_or(|state| {
                state.settled.is_none()
                    || now.saturating_sub(state.looked_at) >= trust(target)
                    || self.watched.contains(*target)
            })
        };
        let due: Vec<Target> = all.filter(is_due).cloned().collect();
        drop(ledger);
        self.dirty.extend(due);
    }

    fn claims(&self, target: &Target) -> Vec<Claim> {
        let wanted = self.wishes.get(target).into_iter().flatten();
        wanted
            .map(|(owner, wish)| Claim { owner, rank: wish.rank, bound: wish.bound.clone() })
            .collect()
    }

    /// What is to be done about a target, if anything is.
    fn order(&mut self, target: Target, now: Duration) -> Option<Order> {
        let claims = self.claims(&target);
        let is_held = self.ledger.lock().entry(&target).is_some();
        // What nobody wants any more is looked at once, so that the ledger can let go of it.
        let trust = match claims.is_empty() && is_held {
            true => Duration::ZERO,
            false if self.watched.contains(&target) => SCAN,
            false => trust(&target),
        };
        if !self.states.entry(target.clone()).or_default().is_due(&claims, now, trust) {
            return None;
        }
        if claims.is_empty() && self.has_to_wait(&target) {
            self.dirty.insert(target);
            return None;
        }
        let is_theirs = self.states.get(&target).is_some_and(|state| state.is_overridden);
        Some(Order { target, claims, is_theirs })
    }

    /// Whether a target may be restored only after another one.
    fn has_to_wait(&self, target: &Target) -> bool {
        self.ledger.lock().targets().any(|changed| is_restored_after(target, changed))
    }

    fn send(&mut self, target: Target, now: Duration) {
        if self.in_flight.contains_key(&target) {
            self.dirty.insert(target);
            return;
        }
        let Some(order) = self.order(target.clone(), now) else { return };
        match self.slow.send(order) {
            true => drop(self.in_flight.insert(target, String::new())),
            // There is room again in the next round.
            false => drop(self.dirty.insert(target)),
        }
    }

    /// Gives out what is carried out once. While one is under way, or this machine refuses it, others go unheard.
    fn ask_once(&mut self, now: Duration) {
        for (target, (owner, wish)) in std::mem::take(&mut self.once) {
            let is_paused = self.states.get(&target).is_some_and(|state| !state.may_try(now));
            if is_paused || self.in_flight.contains_key(&target) {
                continue;
            }
            let Wish { rank, bound, why, .. } = wish;
            let claims = vec![Claim { owner, rank, bound }];
            let order = Order { target: target.clone(), claims, is_theirs: false };
            if self.slow.send(order) {
                self.in_flight.insert(target, why);
            }
        }
    }

    /// What a group holds binds the groups below: what they were refused before may be taken now.
    fn try_below(&mut self, target: &Target) {
        let Target::Knob { group, knob } = target else { return };
        // Paths that begin alike follow each other; only some of them are below.
        let rest = |other: &Target| match other {
            Target::Knob { group: path, knob: same } => path
                .as_str()
                .strip_prefix(group.as_str())
                .map(|rest| same == knob && rest.starts_with('/')),
            _ => None,
        };
        let alike = self
            .states
            .range_mut(target..)
            .map_while(|(other, state)| Some((other, rest(other)?, state)));
        for (below, is_below, state) in alike {
            if is_below && state.is_paused() {
                state.forgive();
                self.dirty.insert(below.clone());
            }
        }
    }

    /// Takes in what came of an order.
    fn take(&mut self, report: Report, now: Duration) -> Option<Change> {
        let Report { target, owner, result } = report;
        let asked = self.in_flight.remove(&target).filter(|why| !why.is_empty());
        let is_wanted = self.wishes.contains_key(&target) || target.is_one_shot();
        let state = self.states.entry(target.clone()).or_default();
        let outcome = state.take(result, now, is_wanted, &target)?;
        if matches!(outcome, Outcome::Written { .. }) {
            self.try_below(&target);
        }
        let wish = self.wishes_for(&target).into_iter().rfind(|(name, _)| Some(*name) == owner);
        let why = asked.or_else(|| wish.map(|(_, wish)| wish.why.clone()));
        let why = why.unwrap_or_else(|| "nobody wants it otherwise".to_owned());
        Some(Change { target, owner, why, outcome })
    }
}

impl CookiesSeen for Arbiter {
    fn holders(&self, target: &Target) -> Option<&CookieHolders> {
        self.states.get(target)?.holders.as_ref()
    }

    fn missing(&self, target: &Target) -> Option<&str> {
        self.states.get(target).filter(|state| state.is_unsupported)?.trouble.as_deref()
    }
}

fn trust(target: &Target) -> Duration {
    match target {
        Target::CacheGroup(_) | Target::CoreCookie(_) | Target::TerwayFile(_) => TRUST_IN_MEMBERS,
        _ => TRUST,
    }
}

#[cfg(test)]
mod tests;
