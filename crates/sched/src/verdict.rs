//! What a filter says about one node, and what a rejected pod is told.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Serialize;

/// A filter's answer for one node, small enough to be kept for every node of every class.
///
/// The upper two bits are the kind; the lower ones say which of the plugin's own reasons apply
/// ([`Work::reason`](crate::plugin::Work::reason) has the text).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Verdict(u64);

/// Could evicting pods help?
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Code {
    /// Evicting pods from the node may help.
    Unschedulable,
    /// Nothing that happens to the node's pods will help.
    Unresolvable,
}

const KIND_SHIFT: u32 = 62;
const REASONS: u64 = (1 << KIND_SHIFT) - 1;

impl Verdict {
    pub const OK: Self = Self(0);
    /// There is no node at this index.
    pub const ABSENT: Self = Self(3 << KIND_SHIFT);

    /// Rejected for one reason of the plugin, `bit` below 62.
    pub const fn unschedulable(bit: u32) -> Self {
        Self((1 << KIND_SHIFT) | (1 << bit))
    }

    pub const fn unresolvable(bit: u32) -> Self {
        Self((2 << KIND_SHIFT) | (1 << bit))
    }

    /// Rejected for a set of reasons.
    pub const fn rejected(code: Code, reasons: u64) -> Self {
        let kind = match code {
            Code::Unschedulable => 1,
            Code::Unresolvable => 2,
        };
        Self((kind << KIND_SHIFT) | (reasons & REASONS))
    }

    pub const fn is_ok(self) -> bool {
        self.0 == 0
    }

    pub const fn is_absent(self) -> bool {
        self.0 == Self::ABSENT.0
    }

    pub const fn code(self) -> Option<Code> {
        match self.0 >> KIND_SHIFT {
            1 => Some(Code::Unschedulable),
            2 => Some(Code::Unresolvable),
            _ => None,
        }
    }

    /// Kind and reasons as one number.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The reasons that apply, lowest first.
    pub fn reasons(self) -> impl Iterator<Item = u32> {
        let bits = self.0 & REASONS;
        (0..KIND_SHIFT).filter(move |bit| bits & (1 << bit) != 0)
    }
}

/// Nodes that one plugin rejected with the same words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    pub plugin: &'static str,
    pub code: Code,
    pub reasons: Vec<String>,
    pub nodes: u32,
}

/// Why a pod was placed nowhere.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Rejection {
    /// How many nodes there are.
    pub nodes: u32,
    pub groups: Vec<Group>,
    /// What stopped the pod before any node was looked at.
    pub before: Option<String>,
    /// What preemption had to say.
    pub preemption: Option<String>,
    /// Plugins that rejected, sorted: their events may make the pod fit.
    pub plugins: BTreeSet<&'static str>,
    /// Rejected for want of a fact rather than of room: retried by time, not by event.
    pub is_error: bool,
}

impl Rejection {
    /// The sentence of the pod's condition and of its event, as kubectl users know it.
    pub fn message(&self) -> String {
        if let (true, Some(before)) = (self.is_error, &self.before) {
            return before.clone();
        }
        let mut text = format!("0/{} nodes are available: ", self.nodes);
        match &self.before {
            Some(before) => text.push_str(before),
            None => text.push_str(&self.aggregated()),
        }
        text.push('.');
        if let Some(preemption) = &self.preemption {
            let _ = write!(text, " {preemption}");
        }
        text
    }

    /// `<count> <reason>` for each distinct reason, in order of the text.
    fn aggregated(&self) -> String {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for group in &self.groups {
            for reason in &group.reasons {
                *counts.entry(reason).or_default() += group.nodes;
            }
        }
        let mut parts: Vec<String> =
            counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        parts.sort();
        parts.join(", ")
    }
}
