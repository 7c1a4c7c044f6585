//! What was attempted on which kernel file, and what stood in the way.

use std::io;
use std::path::PathBuf;

/// How much of a refused text an error repeats; kernel files may be large.
const SHOWN_BYTES: usize = 64;

/// A kernel file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },

    #[error("cannot write {value:?} to {}", path.display())]
    Write { path: PathBuf, value: String, source: io::Error },

    #[error("cannot make {}", path.display())]
    Make { path: PathBuf, source: io::Error },

    #[error("cannot remove {}", path.display())]
    Remove { path: PathBuf, source: io::Error },

    #[error("{}:{line}: expected {expected}, found {found:?}", path.display())]
    Parse { path: PathBuf, line: usize, expected: &'static str, found: String },
}

impl FileError {
    pub(crate) fn parse(path: PathBuf, error: ParseError) -> Self {
        let ParseError { line, expected, found } = error;
        Self::Parse { path, line, expected, found }
    }
}

/// A text that is not what the kernel writes; the parser does not know the file's path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: expected {expected}, found {found:?}")]
pub struct ParseError {
    /// Counted from one; the line after the last when something is missing.
    pub line: usize,
    pub expected: &'static str,
    pub found: String,
}

impl ParseError {
    pub(crate) fn new(line: usize, expected: &'static str, found: &[u8]) -> Self {
        let shown = found.get(..SHOWN_BYTES).unwrap_or(found);
        Self { line, expected, found: String::from_utf8_lossy(shown).into_owned() }
    }

    /// Something that must be there is not in the whole text.
    pub(crate) fn missing(text: &[u8], expected: &'static str) -> Self {
        Self::new(crate::scan::lines(text).count() + 1, expected, b"")
    }
}
