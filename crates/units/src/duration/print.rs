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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_magnitude_has_its_form() {
        let cases = [
            (0, "0s"),
            (1, "1ns"),
            (999, "999ns"),
            (1_000, "1µs"),
            (1_050, "1.05µs"),
            (999_999, "999.999µs"),
            (1_000_000, "1ms"),
            (500_000_000, "500ms"),
            (999_999_999, "999.999999ms"),
            (1_000_000_000, "1s"),
            (1_000_000_010, "1.00000001s"),
            (59_999_999_999, "59.999999999s"),
            (60_000_000_000, "1m0s"),
            (90_000_000_000, "1m30s"),
            (3_599_500_000_000, "59m59.5s"),
            (3_600_000_000_000, "1h0m0s"),
            (86_400_000_000_000, "24h0m0s"),
            (i64::MAX, "2562047h47m16.854775807s"),
        ];
        for (nanos, want) in cases {
            assert_eq!(GoDuration::from_nanos(nanos).to_string(), want);
            if nanos > 0 {
                assert_eq!(GoDuration::from_nanos(-nanos).to_string(), format!("-{want}"));
            }
        }
        assert_eq!(GoDuration::from_nanos(i64::MIN).to_string(), "-2562047h47m16.854775808s");
        assert_eq!(format!("[{:>6}]", GoDuration::from_secs(300)), "[  5m0s]");
    }
}
