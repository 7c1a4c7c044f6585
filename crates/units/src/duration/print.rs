//! How is a duration written? As Go's `Duration.String` does.

use std::fmt;

use super::{GoDuration, HOUR, MICROSECOND, MILLISECOND, MINUTE, SECOND};

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_negative() { "-" } else { "" };
        let nanos = self.nanos.unsigned_abs();
        let text = match nanos {
            0 => "0s".to_owned(),
            1..MICROSECOND => format!("{sign}{nanos}ns"),
            MICROSECOND..MILLISECOND => format!("{sign}{}µs", decimal(nanos, MICROSECOND)),
            MILLISECOND..SECOND => format!("{sign}{}ms", decimal(nanos, MILLISECOND)),
            SECOND..MINUTE => format!("{sign}{}s", decimal(nanos, SECOND)),
            MINUTE..HOUR => {
                format!("{sign}{}m{}s", nanos / MINUTE, decimal(nanos % MINUTE, SECOND))
            }
            HOUR.. => {
                let (hours, minutes) = (nanos / HOUR, nanos % HOUR / MINUTE);
                format!("{sign}{hours}h{minutes}m{}s", decimal(nanos % MINUTE, SECOND))
            }
        };
        f.pad(&text)
    }
}

/// `nanos / unit` without trailing zeros; `unit` is a power of ten above one.
fn decimal(nanos: u64, unit: u64) -> String {
    let (whole, mut fraction) = (nanos / unit, nanos % unit);
    if fraction == 0 {
        return whole.to_string();
    }
    let mut places = unit.ilog10() as usize;
    while fraction % 10 == 0 {
        fraction /= 10;
        places -= 1;
    }
    format!("{whole}.{fraction:0places$}")
}
