//! What does a strategy want of the machine?
//!
//! A [`Wish`] names a [`Target`], how strongly it is meant and why. Strategies post wishes; the one arbiter
//! folds those for the same target ([`crate::claim`]), keeps the original value, writes and restores. Whoever
//! decides has a `Wish` in hand and never a file.

use std::fmt;

use groups::{CgroupPath, Knob};

use crate::claim::{Bound, Rank, Value};

/// One thing of the machine that can be changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// One setting of one control group.
    Knob { group: CgroupPath, knob: Knob },
    /// A file below `/proc` or `/sys`: a sysctl, a switch of the scheduler, a score of a process.
    File(KernelFile),
    /// A group of resctrl, by the name of its directory.
    CacheGroup(String),
    /// The core-scheduling cookie of a group of pods, by the group's name.
    CoreCookie(String),
    /// The root queueing discipline of a network device.
    Qdisc(String),
    /// A file that terway's daemon reads, by its path; it may be absent.
    TerwayFile(String),
    /// `memory.reclaim` of a control group: each wish is carried out once and leaves nothing to restore.
    Reclaim(CgroupPath),
}

/// A kernel file that belongs to no control group, or one word of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelFile {
    pub path: String,
    /// One word of a file that lists `NAME` or `NO_NAME` for each switch.
    pub word: Option<String>,
}

/// What one owner wants of one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    pub target: Target,
    pub rank: Rank,
    pub bound: Bound,
    /// The sum behind the wish, for people.
    pub why: String,
}

impl Target {
    pub fn knob(group: CgroupPath, knob: Knob) -> Self {
        Self::Knob { group, knob }
    }

    /// Whether a wish is carried out once, is folded with no other and has no original value.
    pub fn is_one_shot(&self) -> bool {
        matches!(self, Self::Reclaim(_))
    }

    /// Whether writing takes a process, many system calls or a wait for the disk.
    pub fn is_slow(&self) -> bool {
        !matches!(self, Self::Knob { .. } | Self::File(_))
    }

    /// Whether the changed value is still there after a reboot.
    pub fn outlives_boot(&self) -> bool {
        matches!(self, Self::TerwayFile(_))
    }
}

impl KernelFile {
    pub fn whole(path: impl Into<String>) -> Self {
        Self { path: path.into(), word: None }
    }

    pub fn word(path: impl Into<String>, word: &str) -> Self {
        Self { path: path.into(), word: Some(word.to_owned()) }
    }
}

impl Wish {
    /// A kernel file that is to hold this text.
    pub fn file(file: KernelFile, rank: Rank, text: impl Into<String>, why: &str) -> Self {
        let bound = Bound::Set(Value::Text(text.into()));
        Self { target: Target::File(file), rank, bound, why: why.to_owned() }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Knob { group, knob } => write!(f, "{group}:{}", knob.name()),
            Self::File(KernelFile { path, word: None }) => f.write_str(path),
            Self::File(KernelFile { path, word: Some(word) }) => write!(f, "{path}:{word}"),
            Self::CacheGroup(group) => write!(f, "resctrl:{group}"),
            Self::CoreCookie(group) => write!(f, "core-cookie:{group}"),
            Self::Qdisc(device) => write!(f, "qdisc:{device}"),
            Self::TerwayFile(path) => f.write_str(path),
            Self::Reclaim(group) => write!(f, "{group}:{}", Knob::MemoryReclaim.name()),
        }
    }
}
