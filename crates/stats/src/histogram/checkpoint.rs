//! How is a histogram written down and read again?
//!
//! The largest weight becomes 10000 and the others are rounded in proportion; what rounds to zero
//! is left out. Reading spreads the total weight over the buckets in the same proportions, so a
//! histogram that was written and read is the same to one part in ten thousand.

use std::collections::BTreeMap;

use super::DecayingHistogram;

/// Weight of the heaviest bucket in a checkpoint.
const HEAVIEST: f64 = 10_000.0;

/// A histogram as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// Nanoseconds since 1970; `None` when no sample was ever added.
    pub reference: Option<i128>,
    /// Weights by bucket, in units of which the heaviest bucket has 10000.
    pub weights: BTreeMap<usize, u32>,
    pub total: f64,
}

/// Why a checkpoint cannot be read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CheckpointError {
    #[error("total weight {total} is not a number from 0 up")]
    Total { total: f64 },
    #[error("bucket {bucket} does not exist: there are {count}")]
    Bucket { bucket: usize, count: usize },
}

impl DecayingHistogram {
    /// The histogram as it is to be stored.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "scaled weights lie between 0 and 10000"
    )]
    pub fn to_checkpoint(&self) -> Checkpoint {
        let heaviest = self.weights.iter().copied().fold(0.0, f64::max);
        let scale = if heaviest > 0.0 { HEAVIEST / heaviest } else { 0.0 };
        let scaled = self.weights.iter().map(|weight| (weight * scale).round() as u32);
        let weights = scaled.enumerate().filter(|(_, weight)| *weight > 0).collect();
        Checkpoint { reference: self.reference, weights, total: self.total }
    }

    /// Replaces the content by that of a checkpoint; on an error nothing changes.
    pub fn restore(&mut self, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        let total = checkpoint.total;
        if !total.is_finite() || total < 0.0 {
            return Err(CheckpointError::Total { total });
        }
        let count = self.buckets.count;
        if let Some((&bucket, _)) = checkpoint.weights.range(count..).next() {
            return Err(CheckpointError::Bucket { bucket, count });
        }
        let sum: f64 = checkpoint.weights.values().map(|weight| f64::from(*weight)).sum();
        self.weights.fill(0.0);
        self.reference = checkpoint.reference;
        self.total = if sum > 0.0 { total } else { 0.0 };
        for (bucket, weight) in &checkpoint.weights {
            if let Some(slot) = self.weights.get_mut(*bucket)
                && sum > 0.0
            {
                *slot = f64::from(*weight) * total / sum;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::Buckets;
    use super::*;

    const DAY: i128 = 1_748_131_200_000_000_000;

    fn empty() -> DecayingHistogram {
        DecayingHistogram::new(Buckets::cpu(), Duration::from_secs(43_200))
    }

    #[test]
    fn weights_are_scaled_rounded_and_dropped() {
        let mut histogram = empty();
        (0..30_000).for_each(|_| histogram.add(1.0, DAY));
        (0..15_000).for_each(|_| histogram.add(2.0, DAY));
        histogram.add(4.0, DAY);
        let checkpoint = histogram.to_checkpoint();
        let buckets = Buckets::cpu();
        assert_eq!(
            checkpoint.weights,
            BTreeMap::from([(buckets.of(1.0), 10_000), (buckets.of(2.0), 5_000)]),
            "one of thirty thousand rounds to nothing"
        );
        assert_eq!((checkpoint.reference, checkpoint.total), (Some(DAY), 45_001.0));
    }

    #[test]
    fn what_cannot_be_is_refused_and_changes_nothing() {
        let good =
            Checkpoint { reference: Some(DAY), weights: BTreeMap::from([(3, 7)]), total: 2.0 };
        let cases = [
            ("negative", Checkpoint { total: -1.0, ..good.clone() }),
            ("not a number", Checkpoint { total: f64::NAN, ..good.clone() }),
            ("infinite", Checkpoint { total: f64::INFINITY, ..good.clone() }),
            ("no such bucket", Checkpoint { weights: BTreeMap::from([(158, 1)]), ..good.clone() }),
        ];
        let mut histogram = empty();
        histogram.restore(&good).unwrap();
        let before = histogram.clone();
        for (name, bad) in cases {
            assert!(histogram.restore(&bad).is_err(), "{name}");
            assert_eq!(histogram, before, "{name}");
        }
        let last = Checkpoint { weights: BTreeMap::from([(157, 1)]), ..good };
        assert_eq!(histogram.restore(&last), Ok(()), "the last bucket exists");
    }

    #[test]
    fn an_empty_histogram_comes_back_empty() {
        let mut histogram = empty();
        histogram.restore(&empty().to_checkpoint()).unwrap();
        assert_eq!(histogram, empty());
        let weightless = Checkpoint { reference: Some(DAY), weights: BTreeMap::new(), total: 5.0 };
        histogram.restore(&weightless).unwrap();
        assert_eq!(histogram.percentile(0.9), 0.0);
    }

    proptest! {
        /// Writing and reading keeps the total exactly and percentiles to a bucket.
        #[test]
        fn a_round_trip_keeps_what_matters(
            values in proptest::collection::vec(0.0f64..200.0, 1..200),
        ) {
            let mut histogram = empty();
            values.iter().for_each(|value| histogram.add(*value, DAY));
            let mut read = empty();
            read.restore(&histogram.to_checkpoint()).unwrap();
            prop_assert_eq!(read.total, histogram.total);
            let (a, b) = (histogram.percentile(0.949), read.percentile(0.949));
            prop_assert!((a - b).abs() <= 0.06 * a + 0.03, "{} became {}", a, b);
        }
    }
}
