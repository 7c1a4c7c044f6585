//! Which texts are durations?
//!
//! ```text
//! duration = [ "+" | "-" ] ( "0" | part { part } )
//! part     = ( digits [ "." [ digits ] ] | "." digits ) unit
//! unit     = "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h"
//! ```

use std::str::FromStr;

use super::{GoDuration, HOUR, MICROSECOND, MILLISECOND, MINUTE, SECOND};
use crate::excerpt::{Excerpt, found_at};

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    #[error("duration {text}: expected {expected} at byte {at}, found {found}")]
    Syntax { text: Excerpt, at: usize, expected: &'static str, found: String },

    #[error("duration {text}: longer than 292 years")]
    TooLong { text: Excerpt },
}

/// The magnitude of the most negative duration; one more than the largest positive one.
const MAX_NANOS: u64 = 1 << 63;

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let too_long = || DurationError::TooLong { text: Excerpt::of(text) };
        let is_negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        if unsigned == "0" {
            return Ok(Self::ZERO);
        }

        let mut rest = unsigned;
        let mut nanos = 0_u64;
        loop {
            let (part, after) = Part::split(rest).map_err(|(at, expected)| {
                let at = text.len() - rest.len() + at;
                let found = found_at(text, at);
                DurationError::Syntax { text: Excerpt::of(text), at, expected, found }
            })?;
            nanos = part
                .nanos()
                .and_then(|part| nanos.checked_add(part))
                .filter(|nanos| *nanos <= MAX_NANOS)
                .ok_or_else(too_long)?;
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        let nanos =
            if is_negative { 0_i64.checked_sub_unsigned(nanos) } else { i64::try_from(nanos).ok() };
        nanos.map(Self::from_nanos).ok_or_else(too_long)
    }
}

/// One number with its unit.
struct Part<'a> {
    whole: &'a str,
    fraction: &'a str,
    unit: u64,
}

impl<'a> Part<'a> {
    /// Takes the first part off `text`, or says where something else was expected.
    fn split(text: &'a str) -> Result<(Self, &'a str), (usize, &'static str)> {
        let (whole, rest) = split_digits(text);
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        let at = text.len() - rest.len();
        if whole.is_empty() && fraction.is_empty() {
            return Err((at, "a digit"));
        }
        let end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
        let (unit, rest) = rest.split_at(end);
        let unit = match unit {
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND,
            "ms" => MILLISECOND,
            "s" => SECOND,
            "m" => MINUTE,
            "h" => HOUR,
            _ => return Err((at, "one of the units ns us ms s m h")),
        };
        Ok((Self { whole, fraction, unit }, rest))
    }

    /// `None` when the sum does not fit; may exceed [`MAX_NANOS`].
    fn nanos(&self) -> Option<u64> {
        let whole = self.whole.bytes().try_fold(0_u64, |sum, digit| {
            sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        })?;
        whole.checked_mul(self.unit)?.checked_add(self.fraction_nanos())
    }

    /// The fraction in whole nanoseconds, computed in binary64 because Go does: digits finer than
    /// a nanosecond can otherwise end up one nanosecond apart (`0.3333333333333333333h` is twenty
    /// minutes). Every fraction that is a whole number of nanoseconds is exact either way.
    fn fraction_nanos(&self) -> u64 {
        let mut digits = 0_u64;
        let mut scale = 1.0_f64;
        for digit in self.fraction.bytes() {
            let next = digits.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
            if next > MAX_NANOS {
                break;
            }
            digits = next;
            scale *= 10.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "the loss is Go's")]
        let nanos = digits as f64 * (self.unit as f64 / scale);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 to one hour"
        )]
        return nanos as u64;
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Go's answers for the same texts.
    const RECORDED: &str = include_str!("../../../../fixtures/reference/go-durations.txt");

    #[test]
    fn texts_mean_what_go_says_they_mean() {
        let mut accepted = 0;
        let mut refused = 0;
        for line in RECORDED.lines().filter(|line| !line.starts_with('#')) {
            let (text, nanos, canonical): (String, Option<i64>, Option<String>) =
                serde_json::from_str(line).unwrap();
            let duration = text.parse::<GoDuration>().ok();
            assert_eq!(duration.map(GoDuration::as_nanos), nanos, "value of {text:?}");
            assert_eq!(duration.map(|d| d.to_string()), canonical, "canonical form of {text:?}");
            if nanos.is_some() { accepted += 1 } else { refused += 1 }
        }
        assert!(accepted > 50 && refused > 40, "{accepted} accepted, {refused} refused");
    }

    #[test]
    fn refusals_say_where_and_what() {
        let unit = "one of the units ns us ms s m h";
        let cases = [
            ("", 0, "a digit"),
            ("-", 1, "a digit"),
            (".s", 1, "a digit"),
            (" 5m", 0, "a digit"),
            ("5", 1, unit),
            ("5m ", 1, unit),
            ("5d", 1, unit),
            ("1h30", 4, unit),
            ("-1h3x", 4, unit),
            ("1..5s", 2, unit),
        ];
        for (text, at, expected) in cases {
            let found = found_at(text, at);
            let want = DurationError::Syntax { text: Excerpt::of(text), at, expected, found };
            assert_eq!(text.parse::<GoDuration>(), Err(want), "{text:?}");
        }
        let error = "5d".parse::<GoDuration>().unwrap_err();
        let want = "duration \"5d\": expected one of the units ns us ms s m h at byte 1, found 'd'";
        assert_eq!(error.to_string(), want);
        let error = "300000000h".parse::<GoDuration>().unwrap_err();
        assert_eq!(error.to_string(), "duration \"300000000h\": longer than 292 years");
    }

    #[test]
    fn long_texts_are_read_or_refused_without_trouble() {
        let parts = "1ns".repeat(100_000);
        assert_eq!(parts.parse(), Ok(GoDuration::from_nanos(100_000)));
        let fraction = format!("0.{}s", "9".repeat(100_000));
        assert_eq!(fraction.parse(), Ok(GoDuration::from_secs(1)));
        assert!("9".repeat(100_000).parse::<GoDuration>().is_err());
        assert!(format!("{}s", "9".repeat(100_000)).parse::<GoDuration>().is_err());
    }
}
