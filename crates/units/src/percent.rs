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
    /// is the one place of the crate that computes with floats.
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
        write!(f, "{}%", self.0)
    }
}
