//! What does a pretended pod use at a given time?
//!
//! A script names CPU and memory, each constant or swinging between two amounts:
//!
//! ```text
//! cpu=500m, memory=1Gi
//! cpu=200m..1500m/24h, memory=600Mi..1Gi/1h
//! ```
//!
//! A swing starts at the lower amount, is at the higher one after half a period, and is smooth:
//!
//! ```text
//! low + (high − low) × (1 − cos 2π t/period) / 2
//! ```

use std::str::FromStr;
use std::time::Duration;

use units::{Bytes, GoDuration, MilliCpu, Quantity, Rounding};

/// What a pod uses as time goes by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    cpu: Curve,
    memory: Curve,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Curve {
    low: i64,
    high: i64,
    period: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    #[error("{part:?}: expected `cpu=` or `memory=` and an amount")]
    Part { part: String },
    #[error("{amount:?} is no amount")]
    Amount { amount: String },
    #[error(
        "{range:?}: a swing needs two amounts, the lower one first, and a period: `200m..1500m/24h`"
    )]
    Swing { range: String },
}

impl Usage {
    /// Always the same.
    pub fn constant(cpu: MilliCpu, memory: Bytes) -> Self {
        let flat = |amount| Curve { low: amount, high: amount, period: Duration::ZERO };
        Self { cpu: flat(cpu.0), memory: flat(memory.0) }
    }

    /// What is used after running that long.
    pub fn at(&self, elapsed: Duration) -> (MilliCpu, Bytes) {
        (MilliCpu(self.cpu.at(elapsed)), Bytes(self.memory.at(elapsed)))
    }
}

impl Curve {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "a pretended amount may be off by a rounding error; it stays between low and high"
    )]
    fn at(&self, elapsed: Duration) -> i64 {
        if self.period.is_zero() {
            return self.low;
        }
        let turns = elapsed.as_secs_f64() / self.period.as_secs_f64();
        let part = (1.0 - (turns * std::f64::consts::TAU).cos()) / 2.0;
        let swing = self.high.saturating_sub(self.low) as f64 * part;
        self.low.saturating_add(swing.round() as i64).clamp(self.low, self.high)
    }
}

impl FromStr for Usage {
    type Err = UsageError;

    fn from_str(text: &str) -> Result<Self, UsageError> {
        let mut usage = Self::default();
        for part in text.split(',').map(str::trim) {
            let wrong = || UsageError::Part { part: part.to_owned() };
            let (name, range) = part.split_once('=').ok_or_else(wrong)?;
            match name.trim() {
                "cpu" => {
                    usage.cpu =
                        curve(range, |amount| MilliCpu::from_quantity(amount, Rounding::Up).0)?;
                }
                "memory" => {
                    usage.memory =
                        curve(range, |amount| Bytes::from_quantity(amount, Rounding::Up).0)?;
                }
                _ => return Err(wrong()),
            }
        }
        Ok(usage)
    }
}

fn curve(range: &str, count: impl Fn(Quantity) -> i64) -> Result<Curve, UsageError> {
    let amount = |text: &str| {
        let quantity: Option<Quantity> = text.trim().parse().ok();
        let quantity = quantity.filter(|quantity| !quantity.sign().is_lt());
        quantity.map(&count).ok_or_else(|| UsageError::Amount { amount: text.trim().to_owned() })
    };
    let Some((low, rest)) = range.split_once("..") else {
        let amount = amount(range)?;
        return Ok(Curve { low: amount, high: amount, period: Duration::ZERO });
    };
    let wrong = || UsageError::Swing { range: range.trim().to_owned() };
    let (high, period) = rest.split_once('/').ok_or_else(wrong)?;
    let (low, high) = (amount(low)?, amount(high)?);
    let period = period.trim().parse::<GoDuration>().ok().and_then(GoDuration::to_std);
    let period = period.filter(|period| !period.is_zero()).ok_or_else(wrong)?;
    if low > high {
        return Err(wrong());
    }
    Ok(Curve { low, high, period })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(script: &str, seconds: u64) -> (i64, i64) {
        let usage: Usage = script.parse().unwrap();
        let (cpu, memory) = usage.at(Duration::from_secs(seconds));
        (cpu.0, memory.0)
    }

    #[test]
    fn scripts_say_what_is_used_when() {
        let mib = 1 << 20;
        let cases = [
            ("cpu=500m, memory=1Mi", 0, (500, mib)),
            ("cpu=500m, memory=1Mi", 9_999, (500, mib)),
            ("memory=2Mi", 5, (0, 2 * mib)),
            ("cpu=1..3/1h", 0, (1_000, 0)),
            ("cpu=1..3/1h", 900, (2_000, 0)),
            ("cpu=1..3/1h", 1_800, (3_000, 0)),
            ("cpu=1..3/1h", 3_600, (1_000, 0)),
            ("cpu=1..3/1h,memory=1Mi..2Mi/2h", 3_600, (1_000, 2 * mib)),
        ];
        for (script, seconds, want) in cases {
            assert_eq!(at(script, seconds), want, "{script} after {seconds} s");
        }
    }

    #[test]
    fn what_is_no_script_is_refused() {
        for bad in [
            "",
            "cpu",
            "gpu=1",
            "cpu=x",
            "cpu=-1",
            "cpu=1..2",
            "cpu=2..1/1h",
            "cpu=1..2/0s",
            "cpu=1..2/x",
        ] {
            assert!(bad.parse::<Usage>().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn a_swing_stays_between_its_ends(seconds in 0..10_000_000_u64, low in 0..2_000_u32, more in 0..2_000_u32) {
            let high = low + more;
            let (cpu, _) = at(&format!("cpu={low}m..{high}m/37m"), seconds);
            prop_assert!((i64::from(low)..=i64::from(high)).contains(&cpu));
        }
    }
}
