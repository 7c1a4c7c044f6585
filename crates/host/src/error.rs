//! What was attempted on which kernel file, and what stood in the way.

use std::io;
use std::path::PathBuf;

use groups::ParseError;

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
