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
        write!(f, "{}.{:02}", hundredths / 100, hundredths % 100)
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
