//! What was in a file before we touched it, and what did we put there?
//!
//! A journal, one JSON object a line. A file's first line says what was found; every write adds one
//! *before* it happens and one after; giving the file back adds a last one. So whenever the process is
//! killed, its next life knows every value of ours that a file may carry. The journal is small and is
//! written anew when it is opened and when most of it is history.
//!
//! It lives beside the cgroups it describes, on a file system that forgets with the machine: a
//! reboot takes both.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use groups::{CgroupPath, Knob};
use serde::{Deserialize, Serialize};

use super::place::KnobRef;
use crate::durable;

#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    #[error("cannot use ledger {}", path.display())]
    File { path: PathBuf, source: io::Error },
}

/// One file that carries, or may carry, a value of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) found: String,
    /// What we put there last, and what was announced since and may have been written or not.
    pub(super) ours: Vec<String>,
}

#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    journal: File,
    entries: BTreeMap<KnobRef, Entry>,
    /// Lines in the journal.
    lines: usize,
}

/// A line of the journal.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    group: String,
    knob: String,
    #[serde(flatten)]
    what: What,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum What {
    Found(String),
    Writes(String),
    Wrote(String),
    Returned(bool),
}

/// A journal this many times longer than needed is written anew.
const SLACK: usize = 8;
/// How many values of ours a file is thought to carry.
const MOST_OURS: usize = 16;
/// Shorter journals are left alone.
const SHORT: usize = 4_096;

impl Ledger {
    /// Reads the journal, or begins one. A last line that was cut off is ignored.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        let failed = |source| LedgerError::File { path: path.to_owned(), source };
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(failed(error)),
        };
        let mut entries = BTreeMap::new();
        for line in text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()) {
            apply(&mut entries, line);
        }
        let (journal, lines) = write_anew(path, &entries).map_err(failed)?;
        Ok(Self { path: path.to_owned(), journal, entries, lines })
    }

    pub(super) fn entry(&self, place: &KnobRef) -> Option<&Entry> {
        self.entries.get(place)
    }

    pub(super) fn places(&self) -> impl ExactSizeIterator<Item = &KnobRef> {
        self.entries.keys()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Before the first write to a place.
    pub(super) fn found(&mut self, place: &KnobRef, text: &str) -> Result<(), LedgerError> {
        if self.entries.contains_key(place) {
            return Ok(());
        }
        self.append(place, What::Found(text.to_owned()))
    }

    /// Before every write to a place.
    pub(super) fn writes(&mut self, place: &KnobRef, text: &str) -> Result<(), LedgerError> {
        self.append(place, What::Writes(text.to_owned()))
    }

    /// After a write, with what the file says then.
    pub(super) fn wrote(&mut self, place: &KnobRef, text: &str) -> Result<(), LedgerError> {
        self.append(place, What::Wrote(text.to_owned()))
    }

    /// The place has its old value again, is somebody else's now, or does not exist any more.
    pub(super) fn returned(&mut self, place: &KnobRef) -> Result<(), LedgerError> {
        if !self.entries.contains_key(place) {
            return Ok(());
        }
        self.append(place, What::Returned(true))
    }

    fn append(&mut self, place: &KnobRef, what: What) -> Result<(), LedgerError> {
        let line = Line {
            group: place.group.as_str().to_owned(),
            knob: format!("{:?}", place.knob),
            what,
        };
        let failed = |source| LedgerError::File { path: self.path.clone(), source };
        let mut text = serde_json::to_string(&line).map_err(|error| failed(error.into()))?;
        text.push('\n');
        self.journal.write_all(text.as_bytes()).map_err(failed)?;
        apply(&mut self.entries, line);
        self.lines += 1;
        if self.lines > SHORT.max(self.entries.len() * SLACK) {
            let anew = write_anew(&self.path, &self.entries);
            (self.journal, self.lines) =
                anew.map_err(|source| LedgerError::File { path: self.path.clone(), source })?;
        }
        Ok(())
    }
}

/// What a journal tells, without touching it.
pub(super) fn read(path: &Path) -> io::Result<BTreeMap<KnobRef, Entry>> {
    let mut entries = BTreeMap::new();
    for line in fs::read_to_string(path)?.lines() {
        if let Ok(line) = serde_json::from_str::<Line>(line) {
            apply(&mut entries, line);
        }
    }
    Ok(entries)
}

fn apply(entries: &mut BTreeMap<KnobRef, Entry>, line: Line) {
    let named = |knob: &Knob| format!("{knob:?}") == line.knob;
    let Some(knob) = Knob::ALL.into_iter().find(named) else { return };
    let place = KnobRef::new(CgroupPath::new(&line.group), knob);
    match line.what {
        What::Found(found) => {
            entries.entry(place).or_insert(Entry { found, ours: Vec::new() });
        }
        What::Writes(text) => {
            if let Some(entry) = entries.get_mut(&place) {
                // Of many announcements without a write, in many short lives, a few are enough.
                entry.ours.truncate(MOST_OURS);
                entry.ours.push(text);
            }
        }
        What::Wrote(text) => {
            if let Some(entry) = entries.get_mut(&place) {
                entry.ours = vec![text];
            }
        }
        What::Returned(_) => {
            entries.remove(&place);
        }
    }
}

/// Replaces the journal by one without history; how many lines it has.
fn write_anew(path: &Path, entries: &BTreeMap<KnobRef, Entry>) -> io::Result<(File, usize)> {
    let mut text = String::new();
    let mut lines = 0;
    for (place, entry) in entries {
        let found = [What::Found(entry.found.clone())].into_iter();
        for what in found.chain(entry.ours.iter().cloned().map(What::Writes)) {
            let group = place.group.as_str().to_owned();
            let line = Line { group, knob: format!("{:?}", place.knob), what };
            text.push_str(&serde_json::to_string(&line)?);
            text.push('\n');
            lines += 1;
        }
    }
    durable::replace(path, text.as_bytes())?;
    Ok((OpenOptions::new().append(true).open(path)?, lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(group: &str) -> KnobRef {
        KnobRef::new(CgroupPath::new(group), Knob::CfsQuota)
    }

    fn entry(found: &str, ours: &[&str]) -> Entry {
        let ours = ours.iter().map(|text| (*text).to_owned()).collect();
        Entry { found: found.to_owned(), ours }
    }

    #[test]
    fn the_next_life_knows_what_was_found_and_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/ledger");
        let (kept, returned) = (place("kept"), place("returned"));
        let mut ledger = Ledger::open(&path).unwrap();
        for place in [&kept, &returned] {
            ledger.found(place, "-1").unwrap();
            for value in ["1000", "2000"] {
                ledger.writes(place, value).unwrap();
                ledger.wrote(place, value).unwrap();
            }
            ledger.writes(place, "3000").unwrap();
        }
        ledger.found(&kept, "not this one").unwrap();
        ledger.returned(&returned).unwrap();
        drop(ledger);

        let ledger = Ledger::open(&path).unwrap();
        assert_eq!(ledger.entry(&kept), Some(&entry("-1", &["2000", "3000"])));
        assert_eq!(ledger.places().collect::<Vec<_>>(), [&kept]);
    }

    #[test]
    fn a_line_that_was_cut_off_or_is_strange_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        let lines = concat!(
            r#"{"group":"a","knob":"CfsQuota","found":"-1"}"#,
            "\n",
            r#"{"group":"a","knob":"NoSuchKnob","found":"7"}"#,
            "\n\u{0}\n",
            r#"{"group":"a","knob":"CfsQuota","writes":"500"#,
        );
        fs::write(&path, lines).unwrap();
        let ledger = Ledger::open(&path).unwrap();
        assert_eq!(ledger.entry(&place("a")), Some(&entry("-1", &[])));
    }

    #[test]
    fn the_journal_does_not_grow_without_bound() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        let mut ledger = Ledger::open(&path).unwrap();
        ledger.found(&place("a"), "-1").unwrap();
        for value in 0..3 * SHORT {
            ledger.writes(&place("a"), &value.to_string()).unwrap();
        }
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= SHORT + 1, "{lines} lines");
    }
}
