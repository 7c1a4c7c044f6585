//! What did a container print?
//!
//! Output is kept in the format container runtimes use, one line of the file for each line of output:
//!
//! ```text
//! 2026-11-15T08:00:00.123456789Z stdout F hello
//! 2026-11-15T08:00:00.123456790Z stderr P the first part of a very long line
//! ```
//!
//! `F` ends a line, `P` is a part of one. The shim writes and rotates (`0.log`, then `0.log.1` is
//! the one before, and so on); [`read`] reads, also while the container runs.

mod line;
mod read;
mod write;

pub(crate) use line::Stream;
pub use read::{LogOptions, LogStream, StreamChoice};
pub(crate) use read::{last_words, read};
pub(crate) use write::Writer;

use std::path::{Path, PathBuf};

/// The file that was put aside `age` rotations ago.
fn rotated(path: &Path, age: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{age}"));
    name.into()
}
