//! A host made of one text file, for tests.
//!
//! It holds what the text says and obeys the kernel where we depend on it: cgroups can be made and
//! removed, values are checked and shown back the way the kernel does ([`rules`]), a file of a removed
//! cgroup answers `ENODEV` to those who still have it open, and any file can be made to fail.

mod fixture;
mod group;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

pub use self::fixture::FixtureError;
use super::{Entry, HostFs, Source};

/// A host in memory. Clones share it, so a test can change what the code under test reads.
#[derive(Debug, Clone, Default)]
pub struct FakeFs {
    tree: Arc<Mutex<Tree>>,
}

/// Paths are without the leading slash.
#[derive(Debug, Default)]
struct Tree {
    files: BTreeMap<PathBuf, Vec<u8>>,
    dirs: BTreeSet<PathBuf>,
    failing: BTreeMap<PathBuf, Errno>,
}

impl FakeFs {
    /// Reads the text form: `-- path --` lines, each followed by the content of that file.
    pub fn from_fixture(text: &str) -> Result<Self, FixtureError> {
        let fake = Self::default();
        for (path, content) in fixture::parse(text)? {
            fake.set(path, content);
        }
        Ok(fake)
    }

    /// Makes every use of this file fail.
    #[must_use]
    pub fn failing(self, path: impl AsRef<Path>, errno: Errno) -> Self {
        self.fail(path, Some(errno));
        self
    }

    /// Makes every use of this file fail, or work again.
    pub fn fail(&self, path: impl AsRef<Path>, errno: Option<Errno>) {
        let path = key(path.as_ref());
        let mut tree = self.lock();
        match errno {
            Some(errno) => tree.failing.insert(path, errno),
            None => tree.failing.remove(&path),
        };
    }

    /// Puts a file there, whatever the kernel would say.
    pub fn set(&self, path: impl AsRef<Path>, content: impl Into<Vec<u8>>) {
        let path = key(path.as_ref());
        let mut tree = self.lock();
        tree.dirs.extend(path.ancestors().skip(1).map(Path::to_owned));
        tree.files.insert(path, content.into());
    }

    /// Takes a file or a whole directory away.
    pub fn remove(&self, path: impl AsRef<Path>) {
        let path = key(path.as_ref());
        let mut tree = self.lock();
        tree.files.retain(|file, _| !file.starts_with(&path));
        tree.dirs.retain(|dir| !dir.starts_with(&path));
    }

    /// What a file holds, without the newline at the end; `None` when it is absent.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let tree = self.lock();
        let content = tree.files.get(&key(path.as_ref()))?;
        Some(String::from_utf8_lossy(content).trim_end_matches('\n').to_owned())
    }

    /// The host as text again, sorted by path.
    pub fn to_fixture(&self) -> String {
        fixture::print(&self.lock().files)
    }

    fn lock(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tree {
    fn fails(&self, path: &Path) -> Result<(), Errno> {
        self.failing.get(path).map_or(Ok(()), |errno| Err(*errno))
    }

    /// The file's content as text; empty when it is absent.
    fn text(&self, path: &Path) -> String {
        let content = self.files.get(path).map(Vec::as_slice).unwrap_or_default();
        String::from_utf8_lossy(content).trim_end().to_owned()
    }

    fn put(&mut self, path: PathBuf, text: impl Into<String>) {
        let mut text = text.into();
        text.push('\n');
        self.files.insert(path, text.into_bytes());
    }

    fn children(&self, dir: &Path) -> Vec<PathBuf> {
        self.dirs.iter().filter(|child| child.parent() == Some(dir)).cloned().collect()
    }
}

impl HostFs for FakeFs {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        let path = key(path);
        let tree = self.lock();
        // A read that fails does so after the open, as with the kernel; only a missing file and a
        // missing right show at once.
        match tree.fails(&path) {
            Err(errno @ (Errno::NOENT | Errno::ACCESS | Errno::PERM | Errno::MFILE)) => {
                return Err(errno.into());
            }
            _ if !tree.files.contains_key(&path) => return Err(Errno::NOENT.into()),
            _ => {}
        }
        Ok(Box::new(Kept { tree: Arc::clone(&self.tree), path }))
    }

    fn write(&self, path: &Path, value: &str) -> io::Result<()> {
        let path = key(path);
        let mut tree = self.lock();
        tree.fails(&path)?;
        if !tree.files.contains_key(&path) {
            return Err(Errno::NOENT.into());
        }
        Ok(rules::write(&mut tree, &path, value)?)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let dir = key(dir);
        let tree = self.lock();
        tree.fails(&dir)?;
        if !tree.dirs.contains(&dir) {
            return Err(Errno::NOENT.into());
        }
        let files = tree.files.keys().map(|file| (file, false));
        let dirs = tree.dirs.iter().map(|dir| (dir, true));
        let mut found: Vec<Entry> = files
            .chain(dirs)
            .filter(|(path, _)| path.parent() == Some(&dir))
            .filter_map(|(path, is_dir)| {
                Some(Entry { name: path.file_name()?.to_str()?.to_owned(), is_dir })
            })
            .collect();
        found.sort();
        Ok(found)
    }

    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        let dir = key(dir);
        let mut tree = self.lock();
        tree.fails(&dir)?;
        Ok(group::make(&mut tree, &dir)?)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        let dir = key(dir);
        let mut tree = self.lock();
        tree.fails(&dir)?;
        Ok(group::remove(&mut tree, &dir)?)
    }

    fn replace_file(&self, path: &Path, text: &str) -> io::Result<()> {
        self.lock().fails(&key(path))?;
        self.set(path, text);
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let path = key(path);
        let mut tree = self.lock();
        tree.fails(&path)?;
        tree.files.remove(&path).map(drop).ok_or_else(|| Errno::NOENT.into())
    }

    fn exists(&self, path: &Path) -> bool {
        let path = key(path);
        let tree = self.lock();
        tree.files.contains_key(&path) || tree.dirs.contains(&path)
    }

    fn real_path(&self, _path: &Path) -> Option<PathBuf> {
        None
    }
}

/// A file that stays open while the host changes.
#[derive(Debug)]
struct Kept {
    tree: Arc<Mutex<Tree>>,
    path: PathBuf,
}

impl Source for Kept {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let tree = self.tree.lock().unwrap_or_else(PoisonError::into_inner);
        tree.fails(&self.path)?;
        let content = tree.files.get(&self.path).ok_or(Errno::NODEV)?;
        let rest = usize::try_from(offset).ok().and_then(|offset| content.get(offset..));
        let rest = rest.unwrap_or_default();
        let length = rest.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(rest) {
            *to = *from;
        }
        Ok(length)
    }
}

/// The path as it is kept: no leading slash, no dots, no double slashes.
fn key(path: &Path) -> PathBuf {
    path.components().filter(|part| matches!(part, Component::Normal(_))).collect()
}
