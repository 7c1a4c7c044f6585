//! The audit log's files: `audit.log`, and older ones by the time at which they were put aside.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tracing::warn;

use super::Record;
use crate::durable::PRIVATE;

/// A file this large is put aside.
const ROTATE: u64 = 2 << 20;

/// Lines waiting for the disk take no more room than this; newer ones are dropped.
const MAX_WAITING: usize = 1 << 20;

const CURRENT: &str = "audit.log";

/// Where files are kept and how many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// `--audit-log-dir`.
    pub dir: PathBuf,
    /// `--audit-max-disk-space-mb`.
    pub max_disk_mib: u64,
}

/// Lines that are not in a file yet.
#[derive(Debug)]
pub(super) struct Log {
    settings: LogSettings,
    waiting: Vec<u8>,
    dropped: u64,
    /// Whether the operator knows that the log cannot be written.
    told: bool,
    rotated: u32,
}

/// Lines on their way to the file.
#[derive(Debug)]
pub(super) struct Batch {
    settings: LogSettings,
    lines: Vec<u8>,
    rotated: u32,
}

impl Log {
    pub(super) fn new(settings: LogSettings) -> Self {
        Self { settings, waiting: Vec::new(), dropped: 0, told: false, rotated: 0 }
    }

    pub(super) fn add(&mut self, record: &Record) {
        let Ok(line) = serde_json::to_vec(record) else { return };
        if self.waiting.len() + line.len() >= MAX_WAITING {
            self.dropped += 1;
            return;
        }
        self.waiting.extend(line);
        self.waiting.push(b'\n');
    }

    pub(super) fn take(&mut self) -> Batch {
        Batch {
            settings: self.settings.clone(),
            lines: std::mem::take(&mut self.waiting),
            rotated: self.rotated,
        }
    }

    /// Lines of a failed batch are lost: waiting for a disk would cost memory without end.
    pub(super) fn put_back(&mut self, batch: Batch, result: io::Result<()>) {
        self.rotated = batch.rotated;
        match result {
            Ok(()) => {
                if self.dropped > 0 {
                    warn!(dropped = self.dropped, "audit records were lost");
                    self.dropped = 0;
                }
                self.told = false;
            }
            Err(error) => {
                self.dropped += 1;
                if !std::mem::replace(&mut self.told, true) {
                    warn!(path = %self.settings.dir.display(), %error, "cannot write the audit log");
                }
            }
        }
    }
}

impl Batch {
    /// Appends the lines, after putting a full file aside.
    pub(super) fn write(&mut self, now: Timestamp) -> io::Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let dir = &self.settings.dir;
        fs::create_dir_all(dir)?;
        let current = dir.join(CURRENT);
        if fs::metadata(&current).is_ok_and(|file| file.len() >= ROTATE) {
            self.rotated = self.rotated.wrapping_add(1);
            let time = now.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d-%H-%M-%S").to_string();
            fs::rename(&current, dir.join(format!("audit-{time}-{}.log", self.rotated)))?;
            self.remove_old()?;
        }
        let mut file = OpenOptions::new().create(true).append(true).mode(PRIVATE).open(&current)?;
        file.write_all(&self.lines)
    }

    /// Removes the oldest files: their names sort by age.
    fn remove_old(&self) -> io::Result<()> {
        let mut old = Vec::new();
        for entry in fs::read_dir(&self.settings.dir)? {
            let name = entry?.file_name().into_string().unwrap_or_default();
            if name.starts_with("audit-") && name.ends_with(".log") {
                old.push(name);
            }
        }
        old.sort();
        let keep = usize::try_from(self.settings.max_disk_mib / 2).unwrap_or(usize::MAX);
        // The current file is one of those that may be kept.
        let excess = (old.len() + 1).saturating_sub(keep.max(1));
        for name in old.iter().take(excess) {
            fs::remove_file(self.settings.dir.join(name))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(log: &mut Log, second: i64) {
        let mut batch = log.take();
        let result = batch.write(Timestamp::from_second(second).unwrap());
        log.put_back(batch, result);
    }

    fn names(dir: &std::path::Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn full_files_are_put_aside_and_old_ones_removed() {
        let dir = tempfile::tempdir().unwrap();
        let settings = LogSettings { dir: dir.path().join("logs"), max_disk_mib: 6 };
        let mut log = Log::new(settings.clone());
        let record = Record::node(Timestamp::UNIX_EPOCH, 0, "r", "m".repeat(1 << 19));
        for second in 0..18 {
            log.add(&record);
            write(&mut log, second);
        }
        assert_eq!(
            names(&settings.dir),
            ["audit-1970-01-01-00-00-12-3.log", "audit-1970-01-01-00-00-16-4.log", "audit.log"]
        );
        let text = fs::read_to_string(settings.dir.join(CURRENT)).unwrap();
        assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    }

    #[test]
    fn a_log_that_cannot_be_written_loses_lines_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let mut log = Log::new(LogSettings { dir: file.clone(), max_disk_mib: 16 });
        log.add(&Record::node(Timestamp::UNIX_EPOCH, 0, "lost", ""));
        write(&mut log, 0);
        assert!(log.told && log.waiting.is_empty());
        fs::remove_file(&file).unwrap();
        log.add(&Record::node(Timestamp::UNIX_EPOCH, 0, "kept", ""));
        write(&mut log, 1);
        let text = fs::read_to_string(file.join(CURRENT)).unwrap();
        assert!(text.contains("kept") && !text.contains("lost"), "{text}");
    }
}
