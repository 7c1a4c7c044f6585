//! CPU time, throttling and bandwidth of a group.

use std::time::Duration;

use units::{Micros, MilliCpu};

use groups::{Limit, ParseError, scan};

/// How much a group ran, and how often it was held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuStat {
    /// CPU time since the group was made.
    pub usage: Duration,
    /// `None` where the cpu controller is not on for the group.
    pub throttling: Option<Throttling>,
}

/// The bandwidth part of `cpu.stat`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttling {
    pub nr_periods: u64,
    pub nr_throttled: u64,
    /// Time spent waiting for the next period.
    pub throttled: Duration,
}

impl CpuStat {
    /// Reads v2 `cpu.stat`.
    pub fn parse_v2(text: &[u8]) -> Result<Self, ParseError> {
        let mut usage = None;
        let mut throttling = Throttling::default();
        let mut seen = 0;
        for (at, key, value) in scan::pairs(text) {
            match key {
                b"usage_usec" => usage = Some(scan::pair_number(at, value)?),
                b"nr_periods" => throttling.nr_periods = scan::pair_number(at, value)?,
                b"nr_throttled" => throttling.nr_throttled = scan::pair_number(at, value)?,
                b"throttled_usec" => {
                    throttling.throttled = Duration::from_micros(scan::pair_number(at, value)?);
                }
                _ => continue,
            }
            seen += usize::from(key != b"usage_usec");
        }
        let usage = usage.ok_or_else(|| ParseError::missing(text, "usage_usec"))?;
        let usage = Duration::from_micros(usage);
        match seen {
            0 => Ok(Self { usage, throttling: None }),
            3 => Ok(Self { usage, throttling: Some(throttling) }),
            _ => Err(ParseError::missing(text, "nr_periods, nr_throttled and throttled_usec")),
        }
    }
}

impl Throttling {
    /// Reads v1 `cpu.stat`.
    pub fn parse_v1(text: &[u8]) -> Result<Self, ParseError> {
        let (mut nr_periods, mut nr_throttled, mut throttled_time) = (None, None, None);
        for (at, key, value) in scan::pairs(text) {
            let place = match key {
                b"nr_periods" => &mut nr_periods,
                b"nr_throttled" => &mut nr_throttled,
                b"throttled_time" => &mut throttled_time,
                _ => continue,
            };
            *place = Some(scan::pair_number(at, value)?);
        }
        let missing = |key| move || ParseError::missing(text, key);
        Ok(Self {
            nr_periods: nr_periods.ok_or_else(missing("nr_periods"))?,
            nr_throttled: nr_throttled.ok_or_else(missing("nr_throttled"))?,
            throttled: throttled_time
                .map(Duration::from_nanos)
                .ok_or_else(missing("throttled_time"))?,
        })
    }
}

/// How much CPU time a group may use in each period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuMax {
    pub quota: Limit<Micros>,
    pub period: Micros,
}

impl CpuMax {
    /// Reads v2 `cpu.max`: `max 100000`, `150000 100000`.
    pub fn parse_v2(text: &[u8]) -> Result<Self, ParseError> {
        let mut words = scan::words(text);
        let quota = match words.next() {
            Some(b"max") => Limit::Max,
            word => Limit::At(micros(word, "a quota or max")?),
        };
        let period = micros(words.next(), "a period")?;
        if let Some(extra) = words.next() {
            return Err(ParseError::new(1, "quota and period only", extra));
        }
        Self::new(quota, period)
    }

    /// Reads v1 `cpu.cfs_quota_us` and `cpu.cfs_period_us`.
    pub fn parse_v1(quota: &[u8], period: &[u8]) -> Result<Self, ParseError> {
        Self::from_v1(scan::only_signed(quota)?, period)
    }

    pub(super) fn from_v1(quota: i64, period: &[u8]) -> Result<Self, ParseError> {
        let quota = match quota {
            ..0 => Limit::Max,
            quota => Limit::At(Micros(quota)),
        };
        Self::new(quota, micros(Some(period.trim_ascii()), "a period")?)
    }

    fn new(quota: Limit<Micros>, period: Micros) -> Result<Self, ParseError> {
        if period.is_zero() {
            return Err(ParseError::new(1, "a period above zero", b"0"));
        }
        Ok(Self { quota, period })
    }

    /// The CPUs a group may keep busy, rounded down.
    pub fn cpus(self) -> Limit<MilliCpu> {
        self.quota.map(|quota| {
            let milli = i128::from(quota.0) * 1_000 / i128::from(self.period.0.max(1));
            MilliCpu(i64::try_from(milli).unwrap_or(i64::MAX))
        })
    }
}

fn micros(word: Option<&[u8]>, expected: &'static str) -> Result<Micros, ParseError> {
    let word = word.unwrap_or_default();
    let value = scan::number(word).and_then(|value| value.try_into().ok());
    value.map(Micros).ok_or_else(|| ParseError::new(1, expected, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_mean_the_same() {
        let v1 = b"nr_periods 10\nnr_throttled 4\nthrottled_time 2500000\nnr_bursts 0\n";
        let v2 = b"usage_usec 7\nuser_usec 5\nsystem_usec 2\nnr_periods 10\nnr_throttled 4\n\
                   throttled_usec 2500\nnr_bursts 0\nburst_usec 0\n";
        let want =
            Throttling { nr_periods: 10, nr_throttled: 4, throttled: Duration::from_micros(2_500) };
        assert_eq!(Throttling::parse_v1(v1), Ok(want));
        let stat = CpuStat::parse_v2(v2).unwrap();
        assert_eq!(stat, CpuStat { usage: Duration::from_micros(7), throttling: Some(want) });
    }

    #[test]
    fn without_the_controller_there_is_usage_only() {
        let stat = CpuStat::parse_v2(b"usage_usec 7\nuser_usec 5\nsystem_usec 2\n").unwrap();
        assert_eq!(stat.throttling, None);
    }

    #[test]
    fn a_missing_or_broken_key_is_an_error() {
        let v2: [&[u8]; 4] = [
            b"",
            b"user_usec 5\n",
            b"usage_usec x\n",
            b"usage_usec 7\nnr_periods 1\nnr_throttled 0\n",
        ];
        for text in v2 {
            assert!(CpuStat::parse_v2(text).is_err(), "{text:?}");
        }
        let error = Throttling::parse_v1(b"nr_periods 1\nnr_throttled\n").unwrap_err();
        assert_eq!((error.line, error.expected), (2, "a number"));
        let error = Throttling::parse_v1(b"nr_periods 1\nnr_throttled 0\n").unwrap_err();
        assert_eq!((error.line, error.expected), (3, "throttled_time"));
    }

    #[test]
    fn bandwidth_reads_in_both_forms() {
        let at = |quota, period| CpuMax { quota: Limit::At(Micros(quota)), period: Micros(period) };
        let none = CpuMax { quota: Limit::Max, period: Micros(100_000) };
        assert_eq!(CpuMax::parse_v2(b"max 100000\n"), Ok(none));
        assert_eq!(CpuMax::parse_v1(b"-1\n", b"100000\n"), Ok(none));
        assert_eq!(CpuMax::parse_v2(b"150000 100000\n"), Ok(at(150_000, 100_000)));
        assert_eq!(CpuMax::parse_v1(b"150000\n", b"100000\n"), Ok(at(150_000, 100_000)));
        assert_eq!(at(150_000, 100_000).cpus(), Limit::At(MilliCpu(1_500)));
        for text in ["", "max", "-1 100000", "max 0", "1 2 3"] {
            assert!(CpuMax::parse_v2(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
