//! Which texts are quantities, and what are they worth?
//!
//! ```text
//! quantity = [ "+" | "-" ] number [ suffix ]
//! number   = digits [ "." [ digits ] ] | "." digits
//! suffix   = "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E"
//!          | "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei"
//!          | ( "e" | "E" ) [ "+" | "-" ] digits
//! ```
//!
//! That is the pattern of the CRD schemas without fractional exponents, which Kubernetes refuses
//! too. The Kubernetes parser also reads a number without digits (`.`, `+`, `Ki`) as zero and lets
//! exponents wrap around at 2³²; here both are errors.
//!
//! One pass over the digits, no allocation: text of any length costs time linear in its length.

use std::borrow::Cow;
use std::str::FromStr;

use super::{Format, MAX_NANOS, NANOS_PER_UNIT, Quantity};
use crate::excerpt::{Excerpt, found_at};

/// Why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error("quantity {text}: expected {expected} at byte {at}, found {found}")]
    Syntax { text: Excerpt, at: usize, expected: &'static str, found: String },

    #[error("quantity {text}: the exponent at byte {at} is not between -2147483648 and 2147483647")]
    Exponent { text: Excerpt, at: usize },
}

const SUFFIX: &str = "one of the suffixes n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent";

/// The largest magnitude Kubernetes gives a number with a binary suffix, in nano.
const MAX_BINARY_NANOS: i128 = i64::MAX as i128 * NANOS_PER_UNIT;

/// The pieces of a well-formed quantity.
struct Parts<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    suffix: Suffix,
}

/// The factor 10^`ten` × 2^`two`; at most one of them is not zero.
#[derive(Clone, Copy)]
struct Suffix {
    ten: i32,
    two: u32,
    format: Format,
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Ok(split(text)?.quantity())
    }
}

impl Quantity {
    /// What a typed Kubernetes API server sends back for `text`: the canonical form, or `text`
    /// itself where the server's parser takes it for canonical already (see the module
    /// documentation of [`Quantity`]).
    pub fn wire_text(text: &str) -> Result<Cow<'_, str>, QuantityError> {
        let parts = split(text)?;
        Ok(if parts.is_echoed() {
            Cow::Borrowed(text)
        } else {
            Cow::Owned(parts.quantity().to_string())
        })
    }
}

impl Parts<'_> {
    fn quantity(&self) -> Quantity {
        let Suffix { ten, two, mut format } = self.suffix;
        let mut nanos = if two == 0 {
            decimal_nanos(self.whole, self.fraction, ten)
        } else {
            binary_nanos(self.whole, self.fraction, two).min(MAX_BINARY_NANOS)
        };
        if format == Format::BinarySi && nanos > 0 && nanos < NANOS_PER_UNIT {
            format = Format::DecimalSi;
        }
        if self.negative {
            nanos = -nanos;
        }
        Quantity { nanos, format }
    }

    /// The shortcut of the Kubernetes parser: a number that fits its fast path is not printed anew
    /// when no larger suffix could absorb its last digits.
    fn is_echoed(&self) -> bool {
        let whole = skip_zeros(self.whole);
        let digits = whole.len().max(1).saturating_add(self.fraction.len());
        let low = whole
            .iter()
            .chain(self.fraction)
            .fold(0, |low, digit| (low * 10 + u32::from(digit - b'0')) % 1_000);
        let places = i64::try_from(self.fraction.len()).unwrap_or(i64::MAX);
        let scale = i64::from(self.suffix.ten).saturating_sub(places);

        match self.suffix.format {
            // The fast path estimates a binary suffix as three digits per ten bits.
            Format::BinarySi => {
                let width = digits.saturating_add(self.suffix.two as usize * 3 / 10);
                self.fraction.is_empty() && width < 15 && low % 8 != 0
            }
            Format::DecimalSi | Format::DecimalExponent => {
                digits <= 18 && scale >= -9 && scale % 3 == 0 && !whole.is_empty() && low != 0
            }
        }
    }
}

fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    let bytes = text.as_bytes();
    let syntax = |at: usize, expected| QuantityError::Syntax {
        text: Excerpt::of(text),
        at,
        expected,
        found: found_at(text, at),
    };

    let (negative, rest) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, bytes),
    };
    let (whole, rest) = split_digits(rest);
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => split_digits(rest),
        _ => (&rest[..0], rest),
    };
    let at = bytes.len() - rest.len();
    if whole.is_empty() && fraction.is_empty() {
        return Err(syntax(at, "a digit"));
    }

    let (ten, two, format) = match rest {
        b"n" => (-9, 0, Format::DecimalSi),
        b"u" => (-6, 0, Format::DecimalSi),
        b"m" => (-3, 0, Format::DecimalSi),
        b"" => (0, 0, Format::DecimalSi),
        b"k" => (3, 0, Format::DecimalSi),
        b"M" => (6, 0, Format::DecimalSi),
        b"G" => (9, 0, Format::DecimalSi),
        b"T" => (12, 0, Format::DecimalSi),
        b"P" => (15, 0, Format::DecimalSi),
        b"E" => (18, 0, Format::DecimalSi),
        b"Ki" => (0, 10, Format::BinarySi),
        b"Mi" => (0, 20, Format::BinarySi),
        b"Gi" => (0, 30, Format::BinarySi),
        b"Ti" => (0, 40, Format::BinarySi),
        b"Pi" => (0, 50, Format::BinarySi),
        b"Ei" => (0, 60, Format::BinarySi),
        [b'e' | b'E', b'+' | b'-' | b'0'..=b'9', ..] => {
            let (negative, digits) = match &rest[1..] {
                [b'-', digits @ ..] => (true, digits),
                [b'+', digits @ ..] => (false, digits),
                digits => (false, digits),
            };
            let (digits, junk) = split_digits(digits);
            let end = bytes.len() - junk.len();
            if digits.is_empty() {
                return Err(syntax(end, "a digit of the exponent"));
            }
            if !junk.is_empty() {
                return Err(syntax(end, "the end after the exponent"));
            }
            let exponent = exponent(negative, digits)
                .ok_or_else(|| QuantityError::Exponent { text: Excerpt::of(text), at: at + 1 })?;
            (exponent, 0, Format::DecimalExponent)
        }
        _ => return Err(syntax(at, SUFFIX)),
    };
    Ok(Parts { negative, whole, fraction, suffix: Suffix { ten, two, format } })
}

fn split_digits(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len());
    bytes.split_at(end)
}

fn skip_zeros(digits: &[u8]) -> &[u8] {
    let start = digits.iter().position(|digit| *digit != b'0').unwrap_or(digits.len());
    digits.split_at(start).1
}

fn exponent(negative: bool, digits: &[u8]) -> Option<i32> {
    let magnitude = skip_zeros(digits)
        .iter()
        .try_fold(0_i64, |sum, digit| sum.checked_mul(10)?.checked_add(i64::from(digit - b'0')))?;
    i32::try_from(if negative { -magnitude } else { magnitude }).ok()
}

/// `whole.fraction` × 10^`ten` in nano, the remainder rounded up, at most [`MAX_NANOS`].
fn decimal_nanos(whole: &[u8], fraction: &[u8], ten: i32) -> i128 {
    // Nano means nine places after the point, and the suffix moves the point: so many digits of
    // the written number are kept, and so many zeros are appended when it has fewer.
    let digits = whole.iter().chain(fraction);
    let written = whole.len().saturating_add(fraction.len());
    let kept = i64::try_from(whole.len()).unwrap_or(i64::MAX).saturating_add(i64::from(ten) + 9);
    let kept = usize::try_from(kept).unwrap_or(0);

    let mut nanos = 0;
    for digit in digits.clone().take(kept) {
        nanos = nanos * 10 + i128::from(digit - b'0');
        if nanos > MAX_NANOS {
            return MAX_NANOS;
        }
    }
    for _ in written..kept {
        if nanos == 0 || nanos > MAX_NANOS {
            break;
        }
        nanos *= 10;
    }
    if digits.skip(kept).any(|digit| *digit != b'0') {
        nanos += 1;
    }
    nanos.min(MAX_NANOS)
}

/// `whole.fraction` × 2^`two` in nano, the remainder rounded up, at most [`MAX_NANOS`].
fn binary_nanos(whole: &[u8], fraction: &[u8], two: u32) -> i128 {
    // The fraction is multiplied digit by digit from the right, as on paper: the product has as
    // many places as the fraction, and what is carried out of the first place is whole.
    let mut carry = 0_i128;
    let mut nanos = 0_i128;
    let mut has_rest = false;
    let mut place_value = 1_i128;
    for (place, digit) in fraction.iter().enumerate().rev() {
        carry += i128::from(digit - b'0') << two;
        let out = carry % 10;
        carry /= 10;
        if place >= 9 {
            has_rest |= out != 0;
        } else {
            nanos += out * place_value;
            place_value *= 10;
        }
    }
    for _ in fraction.len()..9 {
        nanos *= 10;
    }

    let mut units = 0_i128;
    for digit in whole {
        units = units * 10 + i128::from(digit - b'0');
        if units > MAX_NANOS / NANOS_PER_UNIT {
            return MAX_NANOS;
        }
    }
    units
        .saturating_mul(1 << two)
        .saturating_add(carry)
        .saturating_mul(NANOS_PER_UNIT)
        .saturating_add(nanos + i128::from(has_rest))
        .min(MAX_NANOS)
}
