//! The moves between the queue's places: every one leaves a pod in exactly one.

use std::collections::BTreeMap;

use crate::time::Time;

use super::event::{Event, Hint, PluginId, PluginSet};
use super::flight::Slot;
use super::incoming::Cause;
use super::record::{Place, Record, Ticket};
use super::{Policy, Queue, Uid, Verdict};

impl<S: Clone> Queue<S> {
    pub(super) fn record(&self, slot: Slot) -> Option<&Record> {
        self.records.get(slot as usize)?.as_ref()
    }

    pub(super) fn record_mut(&mut self, slot: Slot) -> Option<&mut Record> {
        self.records.get_mut(slot as usize)?.as_mut()
    }

    /// A place in memory; `None` only after four thousand million pods.
    pub(super) fn store(&mut self, record: Record) -> Option<Slot> {
        if let Some(slot) = self.free.pop() {
            *self.records.get_mut(slot as usize)? = Some(record);
            return Some(slot);
        }
        let slot = Slot::try_from(self.records.len()).ok()?;
        self.records.push(Some(record));
        Some(slot)
    }

    pub(super) fn discard(&mut self, slot: Slot) {
        if let Some(record) = self.records.get_mut(slot as usize).and_then(Option::take) {
            self.slots.remove(&record.ticket.uid);
            self.free.push(slot);
        }
    }

    /// Takes the pod out of the ordered places, leaving the record.
    pub(super) fn unlink(&mut self, slot: Slot) {
        let Some(record) = self.records.get(slot as usize).and_then(Option::as_ref) else { return };
        match record.place {
            Place::Active => {
                self.active.remove(&(record.rank(), slot));
            }
            Place::Backoff { is_error } => {
                let expiry = record.expiry(self.backoff).unwrap_or_default();
                if is_error {
                    self.erred.remove(&(expiry, record.arrival, slot));
                } else {
                    self.rejected.remove(&(expiry, record.rank(), slot));
                }
            }
            Place::Unschedulable => self.parked.remove(slot, record),
            Place::Gated(_) => {
                self.parked.remove(slot, record);
                self.gated -= 1;
            }
            Place::InFlight | Place::Binding => {}
        }
    }

    fn link(&mut self, slot: Slot) {
        let Some(record) = self.records.get(slot as usize).and_then(Option::as_ref) else { return };
        match record.place {
            Place::Active => {
                self.active.insert((record.rank(), slot));
            }
            Place::Backoff { is_error } => {
                let expiry = record.expiry(self.backoff).unwrap_or_default();
                if is_error {
                    self.erred.insert((expiry, record.arrival, slot));
                } else {
                    self.rejected.insert((expiry, record.rank(), slot));
                }
            }
            Place::Unschedulable => self.parked.insert(slot, record),
            Place::Gated(_) => {
                self.parked.insert(slot, record);
                self.gated += 1;
            }
            Place::InFlight | Place::Binding => {}
        }
    }

    fn shift(&mut self, slot: Slot, change: impl FnOnce(&mut Record)) {
        self.unlink(slot);
        if let Some(record) = self.record_mut(slot) {
            change(record);
        }
        self.link(slot);
    }

    /// A new ticket for a known pod. A poisoned one is alive after all.
    pub(super) fn renew(&mut self, slot: Slot, ticket: Ticket) {
        if let Some(rider) = self.flight.rider_mut(slot) {
            rider.is_poisoned = false;
        }
        self.shift(slot, |record| record.ticket = ticket);
    }

    pub(super) fn park(&mut self, slot: Slot, place: Place, now: Time) {
        self.shift(slot, |record| {
            record.place = place;
            record.parked = now;
        });
    }

    pub(super) fn activate_slot(&mut self, slot: Slot) {
        self.incoming.count(Place::Active, Cause::PauseOver);
        self.shift(slot, |record| record.place = Place::Active);
    }

    /// Through the gate into active, or into the pause that is still to be served.
    pub(super) fn enter(
        &mut self,
        slot: Slot,
        verdict: Verdict,
        cause: Cause,
        policy: &impl Policy<Subject = S>,
        now: Time,
    ) {
        let Some(record) = self.record(slot) else { return };
        let gating = match record.place {
            Place::Gated(plugin) => Some(plugin),
            _ => None,
        };
        if let Some(plugin) = policy.gate(&record.ticket.uid, gating) {
            self.incoming.count(Place::Gated(plugin), cause);
            self.park(slot, Place::Gated(plugin), now);
            return;
        }
        let is_error = record.failure.is_error();
        let pauses = verdict == Verdict::AfterPause && record.is_pausing(self.backoff, now);
        let place = if pauses { Place::Backoff { is_error } } else { Place::Active };
        self.incoming.count(place, cause);
        self.shift(slot, |record| record.place = place);
    }

    pub(super) fn fly(&mut self, slot: Slot, now: Time) -> Option<Uid> {
        self.shift(slot, |record| record.popped(now));
        self.flight.begin(slot);
        self.record(slot).map(|record| record.ticket.uid.clone())
    }

    /// Does any of `events` change the mind of a plugin that rejected this pod?
    pub(super) fn judge(
        &self,
        record: &Record,
        events: &[Event<S>],
        policy: &impl Policy<Subject = S>,
    ) -> Option<Verdict> {
        let failure = record.failure;
        let gate = match record.place {
            Place::Gated(plugin) => PluginSet::EMPTY.with(plugin),
            _ => PluginSet::EMPTY,
        };
        let rejectors = failure.rejected_by.or(failure.pending_on).or(gate);
        let mut verdict = None;
        for event in events {
            let interested = self.interests.covering(event.resource, event.actions);
            for plugin in interested.and(rejectors).iter() {
                if hint(policy, plugin, &record.ticket.uid, event) == Hint::Skip {
                    continue;
                }
                if failure.pending_on.contains(plugin) {
                    return Some(Verdict::AtOnce);
                }
                verdict = Some(Verdict::AfterPause);
                if failure.pending_on.is_empty() {
                    return verdict;
                }
            }
        }
        verdict
    }

    /// Adds the pods of which `plugin` says that `event` may help them.
    pub(super) fn helped(
        &self,
        plugin: PluginId,
        event: &Event<S>,
        policy: &impl Policy<Subject = S>,
        moves: &mut BTreeMap<Slot, Verdict>,
    ) {
        for slots in self.parked.rejected_by(plugin) {
            let representative = slots.first().and_then(|slot| self.record(*slot));
            let Some(representative) = representative else { continue };
            if hint(policy, plugin, &representative.ticket.uid, event) == Hint::Skip {
                continue;
            }
            for slot in slots {
                let Some(record) = self.record(*slot) else { continue };
                let is_pending = record.failure.pending_on.contains(plugin);
                let verdict = if is_pending { Verdict::AtOnce } else { Verdict::AfterPause };
                moves
                    .entry(*slot)
                    .and_modify(|known| *known = verdict.max(*known))
                    .or_insert(verdict);
            }
        }
        if event.resource == super::Resource::Any {
            return;
        }
        for slot in self.parked.gated_by(plugin) {
            let verdict = self
                .record(slot)
                .and_then(|record| self.judge(record, std::slice::from_ref(event), policy));
            if let Some(verdict) = verdict {
                moves.insert(slot, verdict);
            }
        }
    }
}

/// An event without particulars may help everyone who asked for its kind.
fn hint<S: Clone>(
    policy: &impl Policy<Subject = S>,
    plugin: PluginId,
    pod: &Uid,
    event: &Event<S>,
) -> Hint {
    match event.subject {
        Some(_) => policy.hint(plugin, pod, event),
        None => Hint::Queue,
    }
}
