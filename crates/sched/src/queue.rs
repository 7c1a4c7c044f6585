//! Which pod is next, and when is a rejected pod worth another try?
//!
//! ```text
//!           add ──gate──> active ──pop──> in flight ──done──> binding ──delete──> placed
//!                │          ^  ^              │
//!                v   pause  │  │              │ fail: replay what happened meanwhile
//!              gated  over  │  └── early ──┐  v
//!                       backoff <──hint── unschedulable
//! ```
//!
//! A pod is in exactly one of these places. *Active* is ordered by priority, then
//! by waiting time. A rejected pod waits until an event arrives of which a plugin
//! that rejected it says that it may help (`event`); it then serves its pause and
//! becomes active. When nothing is active, the head of those pausing after a
//! rejection is taken early: an idle scheduler has nothing better to do. Those
//! pausing after an error are never taken early.
//!
//! Two clocks back this up. Pauses end on whole seconds. Every 30 seconds, pods
//! parked for more than five minutes are tried again, and gated ones asked again,
//! whatever the hints said: a lost event must not cost a pod its life.
//!
//! The queue holds tickets, not pods; what a hint or a gate needs to know of a
//! pod it looks up itself ([`Policy`]). Time comes in as an argument.

mod event;
mod flight;
mod incoming;
mod nominator;
mod parked;
mod permit;
mod places;
mod record;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

pub use event::{Actions, Event, Hint, Interest, Interests, PluginId, PluginSet, Resource, Wake};
pub use incoming::{Cause, Room, event_label};
pub use nominator::Nominator;
pub use permit::{PERMIT_LIMIT, PermitWait};
pub use record::{Backoff, Failure, Place, Record, Ticket};

use crate::time::Time;
use flight::{Flight, Slot};
use incoming::Incoming;
use parked::Parked;
use record::Rank;

pub type Uid = std::sync::Arc<str>;

/// How long a pod may stay parked before it is tried again regardless.
pub const MAX_PARKED: Duration = Duration::from_secs(300);
/// How often parked pods are looked through.
pub const FLUSH_EVERY: Duration = Duration::from_secs(FLUSH_SECONDS.unsigned_abs());
const FLUSH_SECONDS: i64 = 30;

/// What the queue asks the plugins.
pub trait Policy {
    /// What an event carries: the object before and after.
    type Subject: Clone;

    /// The plugin that holds the pod back, if one does; `first` is asked before
    /// the others.
    fn gate(&self, pod: &Uid, first: Option<PluginId>) -> Option<PluginId>;

    /// Whether `event` may help a pod that `plugin` rejected. Never asked about
    /// events without particulars: those always may.
    fn hint(&self, plugin: PluginId, pod: &Uid, event: &Event<Self::Subject>) -> Hint;
}

/// How many pods are where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depth {
    pub active: usize,
    pub backoff: usize,
    pub unschedulable: usize,
    pub gated: usize,
    pub in_flight: usize,
}

/// What to do with a pod an event may have helped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    AfterPause,
    AtOnce,
}

/// The pending pods; see the module's page.
#[derive(Debug)]
pub struct Queue<S> {
    interests: Interests,
    backoff: Backoff,
    records: Vec<Option<Record>>,
    free: Vec<Slot>,
    slots: HashMap<Uid, Slot>,
    active: BTreeSet<(Rank, Slot)>,
    /// Pausing after a rejection: by second, then as active.
    rejected: BTreeSet<(i64, Rank, Slot)>,
    /// Pausing after an error: by second, then by arrival.
    erred: BTreeSet<(i64, u64, Slot)>,
    parked: Parked,
    gated: usize,
    flight: Flight<S>,
    incoming: Incoming,
    arrivals: u64,
    flushed: i64,
    max_parked: Duration,
}

impl<S: Clone> Queue<S> {
    #[must_use]
    pub fn new(interests: Interests, backoff: Backoff) -> Self {
        let parked = Parked::new(interests.plugins());
        Self {
            interests,
            backoff,
            records: Vec::new(),
            free: Vec::new(),
            slots: HashMap::new(),
            active: BTreeSet::new(),
            rejected: BTreeSet::new(),
            erred: BTreeSet::new(),
            parked,
            gated: 0,
            flight: Flight::default(),
            incoming: Incoming::default(),
            arrivals: 0,
            flushed: i64::MIN,
            max_parked: MAX_PARKED,
        }
    }

    /// Tries parked pods again after this span instead of [`MAX_PARKED`].
    #[must_use]
    pub fn flushing_after(mut self, span: Duration) -> Self {
        self.max_parked = span;
        self
    }

    /// Takes in a new pod. Of a known one only the ticket is renewed.
    pub fn add(&mut self, ticket: Ticket, policy: &impl Policy<Subject = S>, now: Time) {
        if let Some(&slot) = self.slots.get(&ticket.uid) {
            self.renew(slot, ticket);
            return;
        }
        self.arrivals += 1;
        let uid = ticket.uid.clone();
        let record = Record::new(ticket, self.arrivals, now);
        let Some(slot) = self.store(record) else { return };
        self.slots.insert(uid, slot);
        self.enter(slot, Verdict::AtOnce, Cause::Arrival, policy, now);
    }

    /// The pod itself changed; `own` holds the properties that did.
    ///
    /// A change of group is a change of something a plugin reads, so the old
    /// verdict no longer stands and the pod is tried again whatever the hints say.
    pub fn update(
        &mut self,
        ticket: Ticket,
        own: Event<S>,
        policy: &impl Policy<Subject = S>,
        now: Time,
    ) {
        let Some(&slot) = self.slots.get(&ticket.uid) else {
            self.add(ticket, policy, now);
            return;
        };
        let Some(before) = self.record(slot).map(|record| record.ticket.group) else { return };
        let is_other_group = before != ticket.group;
        let cause = Cause::event(own.resource, own.actions);
        self.renew(slot, ticket);
        let Some(record) = self.record(slot) else { return };
        match record.place {
            Place::Active | Place::Backoff { .. } | Place::Binding => {}
            Place::InFlight => {
                if let Some(rider) = self.flight.rider_mut(slot) {
                    rider.is_other |= is_other_group;
                    rider.note(own);
                }
            }
            Place::Gated(gate) => {
                let is_open = policy.gate(&record.ticket.uid, Some(gate)).is_none();
                if is_open {
                    self.enter(slot, Verdict::AfterPause, cause, policy, now);
                }
            }
            Place::Unschedulable => {
                let verdict = self.judge(record, std::slice::from_ref(&own), policy);
                let verdict = verdict.or(is_other_group.then_some(Verdict::AfterPause));
                if let Some(verdict) = verdict {
                    self.enter(slot, verdict, cause, policy, now);
                }
            }
        }
    }

    /// Forgets the pod. One in flight is poisoned: its verdict will be ignored.
    pub fn delete(&mut self, uid: &Uid) {
        let Some(&slot) = self.slots.get(uid) else { return };
        if let Some(rider) = self.flight.rider_mut(slot) {
            rider.is_poisoned = true;
            return;
        }
        self.unlink(slot);
        self.discard(slot);
    }

    /// The next pod to schedule: the head of the active ones, else the head of
    /// those pausing after a rejection. It is in flight until `done` or `fail`.
    pub fn pop(&mut self, now: Time) -> Option<Uid> {
        let slot = match self.active.first() {
            Some((_, slot)) => *slot,
            None => {
                let slot = self.rejected.first().map(|(_, _, slot)| *slot)?;
                self.incoming.count(Place::Active, Cause::Idle);
                slot
            }
        };
        self.fly(slot, now)
    }

    /// Takes a certain pod out of the queue, wherever it waits, as if popped: a
    /// plugin that schedules groups names the members one after the other.
    pub fn take(&mut self, uid: &Uid, now: Time) -> bool {
        let slot = self.slots.get(uid).copied();
        let is_waiting = |slot: &Slot| self.record(*slot).is_some_and(|record| record.is_waiting());
        slot.filter(is_waiting).is_some_and(|slot| self.fly(slot, now).is_some())
    }

    /// The pod waits on permit: it needs to know kinds of events, not each one.
    pub fn wait_on_permit(&mut self, uid: &Uid) {
        if let Some(slot) = self.slots.get(uid) {
            self.flight.wait(*slot);
        }
    }

    /// The pod is on its way to a node: events no longer matter to it. Its record
    /// stays until `delete` (it is bound or gone) or `fail` (it could not be bound).
    pub fn done(&mut self, uid: &Uid) {
        let Some(&slot) = self.slots.get(uid) else { return };
        let Some(rider) = self.flight.drop_rider(slot) else { return };
        if rider.is_poisoned {
            self.discard(slot);
        } else if let Some(record) = self.record_mut(slot) {
            record.place = Place::Binding;
        }
    }

    /// A pod in flight was not placed, or one on its way not bound. What happened
    /// since its pop is held against the reasons; after `done` nothing is known of
    /// that, and the pod is tried again after its pause.
    pub fn fail(
        &mut self,
        uid: &Uid,
        failure: Failure,
        policy: &impl Policy<Subject = S>,
        now: Time,
    ) {
        let Some(&slot) = self.slots.get(uid) else { return };
        let flown = self.flight.end(slot);
        if flown.as_ref().is_some_and(|(rider, _)| rider.is_poisoned) {
            self.discard(slot);
            return;
        }
        let Some(record) = self.record_mut(slot) else { return };
        if flown.is_none() && record.place != Place::Binding {
            return;
        }
        record.failed(failure, now);
        let verdict = match flown {
            Some((rider, _)) if rider.is_forced => Some(Verdict::AtOnce),
            Some((rider, seen)) if !failure.is_error() && !rider.is_other => {
                self.record(slot).and_then(|record| self.judge(record, &seen, policy))
            }
            _ => Some(Verdict::AfterPause),
        };
        match verdict {
            Some(verdict) => self.enter(slot, verdict, Cause::Failure, policy, now),
            None => {
                self.incoming.count(Place::Unschedulable, Cause::Failure);
                self.park(slot, Place::Unschedulable, now);
            }
        }
    }

    /// Something happened: moves the pods it may help. Returns how many moved.
    pub fn fire(&mut self, event: Event<S>, policy: &impl Policy<Subject = S>, now: Time) -> usize {
        if self.parked.len() == 0 && self.flight.len() == 0 {
            return 0;
        }
        let interested = self.interests.covering(event.resource, event.actions);
        if interested.is_empty() {
            return 0;
        }
        self.flight.record(&event);
        let cause = Cause::event(event.resource, event.actions);
        let mut moves = BTreeMap::new();
        for plugin in interested.iter() {
            self.helped(plugin, &event, policy, &mut moves);
        }
        for (slot, verdict) in &moves {
            self.enter(*slot, *verdict, cause, policy, now);
        }
        moves.len()
    }

    /// Moves these pods to the front room at once, pause or not; those in flight
    /// are tried again should they fail.
    pub fn activate<'a>(
        &mut self,
        uids: impl IntoIterator<Item = &'a Uid>,
        policy: &impl Policy<Subject = S>,
        now: Time,
    ) {
        for uid in uids {
            let Some(&slot) = self.slots.get(uid) else { continue };
            if let Some(rider) = self.flight.rider_mut(slot) {
                rider.is_forced = true;
            } else if self.record(slot).is_some_and(Record::is_waiting) {
                self.enter(slot, Verdict::AtOnce, Cause::Forced, policy, now);
            }
        }
    }

    /// Ends pauses that are over and looks through pods parked for too long.
    pub fn tick(&mut self, policy: &impl Policy<Subject = S>, now: Time) {
        let second = now.whole_secs();
        while let Some(&(expiry, _, slot)) = self.rejected.first()
            && expiry < second
        {
            self.activate_slot(slot);
        }
        while let Some(&(expiry, _, slot)) = self.erred.first()
            && expiry < second
        {
            self.activate_slot(slot);
        }
        let window = flush_window(now);
        if window <= self.flushed {
            return;
        }
        self.flushed = window;
        for slot in self.parked.parked_before(now - self.max_parked) {
            self.enter(slot, Verdict::AfterPause, Cause::Timeout, policy, now);
        }
    }

    /// When `tick` has something to do next.
    #[must_use]
    pub fn wake_at(&self, now: Time) -> Option<Time> {
        let rejected = self.rejected.first().map(|(expiry, ..)| *expiry);
        let erred = self.erred.first().map(|(expiry, ..)| *expiry);
        let pause = rejected.into_iter().chain(erred).min();
        let pause = pause.map(|expiry| Time::from_secs(expiry.saturating_add(1)));
        let flush = self.parked.oldest().map(|parked| {
            let window = flush_window(parked + self.max_parked).max(self.flushed).saturating_add(1);
            Time::from_secs(window.saturating_mul(FLUSH_SECONDS))
        });
        pause.into_iter().chain(flush).min().map(|at| at.max(now))
    }

    /// What the queue knows of a pod.
    #[must_use]
    pub fn get(&self, uid: &Uid) -> Option<&Record> {
        self.record(*self.slots.get(uid)?)
    }

    #[must_use]
    pub fn depth(&self) -> Depth {
        Depth {
            active: self.active.len(),
            backoff: self.rejected.len() + self.erred.len(),
            unschedulable: self.parked.len() - self.gated,
            gated: self.gated,
            in_flight: self.flight.len(),
        }
    }

    /// Pods waiting for an event, in no particular order.
    pub fn parked(&self) -> impl Iterator<Item = &Record> {
        self.parked.slots().filter_map(|slot| self.record(slot))
    }

    /// Events held for pods in flight.
    #[must_use]
    pub fn held_events(&self) -> usize {
        self.flight.held()
    }

    /// The kinds of events held for pods in flight, each as often as it is held.
    pub fn held_kinds(&self) -> impl Iterator<Item = (Resource, Actions)> {
        self.flight.kinds()
    }

    /// How many pods came into each part, and what brought them, since the beginning.
    pub fn incoming(&self) -> impl Iterator<Item = (Room, Cause, u64)> {
        self.incoming.iter()
    }
}

/// Flushes happen once in each of these windows.
fn flush_window(at: Time) -> i64 {
    at.whole_secs().div_euclid(FLUSH_SECONDS)
}
