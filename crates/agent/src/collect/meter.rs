//! How many system calls does collecting take? A host that counts what goes through it.
//!
//! Every method of [`HostFs`] and every read of an open file is one system call or a known few; this is
//! what `tidepool bench agent` reports.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use host::fs::{Entry, HostFs, Source};

/// Counts system calls and open files.
#[derive(Debug, Clone, Default)]
pub struct Meter(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    calls: AtomicU64,
    open: AtomicU64,
}

impl Meter {
    /// System calls so far.
    pub fn count(&self) -> u64 {
        self.0.calls.load(Ordering::Relaxed)
    }

    /// Files that are open now.
    pub fn open_files(&self) -> u64 {
        self.0.open.load(Ordering::Relaxed)
    }

    /// Counts system calls that were made elsewhere.
    pub fn add(&self, calls: u64) {
        self.0.calls.fetch_add(calls, Ordering::Relaxed);
    }
}

/// A host whose use is counted.
#[derive(Debug)]
pub struct MeteredFs<F> {
    inner: F,
    meter: Meter,
}

impl<F: HostFs> MeteredFs<F> {
    pub fn new(inner: F, meter: Meter) -> Self {
        Self { inner, meter }
    }
}

impl<F: HostFs> HostFs for MeteredFs<F> {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        self.meter.add(1);
        let inner = self.inner.open(path)?;
        self.meter.0.open.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Metered { inner, meter: self.meter.clone() }))
    }

    fn write(&self, path: &Path, value: &str) -> io::Result<()> {
        // Open, write, close.
        self.meter.add(3);
        self.inner.write(path, value)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        // Open, two reads of a short directory, stat, close.
        self.meter.add(5);
        self.inner.list(dir)
    }

    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        self.meter.add(1);
        self.inner.make_dir(dir)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.meter.add(1);
        self.inner.remove_dir(dir)
    }

    fn replace_file(&self, path: &Path, text: &str) -> io::Result<()> {
        // Open, write, sync, close, rename; open, sync, close the directory.
        self.meter.add(8);
        self.inner.replace_file(path, text)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.meter.add(1);
        self.inner.remove_file(path)
    }

    fn exists(&self, path: &Path) -> bool {
        self.meter.add(1);
        self.inner.exists(path)
    }

    fn real_path(&self, path: &Path) -> Option<PathBuf> {
        self.inner.real_path(path)
    }
}

/// An open file whose reads, and whose end, are counted.
#[derive(Debug)]
struct Metered {
    inner: Box<dyn Source>,
    meter: Meter,
}

impl Source for Metered {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.meter.add(1);
        self.inner.read_at(buffer, offset)
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        self.meter.add(1);
        self.meter.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
