//! Kernel files that are no control groups: sysctls, switches below `/sys`, scores of processes.
//!
//! One owner a file, a value set and nothing to fold, so they need less than the arbiter does: what was
//! found is kept on disk before the first write, a value that is neither ours nor the one found is
//! somebody else's, and what nobody wants any more goes back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use host::fs::HostFs;
use qos::claim::{Bound, Value};
use qos::wish::{KernelFile, Target, Wish};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::arbiter::{Change, Outcome};
use crate::durable;

/// How long a value is trusted to be what we wrote, and how long a refused one is left alone.
const TRUST: Duration = Duration::from_secs(60);

/// What a file says; `None` when there is no such file or no such word.
fn read(file: &KernelFile, fs: &dyn HostFs) -> io::Result<Option<String>> {
    let text = match fs.read(Path::new(&file.path)) {
        Ok(text) => String::from_utf8_lossy(&text).trim().to_owned(),
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(word) = &file.word else { return Ok(Some(text)) };
    let says = |found: &&str| found.strip_prefix("NO_").unwrap_or(found) == word;
    Ok(text.split_whitespace().find(says).map(str::to_owned))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::SRCH | Errno::NODEV))
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    #[serde(with = "OnDisk")]
    file: KernelFile,
    found: String,
    ours: String,
}

/// How a file is named in the list.
#[derive(Serialize, Deserialize)]
#[serde(remote = "KernelFile")]
struct OnDisk {
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    word: Option<String>,
}

/// All files, and what was in them.
#[derive(Debug)]
pub struct Files {
    fs: Arc<dyn HostFs>,
    path: PathBuf,
    kept: BTreeMap<KernelFile, Kept>,
    wishes: BTreeMap<&'static str, Vec<Wish>>,
    looked_at: BTreeMap<KernelFile, Duration>,
    /// Not touched any more.
    theirs: BTreeSet<KernelFile>,
}

impl Files {
    /// Reads what an earlier life left; a list that cannot be read is begun anew.
    pub fn open(fs: Arc<dyn HostFs>, path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_default();
        let kept: Vec<Kept> = serde_json::from_str(&text).unwrap_or_default();
        Self {
            fs,
            path: path.to_owned(),
            kept: kept.into_iter().map(|kept| (kept.file.clone(), kept)).collect(),
            wishes: BTreeMap::new(),
            looked_at: BTreeMap::new(),
            theirs: BTreeSet::new(),
        }
    }

    /// Where this is kept.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Wishes for other targets are not carried out here.
    pub fn post(&mut self, owner: &'static str, mut wishes: Vec<Wish>) {
        wishes.retain(|wish| matches!(wish.target, Target::File(_)));
        let old = self.wishes.get(owner).cloned().unwrap_or_default();
        if old != wishes {
            for wish in old.iter().chain(&wishes) {
                if let Target::File(file) = &wish.target {
                    self.looked_at.remove(file);
                }
            }
            self.wishes.insert(owner, wishes);
        }
    }

    pub fn withdraw_all(&mut self) {
        self.wishes.clear();
        self.looked_at.clear();
    }

    /// How many files are not as they were found.
    pub fn held(&self) -> usize {
        self.kept.len()
    }

    pub fn settle(&mut self, now: Duration) -> Vec<Change> {
        let wanted: BTreeMap<KernelFile, Wish> = self
            .wishes
            .values()
            .flatten()
            .filter_map(|wish| Some((file(wish)?, wish.clone())))
            .collect();
        let mut changes = Vec::new();
        let all: BTreeSet<KernelFile> = wanted.keys().chain(self.kept.keys()).cloned().collect();
        for file in all {
            let is_fresh = |at: &Duration| now.saturating_sub(*at) < TRUST;
            if self.theirs.contains(&file) || self.looked_at.get(&file).is_some_and(is_fresh) {
                continue;
            }
            self.looked_at.insert(file.clone(), now);
            changes.extend(self.bring(&file, wanted.get(&file)));
        }
        let is_known =
            |file: &KernelFile| wanted.contains_key(file) || self.kept.contains_key(file);
        self.looked_at.retain(|file, _| is_known(file));
        changes
    }

    fn bring(&mut self, file: &KernelFile, wish: Option<&Wish>) -> Option<Change> {
        let why = wish.map_or_else(|| "nobody wants it otherwise".to_owned(), |w| w.why.clone());
        let change = |outcome: Outcome| Change {
            target: Target::File(file.clone()),
            owner: None,
            why: why.clone(),
            outcome,
        };
        let refused = |value: &str, error: String| {
            Some(change(Outcome::Refused { value: value.to_owned(), error }))
        };
        let now = match read(file, &*self.fs) {
            Ok(Some(now)) => now,
            Ok(None) => {
                self.forget(file);
                return None;
            }
            Err(error) => return refused("", error.to_string()),
        };
        if let Some(kept) = self.kept.get(file)
            && now != kept.ours
            && now != kept.found
        {
            let outcome = Outcome::TakenOver { ours: kept.ours.clone(), theirs: now };
            self.theirs.insert(file.clone());
            self.forget(file);
            return Some(change(outcome));
        }
        let found = self.kept.get(file).map_or(&now, |kept| &kept.found).clone();
        let target = wish.and_then(text).unwrap_or_else(|| found.clone());
        if now != target {
            let kept = Kept { file: file.clone(), found, ours: target.clone() };
            self.kept.insert(file.clone(), kept);
            if let Err(error) = self.save() {
                return Some(change(Outcome::Unledgered { error: error.to_string() }));
            }
            if let Err(error) = self.fs.write(Path::new(&file.path), &format!("{target}\n")) {
                return refused(&target, error.to_string());
            }
            if wish.is_none() {
                self.forget(file);
            }
            return Some(change(Outcome::Written { old: now, new: target }));
        }
        if wish.is_none() {
            self.forget(file);
        }
        None
    }

    fn forget(&mut self, file: &KernelFile) {
        if self.kept.remove(file).is_some() {
            // The next change writes it again; what is listed too long is checked when it is read.
            let _ = self.save();
        }
    }

    fn save(&self) -> io::Result<()> {
        let kept: Vec<&Kept> = self.kept.values().collect();
        let text = serde_json::to_string(&kept)?;
        durable::replace(&self.path, text.as_bytes())
    }
}

fn file(wish: &Wish) -> Option<KernelFile> {
    match &wish.target {
        Target::File(file) => Some(file.clone()),
        _ => None,
    }
}

fn text(wish: &Wish) -> Option<String> {
    match &wish.bound {
        Bound::Set(Value::Text(text)) => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use host::fs::FakeFs;
    use qos::claim::Rank;

    use super::*;

    const FACTOR: &str = "proc/sys/vm/watermark_scale_factor";
    const FEATURES: &str = "sys/kernel/debug/sched/features";

    struct Rig {
        fake: FakeFs,
        files: Files,
        dir: tempfile::TempDir,
        now: Duration,
    }

    impl Rig {
        fn new() -> Self {
            let fake = FakeFs::from_fixture(
                "-- proc/sys/vm/watermark_scale_factor --\n10\n\
                 -- sys/kernel/debug/sched/features --\nGENTLE NO_HRTICK WAKEUP\n",
            )
            .unwrap();
            let dir = tempfile::tempdir().unwrap();
            let files = Files::open(Arc::new(fake.clone()), &dir.path().join("files"));
            Self { fake, files, dir, now: Duration::ZERO }
        }

        fn settle(&mut self) -> Vec<Change> {
            self.now += TRUST;
            self.files.settle(self.now)
        }

        fn restart(&mut self) {
            let path = self.dir.path().join("files");
            self.files = Files::open(Arc::new(self.fake.clone()), &path);
        }
    }

    fn wish(file: KernelFile, text: &str) -> Vec<Wish> {
        vec![Wish::file(file, Rank::POD, text, "a test")]
    }

    #[test]
    fn a_value_is_set_and_goes_back_even_after_a_restart() {
        let mut rig = Rig::new();
        rig.files.post("system", wish(KernelFile::whole(format!("/{FACTOR}")), "150"));
        assert_eq!(rig.settle().len(), 1);
        assert_eq!(rig.fake.text(FACTOR).unwrap(), "150");
        assert_eq!(rig.settle(), [], "once is enough");
        rig.restart();
        assert_eq!(rig.files.held(), 1);
        rig.settle();
        assert_eq!(rig.fake.text(FACTOR).unwrap(), "10");
        assert_eq!(rig.files.held(), 0);
    }

    #[test]
    fn somebody_else_s_value_is_left_alone() {
        let mut rig = Rig::new();
        rig.files.post("system", wish(KernelFile::whole(format!("/{FACTOR}")), "150"));
        rig.settle();
        rig.fake.set(FACTOR, "77\n");
        let theirs = Outcome::TakenOver { ours: "150".to_owned(), theirs: "77".to_owned() };
        assert_eq!(rig.settle()[0].outcome, theirs);
        rig.files.withdraw_all();
        rig.settle();
        assert_eq!(rig.fake.text(FACTOR).unwrap(), "77");
        assert_eq!(rig.files.held(), 0);
    }

    #[test]
    fn a_word_of_a_list_is_switched_and_an_unknown_one_ignored() {
        let mut rig = Rig::new();
        let path = format!("/{FEATURES}");
        let mut wishes = wish(KernelFile::word(&path, "HRTICK"), "HRTICK");
        wishes.extend(wish(KernelFile::word(&path, "NOSUCH"), "NOSUCH"));
        rig.files.post("system", wishes);
        let changes = rig.settle();
        assert_eq!(changes.len(), 1);
        let (old, new) = ("NO_HRTICK".to_owned(), "HRTICK".to_owned());
        assert_eq!(changes[0].outcome, Outcome::Written { old, new });
    }

    #[test]
    fn a_file_that_refuses_is_told_and_left_for_a_minute() {
        let mut rig = Rig::new();
        rig.fake.fail(FACTOR, Some(Errno::ACCESS));
        rig.files.post("system", wish(KernelFile::whole(format!("/{FACTOR}")), "150"));
        assert!(matches!(rig.settle()[0].outcome, Outcome::Refused { .. }));
        assert_eq!(rig.files.settle(rig.now + Duration::from_secs(1)), []);
        rig.fake.fail(FACTOR, None);
        rig.settle();
        assert_eq!(rig.fake.text(FACTOR).unwrap(), "150");
    }
}
