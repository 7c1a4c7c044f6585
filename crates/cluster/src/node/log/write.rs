//! Turning bytes from two pipes into a log file of bounded size.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use jiff::Timestamp;

use super::line::{Line, Stream};
use super::rotated;
use crate::node::record::{LogFile, make_private_dirs};

/// A longer line is written in parts, as containerd does.
const MAX_LINE: usize = 16 << 10;

/// Appends to a log file and rotates it.
#[derive(Debug)]
pub(crate) struct Writer {
    target: LogFile,
    /// `None` while the file cannot be opened: output is lost rather than the container stopped.
    file: Option<File>,
    size: u64,
    /// The unfinished line of each stream.
    open: [Vec<u8>; 2],
    lines: Vec<u8>,
}

impl Writer {
    pub(crate) fn new(target: LogFile) -> Self {
        let mut writer =
            Self { target, file: None, size: 0, open: [Vec::new(), Vec::new()], lines: Vec::new() };
        writer.reopen();
        writer
    }

    fn reopen(&mut self) {
        let opened = open(&self.target.path);
        self.size =
            opened.as_ref().ok().and_then(|file| file.metadata().ok()).map_or(0, |m| m.len());
        self.file = opened.ok();
    }

    /// Takes what was read from a pipe.
    pub(crate) fn push(&mut self, stream: Stream, bytes: &[u8], now: Timestamp) {
        let time = stamp(now);
        let mut open = std::mem::take(&mut self.open[stream as usize]);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (content, is_whole) = match piece.split_last() {
                Some((b'\n', content)) => (content, true),
                _ => (piece, false),
            };
            open.extend_from_slice(content);
            while open.len() > MAX_LINE {
                let rest = open.split_off(MAX_LINE);
                self.line(&time, stream, true, &open);
                open = rest;
            }
            if is_whole {
                self.line(&time, stream, false, &open);
                open.clear();
            }
        }
        self.open[stream as usize] = open;
        self.flush();
    }

    /// Writes what is left of a line that never ended.
    pub(crate) fn finish(&mut self, stream: Stream, now: Timestamp) {
        let open = std::mem::take(&mut self.open[stream as usize]);
        if !open.is_empty() {
            self.line(&stamp(now), stream, true, &open);
            self.flush();
        }
    }

    fn line(&mut self, time: &str, stream: Stream, is_part: bool, content: &[u8]) {
        Line { time, stream, is_part, content }.write(&mut self.lines);
    }

    fn flush(&mut self) {
        if self.file.is_none() {
            self.reopen();
        }
        if let Some(file) = &mut self.file
            && file.write_all(&self.lines).is_ok()
        {
            self.size += self.lines.len() as u64;
        }
        self.lines.clear();
        if self.size >= self.target.max_bytes {
            self.rotate();
        }
    }

    /// Puts the file aside and drops the oldest. If that fails the file goes on growing.
    fn rotate(&mut self) {
        let path = &self.target.path;
        let kept = self.target.max_files.saturating_sub(1);
        let shift = || -> io::Result<()> {
            if kept == 0 {
                return File::create(path).map(drop);
            }
            for age in (1..kept).rev() {
                match fs::rename(rotated(path, age), rotated(path, age + 1)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            fs::rename(path, rotated(path, 1))
        };
        if shift().is_ok() {
            self.reopen();
        }
    }
}

fn stamp(now: Timestamp) -> String {
    format!("{now:.9}")
}

fn open(path: &Path) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        make_private_dirs(dir)?;
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer(dir: &Path, max_bytes: u64, max_files: u32) -> Writer {
        Writer::new(LogFile { path: dir.join("log/0.log"), max_bytes, max_files })
    }

    fn now() -> Timestamp {
        "2026-11-15T08:00:00Z".parse().unwrap()
    }

    fn content(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn pieces_become_lines() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = writer(dir.path(), 1 << 20, 2);
        writer.push(Stream::Stdout, b"one\ntw", now());
        writer.push(Stream::Stderr, b"oops\n", now());
        writer.push(Stream::Stdout, b"o\n\nend", now());
        writer.finish(Stream::Stdout, now());
        writer.finish(Stream::Stderr, now());
        let time = "2026-11-15T08:00:00.000000000Z";
        let want = format!(
            "{time} stdout F one\n{time} stderr F oops\n{time} stdout F two\n{time} stdout F \n{time} stdout P end\n"
        );
        assert_eq!(content(&dir.path().join("log/0.log")), want);
    }

    #[test]
    fn long_lines_come_in_parts() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = writer(dir.path(), 1 << 20, 2);
        writer.push(Stream::Stdout, &vec![b'x'; MAX_LINE * 2 + 5], now());
        writer.push(Stream::Stdout, b"\n", now());
        let text = content(&dir.path().join("log/0.log"));
        let shape: Vec<_> = text
            .lines()
            .map(|line| Line::parse(line.as_bytes()).unwrap())
            .map(|line| (line.is_part, line.content.len()))
            .collect();
        assert_eq!(shape, [(true, MAX_LINE), (true, MAX_LINE), (false, 5)]);
    }

    #[test]
    fn files_rotate_at_line_ends_and_the_oldest_goes() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = writer(dir.path(), 60, 3);
        for number in 0..8 {
            writer.push(Stream::Stdout, format!("line {number}\n").as_bytes(), now());
        }
        let path = dir.path().join("log/0.log");
        let numbers = |path: &Path| -> String {
            content(path).lines().filter_map(|line| line.chars().last()).collect()
        };
        assert_eq!(numbers(&rotated(&path, 2)), "45");
        assert_eq!(numbers(&rotated(&path, 1)), "67");
        assert_eq!(numbers(&path), "");
        assert!(!rotated(&path, 3).exists());
    }

    #[test]
    fn one_file_alone_starts_over() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = writer(dir.path(), 60, 1);
        for number in 0..3 {
            writer.push(Stream::Stdout, format!("line {number}\n").as_bytes(), now());
        }
        assert_eq!(content(&dir.path().join("log/0.log")).lines().count(), 1);
        assert!(!rotated(&dir.path().join("log/0.log"), 1).exists());
    }
}
