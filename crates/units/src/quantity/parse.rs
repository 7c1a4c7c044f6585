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

const EXPECTED_SUFFIX: &str =
    "one of the suffixes n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent";

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

impl Suffix {
    fn named(name: &[u8]) -> Option<Self> {
        let decimal = |ten| Some(Self { ten, two: 0, format: Format::DecimalSi });
        let binary = |two| Some(Self { ten: 0, two, format: Format::BinarySi });
        match name {
            b"n" => decimal(-9),
            b"u" => decimal(-6),
            b"m" => decimal(-3),
            b"" => decimal(0),
            b"k" => decimal(3),
            b"M" => decimal(6),
            b"G" => decimal(9),
            b"T" => decimal(12),
            b"P" => decimal(15),
            b"E" => decimal(18),
            b"Ki" => binary(10),
            b"Mi" => binary(20),
            b"Gi" => binary(30),
            b"Ti" => binary(40),
            b"Pi" => binary(50),
            b"Ei" => binary(60),
            _ => None,
        }
    }
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
    let (negative, rest) = split_sign(bytes);
    let (whole, rest) = split_digits(rest);
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => split_digits(rest),
        _ => (&[][..], rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(syntax(text, bytes.len() - rest.len(), "a digit"));
    }
    let suffix = match rest {
        [b'e' | b'E', b'+' | b'-' | b'0'..=b'9', ..] => exponent(text, rest)?,
        _ => Suffix::named(rest)
            .ok_or_else(|| syntax(text, bytes.len() - rest.len(), EXPECTED_SUFFIX))?,
    };
    Ok(Parts { negative, whole, fraction, suffix })
}

/// Reads the exponent `suffix` at the end of `text`.
fn exponent(text: &str, suffix: &[u8]) -> Result<Suffix, QuantityError> {
    let (negative, rest) = split_sign(suffix.split_at(1).1);
    let (digits, rest) = split_digits(rest);
    let end = text.len() - rest.len();
    if digits.is_empty() {
        return Err(syntax(text, end, "a digit of the exponent"));
    }
    if !rest.is_empty() {
        return Err(syntax(text, end, "the end after the exponent"));
    }
    let too_large = || {
        let at = text.len() - suffix.len() + 1;
        QuantityError::Exponent { text: Excerpt::of(text), at }
    };
    let magnitude = digits
        .iter()
        .try_fold(0_i64, |sum, digit| sum.checked_mul(10)?.checked_add(i64::from(digit - b'0')))
        .ok_or_else(too_large)?;
    let ten = i32::try_from(if negative { -magnitude } else { magnitude });
    Ok(Suffix { ten: ten.map_err(|_| too_large())?, two: 0, format: Format::DecimalExponent })
}

fn syntax(text: &str, at: usize, expected: &'static str) -> QuantityError {
    QuantityError::Syntax { text: Excerpt::of(text), at, expected, found: found_at(text, at) }
}

fn split_sign(bytes: &[u8]) -> (bool, &[u8]) {
    match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, bytes),
    }
}

fn split_digits(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len());
    bytes.split_at(end)
}

fn skip_zeros(digits: &[u8]) -> &[u8] {
    let start = digits.iter().position(|digit| *digit != b'0').unwrap_or(digits.len());
    digits.split_at(start).1
}

/// `whole.fraction` × 10^`ten` in nano, the remainder rounded up, at most [`MAX_NANOS`].
fn decimal_nanos(whole: &[u8], fraction: &[u8], ten: i32) -> i128 {
    // Nano means nine places after the point, and the suffix moves the point: so many digits of
    // the written number are kept, and so many zeros are appended when it has fewer.
    let digits = whole.iter().chain(fraction);
    let written = whole.len().saturating_add(fraction.len());
    let kept = i64::try_from(whole.len()).unwrap_or(i64::MAX).saturating_add(i64::from(ten) + 9);
    let kept = usize::try_from(kept).unwrap_or(0);

    let mut nanos = 0_i128;
    for digit in digits.clone().take(kept) {
        nanos = nanos.saturating_mul(10).saturating_add(i128::from(digit - b'0'));
    }
    for _ in written..kept {
        if nanos == 0 || nanos > MAX_NANOS {
            break;
        }
        nanos = nanos.saturating_mul(10);
    }
    if digits.skip(kept).any(|digit| *digit != b'0') {
        nanos = nanos.saturating_add(1);
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

    whole
        .iter()
        .fold(0_i128, |units, digit| {
            units.saturating_mul(10).saturating_add(i128::from(digit - b'0'))
        })
        .saturating_mul(1 << two)
        .saturating_add(carry)
        .saturating_mul(NANOS_PER_UNIT)
        .saturating_add(nanos + i128::from(has_rest))
        .min(MAX_NANOS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SI: Format = Format::DecimalSi;
    const BINARY: Format = Format::BinarySi;
    const EXPONENT: Format = Format::DecimalExponent;
    const MAX: i128 = MAX_NANOS;
    const MAX_BINARY: i128 = MAX_BINARY_NANOS;

    #[test]
    fn every_form_has_its_value_and_family() {
        let cases = [
            ("plain", "7", 7_000_000_000, SI),
            ("leading zeros", "007", 7_000_000_000, SI),
            ("plus", "+7", 7_000_000_000, SI),
            ("minus", "-7", -7_000_000_000, SI),
            ("fraction", "2.75", 2_750_000_000, SI),
            ("no whole part", ".75", 750_000_000, SI),
            ("no fraction digits", "2.", 2_000_000_000, SI),
            ("no fraction digits, suffix", "2.k", 2_000_000_000_000, SI),
            ("minus zero", "-0", 0, SI),
            ("nano", "3n", 3, SI),
            ("micro", "3u", 3_000, SI),
            ("milli", "3m", 3_000_000, SI),
            ("kilo", "3k", 3_000_000_000_000, SI),
            ("mega", "3M", 3 * 10_i128.pow(15), SI),
            ("giga", "3G", 3 * 10_i128.pow(18), SI),
            ("tera", "3T", 3 * 10_i128.pow(21), SI),
            ("peta", "3P", 3 * 10_i128.pow(24), SI),
            ("exa", "3E", 3 * 10_i128.pow(27), SI),
            ("fraction of a suffix", "0.25k", 250_000_000_000, SI),
            ("kibi", "3Ki", 3 * 1024 * NANOS_PER_UNIT, BINARY),
            ("mebi", "3Mi", (3 << 20) * NANOS_PER_UNIT, BINARY),
            ("gibi", "3Gi", (3 << 30) * NANOS_PER_UNIT, BINARY),
            ("tebi", "3Ti", (3 << 40) * NANOS_PER_UNIT, BINARY),
            ("pebi", "3Pi", (3 << 50) * NANOS_PER_UNIT, BINARY),
            ("exbi", "3Ei", (3 << 60) * NANOS_PER_UNIT, BINARY),
            ("zero kibi", "0Ki", 0, BINARY),
            ("half a gibi", "0.5Gi", (1 << 29) * NANOS_PER_UNIT, BINARY),
            ("binary with a rest", "1.1Ki", 1_126_400_000_000, BINARY),
            ("binary below one turns decimal", "0.0005Ki", 512_000_000, SI),
            ("binary of one stays", "0.0009765625Ki", NANOS_PER_UNIT, BINARY),
            ("negative too", "-0.0005Ki", -512_000_000, SI),
            ("small e", "3e4", 30_000 * NANOS_PER_UNIT, EXPONENT),
            ("capital e", "3E4", 30_000 * NANOS_PER_UNIT, EXPONENT),
            ("positive exponent", "3e+4", 30_000 * NANOS_PER_UNIT, EXPONENT),
            ("negative exponent", "3E-4", 300_000, EXPONENT),
            ("zero exponent", "3e0", 3 * NANOS_PER_UNIT, EXPONENT),
            ("exponent with zeros", "3e0004", 30_000 * NANOS_PER_UNIT, EXPONENT),
            ("fraction and exponent", "1.25e1", 12_500_000_000, EXPONENT),
            ("zero to a high power", "0e2147483647", 0, EXPONENT),
        ];
        for (name, text, nanos, format) in cases {
            let quantity: Quantity = text.parse().unwrap();
            assert_eq!((quantity.nanos, quantity.format), (nanos, format), "{name}: {text}");
        }
    }

    #[test]
    fn finer_than_nano_rounds_away_from_zero() {
        let cases = [
            ("just above", "2.0001n", 3),
            ("just below", "2.9999n", 3),
            ("negative", "-2.0001n", -3),
            ("nothing lost", "2.0000n", 2),
            ("tenth place", "0.0000000011", 2),
            ("far away", "1e-2147483648", 1),
            ("far away, negative", "-1e-30", -1),
            ("far zero", "0.00000000000000000000", 0),
            ("binary", "0.0000000001Ki", 103),
            ("binary, exact", "0.000000125Ki", 128_000),
            ("binary, carried into the whole", "1.9999999999999Ki", 2_048_000_000_000),
            ("binary, one digit past exact", "0.00000012500000000001Ki", 128_001),
        ];
        for (name, text, nanos) in cases {
            assert_eq!(text.parse::<Quantity>().unwrap().nanos, nanos, "{name}: {text}");
        }
    }

    #[test]
    fn huge_values_are_capped() {
        let long = "9".repeat(100_000);
        let cases = [
            ("largest binary", "9223372036854775807Ki".to_owned(), MAX_BINARY),
            ("8Ei is one too many", "8Ei".to_owned(), MAX_BINARY),
            ("7Ei is not", "7Ei".to_owned(), (7 << 60) * NANOS_PER_UNIT),
            ("negative binary", "-8Ei".to_owned(), -MAX_BINARY),
            ("decimal goes on", "12E".to_owned(), 12 * 10_i128.pow(27)),
            ("to the limit", "100e27".to_owned(), MAX),
            ("just below the limit", "99999999999999999999999999999.999999999".to_owned(), MAX - 1),
            ("just above the limit", "100000000000000000000000000000.000000001".to_owned(), MAX),
            ("a rest that rounds into it", "99999999999999999999999999999.9999999991".into(), MAX),
            ("far above", "1e2147483647".to_owned(), MAX),
            ("far below", "-1e2147483647".to_owned(), -MAX),
            ("long", long.clone(), MAX),
            ("long binary", format!("{long}.{long}Ei"), MAX_BINARY),
            ("long and scaled back", format!("{long}e-100000"), NANOS_PER_UNIT),
            ("long fraction", format!("0.{long}"), NANOS_PER_UNIT),
        ];
        for (name, text, nanos) in cases {
            assert_eq!(text.parse::<Quantity>().unwrap().nanos, nanos, "{name}");
        }
    }

    #[test]
    fn refusals_say_where_and_what() {
        let cases = [
            ("", 0, "a digit"),
            ("+", 1, "a digit"),
            ("-", 1, "a digit"),
            (".", 1, "a digit"),
            ("-.", 2, "a digit"),
            ("Ki", 0, "a digit"),
            ("m", 0, "a digit"),
            ("e3", 0, "a digit"),
            (" 1", 0, "a digit"),
            ("++1", 1, "a digit"),
            ("-+1", 1, "a digit"),
            ("٣", 0, "a digit"),
            ("1 ", 1, EXPECTED_SUFFIX),
            ("1.2.3", 3, EXPECTED_SUFFIX),
            ("1,5", 1, EXPECTED_SUFFIX),
            ("1_000", 1, EXPECTED_SUFFIX),
            ("1K", 1, EXPECTED_SUFFIX),
            ("1g", 1, EXPECTED_SUFFIX),
            ("1i", 1, EXPECTED_SUFFIX),
            ("1ki", 1, EXPECTED_SUFFIX),
            ("1mi", 1, EXPECTED_SUFFIX),
            ("1GI", 1, EXPECTED_SUFFIX),
            ("1Gib", 1, EXPECTED_SUFFIX),
            ("1GB", 1, EXPECTED_SUFFIX),
            ("1µ", 1, EXPECTED_SUFFIX),
            ("1e", 1, EXPECTED_SUFFIX),
            ("1k2", 1, EXPECTED_SUFFIX),
            ("1+2", 1, EXPECTED_SUFFIX),
            ("0x10", 1, EXPECTED_SUFFIX),
            ("NaN", 0, "a digit"),
            ("1e-", 3, "a digit of the exponent"),
            ("1E+k", 3, "a digit of the exponent"),
            ("1e--3", 3, "a digit of the exponent"),
            ("1e1.5", 3, "the end after the exponent"),
            ("1e3m", 3, "the end after the exponent"),
            ("1E3Ki", 3, "the end after the exponent"),
        ];
        for (text, at, expected) in cases {
            let found = found_at(text, at);
            let want = QuantityError::Syntax { text: Excerpt::of(text), at, expected, found };
            assert_eq!(text.parse::<Quantity>(), Err(want), "{text:?}");
        }
        for text in ["1e2147483648", "1e-2147483649", "0e99999999999999999999999"] {
            let want = QuantityError::Exponent { text: Excerpt::of(text), at: 2 };
            assert_eq!(text.parse::<Quantity>(), Err(want), "{text:?}");
        }
    }

    #[test]
    fn a_refusal_reads_well() {
        let error = "12GB".parse::<Quantity>().unwrap_err();
        let want = "quantity \"12GB\": expected one of the suffixes n u m k M G T P E Ki Mi Gi Ti \
                    Pi Ei or an exponent at byte 2, found 'G'";
        assert_eq!(error.to_string(), want);
        let error = "1e-".parse::<Quantity>().unwrap_err();
        let want = "quantity \"1e-\": expected a digit of the exponent at byte 3, found the end";
        assert_eq!(error.to_string(), want);
        let error = "1e9999999999".parse::<Quantity>().unwrap_err();
        let want = "quantity \"1e9999999999\": the exponent at byte 2 is not between -2147483648 \
                    and 2147483647";
        assert_eq!(error.to_string(), want);
    }

    #[test]
    fn an_api_server_echoes_what_looks_canonical() {
        let cases = [
            ("canonical", "1500m", "1500m"),
            ("a larger suffix fits", "1000m", "1"),
            ("zeros that no suffix absorbs", "100m", "100m"),
            ("a larger binary suffix fits", "1024Mi", "1Gi"),
            ("a multiple of eight is printed anew, to the same", "1000Mi", "1000Mi"),
            ("binary", "1025Ki", "1025Ki"),
            ("fraction of a binary suffix", "0.5Gi", "512Mi"),
            ("one decimal", "1.5", "1500m"),
            ("three decimals are echoed", "1.500", "1.500"),
            ("three other decimals too", "2.345", "2.345"),
            ("unless they are zeros", "2.000", "2"),
            ("or the whole is zero", "0.500", "500m"),
            ("point without decimals", "5.", "5."),
            ("plus", "+5", "+5"),
            ("leading zeros", "007", "007"),
            ("binary leading zeros", "+07Ki", "+07Ki"),
            ("multiple of four", "+12Ki", "+12Ki"),
            ("multiple of eight", "+8Ki", "8Ki"),
            ("capital exponent", "1E3", "1E3"),
            ("signed exponent", "1e+3", "1e+3"),
            ("exponent that is not a multiple of three", "1e4", "10e3"),
            ("zero", "0", "0"),
            ("many zeros", "000", "0"),
            ("zero with a suffix", "0Gi", "0"),
            ("eighteen digits", "123456789012345.678", "123456789012345.678"),
            ("nineteen digits", "1234567890123456.789", "1234567890123456789m"),
            ("ten decimals", "1.0000000001", "1000000001n"),
            ("twelve decimals", "1.000000000001", "1000000001n"),
            ("binary at the width of the fast path", "+12345678901Ki", "+12345678901Ki"),
            ("binary beyond it", "+123456789013Ki", "123456789013Ki"),
            ("beyond our range", "1e30", "1e30"),
        ];
        for (name, text, want) in cases {
            assert_eq!(Quantity::wire_text(text).unwrap(), want, "{name}");
        }
        assert!(Quantity::wire_text("1.5.0").is_err());
    }
}
