//! How can a damaged file be opened without making it worse?
//!
//! redb repairs a file while it opens it, before anybody has looked at what
//! came out. So until the content has been checked, everything redb writes is
//! only noted, and read back from the notes. Then either the notes are written
//! to the file in redb's own order, or the file is left as it was found.
//!
//! A medium can also be sealed: it refuses further writes. We seal it before
//! every close, which keeps redb from marking the file as cleanly closed. Such a
//! mark would make the next start trust pages without verifying them, and redb
//! panics on pages that lie. Without it every start is a start after a crash:
//! one path, verified from the root to the last page.

use std::{fs::File, io, os::unix::fs::FileExt, sync::Arc};

use parking_lot::Mutex;
use redb::StorageBackend;

/// A file under redb; clones share it.
#[derive(Debug, Clone)]
pub(super) struct Medium(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: File,
    mode: Mutex<Mode>,
}

#[derive(Debug)]
enum Mode {
    Noting(Notes),
    Writing,
    Sealed,
}

#[derive(Debug)]
struct Notes {
    len: u64,
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    SetLen(u64),
    Write { offset: u64, data: Vec<u8> },
    Sync,
}

impl Medium {
    /// Takes notes instead of writing.
    pub(super) fn noting(file: File) -> io::Result<Self> {
        let notes = Notes { len: file.metadata()?.len(), steps: Vec::new() };
        Ok(Self(Arc::new(Inner { file, mode: Mutex::new(Mode::Noting(notes)) })))
    }

    /// Writes through.
    pub(super) fn writing(file: File) -> Self {
        Self(Arc::new(Inner { file, mode: Mutex::new(Mode::Writing) }))
    }

    /// Writes what was noted, and writes through from now on.
    pub(super) fn release(&self) -> io::Result<()> {
        let mut mode = self.0.mode.lock();
        if let Mode::Noting(notes) = &*mode {
            for step in &notes.steps {
                match step {
                    Step::SetLen(len) => self.0.file.set_len(*len)?,
                    Step::Write { offset, data } => self.0.file.write_all_at(data, *offset)?,
                    Step::Sync => self.0.file.sync_data()?,
                }
            }
            *mode = Mode::Writing;
        }
        Ok(())
    }

    /// Refuses writes from now on and forgets what was noted.
    pub(super) fn seal(&self) {
        *self.0.mode.lock() = Mode::Sealed;
    }
}

fn sealed() -> io::Error {
    io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "the file is being closed")
}

impl Notes {
    /// Reads the file as it would be, had the steps been taken.
    fn read(&self, file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset.saturating_add(out.len() as u64);
        if end > self.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        out.fill(0);
        let mut valid = file.metadata()?.len();
        let present = valid.clamp(offset, end) - offset;
        let (head, _) = out.split_at_mut(usize::try_from(present).unwrap_or(0));
        file.read_exact_at(head, offset)?;
        for step in &self.steps {
            match step {
                Step::SetLen(len) => {
                    // What a shorter file has lost stays lost when it grows again.
                    let cut = usize::try_from(len.clamp(&offset, &end) - offset).unwrap_or(0);
                    if *len < valid {
                        out.iter_mut().skip(cut).for_each(|byte| *byte = 0);
                    }
                    valid = *len;
                }
                Step::Write { offset: at, data } => overlay(out, offset, data, *at),
                Step::Sync => {}
            }
        }
        Ok(())
    }
}

/// Copies the part of `data` (which starts at `at`) that `out` (at `offset`) covers.
fn overlay(out: &mut [u8], offset: u64, data: &[u8], at: u64) {
    let skip_out = usize::try_from(at.saturating_sub(offset)).unwrap_or(usize::MAX);
    let skip_data = usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX);
    for (to, from) in out.iter_mut().skip(skip_out).zip(data.iter().skip(skip_data)) {
        *to = *from;
    }
}

impl StorageBackend for Medium {
    fn len(&self) -> io::Result<u64> {
        match &*self.0.mode.lock() {
            Mode::Noting(notes) => Ok(notes.len),
            Mode::Writing | Mode::Sealed => Ok(self.0.file.metadata()?.len()),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match &*self.0.mode.lock() {
            Mode::Noting(notes) => notes.read(&self.0.file, offset, out),
            Mode::Writing | Mode::Sealed => self.0.file.read_exact_at(out, offset),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        match &mut *self.0.mode.lock() {
            Mode::Noting(notes) => {
                notes.len = len;
                notes.steps.push(Step::SetLen(len));
                Ok(())
            }
            Mode::Writing => self.0.file.set_len(len),
            Mode::Sealed => Err(sealed()),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        match &mut *self.0.mode.lock() {
            Mode::Noting(notes) => {
                notes.steps.push(Step::Sync);
                Ok(())
            }
            Mode::Writing => self.0.file.sync_data(),
            Mode::Sealed => Err(sealed()),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        match &mut *self.0.mode.lock() {
            Mode::Noting(notes) => {
                notes.len = notes.len.max(offset.saturating_add(data.len() as u64));
                notes.steps.push(Step::Write { offset, data: data.to_vec() });
                Ok(())
            }
            Mode::Writing => self.0.file.write_all_at(data, offset),
            Mode::Sealed => Err(sealed()),
        }
    }
}
