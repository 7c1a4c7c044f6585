//! How does everything here reach the kernel's files?
//!
//! Through [`HostFs`]: [`RealFs`] on a machine, [`FakeFs`] in tests. Paths are those of the host
//! (`/proc/stat`, `/sys/fs/cgroup/...`); the real one knows where the host is mounted.
//!
//! Files that are read every second are opened once, as a [`Source`], and read from the start into a
//! [`Buffer`] that the caller keeps: one system call a file, no allocation.

mod fake;
mod real;

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};

pub use self::fake::{FakeFs, FixtureError};
pub use self::real::{Mounts, RealFs};

/// No kernel file we know is larger; reading stops here.
pub const LARGEST_FILE: usize = 4 << 20;

/// The few file operations that are needed on a host.
pub trait HostFs: Debug + Send + Sync {
    /// Opens a file for reading again and again.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>>;

    /// Hands the whole value to the kernel at once. The file must exist.
    fn write(&self, path: &Path, value: &str) -> io::Result<()>;

    /// What is in a directory, sorted by name.
    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>>;

    /// Makes one directory: a cgroup or a resctrl group.
    fn make_dir(&self, dir: &Path) -> io::Result<()>;

    /// Removes one directory; the kernel's files in it do not count as content.
    fn remove_dir(&self, dir: &Path) -> io::Result<()>;

    /// Replaces a file that is no kernel file, whole or not at all; its directories are made.
    fn replace_file(&self, path: &Path, text: &str) -> io::Result<()>;

    /// Removes a file that is no kernel file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    fn exists(&self, path: &Path) -> bool;

    /// Where the path is for system calls of our own (inotify, perf); `None` on a fake.
    fn real_path(&self, path: &Path) -> Option<PathBuf>;

    /// The whole of a file that is not read often.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut buffer = Buffer::new();
        let text = buffer.read_all(&*self.open(path)?)?;
        Ok(text.to_vec())
    }
}

/// A file kept open.
pub trait Source: Debug + Send {
    /// Reads bytes from `offset` on. Fewer than fit do not mean the end; none do.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub name: String,
    /// A directory, or a link that may lead to one.
    pub is_dir: bool,
}

/// Room for the content of a file, kept between reads. It grows to the largest file read.
#[derive(Debug)]
pub struct Buffer {
    room: Vec<u8>,
}

impl Default for Buffer {
    fn default() -> Self {
        Self::new()
    }
}

impl Buffer {
    /// Large enough for every file of a cgroup.
    const START: usize = 8 << 10;

    pub fn new() -> Self {
        Self { room: vec![0; Self::START] }
    }

    /// Reads a file that the kernel writes as one record (`cpu.stat`, `memory.stat`, PSI, sysfs).
    ///
    /// Such a file comes whole with the first read that has room for it, so a short read is its end.
    pub fn read_record(&mut self, source: &dyn Source) -> io::Result<&[u8]> {
        loop {
            let length = source.read_at(&mut self.room, 0)?;
            if length < self.room.len() {
                return Ok(self.room.get(..length).unwrap_or_default());
            }
            self.grow()?;
        }
    }

    /// Reads a file of many records (`cgroup.procs`, mount tables), which comes a page at a time.
    pub fn read_all(&mut self, source: &dyn Source) -> io::Result<&[u8]> {
        let mut length = 0;
        loop {
            if length == self.room.len() {
                self.grow()?;
            }
            let free = self.room.get_mut(length..).unwrap_or_default();
            let offset = u64::try_from(length).unwrap_or(u64::MAX);
            match source.read_at(free, offset)? {
                0 => return Ok(self.room.get(..length).unwrap_or_default()),
                more => length += more,
            }
        }
    }

    fn grow(&mut self) -> io::Result<()> {
        if self.room.len() >= LARGEST_FILE {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.room.resize(self.room.len() * 2, 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives out at most `step` bytes a read, as a file of many records does.
    #[derive(Debug)]
    struct Steps {
        content: Vec<u8>,
        step: usize,
    }

    impl Source for Steps {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            let rest = self.content.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
            let length = rest.len().min(self.step).min(buffer.len());
            buffer[..length].copy_from_slice(&rest[..length]);
            Ok(length)
        }
    }

    #[test]
    fn a_record_larger_than_the_buffer_is_read_whole() {
        let content: Vec<u8> = (0..100_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let source = Steps { content: content.clone(), step: usize::MAX };
        assert_eq!(Buffer::new().read_record(&source).unwrap(), content);
    }

    #[test]
    fn many_records_are_put_together() {
        let content: Vec<u8> = (0..20_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let source = Steps { content: content.clone(), step: 4_000 };
        assert_eq!(Buffer::new().read_all(&source).unwrap(), content);
        assert_eq!(Buffer::new().read_record(&source).unwrap().len(), 4_000);
    }

    #[test]
    fn a_file_without_an_end_is_refused() {
        #[derive(Debug)]
        struct Endless;
        impl Source for Endless {
            fn read_at(&self, buffer: &mut [u8], _offset: u64) -> io::Result<usize> {
                Ok(buffer.len())
            }
        }
        let refused = |error: io::Error| error.kind() == io::ErrorKind::FileTooLarge;
        assert!(Buffer::new().read_record(&Endless).is_err_and(refused));
        assert!(Buffer::new().read_all(&Endless).is_err_and(refused));
    }
}
