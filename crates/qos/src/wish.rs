//! What does a strategy want of the machine?
//!
//! A [`Wish`] names a [`Target`], how strongly it is meant and why. Strategies post wishes; the one arbiter
//! folds those for the same target ([`crate::claim`]), keeps the original value, writes and restores. Whoever
//! decides has a `Wish` in hand and never a file.

use std::fmt;

use groups::{CgroupPath, Knob};

use crate::claim::{Bound, Rank, Value};

/// One thing of the machine that can be changed and restored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// One setting of one control group.
    Knob { group: CgroupPath, knob: Knob },
    /// A file below `/proc` or `/sys`: a sysctl, a switch of the scheduler, a score of a process.
    File(KernelFile),
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
        }
    }
}
