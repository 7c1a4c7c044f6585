//! Questions that only a system call answers.

use std::io;
use std::path::Path;

use super::Met;
use crate::fs::HostFs;
use crate::perf;

/// Where a recorded host keeps the answers.
const RECORDED: &str = "/tidepool/probe";

/// What the kernel said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Yes,
    /// With the kernel's reason.
    No(String),
    /// Nobody asked.
    Unknown,
}

impl Answer {
    /// As a row of the report, with the words for a yes.
    pub(super) fn judge(&self, yes: &str) -> (Met, String) {
        match self {
            Self::Yes => (Met::Yes, yes.to_owned()),
            Self::No(why) => (Met::No, why.clone()),
            Self::Unknown => (Met::Unknown, "not asked".to_owned()),
        }
    }

    fn from_result(result: io::Result<()>) -> Self {
        match result {
            Ok(()) => Self::Yes,
            Err(error) => Self::No(reason(&error)),
        }
    }

    fn to_text(&self) -> String {
        match self {
            Self::Yes => "yes".to_owned(),
            Self::No(why) => format!("no ({why})"),
            Self::Unknown => "unknown".to_owned(),
        }
    }

    fn from_text(text: &str) -> Self {
        match text.strip_prefix("no (").and_then(|rest| rest.strip_suffix(')')) {
            Some(why) => Self::No(why.to_owned()),
            None if text == "yes" => Self::Yes,
            None => Self::Unknown,
        }
    }
}

/// The message without the number, which differs between architectures.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// The answers of one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Live {
    /// Can tasks be kept off the siblings of strangers?
    pub core_scheduling: Answer,
    /// Are there counters of cycles and instructions for us?
    pub perf: Answer,
}

impl Live {
    /// Asks the kernel this process runs on.
    pub fn ask() -> Self {
        let own = rustix::process::getpid();
        let scope = rustix::thread::CoreSchedulingScope::Thread;
        let cookie = rustix::thread::core_scheduling_cookie(own, scope);
        Self {
            core_scheduling: Answer::from_result(cookie.map(drop).map_err(io::Error::from)),
            perf: Answer::from_result(perf::probe()),
        }
    }

    /// The answers that were recorded with a host.
    pub fn recorded(fs: &dyn HostFs) -> Self {
        let text = fs.read(Path::new(RECORDED)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let find = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
            line.map_or(Answer::Unknown, Answer::from_text)
        };
        Self { core_scheduling: find("core-scheduling"), perf: find("perf") }
    }

    /// The form in which answers are recorded, with the path relative to the host's root.
    pub fn to_recording(&self) -> (&'static str, String) {
        let (core, perf) = (self.core_scheduling.to_text(), self.perf.to_text());
        (RECORDED, format!("core-scheduling: {core}\nperf: {perf}\n"))
    }
}
