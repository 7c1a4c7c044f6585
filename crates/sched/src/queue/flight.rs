//! What happened while a pod was being scheduled?
//!
//! A rejection is computed from a snapshot; an event that arrives between the
//! pop and the verdict may already have made the pod fit. So events are kept
//! as long as some pod popped before them has not been decided, and a failing
//! pod replays those that came after its own pop.
//!
//! Two records of the same events are kept:
//!
//! * the **log**, event by event, from the earliest pop still being decided;
//! * the **digest**, one entry a kind of event, for pods that wait on permit.
//!   A gang member may wait for minutes, and a busy cluster produces thousands
//!   of events meanwhile; what the pod needs to know is which kinds occurred.
//!   The entry holds the object when there was only one since the pod's pop,
//!   and no object when there were several: then the plugins that asked for the
//!   kind are woken without being shown one of many.
//!
//! A log that grows beyond [`LOG_LIMIT`] is dropped in favour of the digest.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::event::{Actions, Event, Resource};

pub(super) type Slot = u32;

/// Entries of the log before everyone is served from the digest.
pub(super) const LOG_LIMIT: usize = 4096;

#[derive(Debug)]
pub(super) struct Flight<S> {
    /// Number of the next event.
    next: u64,
    log: VecDeque<(u64, Event<S>)>,
    digest: BTreeMap<(Resource, Actions), Entry<S>>,
    riders: HashMap<Slot, Rider<S>>,
    /// Pops of riders served from the log, earliest first.
    exact: BTreeSet<(u64, Slot)>,
}

#[derive(Debug)]
struct Entry<S> {
    latest: u64,
    /// Number of the event before the latest.
    previous: Option<u64>,
    event: Event<S>,
}

/// A pod between its pop and its verdict.
#[derive(Debug)]
pub(super) struct Rider<S> {
    since: u64,
    /// Served from the digest.
    is_coarse: bool,
    /// Deleted meanwhile: must not come back.
    pub(super) is_poisoned: bool,
    /// Somebody asked for it to be tried again whatever the verdict.
    pub(super) is_forced: bool,
    /// The plugins read something else from the pod than at its pop.
    pub(super) is_other: bool,
    /// Changes of the pod itself.
    own: Vec<Event<S>>,
}

impl<S> Default for Flight<S> {
    fn default() -> Self {
        Self {
            next: 0,
            log: VecDeque::new(),
            digest: BTreeMap::new(),
            riders: HashMap::new(),
            exact: BTreeSet::new(),
        }
    }
}

impl<S: Clone> Flight<S> {
    pub(super) fn begin(&mut self, slot: Slot) {
        self.exact.insert((self.next, slot));
        let rider = Rider {
            since: self.next,
            is_coarse: false,
            is_poisoned: false,
            is_forced: false,
            is_other: false,
            own: Vec::new(),
        };
        self.riders.insert(slot, rider);
    }

    pub(super) fn record(&mut self, event: &Event<S>) {
        if self.riders.is_empty() {
            return;
        }
        let number = self.next;
        self.next += 1;
        self.digest
            .entry((event.resource, event.actions))
            .and_modify(|entry| {
                entry.previous = Some(entry.latest);
                entry.latest = number;
                entry.event = event.clone();
            })
            .or_insert_with(|| Entry { latest: number, previous: None, event: event.clone() });
        if self.exact.is_empty() {
            return;
        }
        self.log.push_back((number, event.clone()));
        if self.log.len() > LOG_LIMIT {
            self.exact.clear();
            self.log.clear();
            self.riders.values_mut().for_each(|rider| rider.is_coarse = true);
        }
    }

    /// The pod now waits for others: from here on kinds of events suffice.
    pub(super) fn wait(&mut self, slot: Slot) {
        if let Some(rider) = self.riders.get_mut(&slot) {
            rider.is_coarse = true;
            self.exact.remove(&(rider.since, slot));
            self.trim();
        }
    }

    pub(super) fn rider_mut(&mut self, slot: Slot) -> Option<&mut Rider<S>> {
        self.riders.get_mut(&slot)
    }

    /// Ends the flight; the second value is what happened since the pop.
    pub(super) fn end(&mut self, slot: Slot) -> Option<(Rider<S>, Vec<Event<S>>)> {
        let mut rider = self.riders.remove(&slot)?;
        let mut seen = std::mem::take(&mut rider.own);
        if rider.is_coarse {
            let since = self.digest.values().filter(|entry| entry.latest >= rider.since);
            seen.extend(since.map(|entry| entry.since(rider.since)));
        } else {
            let after = self.log.iter().filter(|(number, _)| *number >= rider.since);
            seen.extend(after.map(|(_, event)| event.clone()));
        }
        self.forget(slot, rider.since);
        Some((rider, seen))
    }

    /// Ends the flight of a pod that will not come back.
    pub(super) fn drop_rider(&mut self, slot: Slot) -> Option<Rider<S>> {
        let rider = self.riders.remove(&slot)?;
        self.forget(slot, rider.since);
        Some(rider)
    }

    fn forget(&mut self, slot: Slot, since: u64) {
        self.exact.remove(&(since, slot));
        if self.riders.is_empty() {
            self.digest.clear();
        }
        self.trim();
    }

    fn trim(&mut self) {
        let Some((first, _)) = self.exact.first() else {
            self.log.clear();
            return;
        };
        while self.log.front().is_some_and(|(number, _)| number < first) {
            self.log.pop_front();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.riders.len()
    }

    /// The kinds of events held for replay.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (Resource, Actions)> {
        let log = self.log.iter().map(|(_, event)| (event.resource, event.actions));
        log.chain(self.digest.keys().copied())
    }

    /// Events held for replay.
    pub(super) fn held(&self) -> usize {
        self.log.len() + self.digest.len()
    }
}

impl<S> Rider<S> {
    /// Of several changes alike only the latest says how the pod is now.
    pub(super) fn note(&mut self, own: Event<S>) {
        self.own.retain(|earlier| earlier.actions != own.actions);
        self.own.push(own);
    }
}

impl<S: Clone> Entry<S> {
    fn since(&self, pop: u64) -> Event<S> {
        let is_alone = self.previous.is_none_or(|previous| previous < pop);
        if is_alone {
            self.event.clone()
        } else {
            Event::vague(self.event.resource, self.event.actions)
        }
    }
}
