//! The kernel's watches on directories.

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
        Ok(Self { inotify, dirs: HashMap::new(), buffer })
    }

    /// Watches `dir`; again is harmless, and follows a directory made anew under its old name.
    pub(super) fn add(&mut self, dir: &Path) -> io::Result<()> {
        let flags = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::ONLYDIR;
        let watch = inotify::add_watch(&self.inotify, dir, flags)?;
        self.dirs.insert(watch, dir.to_path_buf());
        Ok(())
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
                let dir = self.dirs.remove(&event.wd());
                woken.extend(dir.map(|dir| Woken::Ended { dir }));
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
