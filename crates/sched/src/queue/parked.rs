//! Which waiting pods does an event concern?
//!
//! Rejected pods are found by the plugin that rejected them and, within it, by
//! their group: pods of one group get one hint, so ten thousand replicas of a
//! Deployment that does not fit cost one question an event, and an event no
//! rejecting plugin asked for costs nothing. Gated pods are found by the plugin
//! that gates them.

use std::collections::{BTreeMap, BTreeSet};

use crate::time::Time;

use super::event::PluginId;
use super::flight::Slot;
use super::record::{Place, Record};

#[derive(Debug)]
pub(super) struct Parked {
    rejected: Vec<BTreeMap<u64, BTreeSet<Slot>>>,
    gated: Vec<BTreeSet<Slot>>,
    ages: BTreeSet<(Time, Slot)>,
}

impl Parked {
    pub(super) fn new(plugins: usize) -> Self {
        Self {
            rejected: vec![BTreeMap::new(); plugins],
            gated: vec![BTreeSet::new(); plugins],
            ages: BTreeSet::new(),
        }
    }

    pub(super) fn insert(&mut self, slot: Slot, record: &Record) {
        self.ages.insert((record.parked, slot));
        if let Place::Gated(plugin) = record.place {
            if let Some(gated) = self.gated.get_mut(plugin.index()) {
                gated.insert(slot);
            }
            return;
        }
        for plugin in record.failure.rejected_by.or(record.failure.pending_on).iter() {
            if let Some(groups) = self.rejected.get_mut(plugin.index()) {
                groups.entry(record.ticket.group).or_default().insert(slot);
            }
        }
    }

    pub(super) fn remove(&mut self, slot: Slot, record: &Record) {
        self.ages.remove(&(record.parked, slot));
        if let Place::Gated(plugin) = record.place {
            if let Some(gated) = self.gated.get_mut(plugin.index()) {
                gated.remove(&slot);
            }
            return;
        }
        for plugin in record.failure.rejected_by.or(record.failure.pending_on).iter() {
            let Some(groups) = self.rejected.get_mut(plugin.index()) else { continue };
            if let Some(slots) = groups.get_mut(&record.ticket.group) {
                slots.remove(&slot);
                if slots.is_empty() {
                    groups.remove(&record.ticket.group);
                }
            }
        }
    }

    /// The pods `plugin` rejected, group by group; no group is empty.
    pub(super) fn rejected_by(&self, plugin: PluginId) -> impl Iterator<Item = &BTreeSet<Slot>> {
        self.rejected.get(plugin.index()).into_iter().flat_map(BTreeMap::values)
    }

    pub(super) fn gated_by(&self, plugin: PluginId) -> impl Iterator<Item = Slot> {
        self.gated.get(plugin.index()).into_iter().flatten().copied()
    }

    pub(super) fn oldest(&self) -> Option<Time> {
        self.ages.first().map(|(parked, _)| *parked)
    }

    pub(super) fn parked_before(&self, limit: Time) -> Vec<Slot> {
        self.ages.range(..(limit, 0)).map(|(_, slot)| *slot).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.ages.len()
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.ages.iter().map(|(_, slot)| *slot)
    }
}
