//! Reading a container's output back, from the end, from a time on, or as it comes.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::stream::{self, BoxStream};
use hyper::body::Bytes;
use jiff::Timestamp;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::line::{Line, Stream};
use super::rotated;

/// What `kubectl logs` can ask for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Go on until the container ends.
    pub follow: bool,
    /// Output of the run before this one.
    pub previous: bool,
    /// Only that many lines from the end.
    pub tail_lines: Option<u64>,
    /// Only what was printed at this time or later.
    pub since: Option<Timestamp>,
    /// Put the time before each line.
    pub timestamps: bool,
    /// End after that many bytes.
    pub limit_bytes: Option<u64>,
    pub streams: StreamChoice,
}

/// Which of the two streams of a container are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StreamChoice {
    #[default]
    All,
    Stdout,
    Stderr,
}

/// Output in pieces of no particular size.
pub type LogStream = BoxStream<'static, io::Result<Bytes>>;

/// How often a followed file is looked at again.
const FOLLOW_PAUSE: Duration = Duration::from_millis(100);

/// Reads the log at `path`. `is_over` tells whether more can still come; it is asked before each
/// look at the file, so nothing written before the end is missed.
pub(crate) fn read(
    path: PathBuf,
    options: LogOptions,
    is_over: impl Fn() -> bool + Send + 'static,
) -> LogStream {
    let follow = options.follow;
    let start = Box::new((Reader::new(path, options), is_over));
    Box::pin(stream::unfold(Some(start), move |state| async move {
        let mut state = state?;
        loop {
            let step = spawn_blocking(move || {
                let is_over = !follow || (state.1)();
                let chunk = state.0.chunk();
                (state, is_over, chunk)
            });
            let (next, is_over, chunk) = match step.await {
                Ok(step) => step,
                Err(error) => return Some((Err(io::Error::other(error)), None)),
            };
            state = next;
            match chunk {
                Ok(chunk) if !chunk.is_empty() => return Some((Ok(chunk.into()), Some(state))),
                Ok(_) if is_over || state.0.is_full() => return None,
                Ok(_) => sleep(FOLLOW_PAUSE).await,
                Err(error) => return Some((Err(error), None)),
            }
        }
    }))
}

/// The end of a log, for the status of a container that failed without last words: at most 80
/// lines and 2048 bytes.
pub(crate) fn last_words(path: &Path) -> String {
    const MAX_LINES: u64 = 80;
    const MAX_BYTES: usize = 2_048;
    let options = LogOptions { tail_lines: Some(MAX_LINES), ..LogOptions::default() };
    let mut reader = Reader::new(path.to_owned(), options);
    let mut text = Vec::new();
    while let Ok(chunk) = reader.chunk()
        && !chunk.is_empty()
    {
        text.extend_from_slice(&chunk);
    }
    let from = text.len().saturating_sub(MAX_BYTES);
    String::from_utf8_lossy(&text[from..]).into_owned()
}

/// Walks through the files of one log, oldest first.
#[derive(Debug)]
struct Reader {
    path: PathBuf,
    options: LogOptions,
    /// Not looked for yet, or the file being read.
    file: Option<File>,
    /// Read and not yet a whole line.
    rest: Vec<u8>,
    /// The line before was a part.
    is_inside: bool,
    left: Option<u64>,
    /// Older files that come before the current one, oldest first.
    waiting: VecDeque<File>,
    is_opened: bool,
}

const BLOCK: usize = 64 << 10;

impl Reader {
    fn new(path: PathBuf, options: LogOptions) -> Self {
        let left = options.limit_bytes;
        Self {
            path,
            options,
            file: None,
            rest: Vec::new(),
            is_inside: false,
            left,
            waiting: VecDeque::new(),
            is_opened: false,
        }
    }

    fn is_full(&self) -> bool {
        self.left == Some(0)
    }

    /// The next piece of output; empty if there is none now.
    fn chunk(&mut self) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        while out.is_empty() && !self.is_full() {
            if !self.is_opened {
                self.open()?;
            }
            let Some(file) = &mut self.file else { break };
            let mut block = vec![0; BLOCK];
            let length = file.read(&mut block)?;
            if length == 0 {
                if self.next_file()? {
                    continue;
                }
                break;
            }
            block.truncate(length);
            self.take(&block, &mut out);
        }
        Ok(out)
    }

    /// Opens all files there are and goes to the first wanted line.
    fn open(&mut self) -> io::Result<()> {
        let mut files: Vec<File> = Vec::new();
        for path in self.files() {
            match File::open(path) {
                Ok(file) => files.push(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        if files.is_empty() {
            return Ok(());
        }
        self.is_opened = true;
        if let Some(lines) = self.options.tail_lines {
            skip_to_tail(&mut files, lines)?;
        }
        self.waiting = files.into();
        self.file = self.waiting.pop_front();
        Ok(())
    }

    /// Oldest first, the current one last.
    fn files(&self) -> Vec<PathBuf> {
        let mut ages = Vec::new();
        for age in 1.. {
            let path = rotated(&self.path, age);
            if !path.exists() {
                break;
            }
            ages.push(path);
        }
        ages.reverse();
        ages.push(self.path.clone());
        ages
    }

    /// Goes on to a file that came after this one; false if this is the newest.
    fn next_file(&mut self) -> io::Result<bool> {
        if let Some(next) = self.waiting.pop_front() {
            self.file = Some(next);
            return Ok(true);
        }
        let Some(current) = self.file.as_ref().map(File::metadata).transpose()? else {
            return Ok(false);
        };
        let is_current = |path: &Path| {
            fs::metadata(path).is_ok_and(|m| (m.dev(), m.ino()) == (current.dev(), current.ino()))
        };
        if is_current(&self.path) || !self.path.exists() {
            return Ok(false);
        }
        let files = self.files();
        let from = files.iter().position(|path| is_current(path)).map_or(0, |at| at + 1);
        for path in &files[from..] {
            if let Ok(file) = File::open(path) {
                self.waiting.push_back(file);
            }
        }
        self.file = self.waiting.pop_front().or(self.file.take());
        Ok(true)
    }

    fn take(&mut self, block: &[u8], out: &mut Vec<u8>) {
        let mut rest = std::mem::take(&mut self.rest);
        rest.extend_from_slice(block);
        let mut from = 0;
        while let Some(length) = rest[from..].iter().position(|byte| *byte == b'\n') {
            if let Some(line) = Line::parse(&rest[from..from + length]) {
                self.print(&line, out);
            }
            from += length + 1;
        }
        rest.drain(..from);
        self.rest = rest;
    }

    fn print(&mut self, line: &Line<'_>, out: &mut Vec<u8>) {
        let is_wanted = match self.options.streams {
            StreamChoice::All => true,
            StreamChoice::Stdout => line.stream == Stream::Stdout,
            StreamChoice::Stderr => line.stream == Stream::Stderr,
        };
        let is_old = |since| line.timestamp().is_some_and(|time| time < since);
        if !is_wanted || self.options.since.is_some_and(is_old) {
            return;
        }
        let start = out.len();
        if self.options.timestamps && !self.is_inside {
            out.extend_from_slice(line.time.as_bytes());
            out.push(b' ');
        }
        out.extend_from_slice(line.content);
        if !line.is_part {
            out.push(b'\n');
        }
        self.is_inside = line.is_part;
        if let Some(left) = &mut self.left {
            let added = out.len() - start;
            let allowed = usize::try_from(*left).map_or(added, |left| left.min(added));
            out.truncate(start + allowed);
            *left = left.saturating_sub(allowed as u64);
        }
    }
}

/// Drops the files before the last `lines` lines, and moves to the first of them in the one where
/// they begin.
fn skip_to_tail(files: &mut Vec<File>, lines: u64) -> io::Result<()> {
    let mut missing = lines;
    for at in (0..files.len()).rev() {
        let (offset, found) = tail_offset(&mut files[at], missing)?;
        files[at].seek(SeekFrom::Start(offset))?;
        missing -= found;
        if missing == 0 {
            files.drain(..at);
            break;
        }
    }
    Ok(())
}

/// Where the last `lines` lines of a file start, and how many there really are.
fn tail_offset(file: &mut File, lines: u64) -> io::Result<(u64, u64)> {
    let length = file.seek(SeekFrom::End(0))?;
    if length == 0 || lines == 0 {
        return Ok((length, 0));
    }
    let mut end = length;
    let mut found = 0;
    let mut block = vec![0; BLOCK];
    while end > 0 {
        let start = end.saturating_sub(BLOCK as u64);
        let size = usize::try_from(end - start).unwrap_or(BLOCK);
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut block[..size])?;
        for at in (0..size).rev().filter(|at| block[*at] == b'\n') {
            let after = start + at as u64 + 1;
            // The end of the last line starts no other.
            if after == length {
                continue;
            }
            found += 1;
            if found == lines {
                return Ok((after, lines));
            }
        }
        end = start;
    }
    Ok((0, found + 1))
}

#[cfg(test)]
mod tests;
