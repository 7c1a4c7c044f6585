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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_printed_canonically() {
        let cases = [
            ("empty", "", ""),
            ("a line of a kernel file that lists nothing", "\n", ""),
            ("one", "5", "5"),
            ("range", "0-3", "0-3"),
            ("range of one", "3-3", "3"),
            ("mixed", "0-3,8,10-11", "0-3,8,10-11"),
            ("out of order", "8,0-3", "0-3,8"),
            ("overlapping", "0-4,2-6", "0-6"),
            ("adjacent", "0-1,2-3,4", "0-4"),
            ("repeated", "1,1,1", "1"),
            ("two neighbours", "1,2", "1-2"),
            ("across words", "60-70,127,128", "60-70,127-128"),
            ("leading zeros", "007", "7"),
            ("newline", "0-3\n", "0-3"),
            ("white space around", " 0-3 \t\n", "0-3"),
            ("the largest", "65534-65535", "65534-65535"),
            ("everything", "0-65535", "0-65535"),
        ];
        for (name, text, want) in cases {
            assert_eq!(text.parse::<CpuSet>().unwrap().to_string(), want, "{name}");
        }
    }

    #[test]
    fn refusals_say_where_and_what() {
        let cases = [
            (",", 0, "a cpu number"),
            ("0,", 2, "a cpu number"),
            (",0", 0, "a cpu number"),
            ("0,,1", 2, "a cpu number"),
            ("-3", 0, "a cpu number"),
            ("0-", 2, "a cpu number"),
            ("0--3", 2, "a cpu number"),
            ("0-3,x", 4, "a cpu number"),
            ("all", 0, "a cpu number"),
            ("0, 1", 2, "a cpu number"),
            ("0-\n", 2, "a cpu number"),
            ("0-3-5", 3, "a comma, a dash or the end"),
            ("0 1", 1, "a comma, a dash or the end"),
            ("0x1", 1, "a comma, a dash or the end"),
            ("0-31:2", 4, "a comma, a dash or the end"),
            ("0-31:2/4", 4, "a comma, a dash or the end"),
            ("0;1", 1, "a comma, a dash or the end"),
            ("1.5", 1, "a comma, a dash or the end"),
            ("0\n1", 1, "a comma, a dash or the end"),
            ("0é", 1, "a comma, a dash or the end"),
        ];
        for (text, at, expected) in cases {
            let found = found_at(text, at);
            let want = CpuSetError::Syntax { text: Excerpt::of(text), at, expected, found };
            assert_eq!(text.parse::<CpuSet>(), Err(want), "{text:?}");
        }
        let cases = [
            ("3-1", "cpu set \"3-1\": the range 3-1 runs backwards"),
            ("0,65536", "cpu set \"0,65536\": the cpu at byte 2 is above 65535"),
            ("0-99999999999", "cpu set \"0-99999999999\": the cpu at byte 2 is above 65535"),
            ("0-3,x", "cpu set \"0-3,x\": expected a cpu number at byte 4, found 'x'"),
        ];
        for (text, want) in cases {
            assert_eq!(text.parse::<CpuSet>().unwrap_err().to_string(), want);
        }
    }
}
