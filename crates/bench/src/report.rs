//! Printing what was measured: text for people, one JSON object for programs.

use std::io::{self, Write};

use serde::Serialize;

/// Writes to standard output. The error of a reader that went away is passed on as it is, so that the
/// command line can tell it from others.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

pub(crate) fn print_json(report: &impl Serialize) -> anyhow::Result<()> {
    print(&(serde_json::to_string_pretty(report)? + "\n"))
}
