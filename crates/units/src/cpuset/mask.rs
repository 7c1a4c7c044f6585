//! The mask form: `ff,ffffffff`.
//!
//! Groups of 32 bits in hexadecimal, the highest CPUs first. A group has at most eight digits;
//! all but the first are printed with exactly eight. White space around the whole is fine.

use std::fmt;

use super::{CpuSet, CpuSetError};
use crate::excerpt::{Excerpt, found_at};

const GROUP_DIGITS: usize = 8;
const GROUP_BITS: usize = 32;

impl CpuSet {
    /// Reads the mask form.
    pub fn from_mask(text: &str) -> Result<Self, CpuSetError> {
        let syntax = |at: usize, expected| CpuSetError::Syntax {
            text: Excerpt::of(text),
            at,
            expected,
            found: found_at(text, at),
        };
        let mask = text.trim();
        let mut at = text.len() - text.trim_start().len();
        let mut halves = Vec::new();
        for group in mask.split(',') {
            let junk = group.bytes().position(|byte| !byte.is_ascii_hexdigit());
            if let Some(junk) = junk.or(group.is_empty().then_some(0)) {
                return Err(syntax(at + junk, "a hexadecimal digit"));
            }
            if group.len() > GROUP_DIGITS {
                return Err(syntax(at + GROUP_DIGITS, "a comma after eight digits"));
            }
            let half =
                u32::from_str_radix(group, 16).map_err(|_| syntax(at, "a hexadecimal number"))?;
            halves.push(half);
            if halves.len() * GROUP_BITS > usize::from(u16::MAX) + 1 {
                return Err(CpuSetError::TooLarge { text: Excerpt::of(text), at });
            }
            at += group.len() + 1;
        }
        halves.reverse();
        let words = halves
            .chunks(2)
            .map(|pair| {
                pair.iter().rev().fold(0, |word, half| word << GROUP_BITS | u64::from(*half))
            })
            .collect();
        let mut set = Self { words };
        set.trim();
        Ok(set)
    }

    /// Displays the mask form; the empty set is `0`.
    pub fn as_mask(&self) -> Mask<'_> {
        Mask(self)
    }
}

/// Displays a [`CpuSet`] as a mask.
#[derive(Debug, Clone, Copy)]
pub struct Mask<'a>(&'a CpuSet);

impl fmt::Display for Mask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LOW: u64 = u32::MAX as u64;
        let mut words = self.0.words.iter().rev();
        match words.next() {
            None => f.write_str("0")?,
            Some(first) if *first > LOW => {
                write!(f, "{:x},{:08x}", first >> GROUP_BITS, first & LOW)?;
            }
            Some(first) => write!(f, "{first:x}")?,
        }
        for word in words {
            write!(f, ",{:08x},{:08x}", word >> GROUP_BITS, word & LOW)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_read_and_printed_canonically() {
        let cases = [
            ("empty", "0", "", "0"),
            ("as a kernel prints it", "00000000,00000000\n", "", "0"),
            ("four cpus", "f", "0-3", "f"),
            ("as resctrl prints it", "00ffffff\n", "0-23", "ffffff"),
            ("one full group", "ffffffff", "0-31", "ffffffff"),
            ("two groups", "ff,ffffffff", "0-39", "ff,ffffffff"),
            ("second group only", "1,00000000", "32", "1,00000000"),
            ("short later group", "1,2", "1,32", "1,00000002"),
            ("capitals", "A", "1,3", "a"),
            ("three groups", "80000000,0,1", "0,95", "80000000,00000000,00000001"),
            ("four groups", "1,0,0,8", "3,96", "1,00000000,00000000,00000008"),
            ("full groups above", "1,00000000,00000000", "64", "1,00000000,00000000"),
        ];
        for (name, mask, list, canonical) in cases {
            let set = CpuSet::from_mask(mask).unwrap();
            assert_eq!(set.to_string(), list, "{name}");
            assert_eq!(set.as_mask().to_string(), canonical, "{name}");
            assert_eq!(list.parse(), Ok(set), "{name}");
        }
    }

    #[test]
    fn refusals_say_where_and_what() {
        let cases = [
            ("", 0, "a hexadecimal digit"),
            ("\n", 1, "a hexadecimal digit"),
            (",", 0, "a hexadecimal digit"),
            ("f,", 2, "a hexadecimal digit"),
            ("f,,f", 2, "a hexadecimal digit"),
            ("0xf", 1, "a hexadecimal digit"),
            ("+f", 0, "a hexadecimal digit"),
            ("fg", 1, "a hexadecimal digit"),
            ("f f", 1, "a hexadecimal digit"),
            ("0-3", 1, "a hexadecimal digit"),
            ("ffffffff0", 8, "a comma after eight digits"),
            (" 1,000000000", 11, "a comma after eight digits"),
        ];
        for (text, at, expected) in cases {
            let found = found_at(text, at);
            let want = CpuSetError::Syntax { text: Excerpt::of(text), at, expected, found };
            assert_eq!(CpuSet::from_mask(text), Err(want), "{text:?}");
        }
    }

    #[test]
    fn the_bound_is_2048_groups() {
        let widest = format!("80000000{}", ",00000000".repeat(2_047));
        assert_eq!(CpuSet::from_mask(&widest).unwrap().to_string(), "65535");
        let wider = format!("0,{widest}");
        assert!(matches!(CpuSet::from_mask(&wider), Err(CpuSetError::TooLarge { .. })));
    }
}
