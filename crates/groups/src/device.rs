//! How is a block device called?

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{ParseError, scan};

/// A block device as the kernel writes it: `8:16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceNumber {
    pub major: u32,
    pub minor: u32,
}

impl DeviceNumber {
    pub fn parse(word: &[u8]) -> Option<Self> {
        let colon = word.iter().position(|byte| *byte == b':')?;
        let part = |digits: Option<&[u8]>| u32::try_from(scan::number(digits?)?).ok();
        Some(Self { major: part(word.get(..colon))?, minor: part(word.get(colon + 1..))? })
    }
}

impl FromStr for DeviceNumber {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let word = text.trim_ascii().as_bytes();
        Self::parse(word).ok_or_else(|| ParseError::new(1, "<major>:<minor>", word))
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}
