//! What survives the agent about departures: who was asked, and whose pods were hit.
//!
//! Written before a pod is asked, so that an agent killed between question and answer does not ask
//! somebody else as well. Times are the wall clock's, because the next process has another clock; a
//! wall clock that was set makes a rest longer or shorter, never endless.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use qos::evict::Resource;
use qos::evict::book::{Asked, Memory};
use serde::{Deserialize, Serialize};

use crate::durable;

/// A file larger than this is not ours.
const LARGEST: u64 = 1 << 20;

/// Why departures cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is not a list of departures", path.display())]
    Parse { path: PathBuf, source: serde_json::Error },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) now: Duration,
    pub(super) wall: Timestamp,
}

impl Moment {
    fn to_wall(self, at: Duration) -> Timestamp {
        let moved = match at.checked_sub(self.now) {
            Some(ahead) => self.wall.checked_add(ahead),
            None => self.wall.checked_sub(self.now.saturating_sub(at)),
        };
        moved.unwrap_or(self.wall)
    }

    /// The agent's clock may not reach back so far; then its start stands for it.
    pub(super) fn own_time(self, at: Timestamp) -> Duration {
        let apart = Duration::try_from(at.duration_since(self.wall).abs()).unwrap_or_default();
        if at >= self.wall {
            self.now.saturating_add(apart)
        } else {
            self.now.saturating_sub(apart)
        }
    }
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct File {
    /// By owner: the last departure of one of its pods.
    owners: Vec<(String, Timestamp)>,
    asked: Vec<Entry>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    uid: String,
    owner: String,
    is_memory: bool,
    until: Timestamp,
}

/// The file; `None` keeps nothing.
#[derive(Debug, Clone)]
pub(super) struct Store(Option<PathBuf>);

impl Store {
    pub(super) fn new(path: Option<PathBuf>) -> Self {
        Self(path)
    }

    /// What the last process knew; `rest` is how long that matters.
    pub(super) fn read(
        &self,
        moment: Moment,
        rest: Duration,
    ) -> Result<Memory<String>, StoreError> {
        let Some(path) = &self.0 else { return Ok(Memory::default()) };
        let failed = |source| StoreError::Read { path: path.clone(), source };
        let text = match fs::metadata(path) {
            Ok(meta) if meta.len() <= LARGEST => fs::read(path).map_err(failed)?,
            Ok(_) => return Err(failed(io::ErrorKind::FileTooLarge.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Memory::default()),
            Err(error) => return Err(failed(error)),
        };
        let file: File = serde_json::from_slice(&text)
            .map_err(|source| StoreError::Parse { path: path.clone(), source })?;
        // A time that is to come, or long past, was written under another wall clock.
        let latest = moment.to_wall(moment.now + rest);
        let owners = file.owners.into_iter().map(|(owner, at)| {
            let at = at.min(moment.wall);
            (owner, moment.own_time(at))
        });
        let asked = file.asked.into_iter().map(|entry| Asked {
            id: entry.uid,
            owner: entry.owner,
            resource: if entry.is_memory { Resource::Memory } else { Resource::Cpu },
            until: moment.own_time(entry.until.min(latest)),
        });
        Ok(Memory { owners: owners.collect(), asked: asked.collect() })
    }

    /// Replaces the file at once.
    pub(super) fn write(&self, memory: &Memory<String>, moment: Moment) -> Result<(), StoreError> {
        let Some(path) = &self.0 else { return Ok(()) };
        let failed = |source| StoreError::Write { path: path.clone(), source };
        let owners =
            memory.owners.iter().map(|(owner, at)| (owner.clone(), moment.to_wall(*at))).collect();
        let asked = memory.asked.iter().map(|asked| Entry {
            uid: asked.id.clone(),
            owner: asked.owner.clone(),
            is_memory: asked.resource == Resource::Memory,
            until: moment.to_wall(asked.until),
        });
        let file = File { owners, asked: asked.collect() };
        let text = serde_json::to_vec(&file)
            .map_err(|source| StoreError::Parse { path: path.clone(), source })?;
        durable::replace(path, &text).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(now: u64, wall: i64) -> Moment {
        Moment { now: Duration::from_secs(now), wall: Timestamp::from_second(wall).unwrap() }
    }

    fn memory(owner_at: u64, until: u64) -> Memory<String> {
        Memory {
            owners: vec![("d/ReplicaSet/hog".to_owned(), Duration::from_secs(owner_at))],
            asked: vec![Asked {
                id: "u1".to_owned(),
                owner: "d/ReplicaSet/hog".to_owned(),
                resource: Resource::Memory,
                until: Duration::from_secs(until),
            }],
        }
    }

    #[test]
    fn the_next_process_continues_with_its_own_clock() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(Some(dir.path().join("state/departures.json")));
        let rest = Duration::from_secs(300);
        assert_eq!(store.read(moment(5, 1_000), rest).unwrap(), Memory::default(), "no file yet");
        store.write(&memory(900, 1_020), moment(1_000, 5_000)).unwrap();
        // A minute later, in a process that has run for five minutes by its own count.
        let read = store.read(moment(300, 5_060), rest).unwrap();
        assert_eq!(read, memory(140, 260));
    }

    #[test]
    fn a_wall_clock_that_was_set_makes_no_rest_endless() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(Some(dir.path().join("departures.json")));
        let rest = Duration::from_secs(300);
        store.write(&memory(1_000, 1_020), moment(1_000, 1_000_000)).unwrap();
        let read = store.read(moment(10, 5_000), rest).unwrap();
        assert_eq!(read, memory(10, 310), "as if it had happened just now");
    }

    #[test]
    fn what_is_not_ours_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("departures.json");
        fs::write(&path, "[").unwrap();
        let store = Store::new(Some(path));
        let error = store.read(moment(0, 0), Duration::ZERO).unwrap_err();
        assert!(matches!(error, StoreError::Parse { .. }), "{error}");
        let nowhere = Store::new(Some("/proc/self/nowhere/file".into()));
        assert!(nowhere.write(&Memory::default(), moment(0, 0)).is_err());
        assert!(Store::new(None).write(&Memory::default(), moment(0, 0)).is_ok());
    }
}
