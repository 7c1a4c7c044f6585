//! How long did tasks wait for a resource? Pressure stall information.

use std::time::Duration;

use groups::{ParseError, scan};

/// What tasks can wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    Cpu,
    Memory,
    Io,
}

impl Resource {
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::Io];

    /// The file of a cgroup.
    pub fn cgroup_file(self) -> &'static str {
        match self {
            Self::Cpu => "cpu.pressure",
            Self::Memory => "memory.pressure",
            Self::Io => "io.pressure",
        }
    }

    /// The file of the whole host.
    pub fn host_file(self) -> &'static str {
        match self {
            Self::Cpu => "/proc/pressure/cpu",
            Self::Memory => "/proc/pressure/memory",
            Self::Io => "/proc/pressure/io",
        }
    }
}

/// A `*.pressure` file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pressure {
    /// At least one task waited.
    pub some: Stall,
    /// All tasks waited at once. For CPU only since Linux 5.13.
    pub full: Option<Stall>,
}

/// Shares of time in hundredths of a percent, as the kernel prints them, and the sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stall {
    pub avg10: Hundredths,
    pub avg60: Hundredths,
    pub avg300: Hundredths,
    pub total: Duration,
}

/// A percentage with two digits after the point: `12.34` is 1234.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hundredths(pub u32);

impl Hundredths {
    /// As a percentage.
    pub fn percent(self) -> f64 {
        f64::from(self.0) / 100.0
    }
}

impl Pressure {
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let (mut some, mut full) = (None, None);
        for (at, line) in scan::lines(text) {
            let mut words = scan::words(line);
            match words.next() {
                Some(b"some") => some = Some(Stall::parse(at, words)?),
                Some(b"full") => full = Some(Stall::parse(at, words)?),
                _ => {}
            }
        }
        let some = some.ok_or_else(|| ParseError::missing(text, "a line with some"))?;
        Ok(Self { some, full })
    }
}

impl Stall {
    fn parse<'t>(at: usize, words: impl Iterator<Item = &'t [u8]>) -> Result<Self, ParseError> {
        let mut stall = Self::default();
        let mut seen = 0;
        for word in words {
            let bad = || ParseError::new(at, "avg10, avg60, avg300 and total", word);
            let (key, value) = split(word).ok_or_else(bad)?;
            match key {
                b"avg10" => stall.avg10 = hundredths(value).ok_or_else(bad)?,
                b"avg60" => stall.avg60 = hundredths(value).ok_or_else(bad)?,
                b"avg300" => stall.avg300 = hundredths(value).ok_or_else(bad)?,
                b"total" => {
                    stall.total = Duration::from_micros(scan::number(value).ok_or_else(bad)?);
                }
                _ => continue,
            }
            seen += 1;
        }
        if seen == 4 {
            Ok(stall)
        } else {
            Err(ParseError::new(at, "avg10, avg60, avg300 and total", b""))
        }
    }
}

fn split(word: &[u8]) -> Option<(&[u8], &[u8])> {
    let equals = word.iter().position(|byte| *byte == b'=')?;
    Some((word.get(..equals)?, word.get(equals + 1..)?))
}

/// `0.12`: the kernel always prints two digits after the point.
fn hundredths(value: &[u8]) -> Option<Hundredths> {
    let point = value.iter().position(|byte| *byte == b'.')?;
    let (whole, part) = (value.get(..point)?, value.get(point + 1..)?);
    if part.len() != 2 {
        return None;
    }
    let hundredths = scan::number(whole)?.checked_mul(100)?.checked_add(scan::number(part)?)?;
    u32::try_from(hundredths).ok().map(Hundredths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_file_may_lack_full() {
        let some = "some avg10=1.59 avg60=0.40 avg300=100.00 total=7376370333\n";
        let stall = Stall {
            avg10: Hundredths(159),
            avg60: Hundredths(40),
            avg300: Hundredths(10_000),
            total: Duration::from_micros(7_376_370_333),
        };
        assert_eq!(Pressure::parse(some.as_bytes()), Ok(Pressure { some: stall, full: None }));
        let both = format!("{some}full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
        let want = Pressure { some: stall, full: Some(Stall::default()) };
        assert_eq!(Pressure::parse(both.as_bytes()), Ok(want));
    }

    #[test]
    fn broken_lines_are_refused() {
        for text in [
            "",
            "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
            "some avg10=0.00 avg60=0.00 avg300=0.00\n",
            "some avg10=0.0 avg60=0.00 avg300=0.00 total=0\n",
            "some avg10=-1.00 avg60=0.00 avg300=0.00 total=0\n",
            "some avg10 avg60=0.00 avg300=0.00 total=0\n",
        ] {
            assert!(Pressure::parse(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
