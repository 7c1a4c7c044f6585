//! A kernel text that cannot be read.

/// How much of a refused text an error repeats; kernel files may be large.
const SHOWN_BYTES: usize = 64;

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
    pub fn new(line: usize, expected: &'static str, found: &[u8]) -> Self {
        let shown = found.get(..SHOWN_BYTES).unwrap_or(found);
        Self { line, expected, found: String::from_utf8_lossy(shown).into_owned() }
    }

    /// Something that must be there is not in the whole text.
    pub fn missing(text: &[u8], expected: &'static str) -> Self {
        Self::new(crate::scan::lines(text).count() + 1, expected, b"")
    }
}
