//! The list form: `0-3,8,10-11`.
//!
//! Numbers and ascending ranges in any order, overlapping or not; white space around the whole
//! (kernel files end in a newline) and the empty list are fine. Strides (`0-31:2/4`) and the word
//! `all`, which newer kernels read but never print, are refused.

use std::fmt;
use std::str::FromStr;

use super::{CpuSet, CpuSetError};
use crate::excerpt::{Excerpt, found_at};

impl FromStr for CpuSet {
    type Err = CpuSetError;

    fn from_str(text: &str) -> Result<Self, CpuSetError> {
        let mut set = Self::new();
        let mut scan = Scan { text, at: text.len() - text.trim_start().len() };
        let end = text.trim_end().len();
        if scan.at >= end {
            return Ok(set);
        }
        loop {
            let first = scan.cpu()?;
            let last = if scan.take(b'-') { scan.cpu()? } else { first };
            if last < first {
                return Err(CpuSetError::Backwards { text: Excerpt::of(text), first, last });
            }
            set.insert_range(first..=last);
            if scan.at == end {
                return Ok(set);
            }
            if !scan.take(b',') {
                return Err(scan.expected("a comma, a dash or the end"));
            }
        }
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, range) in self.ranges().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let (first, last) = range.into_inner();
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl Scan<'_> {
    fn cpu(&mut self) -> Result<u16, CpuSetError> {
        let start = self.at;
        let mut cpu = Some(0_u16);
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            cpu = cpu.and_then(|cpu| cpu.checked_mul(10)?.checked_add(u16::from(digit - b'0')));
            self.at += 1;
        }
        if self.at == start {
            return Err(self.expected("a cpu number"));
        }
        cpu.ok_or_else(|| CpuSetError::TooLarge { text: Excerpt::of(self.text), at: start })
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn expected(&self, expected: &'static str) -> CpuSetError {
        CpuSetError::Syntax {
            text: Excerpt::of(self.text),
            at: self.at,
            expected,
            found: found_at(self.text, self.at),
        }
    }
}
