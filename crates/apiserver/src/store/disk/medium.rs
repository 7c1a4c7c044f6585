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

#[derive(Debug, Clone)]
pub(super) enum Step {
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

    /// What was noted so far.
    #[cfg(test)]
    pub(super) fn steps(&self) -> Vec<Step> {
        match &*self.0.mode.lock() {
            Mode::Noting(notes) => notes.steps.clone(),
            Mode::Writing | Mode::Sealed => Vec::new(),
        }
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
        let within = |len: u64| usize::try_from(len.clamp(offset, end) - offset).unwrap_or(0);
        let (present, _) = out.split_at_mut(within(file.metadata()?.len()));
        file.read_exact_at(present, offset)?;
        for step in &self.steps {
            match step {
                // What a shorter file has lost stays lost when it grows again.
                Step::SetLen(len) => out.iter_mut().skip(within(*len)).for_each(|byte| *byte = 0),
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

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Op {
        SetLen(usize),
        Write { offset: usize, data: Vec<u8> },
        Sync,
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (0..300usize).prop_map(Op::SetLen),
            (0..300usize, prop::collection::vec(any::<u8>(), 1..80))
                .prop_map(|(offset, data)| Op::Write { offset, data }),
            Just(Op::Sync),
        ]
    }

    fn apply(content: &mut Vec<u8>, op: &Op) {
        match op {
            Op::SetLen(len) => content.resize(*len, 0),
            Op::Write { offset, data } => {
                let end = offset + data.len();
                content.resize(content.len().max(end), 0);
                content[*offset..end].copy_from_slice(data);
            }
            Op::Sync => {}
        }
    }

    proptest! {
        /// Until it is released the file is untouched, and nobody can tell.
        #[test]
        fn notes_read_like_the_file_they_will_make(
            start in prop::collection::vec(any::<u8>(), 0..200),
            ops in prop::collection::vec(op(), 0..12),
            looks in prop::collection::vec((0..320usize, 1..100usize), 8),
        ) {
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), &start).unwrap();
            let medium = Medium::noting(file.reopen().unwrap()).unwrap();
            let mut want = start.clone();
            for op in &ops {
                apply(&mut want, op);
                match op {
                    Op::SetLen(len) => medium.set_len(*len as u64).unwrap(),
                    Op::Write { offset, data } => medium.write(*offset as u64, data).unwrap(),
                    Op::Sync => medium.sync_data().unwrap(),
                }
            }
            prop_assert_eq!(medium.len().unwrap(), want.len() as u64);
            prop_assert_eq!(&fs::read(file.path()).unwrap(), &start);
            let check = |medium: &Medium| {
                for (offset, len) in &looks {
                    let mut out = vec![1; *len];
                    let read = medium.read(*offset as u64, &mut out);
                    match want.get(*offset..*offset + *len) {
                        Some(want) => prop_assert_eq!(out, want),
                        None => prop_assert!(read.is_err()),
                    }
                }
                Ok(())
            };
            check(&medium)?;
            medium.release().unwrap();
            prop_assert_eq!(&fs::read(file.path()).unwrap(), &want);
            check(&medium)?;
        }
    }

    #[test]
    fn a_sealed_medium_is_read_only() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), b"abc").unwrap();
        let medium = Medium::noting(file.reopen().unwrap()).unwrap();
        medium.write(0, b"x").unwrap();
        medium.seal();
        assert!(medium.write(0, b"y").is_err());
        assert!(medium.set_len(0).is_err());
        assert!(medium.sync_data().is_err());
        medium.release().unwrap();
        let mut out = [0; 3];
        medium.read(0, &mut out).unwrap();
        assert_eq!((&out, medium.len().unwrap()), (b"abc", 3));
    }
}
