//! Whole percentages: thresholds, reclaim ratios, utilisation.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Rounding;
use crate::amount::amount;
use crate::excerpt::Excerpt;
use crate::rounding::saturate;

/// Hundredths of a whole; values above 100 and below 0 exist.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Percent(pub i64);

amount!(Percent);

/// Why a node label is not a ratio.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RatioLabelError {
    #[error("ratio {text}: expected a decimal number such as \"0.6\"")]
    Syntax { text: Excerpt },

    #[error("ratio {text}: must not be negative")]
    Negative { text: Excerpt },

    #[error("ratio {text}: too large for a percentage")]
    TooLarge { text: Excerpt },
}

impl Percent {
    pub const HUNDRED: Self = Self(100);

    /// What share of `whole` is `part`? `None` when `whole` is zero; saturates.
    pub fn of<T: Into<i64>>(part: T, whole: T, rounding: Rounding) -> Option<Self> {
        let (part, whole) = (i128::from(part.into()), i128::from(whole.into()));
        rounding.divide(part * 100, whole).map(|percent| Self(saturate(percent)))
    }

    /// This share of `whole`; saturates.
    pub fn apply<T: From<i64> + Into<i64>>(self, whole: T, rounding: Rounding) -> T {
        let share = i128::from(whole.into()) * i128::from(self.0);
        T::from(saturate(rounding.divide(share, 100).unwrap_or_default()))
    }

    /// Reads the ratio of a node label such as `cpu-reclaim-ratio`: `0.6` is 60 %.
    ///
    /// The reference multiplies a binary64 by 100 and truncates, so `0.29` is 28 % and `0.57` is
    /// 56 %. Two implementations that disagree by one percent would fight over the node, so this
    /// computes with floats too.
    pub fn from_ratio_label(text: &str) -> Result<Self, RatioLabelError> {
        let refused = || Excerpt::of(text);
        let ratio: f64 = text.parse().map_err(|_| RatioLabelError::Syntax { text: refused() })?;
        if !ratio.is_finite() {
            return Err(RatioLabelError::Syntax { text: refused() });
        }
        if ratio < 0.0 {
            return Err(RatioLabelError::Negative { text: refused() });
        }
        let percent = (ratio * 100.0).trunc();
        if percent >= 9_223_372_036_854_775_808.0 {
            return Err(RatioLabelError::TooLarge { text: refused() });
        }
        #[expect(clippy::cast_possible_truncation, reason = "whole, and below 2^63")]
        Ok(Self(percent as i64))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}%", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, MilliCpu};

    #[test]
    fn share_of_a_whole() {
        let of = |part, whole, rounding| Percent::of(MilliCpu(part), MilliCpu(whole), rounding);
        assert_eq!(of(1, 3, Rounding::Down), Some(Percent(33)));
        assert_eq!(of(1, 3, Rounding::Up), Some(Percent(34)));
        assert_eq!(of(3, 2, Rounding::Down), Some(Percent(150)));
        assert_eq!(of(-1, 2, Rounding::Down), Some(Percent(-50)));
        assert_eq!(of(1, 0, Rounding::Down), None);
        assert_eq!(of(0, 0, Rounding::Down), None);
        assert_eq!(of(i64::MAX, 1, Rounding::Down), Some(Percent(i64::MAX)));
    }

    #[test]
    fn a_percentage_applies_to_any_amount() {
        assert_eq!(Percent(65).apply(MilliCpu(16_000), Rounding::Down), MilliCpu(10_400));
        assert_eq!(Percent(33).apply(Bytes(10), Rounding::Down), Bytes(3));
        assert_eq!(Percent(33).apply(Bytes(10), Rounding::Up), Bytes(4));
        assert_eq!(Percent(i64::MAX).apply(Bytes(i64::MAX), Rounding::Up), Bytes(i64::MAX));
        assert_eq!(Percent(i64::MIN).apply(Bytes(i64::MAX), Rounding::Up), Bytes(i64::MIN));
    }

    #[test]
    fn ratio_labels_are_truncated_binary_products() {
        // Recorded with go1.26.8: the hundredths up to 3.00 whose product falls short.
        let short =
            [29, 57, 58, 113, 114, 115, 116, 201, 203, 205, 207, 226, 228, 230, 232, 251, 253, 255];
        for hundredths in 0..=300 {
            let label = format!("{}.{:02}", hundredths / 100, hundredths % 100);
            let want = if short.contains(&hundredths) { hundredths - 1 } else { hundredths };
            assert_eq!(Percent::from_ratio_label(&label), Ok(Percent(want)), "{label}");
        }
        let cases = [
            ("0", 0),
            ("-0", 0),
            ("1", 100),
            ("+.6", 60),
            ("2.", 200),
            ("6e-1", 60),
            ("0.999", 99),
            ("12.5", 1_250),
            ("1e-400", 0),
            ("90000000000000000", 9_000_000_000_000_000_000),
        ];
        for (label, want) in cases {
            assert_eq!(Percent::from_ratio_label(label), Ok(Percent(want)), "{label}");
        }
    }

    #[test]
    fn what_is_not_a_ratio_is_refused() {
        let cases = [
            ("", "ratio \"\": expected a decimal number such as \"0.6\""),
            ("60%", "ratio \"60%\": expected a decimal number such as \"0.6\""),
            ("abc", "ratio \"abc\": expected a decimal number such as \"0.6\""),
            (" 0.6", "ratio \" 0.6\": expected a decimal number such as \"0.6\""),
            ("0,6", "ratio \"0,6\": expected a decimal number such as \"0.6\""),
            ("NaN", "ratio \"NaN\": expected a decimal number such as \"0.6\""),
            ("Inf", "ratio \"Inf\": expected a decimal number such as \"0.6\""),
            ("-infinity", "ratio \"-infinity\": expected a decimal number such as \"0.6\""),
            ("1e400", "ratio \"1e400\": expected a decimal number such as \"0.6\""),
            ("-0.01", "ratio \"-0.01\": must not be negative"),
            ("-1e-300", "ratio \"-1e-300\": must not be negative"),
            ("1e17", "ratio \"1e17\": too large for a percentage"),
        ];
        for (label, want) in cases {
            let error = Percent::from_ratio_label(label).unwrap_err();
            assert_eq!(error.to_string(), want);
        }
    }

    #[test]
    fn prints_with_its_sign() {
        assert_eq!(format!("[{:>5}]", Percent(65)), "[  65%]");
        assert_eq!(Percent(-5).to_string(), "-5%");
    }
}
