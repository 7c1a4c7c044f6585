//! The kernel's watches on directories.
//!
//! A control group that is removed does not end the watch on it, as a directory of a disk does: the
//! kernel says nothing and keeps the watch. Whoever learns of the removal must take it off.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

/// Room for about a hundred events at a time.
const BUFFER: usize = 8 << 10;

/// Why the reader was woken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Woken {
    Came {
        dir: PathBuf,
        name: String,
    },
    Went {
        dir: PathBuf,
        name: String,
    },
    /// The watched directory itself is gone.
    Ended {
        dir: PathBuf,
    },
    /// Events were lost.
    Overflow,
}

#[derive(Debug)]
pub(super) struct Watches {
    inotify: OwnedFd,
    dirs: HashMap<i32, PathBuf>,
    watches: HashMap<PathBuf, i32>,
    buffer: Box<[MaybeUninit<u8>]>,
}

impl AsFd for Watches {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

impl Watches {
    pub(super) fn new() -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let buffer = vec![MaybeUninit::uninit(); BUFFER].into_boxed_slice();
        Ok(Self { inotify, dirs: HashMap::new(), watches: HashMap::new(), buffer })
    }

    /// Watches `dir`, and says whether that is news: it was not watched, or was made anew.
    pub(super) fn add(&mut self, dir: &Path) -> io::Result<bool> {
        let flags = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::ONLYDIR;
        let watch = inotify::add_watch(&self.inotify, dir, flags)?;
        if self.watches.get(dir) == Some(&watch) {
            return Ok(false);
        }
        self.remove(dir);
        self.dirs.insert(watch, dir.to_path_buf());
        self.watches.insert(dir.to_path_buf(), watch);
        Ok(true)
    }

    /// Takes the watch off a directory, which may be gone.
    pub(super) fn remove(&mut self, dir: &Path) {
        if let Some(watch) = self.watches.remove(dir) {
            self.dirs.remove(&watch);
            // The kernel may have been faster.
            let _ = inotify::remove_watch(&self.inotify, watch);
        }
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.watches.len()
    }

    /// Everything that is queued. Files are left out: only directories are control groups.
    pub(super) fn drain(&mut self) -> io::Result<Vec<Woken>> {
        let mut woken = Vec::new();
        let mut reader = Reader::new(&self.inotify, &mut self.buffer);
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => return Ok(woken),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let kind = event.events();
            if kind.contains(ReadFlags::QUEUE_OVERFLOW) {
                woken.push(Woken::Overflow);
                continue;
            }
            if kind.contains(ReadFlags::IGNORED) {
                if let Some(dir) = self.dirs.remove(&event.wd()) {
                    self.watches.remove(&dir);
                    woken.push(Woken::Ended { dir });
                }
                continue;
            }
            let name = event.file_name().and_then(|name| name.to_str().ok());
            let (Some(dir), Some(name)) = (self.dirs.get(&event.wd()), name) else { continue };
            if !kind.contains(ReadFlags::ISDIR) {
                continue;
            }
            let (dir, name) = (dir.clone(), name.to_owned());
            if kind.contains(ReadFlags::CREATE) {
                woken.push(Woken::Came { dir, name });
            } else if kind.contains(ReadFlags::DELETE) {
                woken.push(Woken::Went { dir, name });
            }
        }
    }
}
