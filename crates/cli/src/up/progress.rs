//! What is `tidepool up` doing, while a person waits for it?

use std::io::{self, IsTerminal, Write};
use std::time::Instant;

/// Says what is being done, on standard error, to people who are watching.
#[derive(Debug)]
pub(super) struct Progress {
    start: Instant,
    is_shown: bool,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), is_shown: io::stderr().is_terminal() }
    }

    pub(super) fn step(&self, what: &str) {
        if self.is_shown {
            eprintln!("[{:5.2} s] {what}", self.start.elapsed().as_secs_f64());
        }
    }

    /// Like a step, on one line that changes.
    pub(super) fn count(&self, what: &str, done: u32, all: u32) {
        if self.is_shown {
            let end = if done >= all { "\n" } else { "" };
            eprint!(
                "\r[{:5.2} s] {what}: {done} of {all}{end}",
                self.start.elapsed().as_secs_f64()
            );
            // Progress that cannot be shown is no reason to stop.
            let _ = io::stderr().flush();
        }
    }
}
