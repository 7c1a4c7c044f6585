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
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::durable;

/// How long a value is trusted to be what we wrote, and how long a refused one is left alone.
const TRUST: Duration = Duration::from_secs(60);

/// What one strategy wants of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileWish {
    pub file: File,
    pub text: String,
    pub why: String,
}

/// Which file, or which word of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct File {
    pub path: PathBuf,
    /// One word of a file that lists `NAME` or `NO_NAME` for each switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub word: Option<String>,
}

impl File {
    pub fn whole(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), word: None }
    }

    pub fn word(path: impl Into<PathBuf>, word: &str) -> Self {
        Self { path: path.into(), word: Some(word.to_owned()) }
    }

    /// What it says; `None` when there is no such file or no such word.
    fn read(&self, fs: &dyn HostFs) -> io::Result<Option<String>> {
        let text = match fs.read(&self.path) {
            Ok(text) => String::from_utf8_lossy(&text).trim().to_owned(),
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(word) = &self.word else { return Ok(Some(text)) };
        let says = |found: &&str| found.strip_prefix("NO_").unwrap_or(found) == word;
        Ok(text.split_whitespace().find(says).map(str::to_owned))
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::SRCH | Errno::NODEV))
}

/// Something that happened to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    pub file: File,
    pub old: String,
    pub new: String,
    pub why: String,
    /// What went wrong.
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    file: File,
    found: String,
    ours: String,
}

/// All files, and what was in them.
#[derive(Debug)]
pub struct Files {
    fs: Arc<dyn HostFs>,
    path: PathBuf,
    kept: BTreeMap<File, Kept>,
    wishes: BTreeMap<&'static str, Vec<FileWish>>,
    looked_at: BTreeMap<File, Duration>,
    /// Not touched any more.
    theirs: BTreeSet<File>,
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

    pub fn post(&mut self, owner: &'static str, wishes: Vec<FileWish>) {
        let old = self.wishes.get(owner).cloned().unwrap_or_default();
        if old != wishes {
            for wish in old.iter().chain(&wishes) {
                self.looked_at.remove(&wish.file);
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

    pub fn settle(&mut self, now: Duration) -> Vec<FileChange> {
        let wanted: BTreeMap<File, FileWish> =
            self.wishes.values().flatten().map(|wish| (wish.file.clone(), wish.clone())).collect();
        let mut changes = Vec::new();
        let all: BTreeSet<File> = wanted.keys().chain(self.kept.keys()).cloned().collect();
        for file in all {
            let is_fresh = |at: &Duration| now.saturating_sub(*at) < TRUST;
            if self.theirs.contains(&file) || self.looked_at.get(&file).is_some_and(is_fresh) {
                continue;
            }
            self.looked_at.insert(file.clone(), now);
            changes.extend(self.bring(&file, wanted.get(&file)));
        }
        let is_known = |file: &File| wanted.contains_key(file) || self.kept.contains_key(file);
        self.looked_at.retain(|file, _| is_known(file));
        changes
    }

    fn bring(&mut self, file: &File, wish: Option<&FileWish>) -> Option<FileChange> {
        let why = wish.map_or_else(|| "nobody wants it otherwise".to_owned(), |w| w.why.clone());
        let change = |old: &str, new: &str, error: Option<String>| FileChange {
            file: file.clone(),
            old: old.to_owned(),
            new: new.to_owned(),
            why: why.clone(),
            error,
        };
        let now = match file.read(&*self.fs) {
            Ok(Some(now)) => now,
            Ok(None) => {
                self.forget(file);
                return None;
            }
            Err(error) => return Some(change("", "", Some(error.to_string()))),
        };
        if let Some(kept) = self.kept.get(file)
            && now != kept.ours
            && now != kept.found
        {
            let error = format!("somebody else changed it from {}; it is theirs now", kept.ours);
            self.theirs.insert(file.clone());
            self.forget(file);
            return Some(change(&now, &now, Some(error)));
        }
        let found = self.kept.get(file).map_or(&now, |kept| &kept.found).clone();
        let target = wish.map_or(&found, |wish| &wish.text).clone();
        if now != target {
            let kept = Kept { file: file.clone(), found, ours: target.clone() };
            self.kept.insert(file.clone(), kept);
            if let Err(error) = self.save() {
                return Some(change(&now, &target, Some(format!("not kept on disk: {error}"))));
            }
            let written = self.fs.write(&file.path, &format!("{target}\n"));
            let error = written.err().map(|error| error.to_string());
            if wish.is_none() && error.is_none() {
                self.forget(file);
            }
            return Some(change(&now, &target, error));
        }
        if wish.is_none() {
            self.forget(file);
        }
        None
    }

    fn forget(&mut self, file: &File) {
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

#[cfg(test)]
mod tests {
    use host::fs::FakeFs;

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

        fn settle(&mut self) -> Vec<FileChange> {
            self.now += TRUST;
            self.files.settle(self.now)
        }

        fn restart(&mut self) {
            let path = self.dir.path().join("files");
            self.files = Files::open(Arc::new(self.fake.clone()), &path);
        }
    }

    fn wish(file: File, text: &str) -> Vec<FileWish> {
        vec![FileWish { file, text: text.to_owned(), why: "a test".to_owned() }]
    }

    #[test]
    fn a_value_is_set_and_goes_back_even_after_a_restart() {
        let mut rig = Rig::new();
        rig.files.post("system", wish(File::whole(format!("/{FACTOR}")), "150"));
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
        rig.files.post("system", wish(File::whole(format!("/{FACTOR}")), "150"));
        rig.settle();
        rig.fake.set(FACTOR, "77\n");
        assert!(rig.settle()[0].error.as_ref().unwrap().contains("theirs now"));
        rig.files.withdraw_all();
        rig.settle();
        assert_eq!(rig.fake.text(FACTOR).unwrap(), "77");
        assert_eq!(rig.files.held(), 0);
    }

    #[test]
    fn a_word_of_a_list_is_switched_and_an_unknown_one_ignored() {
        let mut rig = Rig::new();
        let path = format!("/{FEATURES}");
        let mut wishes = wish(File::word(&path, "HRTICK"), "HRTICK");
        wishes.extend(wish(File::word(&path, "NOSUCH"), "NOSUCH"));
        rig.files.post("system", wishes);
        let changes = rig.settle();
        assert_eq!(changes.len(), 1);
        assert_eq!((changes[0].old.as_str(), changes[0].new.as_str()), ("NO_HRTICK", "HRTICK"));
    }

    #[test]
    fn a_file_that_refuses_is_told_and_left_for_a_minute() {
        let mut rig = Rig::new();
        rig.fake.fail(FACTOR, Some(Errno::ACCESS));
        rig.files.post("system", wish(File::whole(format!("/{FACTOR}")), "150"));
        assert!(rig.settle()[0].error.is_some());
        assert_eq!(rig.files.settle(rig.now + Duration::from_secs(1)), []);
        rig.fake.fail(FACTOR, None);
        rig.settle();
        assert_eq!(rig.fake.text(FACTOR).unwrap(), "150");
    }
}
