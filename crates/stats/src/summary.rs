//! What does a window of samples say?
//!
//! Percentiles are order statistics without interpolation: of `n` sorted samples the percentile `p`
//! is the one at index `max(int(n * p) - 1, 0)`, the product taken in single precision. That is one
//! below the nearest rank where `n * p` is not whole, and it is what every consumer of NodeMetric
//! has seen so far, so it stays exactly so.

use std::time::Duration;

use crate::ring::Sample;

/// The percentiles that are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Percentile {
    P50,
    P90,
    P95,
    P99,
}

impl Percentile {
    fn fraction(self) -> f32 {
        match self {
            Self::P50 => 0.5,
            Self::P90 => 0.9,
            Self::P95 => 0.95,
            Self::P99 => 0.99,
        }
    }
}

/// Which of `count` sorted samples is the percentile `fraction`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the rule is defined on the truncated single-precision product"
)]
pub fn percentile_index(count: usize, fraction: f32) -> usize {
    ((count as f32 * fraction) as usize).saturating_sub(1)
}

/// All aggregates of one window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    pub count: usize,
    pub avg: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub last: f64,
    /// When the first sample of the window was taken.
    pub first_at: Duration,
    /// When the last sample of the window was taken.
    pub last_at: Duration,
}

impl Summary {
    /// Aggregates samples that are ordered by time; `None` without any. `scratch` is overwritten.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "samples come from rings, which keep single precision"
    )]
    pub fn of(samples: impl Iterator<Item = Sample>, scratch: &mut Vec<f32>) -> Option<Self> {
        scratch.clear();
        let mut sum = 0.0;
        let mut ends: Option<(Sample, Sample)> = None;
        for sample in samples {
            sum += sample.value;
            scratch.push(sample.value as f32);
            ends = Some((ends.map_or(sample, |(first, _)| first), sample));
        }
        let (first, last) = ends?;
        scratch.sort_unstable_by(f32::total_cmp);
        let at = |percentile: Percentile| {
            let index = percentile_index(scratch.len(), percentile.fraction());
            scratch.get(index).copied().map_or(last.value, f64::from)
        };
        Some(Self {
            count: scratch.len(),
            avg: sum / scratch.len() as f64,
            p50: at(Percentile::P50),
            p90: at(Percentile::P90),
            p95: at(Percentile::P95),
            p99: at(Percentile::P99),
            last: last.value,
            first_at: first.at,
            last_at: last.at,
        })
    }

    pub fn percentile(&self, percentile: Percentile) -> f64 {
        match percentile {
            Percentile::P50 => self.p50,
            Percentile::P90 => self.p90,
            Percentile::P95 => self.p95,
            Percentile::P99 => self.p99,
        }
    }

    /// Time between the first and the last sample.
    pub fn span(&self) -> Duration {
        self.last_at.saturating_sub(self.first_at)
    }

    /// Whether the samples span at least half of `window`; below that the process is still too
    /// young to speak about the window.
    pub fn covers_half_of(&self, window: Duration) -> bool {
        self.span() * 2 >= window
    }

    /// Whether the samples span the whole `window`, give or take one `interval`.
    pub fn fills(&self, window: Duration, interval: Duration) -> bool {
        self.span() + interval >= window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(values: &[f64]) -> Option<Summary> {
        let at = |index: usize| Duration::from_secs(u64::try_from(index).unwrap());
        let samples =
            values.iter().enumerate().map(|(index, value)| Sample { value: *value, at: at(index) });
        Summary::of(samples, &mut Vec::new())
    }

    #[test]
    fn the_index_is_the_truncated_product_less_one() {
        let cases = [
            (10, 0.9, 8),
            (3, 0.5, 0),
            (1, 0.99, 0),
            (2, 0.5, 0),
            (100, 0.95, 94),
            (100, 0.99, 98),
            (1800, 0.99, 1781),
            (300, 0.9, 269),
            (0, 0.5, 0),
        ];
        for (count, fraction, want) in cases {
            assert_eq!(percentile_index(count, fraction), want, "{count} samples, {fraction}");
        }
    }

    #[test]
    fn a_window_says_everything_at_once() {
        let values: Vec<f64> = (1..=10).map(f64::from).rev().collect();
        let got = summary(&values).unwrap();
        let want = Summary {
            count: 10,
            avg: 5.5,
            p50: 5.0,
            p90: 9.0,
            p95: 9.0,
            p99: 9.0,
            last: 1.0,
            first_at: Duration::ZERO,
            last_at: Duration::from_secs(9),
        };
        assert_eq!(got, want);
        assert_eq!(summary(&[]), None, "no data is not zero");
    }

    #[test]
    fn a_young_window_is_told_from_a_full_one() {
        let got = summary(&[1.0; 150]).unwrap();
        let second = Duration::from_secs(1);
        assert_eq!(got.span(), second * 149);
        assert!(got.covers_half_of(second * 298));
        assert!(!got.covers_half_of(second * 299), "half a second short");
        assert!(got.fills(second * 150, second));
        assert!(!got.fills(second * 151, second));
    }
}
