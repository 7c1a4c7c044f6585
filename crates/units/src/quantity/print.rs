//! How is a quantity written? The canonical form; its rules are in the parent module.

use std::fmt;

use super::{Format, NANOS_PER_UNIT, Quantity};

/// Suffixes of the decimal family from 10⁻⁹ up, a thousand apart.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// Suffixes of the binary family from 2⁰ up, 1024 apart.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.pad("0");
        }
        let text = match (self.format, self.binary_units()) {
            (Format::BinarySi, Some(units)) => binary_text(units),
            (Format::BinarySi | Format::DecimalSi, _) => decimal_text(self.nanos, Family::Suffix),
            (Format::DecimalExponent, _) => decimal_text(self.nanos, Family::Exponent),
        };
        f.pad(&text)
    }
}

impl Quantity {
    /// The value in units if the binary family can express it and read it back.
    fn binary_units(&self) -> Option<i64> {
        let units = i64::try_from(self.nanos / NANOS_PER_UNIT).ok()?;
        let fits =
            self.nanos % NANOS_PER_UNIT == 0 && units.unsigned_abs() >= 1024 && units != i64::MIN;
        fits.then_some(units)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Suffix,
    Exponent,
}

fn binary_text(mut units: i64) -> String {
    let mut step = 0;
    while units % 1024 == 0 && step + 1 < BINARY.len() {
        units /= 1024;
        step += 1;
    }
    format!("{units}{}", BINARY[step])
}

fn decimal_text(nanos: i128, family: Family) -> String {
    let mut mantissa = nanos;
    let mut step = 0;
    while mantissa % 1_000 == 0 {
        mantissa /= 1_000;
        step += 1;
    }
    let exponent = 3 * i32::try_from(step).unwrap_or_default() - 9;
    match DECIMAL.get(step) {
        Some(suffix) if family == Family::Suffix => format!("{mantissa}{suffix}"),
        _ if exponent == 0 => mantissa.to_string(),
        _ => format!("{mantissa}e{exponent}"),
    }
}
