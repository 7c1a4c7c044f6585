//! Factors with two decimals: CPU normalisation and resource amplification.

use std::fmt;
use std::ops::Mul;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

use crate::Rounding;
use crate::excerpt::{Excerpt, found_at};
use crate::rounding::saturate;

/// A factor that is not negative, kept in millionths and printed with two decimals (`1.20`).
///
/// There is no `Serialize`: JSON writers print numbers their own way, and the annotations that
/// carry ratios want the digits `1.20`. Whoever writes such JSON prints the value with `Display`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ratio {
    millionths: u64,
}

/// Why a text is not a ratio.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RatioError {
    #[error("ratio {text}: expected {expected} at byte {at}, found {found}")]
    Syntax { text: Excerpt, at: usize, expected: &'static str, found: String },

    #[error("ratio {text}: must be below 1000000000")]
    TooLarge { text: Excerpt },
}

const PLACES: usize = 6;
const MILLIONTHS_PER_ONE: u64 = 1_000_000;
const MILLIONTHS_PER_HUNDREDTH: u64 = 10_000;
const MAX_MILLIONTHS: u64 = 1_000_000_000 * MILLIONTHS_PER_ONE;

impl Ratio {
    /// The factor that changes nothing.
    pub const ONE: Self = Self { millionths: MILLIONTHS_PER_ONE };

    pub const fn from_hundredths(hundredths: u32) -> Self {
        Self { millionths: hundredths as u64 * MILLIONTHS_PER_HUNDREDTH }
    }

    /// The value in hundredths, as printed: rounded to the nearest, halves to the even digit.
    pub const fn hundredths(self) -> u64 {
        let quotient = self.millionths / MILLIONTHS_PER_HUNDREDTH;
        let rest = self.millionths % MILLIONTHS_PER_HUNDREDTH;
        let half = MILLIONTHS_PER_HUNDREDTH / 2;
        let is_up = rest > half || (rest == half && quotient % 2 == 1);
        if is_up { quotient + 1 } else { quotient }
    }

    /// The value as it will be read back from its printed form.
    pub const fn to_printed(self) -> Self {
        Self { millionths: self.hundredths() * MILLIONTHS_PER_HUNDREDTH }
    }

    /// `amount` times this factor; saturates.
    pub fn apply<T: From<i64> + Into<i64>>(self, amount: T, rounding: Rounding) -> T {
        let product = i128::from(amount.into()) * i128::from(self.millionths);
        T::from(saturate(rounding.divide(product, MILLIONTHS_PER_ONE.into()).unwrap_or_default()))
    }
}

/// To the nearest millionth; saturates at 10⁹.
impl Mul for Ratio {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let one = u128::from(MILLIONTHS_PER_ONE);
        let product = (u128::from(self.millionths) * u128::from(other.millionths) + one / 2) / one;
        let millionths = u64::try_from(product).unwrap_or(MAX_MILLIONTHS).min(MAX_MILLIONTHS);
        Self { millionths }
    }
}

/// Digits with an optional fraction; what is finer than a millionth is rounded to the nearest.
impl FromStr for Ratio {
    type Err = RatioError;

    fn from_str(text: &str) -> Result<Self, RatioError> {
        let syntax = |at: usize, expected| RatioError::Syntax {
            text: Excerpt::of(text),
            at,
            expected,
            found: found_at(text, at),
        };
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = || whole.bytes().chain(fraction.bytes());
        if digits().next().is_none() {
            return Err(syntax(0, "a digit"));
        }
        if let Some(at) = text.bytes().enumerate().find_map(|(at, byte)| {
            let is_point = at == whole.len() && byte == b'.';
            (!byte.is_ascii_digit() && !is_point).then_some(at)
        }) {
            return Err(syntax(at, "a decimal number that is not negative"));
        }

        let mut millionths = 0_u64;
        let padded = digits().chain(std::iter::repeat(b'0')).take(whole.len() + PLACES);
        for digit in padded {
            millionths = millionths * 10 + u64::from(digit - b'0');
            if millionths >= MAX_MILLIONTHS {
                return Err(RatioError::TooLarge { text: Excerpt::of(text) });
            }
        }
        let next = fraction.as_bytes().get(PLACES);
        Ok(Self { millionths: millionths + u64::from(next.is_some_and(|digit| *digit >= b'5')) })
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = self.hundredths();
        f.pad(&format!("{}.{:02}", hundredths / 100, hundredths % 100))
    }
}

/// From any JSON number, by way of its text.
impl<'de> Deserialize<'de> for Ratio {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RatioVisitor)
    }
}

struct RatioVisitor;

impl Visitor<'_> for RatioVisitor {
    type Value = Ratio;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a ratio as a number such as 1.2")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Ratio, E> {
        value.to_string().parse().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Ratio, E> {
        value.to_string().parse().map_err(E::custom)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Ratio, E> {
        value.to_string().parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MilliCpu;

    fn ratio(text: &str) -> Ratio {
        text.parse().unwrap()
    }

    #[test]
    fn always_printed_with_two_decimals() {
        let cases = [
            ("1", "1.00"),
            ("1.2", "1.20"),
            ("1.20", "1.20"),
            ("1.234", "1.23"),
            ("1.236", "1.24"),
            ("1.125", "1.12"),
            ("1.375", "1.38"),
            ("1.1250001", "1.12"),
            ("1.125001", "1.13"),
            ("0.995", "1.00"),
            ("0", "0.00"),
            (".5", "0.50"),
            ("2.", "2.00"),
            ("0001.5", "1.50"),
            ("1.9999996", "2.00"),
            ("999999999.994999", "999999999.99"),
        ];
        for (text, want) in cases {
            assert_eq!(ratio(text).to_string(), want, "{text}");
        }
        assert_eq!(Ratio::from_hundredths(120).to_string(), "1.20");
        assert_eq!(Ratio::ONE, ratio("1"));
        assert_eq!(format!("[{:>6}]", Ratio::ONE), "[  1.00]");
    }

    #[test]
    fn products_are_finer_than_their_print() {
        let product = ratio("1.125") * ratio("1.20");
        assert_eq!(product, ratio("1.35"));
        assert_eq!(ratio("1.005") * ratio("1.005"), ratio("1.010025"));
        assert_eq!((ratio("1.005") * ratio("1.005")).to_printed(), ratio("1.01"));
        assert_eq!(ratio("0.001") * ratio("0.0005"), ratio("0.000001"), "halves go up");
        let huge = ratio("999999999");
        assert_eq!((huge * huge).to_string(), "1000000000.00");
    }

    #[test]
    fn applied_with_a_named_rounding() {
        assert_eq!(ratio("1.20").apply(MilliCpu(1_001), Rounding::Down), MilliCpu(1_201));
        assert_eq!(ratio("1.20").apply(MilliCpu(1_001), Rounding::Up), MilliCpu(1_202));
        assert_eq!(ratio("2").apply(MilliCpu(i64::MAX), Rounding::Up), MilliCpu(i64::MAX));
    }

    #[test]
    fn what_is_not_a_ratio_is_refused() {
        let number = "a decimal number that is not negative";
        let cases = [
            ("", 0, "a digit"),
            (".", 0, "a digit"),
            ("-1", 0, number),
            ("+1", 0, number),
            ("1.2.3", 3, number),
            ("1e3", 1, number),
            ("120%", 3, number),
            (" 1", 0, number),
            ("NaN", 0, number),
        ];
        for (text, at, expected) in cases {
            let found = found_at(text, at);
            let want = RatioError::Syntax { text: Excerpt::of(text), at, expected, found };
            assert_eq!(text.parse::<Ratio>(), Err(want), "{text:?}");
        }
        let error = "1000000000".parse::<Ratio>().unwrap_err();
        assert_eq!(error.to_string(), "ratio \"1000000000\": must be below 1000000000");
        assert!("9".repeat(100_000).parse::<Ratio>().is_err());
    }

    #[test]
    fn read_from_any_json_number() {
        for (json, want) in [("1.2", "1.2"), ("1.20", "1.2"), ("2", "2"), ("1e0", "1")] {
            assert_eq!(serde_json::from_str::<Ratio>(json).unwrap(), ratio(want), "{json}");
        }
        for json in ["-1", "-0.5", "\"1.2\"", "null", "1e300"] {
            assert!(serde_json::from_str::<Ratio>(json).is_err(), "{json}");
        }
    }
}
