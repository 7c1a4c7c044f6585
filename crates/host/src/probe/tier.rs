//! How well can online work be protected from best-effort work on the same CPUs?

use super::{Answer, Facts};

/// The kernel's part in the protection, from the strongest to the weakest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Best-effort runs only where no online task wants to: the group identity of vendor kernels.
    Identity,
    /// Best-effort pods are idle groups, so a waking online task sees their CPUs as free.
    PodIdle,
    /// Best-effort has the least weight, and nothing more.
    Weight,
}

impl Tier {
    pub fn of(facts: &Facts) -> Self {
        if facts.has_file("cpu.bvt_warp_ns") {
            Self::Identity
        } else if facts.has_file("cpu.idle") {
            Self::PodIdle
        } else {
            Self::Weight
        }
    }

    /// The letter of the mode.
    pub fn mode(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::PodIdle => "P",
            Self::Weight => "W",
        }
    }

    pub fn what(self) -> &'static str {
        match self {
            Self::Identity => "strict: best-effort runs only where no online task wants to",
            Self::PodIdle => "good: best-effort pods are idle groups with the least weight",
            Self::Weight => "basic: best-effort has the least weight",
        }
    }

    /// What online work still has to bear.
    pub fn cost(self) -> &'static str {
        match self {
            Self::Identity => "none beyond shared caches and memory bandwidth",
            Self::PodIdle => {
                "a waking online task finds a CPU at once, but on a full host it preempts \
                 best-effort by weight only"
            }
            Self::Weight => {
                "a waking online task may queue behind a best-effort one; keep more CPUs free"
            }
        }
    }

    /// Stronger modes this host could be switched to.
    pub fn also_possible(facts: &Facts) -> Vec<&'static str> {
        let mut modes = Vec::new();
        let has_siblings = facts.model.as_ref().is_some_and(|model| model.smt_active);
        if facts.has_file("cpu.idle") && facts.live.core_scheduling == Answer::Yes && has_siblings {
            modes.push("C (core scheduling: no best-effort on the sibling of an online task)");
        }
        if facts.sched_ext {
            modes.push("X (an external sched_ext scheduler)");
        }
        modes
    }
}
