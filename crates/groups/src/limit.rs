//! A limit, or none.

use units::Bytes;

use crate::{ParseError, scan};

/// A cgroup limit: a number, or `max` for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit<T> {
    Max,
    At(T),
}

impl<T> Limit<T> {
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Limit<U> {
        match self {
            Self::Max => Limit::Max,
            Self::At(value) => Limit::At(f(value)),
        }
    }

    pub fn at(self) -> Option<T> {
        match self {
            Self::Max => None,
            Self::At(value) => Some(value),
        }
    }
}

/// From here on v1 means "no limit": the largest multiple of a page in 63 bits.
const V1_NO_LIMIT: u64 = 0x7FFF_FFFF_FFFF_F000;

/// Reads `memory.max`, `memory.limit_in_bytes` and their like.
pub fn parse_memory_limit(text: &[u8]) -> Result<Limit<Bytes>, ParseError> {
    match text.trim_ascii() {
        b"max" | b"-1" => Ok(Limit::Max),
        word => match scan::number(word) {
            Some(V1_NO_LIMIT..) => Ok(Limit::Max),
            Some(bytes) => Ok(Limit::At(scan::bytes(bytes))),
            None => Err(ParseError::new(1, "bytes or max", word)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_at_the_top_is_none() {
        let cases: [(&[u8], Option<Limit<Bytes>>); 7] = [
            (b"max\n", Some(Limit::Max)),
            (b"-1\n", Some(Limit::Max)),
            (b"9223372036854771712\n", Some(Limit::Max)),
            (b"9223372036854771711\n", Some(Limit::At(Bytes(0x7FFF_FFFF_FFFF_EFFF)))),
            (b"0\n", Some(Limit::At(Bytes(0)))),
            (b"\n", None),
            (b"-2\n", None),
        ];
        for (text, want) in cases {
            assert_eq!(parse_memory_limit(text).ok(), want, "{text:?}");
        }
    }
}
