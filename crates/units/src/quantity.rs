//! What is `1.5Gi` worth, and how is it written back?
//!
//! Kubernetes writes amounts as a decimal number with a suffix and promises that they are exact.
//! A [`Quantity`] is therefore an integer count of 10⁻⁹ ("nano") and the suffix family it was
//! written in:
//!
//! | family | suffixes | example |
//! |---|---|---|
//! | [`Format::DecimalSi`] | `n u m` (none) `k M G T P E` | `1500m` |
//! | [`Format::BinarySi`] | `Ki Mi Gi Ti Pi Ei` | `1536Mi` |
//! | [`Format::DecimalExponent`] | `e3`, `E-3` | `12e6` |
//!
//! **Value.** Comparison, equality and hashing look at the value only: `1`, `1000m` and `1e0` are
//! equal. Reading keeps nine decimals and moves a finer remainder away from zero (`0.1n` is `1n`:
//! whoever asks for something gets something). A number written with a binary suffix is capped at
//! ±(2⁶³ − 1), as in Kubernetes. Kubernetes lets all other numbers grow without bound; here they
//! end at ±10²⁹ ([`Quantity::MAX`]), where reading and arithmetic saturate.
//!
//! **Text.** [`Display`](std::fmt::Display) prints the canonical form: no fraction, no plus sign, and the
//! largest suffix of the family that leaves an integer. A binary amount that is below 1024 in
//! magnitude, is not whole, or is too large to be read back in binary is printed in the decimal
//! family instead. Above `E` the decimal family continues with `e21`, `e24`, `e27`.
//!
//! **On the wire.** A typed Kubernetes API server canonicalises what it is sent (`1000m` comes back
//! as `1`, `1024Mi` as `1Gi`), but its parser has a shortcut: text that looks canonical at a glance
//! is echoed, `+5`, `007`, `1.500` and `1E3` included. Custom resources are stored untyped, so
//! there the server keeps every text as it was written. This type does not carry the shortcut
//! along (it would cost `Copy` and an allocation per value); [`Quantity::wire_text`] reproduces it
//! for whoever plays the API server.

mod parse;
mod print;
mod wire;

pub use parse::QuantityError;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::iter::Sum;
use std::num::NonZero;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};

use crate::rounding::{Rounding, saturate};

const NANOS_PER_UNIT: i128 = 1_000_000_000;

/// Saturation bound of the value, in nano: 10²⁹ units.
const MAX_NANOS: i128 = 10_i128.pow(38);

/// The family of suffixes a quantity is written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// `12M` is 12 × 10⁶.
    #[default]
    DecimalSi,
    /// `12Mi` is 12 × 2²⁰.
    BinarySi,
    /// `12e6` is 12 × 10⁶.
    DecimalExponent,
}

/// A power of ten with a name, the grid that [`Quantity::round`] snaps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scale {
    Nano,
    Micro,
    Milli,
    One,
    Kilo,
    Mega,
    Giga,
    Tera,
    Peta,
    Exa,
}

impl Scale {
    const fn nanos(self) -> i128 {
        10_i128.pow(3 * self as u32)
    }
}

/// An exact amount of a resource; see the module documentation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quantity {
    /// Always within ±[`MAX_NANOS`].
    nanos: i128,
    format: Format,
}

impl Quantity {
    /// Zero in the decimal family.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };
    /// The largest value, 10²⁹.
    pub const MAX: Self = Self { nanos: MAX_NANOS, format: Format::DecimalSi };
    /// The smallest value, −10²⁹.
    pub const MIN: Self = Self { nanos: -MAX_NANOS, format: Format::DecimalSi };

    /// A whole number of units.
    pub const fn from_int(value: i64, format: Format) -> Self {
        Self { nanos: value as i128 * NANOS_PER_UNIT, format }
    }

    /// A whole number of thousandths.
    pub const fn from_milli(value: i64, format: Format) -> Self {
        Self { nanos: value as i128 * Scale::Milli.nanos(), format }
    }

    const fn from_nanos(nanos: i128, format: Format) -> Self {
        let nanos = if nanos > MAX_NANOS {
            MAX_NANOS
        } else if nanos < -MAX_NANOS {
            -MAX_NANOS
        } else {
            nanos
        };
        Self { nanos, format }
    }

    /// The suffix family this prints in.
    pub const fn format(self) -> Format {
        self.format
    }

    /// The same value in another family.
    pub const fn with_format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// How the value compares with zero.
    pub fn sign(self) -> Ordering {
        self.nanos.cmp(&0)
    }

    /// The value in whole units, rounded up (away from zero) and saturating at the ends of `i64`.
    pub fn value(self) -> i64 {
        self.to_int(Scale::One, Rounding::Up)
    }

    /// The value in thousandths, rounded up (away from zero) and saturating at the ends of `i64`.
    pub fn milli_value(self) -> i64 {
        self.to_int(Scale::Milli, Rounding::Up)
    }

    /// The value as a count of `scale`, saturating at the ends of `i64`.
    pub fn to_int(self, scale: Scale, rounding: Rounding) -> i64 {
        saturate(self.count(scale, rounding))
    }

    /// Moves the value to a multiple of `to`.
    pub fn round(self, to: Scale, rounding: Rounding) -> Self {
        let nanos = self.count(to, rounding).saturating_mul(to.nanos());
        Self::from_nanos(nanos, self.format)
    }

    /// Moves the value away from zero to a multiple of `to`.
    pub fn round_up(self, to: Scale) -> Self {
        self.round(to, Rounding::Up)
    }

    /// `self × numerator / denominator`, rounded once, to a multiple of 10⁻⁹; saturates.
    pub fn scale(self, numerator: i64, denominator: NonZero<i64>, rounding: Rounding) -> Self {
        let (numerator, denominator) = (i128::from(numerator), i128::from(denominator.get()));
        // Whole multiples of the denominator are scaled without rounding; what is left over is
        // below 2⁶³, so its product with the numerator fits. Both parts have the same sign.
        let whole = (self.nanos / denominator).saturating_mul(numerator);
        let rest = (self.nanos % denominator) * numerator;
        let nanos = whole.saturating_add(rounding.divide(rest, denominator).unwrap_or_default());
        Self::from_nanos(nanos, self.format)
    }

    fn count(self, scale: Scale, rounding: Rounding) -> i128 {
        rounding.divide(self.nanos, scale.nanos()).unwrap_or_default()
    }

    /// A zero left operand has no format of its own: it takes the other's.
    fn format_with(self, other: Self) -> Format {
        if self.is_zero() { other.format } else { self.format }
    }
}

/// Saturates; the format is the left operand's unless that is zero.
impl Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let nanos = self.nanos.saturating_add(other.nanos);
        Self::from_nanos(nanos, self.format_with(other))
    }
}

/// Saturates; the format is the left operand's unless that is zero.
impl Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Neg for Quantity {
    type Output = Self;

    fn neg(self) -> Self {
        Self { nanos: -self.nanos, ..self }
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(quantities: I) -> Self {
        quantities.fold(Self::ZERO, Add::add)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn q(text: &str) -> Quantity {
        text.parse().unwrap()
    }

    fn over(denominator: i64) -> NonZero<i64> {
        NonZero::new(denominator).unwrap()
    }

    #[test]
    fn texts_of_one_value_are_equal_and_hash_alike() {
        let same = ["1024", "1Ki", "1024000m", "1.024k", "1.024e3", "+1024.0"].map(q);
        assert!(same.iter().all(|other| *other == same[0]));
        assert_eq!(same.into_iter().collect::<HashSet<_>>().len(), 1);
        assert_ne!(q("1Ki"), q("1k"));
    }

    #[test]
    fn order_is_by_value() {
        let mut sorted = ["1Gi", "-1", "1G", "0", "999999999n", "1", "-1Ki", "1100m"].map(q);
        sorted.sort();
        let texts = sorted.map(|quantity| quantity.to_string());
        assert_eq!(texts, ["-1Ki", "-1", "0", "999999999n", "1", "1100m", "1G", "1Gi"]);
    }

    #[test]
    fn integer_values_round_up() {
        let cases = [
            ("whole", "4", 4, 4_000),
            ("a little more", "4.0000001", 5, 4_001),
            ("milli", "1500m", 2, 1_500),
            ("negative, away from zero", "-1500m", -2, -1_500),
            ("the smallest request", "1n", 1, 1),
            ("largest milli", "9223372036854775807m", 9_223_372_036_854_776, i64::MAX),
            ("beyond milli", "9223372036854776", 9_223_372_036_854_776, i64::MAX),
            ("largest unit", "9223372036854775807", i64::MAX, i64::MAX),
            ("beyond both", "9223372036854775808", i64::MAX, i64::MAX),
            ("beyond both, negative", "-9223372036854775809", i64::MIN, i64::MIN),
            ("limit", "1e29", i64::MAX, i64::MAX),
        ];
        for (name, text, value, milli) in cases {
            assert_eq!((q(text).value(), q(text).milli_value()), (value, milli), "{name}");
        }
    }

    #[test]
    fn rounding_moves_to_the_grid() {
        let cases = [
            ("up", "1234567n", Scale::Micro, Rounding::Up, "1235u"),
            ("down", "1234567n", Scale::Micro, Rounding::Down, "1234u"),
            ("nearest", "1234500n", Scale::Micro, Rounding::Nearest, "1235u"),
            ("negative up", "-1.1", Scale::One, Rounding::Up, "-2"),
            ("negative down", "-1.9", Scale::One, Rounding::Down, "-1"),
            ("already there", "5", Scale::Milli, Rounding::Up, "5"),
            ("coarser than the value", "5", Scale::Exa, Rounding::Up, "1E"),
            ("to nothing", "5", Scale::Exa, Rounding::Nearest, "0"),
            ("keeps the family", "1.5Ki", Scale::One, Rounding::Up, "1536"),
            ("stays in range", "1e29", Scale::Exa, Rounding::Up, "100e27"),
        ];
        for (name, text, scale, rounding, want) in cases {
            assert_eq!(q(text).round(scale, rounding).to_string(), want, "{name}");
        }
        assert_eq!(q("1n").round_up(Scale::Milli), q("1m"));
        assert_eq!(q("1Ki").round_up(Scale::Kilo), q("2k"));
    }

    #[test]
    fn sums_take_the_format_of_the_left_unless_it_is_zero() {
        let cases = [
            ("left decimal", q("1k") + q("1Ki"), "2024"),
            ("left binary", q("1Ki") + q("1k"), "2024"),
            ("left binary, printable", q("1Gi") + q("1073741824"), "2Gi"),
            ("left decimal, not binary", q("1073741824") + q("1Gi"), "2147483648"),
            ("zero left", q("0") + q("1Gi"), "1Gi"),
            ("zero right", q("1Gi") + q("0"), "1Gi"),
            ("difference", q("2Gi") - q("1073741824"), "1Gi"),
            ("zero minus", q("0") - q("1Gi"), "-1Gi"),
            ("exact across nine orders", q("1") + q("1n"), "1000000001n"),
            ("to zero", q("1Gi") - q("1Gi"), "0"),
            ("negated", -q("1Gi"), "-1Gi"),
        ];
        for (name, sum, want) in cases {
            assert_eq!(sum.to_string(), want, "{name}");
        }
        assert_eq!((q("0Ki") + q("0")).format(), Format::DecimalSi);
        let total: Quantity = ["1Gi", "512Mi"].map(q).into_iter().sum();
        assert_eq!(total.to_string(), "1536Mi");
        let mut left = q("2");
        left += q("500m");
        left -= q("1");
        assert_eq!(left.to_string(), "1500m");
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Quantity::MAX + q("1n"), Quantity::MAX);
        assert_eq!(Quantity::MAX + Quantity::MAX, Quantity::MAX);
        assert_eq!(Quantity::MIN - Quantity::MAX, Quantity::MIN);
        assert_eq!(-Quantity::MIN, Quantity::MAX);
        assert_eq!(Quantity::MAX.scale(i64::MAX, over(1), Rounding::Up), Quantity::MAX);
        assert_eq!(Quantity::MAX.scale(i64::MIN, over(1), Rounding::Up), Quantity::MIN);
        assert_eq!(Quantity::MAX.scale(i64::MIN, over(i64::MIN), Rounding::Up), Quantity::MAX);
    }

    #[test]
    fn scaling_rounds_once() {
        let cases = [
            ("percent of cores", "16", 65, 100, Rounding::Down, "10400m"),
            ("percent of memory", "20Gi", 50, 100, Rounding::Down, "10Gi"),
            ("thirds down", "1", 1, 3, Rounding::Down, "333333333n"),
            ("thirds up", "1", 1, 3, Rounding::Up, "333333334n"),
            ("two thirds nearest", "1", 2, 3, Rounding::Nearest, "666666667n"),
            ("negative numerator", "1", -1, 3, Rounding::Up, "-333333334n"),
            ("negative denominator", "1", 1, -3, Rounding::Up, "-333333334n"),
            ("both negative", "1", -1, -3, Rounding::Up, "333333334n"),
            ("by zero", "1", 0, 3, Rounding::Up, "0"),
            ("large on both sides", "12E", i64::MAX, i64::MAX, Rounding::Up, "12E"),
        ];
        for (name, text, numerator, denominator, rounding, want) in cases {
            let scaled = q(text).scale(numerator, over(denominator), rounding);
            assert_eq!(scaled.to_string(), want, "{name}");
        }
    }

    #[test]
    fn sign_and_zero() {
        assert_eq!(q("-1n").sign(), Ordering::Less);
        assert_eq!(q("-0Ki").sign(), Ordering::Equal);
        assert_eq!(q("1n").sign(), Ordering::Greater);
        assert!(Quantity::default().is_zero());
        assert!(!q("1n").is_zero());
    }

    #[test]
    fn another_format_keeps_the_value() {
        let decimal = q("1Gi").with_format(Format::DecimalSi);
        assert_eq!((decimal, decimal.to_string()), (q("1Gi"), "1073741824".to_owned()));
        assert_eq!(Quantity::from_int(i64::MIN, Format::DecimalSi).value(), i64::MIN);
        assert_eq!(Quantity::from_milli(i64::MIN, Format::DecimalSi).milli_value(), i64::MIN);
    }
}
