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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scale;

    fn nanos(nanos: i128, format: Format) -> Quantity {
        Quantity::from_nanos(nanos, format)
    }

    fn units(units: i64, format: Format) -> Quantity {
        Quantity::from_int(units, format)
    }

    #[test]
    fn canonical_forms() {
        use Format::{BinarySi, DecimalExponent, DecimalSi};
        let cases = [
            ("zero", units(0, DecimalSi), "0"),
            ("binary zero", units(0, BinarySi), "0"),
            ("exponent zero", units(0, DecimalExponent), "0"),
            ("one", units(1, DecimalSi), "1"),
            ("batch cpu", units(12_000, DecimalSi), "12k"),
            ("batch cpu, odd", units(12_345, DecimalSi), "12345"),
            ("zeros that are not three", units(1_200, DecimalSi), "1200"),
            ("negative", units(-12_000, DecimalSi), "-12k"),
            ("milli", Quantity::from_milli(5_400, DecimalSi), "5400m"),
            ("milli, whole", Quantity::from_milli(2_000, DecimalSi), "2"),
            ("micro", nanos(1_500, DecimalSi), "1500n"),
            ("nano", nanos(1, DecimalSi), "1n"),
            ("exa", nanos(10_i128.pow(27), DecimalSi), "1E"),
            ("above exa", nanos(10_i128.pow(30), DecimalSi), "1e21"),
            ("far above exa", nanos(15 * 10_i128.pow(33), DecimalSi), "15e24"),
            ("the largest", Quantity::MAX, "100e27"),
            ("the smallest", Quantity::MIN, "-100e27"),
            ("exponent", units(12_000_000, DecimalExponent), "12e6"),
            ("exponent, plain", units(12, DecimalExponent), "12"),
            ("exponent, milli", Quantity::from_milli(1_500, DecimalExponent), "1500e-3"),
            ("exponent, above exa", nanos(10_i128.pow(30), DecimalExponent), "1e21"),
            ("kibi", units(1 << 10, BinarySi), "1Ki"),
            ("half a gibi", units(1 << 29, BinarySi), "512Mi"),
            ("mebi", units(1536 << 20, BinarySi), "1536Mi"),
            ("exbi", units(7 << 60, BinarySi), "7Ei"),
            ("negative gibi", units(-(20 << 30), BinarySi), "-20Gi"),
            ("memory usage", units(5_862_330_450, BinarySi), "5862330450"),
            ("memory usage in kibi", units(5_712_464 << 10, BinarySi), "5712464Ki"),
            ("whole, but no power of 1024", units(2_000, BinarySi), "2000"),
            ("below 1024 is decimal", units(1_023, BinarySi), "1023"),
            ("even if decimal has a suffix", units(1_000, BinarySi), "1k"),
            ("binary fraction", Quantity::from_milli(1_500, BinarySi), "1500m"),
            ("large binary fraction", Quantity::from_milli(1_048_577, BinarySi), "1048577m"),
            ("largest binary", units(i64::MAX, BinarySi), "9223372036854775807"),
            ("beyond, where binary is capped", nanos(NANOS_PER_UNIT << 64, BinarySi), TWO_64),
            ("beyond, negative", units(i64::MIN, BinarySi), "-9223372036854775808"),
        ];
        for (name, quantity, want) in cases {
            assert_eq!(quantity.to_string(), want, "{name}");
            assert_eq!(want.parse(), Ok(quantity), "{name} reads back");
        }
    }

    const TWO_64: &str = "18446744073709551616";

    #[test]
    fn width_and_alignment_are_honoured() {
        let quantity = units(20 << 30, Format::BinarySi).round_up(Scale::One);
        assert_eq!(format!("[{quantity:>6}]"), "[  20Gi]");
        assert_eq!(format!("[{:<3}]", Quantity::ZERO), "[0  ]");
    }
}
