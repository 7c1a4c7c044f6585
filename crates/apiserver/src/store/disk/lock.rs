//! Who holds the store, and how far had it come?
//!
//! The lock file beside the database is locked by the kernel for as long as the
//! process lives, so it needs no cleaning up after a crash. Its text says who
//! holds it, and the last revision that was acknowledged:
//!
//! ```text
//! pid 0000004711
//! revision 00000000000000123456
//! ```
//!
//! The revision is written after the database has been synced and is not synced
//! itself. So it may be behind the database, after a power failure, but never
//! ahead of it: a database that is behind has lost something.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    process,
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use crate::store::{error::OpenError, key::Revision};

/// Where the revision's digits start in the text.
const REVISION_AT: u64 = "pid 0000000000\nrevision ".len() as u64;

#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock; also says which revision was acknowledged last, if known.
    pub(super) fn acquire(dir: &Path) -> Result<(Self, Option<Revision>), OpenError> {
        let path = dir.join("lock");
        let io_error = |source| OpenError::Io { path: path.clone(), source };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(io_error)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(OpenError::Locked { pid: holder(&file), path }),
            Err(errno) => return Err(io_error(errno.into())),
        }
        let acknowledged = acknowledged(&file).map_err(io_error)?;
        let lock = Self { file };
        lock.introduce(acknowledged).map_err(io_error)?;
        Ok((lock, acknowledged))
    }

    fn introduce(&self, acknowledged: Option<Revision>) -> io::Result<()> {
        let pid = process::id();
        let revision = acknowledged.map_or(0, |revision| revision.0);
        let text = format!("pid {pid:010}\nrevision {revision:020}\n");
        self.file.write_all_at(text.as_bytes(), 0)
    }

    /// Notes that a revision is on disk.
    pub(super) fn acknowledge(&self, revision: Revision) {
        // The note only helps to find out about damage: a write must not fail for it.
        let _ = self.file.write_all_at(format!("{:020}", revision.0).as_bytes(), REVISION_AT);
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a child that was forked and has not yet replaced
        // its image shares the open file, and with it the lock.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

fn holder(file: &File) -> Option<u32> {
    let mut digits = [0; 10];
    file.read_exact_at(&mut digits, "pid ".len() as u64).ok()?;
    str::from_utf8(&digits).ok()?.parse().ok()
}

fn acknowledged(file: &File) -> io::Result<Option<Revision>> {
    let mut digits = [0; 20];
    match file.read_exact_at(&mut digits, REVISION_AT) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let revision = str::from_utf8(&digits).ok().and_then(|digits| digits.parse().ok());
    Ok(revision.filter(|revision| *revision > 0).map(Revision))
}
