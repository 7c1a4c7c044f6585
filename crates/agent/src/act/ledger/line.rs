//! The lines of a ledger. Their names are on disks of machines that will run other versions: they stay.

use std::collections::BTreeSet;
use std::fmt;
use std::io;

use groups::{CgroupPath, Knob};
use qos::wish::{KernelFile, Target};
use serde::{Deserialize, Serialize};

use super::Entry;

/// The first line.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    #[serde(rename = "tidepool-ledger")]
    pub(super) version: u64,
    pub(super) boot: String,
}

impl Header {
    pub(super) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    pub(super) fn text(&self) -> io::Result<String> {
        Ok(serde_json::to_string(self)?)
    }
}

/// What a target held before it was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(in crate::act) enum OriginalValue {
    /// What the file said, in its own words.
    Text(String),
    /// A resctrl group that somebody else made, with its threads.
    CacheGroup { schemata: String, tasks: BTreeSet<u32> },
    /// Nothing: a group or file that was not there, the kernel's own queue, processes without a cookie.
    Absent,
}

impl fmt::Display for OriginalValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::CacheGroup { schemata, tasks } => {
                write!(
                    f,
                    "{} with {} threads",
                    schemata.trim_end().replace('\n', ", "),
                    tasks.len()
                )
            }
            Self::Absent => f.write_str("absent"),
        }
    }
}

/// The whole state of one target.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Line {
    #[serde(flatten)]
    name: Name,
    #[serde(flatten)]
    state: State,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "target", rename_all = "kebab-case")]
enum Name {
    Knob {
        group: String,
        knob: String,
    },
    File {
        path: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        word: Option<String>,
    },
    Resctrl {
        group: String,
    },
    CoreCookie {
        group: String,
    },
    Qdisc {
        device: String,
    },
    Terway {
        path: String,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum State {
    Changed { original: OriginalValue, ours: Vec<String> },
    Restored { restored: bool },
}

/// A line that this version does not know.
pub(super) struct Unknown;

impl Line {
    /// The line of a target; `None` for a target that has nothing to restore.
    pub(super) fn of(target: &Target, entry: Option<&Entry>) -> Option<Self> {
        let name = match target {
            Target::Knob { group, knob } => {
                Name::Knob { group: group.as_str().to_owned(), knob: knob.name().to_owned() }
            }
            Target::File(KernelFile { path, word }) => {
                Name::File { path: path.clone(), word: word.clone() }
            }
            Target::CacheGroup(group) => Name::Resctrl { group: group.clone() },
            Target::CoreCookie(group) => Name::CoreCookie { group: group.clone() },
            Target::Qdisc(device) => Name::Qdisc { device: device.clone() },
            Target::TerwayFile(path) => Name::Terway { path: path.clone() },
            Target::Reclaim(_) => return None,
        };
        let state = match entry {
            Some(Entry { original, ours }) => {
                State::Changed { original: original.clone(), ours: ours.clone() }
            }
            None => State::Restored { restored: true },
        };
        Some(Self { name, state })
    }

    /// `None` for what is no JSON object; an error for a line of another version.
    pub(super) fn parse(text: &str) -> Option<Result<Self, Unknown>> {
        let value: serde_json::Value = serde_json::from_str(text).ok()?;
        value.as_object()?;
        let line: Option<Self> = serde_json::from_value(value).ok();
        Some(line.filter(|line| line.target().is_some()).ok_or(Unknown))
    }

    pub(super) fn text(&self) -> io::Result<String> {
        Ok(serde_json::to_string(self)?)
    }

    fn target(&self) -> Option<Target> {
        Some(match &self.name {
            Name::Knob { group, knob } => {
                Target::knob(CgroupPath::new(group), Knob::from_name(knob)?)
            }
            Name::File { path, word } => {
                Target::File(KernelFile { path: path.clone(), word: word.clone() })
            }
            Name::Resctrl { group } => Target::CacheGroup(group.clone()),
            Name::CoreCookie { group } => Target::CoreCookie(group.clone()),
            Name::Qdisc { device } => Target::Qdisc(device.clone()),
            Name::Terway { path } => Target::TerwayFile(path.clone()),
        })
    }

    /// The target, and what is known of it unless it was restored; `None` for a line that is unknown.
    pub(super) fn into_entry(self) -> Option<(Target, Option<Entry>)> {
        let target = self.target()?;
        Some(match self.state {
            State::Changed { original, ours } => (target, Some(Entry { original, ours })),
            State::Restored { .. } => (target, None),
        })
    }
}
