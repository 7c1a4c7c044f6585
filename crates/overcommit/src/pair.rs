//! The two resources that are lent, side by side.

use std::num::NonZero;
use std::ops::{Add, AddAssign, Sub};

use api::metadata::ResourceList;
use api::protocol::resource::{CPU, MEMORY};
use api::resources::{WireList, amount};
use serde::Serialize;
use units::{Format, Quantity};

/// One value for CPU and one for memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Pair<T> {
    pub cpu: T,
    pub memory: T,
}

/// CPU in cores, memory in bytes, both exact.
pub type Amounts = Pair<Quantity>;

impl<T> Pair<T> {
    pub const fn new(cpu: T, memory: T) -> Self {
        Self { cpu, memory }
    }

    pub fn map<U>(self, f: impl Fn(T) -> U) -> Pair<U> {
        Pair { cpu: f(self.cpu), memory: f(self.memory) }
    }

    pub fn zip<U>(self, other: Pair<U>) -> Pair<(T, U)> {
        Pair { cpu: (self.cpu, other.cpu), memory: (self.memory, other.memory) }
    }
}

impl Amounts {
    pub const ZERO: Self = Self::new(Quantity::ZERO, Quantity::ZERO);

    /// What a list says of cpu and memory; an absent name is zero.
    pub fn of(list: &ResourceList) -> Self {
        Self::partly(list).map(Option::unwrap_or_default)
    }

    /// What a list says of cpu and memory.
    pub fn partly(list: &ResourceList) -> Pair<Option<Quantity>> {
        Pair::new(list.get(CPU).copied(), list.get(MEMORY).copied())
    }

    /// As [`Amounts::partly`], from Kubernetes' own type.
    pub fn on_wire(list: &WireList) -> Pair<Option<Quantity>> {
        Pair::new(list.get(CPU).map(amount), list.get(MEMORY).map(amount))
    }

    /// Thousandths of a core and whole bytes, as the formulas count; rounded up.
    pub fn counts(self) -> Pair<i64> {
        Pair::new(self.cpu.milli_value(), self.memory.value())
    }

    /// The inverse of [`Amounts::counts`].
    pub fn from_counts(counts: Pair<i64>) -> Self {
        Self::new(
            Quantity::from_milli(counts.cpu, Format::DecimalSi),
            Quantity::from_int(counts.memory, Format::BinarySi),
        )
    }

    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self::new(self.cpu.max(other.cpu), self.memory.max(other.memory))
    }

    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self::new(self.cpu.min(other.cpu), self.memory.min(other.memory))
    }

    /// Negative amounts become zero.
    #[must_use]
    pub fn floored(self) -> Self {
        self.max(Self::ZERO)
    }

    /// An equal part for each of `parts`, rounded up to thousandths.
    #[must_use]
    pub fn split(self, parts: NonZero<i64>) -> Self {
        self.map(|whole| {
            let millis = whole.milli_value();
            let part = millis / parts.get() + i64::from(millis % parts.get() > 0);
            Quantity::from_milli(part, whole.format())
        })
    }
}

impl Add for Amounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::new(self.cpu + other.cpu, self.memory + other.memory)
    }
}

impl AddAssign for Amounts {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Amounts {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self::new(self.cpu - other.cpu, self.memory - other.memory)
    }
}

/// `whole * factor` without its fraction, in the reference's arithmetic: a binary64 product.
pub(crate) fn truncated(whole: i64, factor: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "casts saturate, and NaN becomes zero")]
    let product = (whole as f64 * factor) as i64;
    product
}

/// A percentage as the factor the reference multiplies with.
pub(crate) fn fraction(percent: i64) -> f64 {
    percent as f64 / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_truncated_like_binary64() {
        let cases = [
            (100_000, fraction(100 - 71), 28_999),
            (100_000_000_000, fraction(100 - 71), 28_999_999_999),
            (64_000, fraction(100 - 60), 25_600),
            (64_000, fraction(100 - 120), -12_800),
            (i64::MAX, f64::INFINITY, i64::MAX),
            (0, f64::INFINITY, 0),
        ];
        for (whole, factor, want) in cases {
            assert_eq!(truncated(whole, factor), want, "{whole} x {factor}");
        }
    }

    #[test]
    fn a_split_never_loses_anything() {
        let whole = Amounts::from_counts(Pair::new(1_000, 10));
        let third = whole.split(NonZero::new(3).unwrap());
        assert_eq!(third.cpu, "334m".parse().unwrap());
        assert_eq!(third.memory, "3334m".parse().unwrap(), "thousandths of a byte");
        assert_eq!(whole.split(NonZero::new(1).unwrap()), whole);
    }

    #[test]
    fn counts_round_up() {
        let amounts = Amounts::new("1500u".parse().unwrap(), "1.5".parse().unwrap());
        assert_eq!(amounts.counts(), Pair::new(2, 2));
    }
}
