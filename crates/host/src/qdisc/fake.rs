//! Queueing disciplines of a fake host, for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{QdiscError, Qdiscs};

/// Devices with their queueing disciplines. Clones look at the same.
#[derive(Debug, Clone, Default)]
pub struct FakeQdiscs(Arc<Mutex<Fake>>);

#[derive(Debug, Default)]
struct Fake {
    devices: BTreeMap<String, Option<Chosen>>,
    changes: usize,
}

/// A root that somebody chose.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Chosen {
    /// Its kind and handle: `htb 1:`.
    name: String,
    classes: BTreeSet<String>,
    filters: BTreeSet<String>,
}

impl FakeQdiscs {
    /// A host with these devices, each with the kernel's own queue.
    pub fn of(devices: &[&str]) -> Self {
        let fake = Self::default();
        fake.lock().devices = devices.iter().map(|name| ((*name).to_owned(), None)).collect();
        fake
    }

    /// Somebody chooses another root, with its handle: `fq 8001:`.
    pub fn choose(&self, device: &str, name: &str) {
        let (classes, filters) = (BTreeSet::new(), BTreeSet::new());
        let chosen = Chosen { name: name.to_owned(), classes, filters };
        self.lock().devices.insert(device.to_owned(), Some(chosen));
    }

    /// Everything that is chosen, as text: to compare with a moment ago.
    pub fn show(&self) -> String {
        let fake = self.lock();
        fake.devices.iter().map(|(device, root)| format!("{device}: {root:?}\n")).collect()
    }

    /// How often something was changed.
    pub fn changes(&self) -> usize {
        self.lock().changes
    }

    fn lock(&self) -> MutexGuard<'_, Fake> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fake {
    fn device(&mut self, device: &str) -> Result<&mut Option<Chosen>, QdiscError> {
        let missing = || QdiscError::NoDevice { device: device.to_owned() };
        self.devices.get_mut(device).ok_or_else(missing)
    }

    fn command(&mut self, line: &str) -> Result<(), QdiscError> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let after = |word: &str| {
            let at = words.iter().position(|known| *known == word)?;
            words.get(at + 1).copied()
        };
        let refused = |text: &str| QdiscError::Refused(format!("Error: {text}"));
        let root = self.device(after("dev").unwrap_or_default())?;
        match (words.as_slice(), root.as_mut()) {
            (["qdisc", "add", ..], Some(_)) => {
                return Err(refused("Exclusivity flag on, cannot modify."));
            }
            (["qdisc", "add", "dev", _, "root", "handle", handle, kind, ..], None) => {
                let (classes, filters) = (BTreeSet::new(), BTreeSet::new());
                *root = Some(Chosen { name: format!("{kind} {handle}"), classes, filters });
            }
            (["class", "add", ..], Some(chosen)) if chosen.name.starts_with("htb ") => {
                // A parent that is not there is taken for the root.
                let id = after("classid").unwrap_or_default();
                if !chosen.classes.insert(id.to_owned()) {
                    return Err(refused("Exclusivity flag on, cannot modify."));
                }
            }
            (["filter", "add", ..], Some(chosen)) => {
                chosen.filters.insert(line.to_owned());
            }
            _ => return Err(refused("Parent Qdisc doesn't exists.")),
        }
        self.changes += 1;
        Ok(())
    }
}

impl Qdiscs for FakeQdiscs {
    fn root(&self, device: &str) -> Result<Option<String>, QdiscError> {
        let mut fake = self.lock();
        let root = fake.device(device)?;
        Ok(root.as_ref().map(|chosen| format!("{} root refcnt 2", chosen.name)))
    }

    fn batch(&self, commands: &str) -> Result<(), QdiscError> {
        let mut fake = self.lock();
        commands.lines().try_for_each(|line| fake.command(line))
    }

    fn remove_root(&self, device: &str) -> Result<(), QdiscError> {
        let mut fake = self.lock();
        let root = fake.device(device)?;
        if root.take().is_none() {
            let text = "Error: Cannot delete qdisc with handle of zero.";
            return Err(QdiscError::Refused(text.to_owned()));
        }
        fake.changes += 1;
        Ok(())
    }
}
