//! Which memory has not been touched for a while? kidled, a scanner of Anolis kernels.
//!
//! `memory.idle_page_stats` has a header and one row for each kind of page, with the bytes in every
//! class of age. Ages are counted in scans and listed in the header:
//!
//! ```text
//! # version: 1.0
//! # page_scans: 24
//! # scan_period_in_seconds: 5
//! # buckets: 1,2,5,15,30,60,120,240
//! # _-----=> clean/dirty ... explanations
//!   cfei    0   0   0   4096 ...
//! ```
//!
//! Cold memory is page cache (`cfei`, `dfei`, `cfui`, `dfui`) idle for 60 scans and more.

use std::path::Path;

use units::Bytes;

use crate::fs::HostFs;
use groups::{ParseError, scan};

/// The files that start the scanner.
pub const SCAN_PERIOD: &str = "/sys/kernel/mm/kidled/scan_period_in_seconds";
pub const USE_HIERARCHY: &str = "/sys/kernel/mm/kidled/use_hierarchy";

/// Rows of file pages that can be taken away.
const COLD_ROWS: [&[u8]; 4] = [b"cfei", b"dfei", b"cfui", b"dfui"];
/// The first class of age that counts, of [`CLASSES`].
const FIRST_COLD: usize = 5;
const CLASSES: usize = 8;

/// Does this kernel look for idle pages?
pub fn is_supported(fs: &dyn HostFs) -> bool {
    [SCAN_PERIOD, USE_HIERARCHY].iter().all(|file| fs.exists(Path::new(file)))
}

/// What kidled found in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdlePages {
    /// Page cache idle for 60 scans and more.
    pub cold: Bytes,
    /// Zero while kidled is off.
    pub scan_period_seconds: u64,
    pub page_scans: u64,
}

impl IdlePages {
    /// Reads `memory.idle_page_stats`.
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let (mut period, mut scans) = (None, None);
        let mut cold = 0_u64;
        let mut rows = 0;
        for (at, line) in scan::lines(text) {
            let mut words = scan::words(line);
            let Some(first) = words.next() else { continue };
            match (first, words.next()) {
                (b"#", Some(b"scan_period_in_seconds:")) => {
                    period = Some(scan::pair_number(at, words.next().unwrap_or_default())?);
                }
                (b"#", Some(b"page_scans:")) => {
                    scans = Some(scan::pair_number(at, words.next().unwrap_or_default())?);
                }
                (row, first_class) if COLD_ROWS.contains(&row) => {
                    rows += 1;
                    let mut classes = 0;
                    for (class, word) in first_class.into_iter().chain(words).enumerate() {
                        let bytes = scan::pair_number(at, word)?;
                        classes += 1;
                        if class >= FIRST_COLD {
                            cold = cold.saturating_add(bytes);
                        }
                    }
                    if classes != CLASSES {
                        return Err(ParseError::new(at, "eight classes of age", line));
                    }
                }
                _ => {}
            }
        }
        if rows != COLD_ROWS.len() {
            return Err(ParseError::missing(text, "rows cfei, dfei, cfui and dfui"));
        }
        Ok(Self {
            cold: scan::bytes(cold),
            scan_period_seconds: period
                .ok_or_else(|| ParseError::missing(text, "scan_period_in_seconds"))?,
            page_scans: scans.ok_or_else(|| ParseError::missing(text, "page_scans"))?,
        })
    }
}
