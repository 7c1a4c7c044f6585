//! How much of something is usually needed, when old evidence counts less than new?
//!
//! Samples fall into buckets that grow by a constant ratio, so the relative error is the same for
//! a tenth of a core and for a hundred cores. A sample's weight doubles with every half-life that
//! passes, which is the same as halving all earlier ones and cheaper:
//!
//! ```text
//! start(b)  = f * (r^b - 1) / (r - 1)            f: width of the first bucket, r: ratio
//! bucket(v) = v < f ? 0 : floor(log_r(v * (r - 1) / f + 1)), at most the last bucket
//! weight(t) = 2^((t - reference) / half-life)
//! ```
//!
//! When the exponent would grow beyond a hundred half-lives the reference moves next to the sample
//! and all weights shrink accordingly. A percentile is the *upper* edge of the bucket in which the
//! wanted share of all weight is reached, so even an idle model asks for one first bucket.

mod checkpoint;

pub use checkpoint::{Checkpoint, CheckpointError};

/// Half-lives a sample may lie after the reference time before the reference moves.
pub const MAX_DECAY_HALF_LIVES: i128 = 100;

/// Nanoseconds from the first day of the year 1, from which reference times are counted, to 1970.
const YEAR_ONE_TO_UNIX: i128 = 62_135_596_800 * 1_000_000_000;

/// Where buckets begin and end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Buckets {
    first: f64,
    ratio: f64,
    count: usize,
    /// Weights below this count as none.
    epsilon: f64,
}

impl Buckets {
    /// Buckets from 0 to at least `max`, the first `first` wide and each `ratio` times as wide as
    /// the one before.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a logarithm of a positive constant is small and positive"
    )]
    pub fn new(max: f64, first: f64, ratio: f64, epsilon: f64) -> Self {
        let highest = log(ratio, max * (ratio - 1.0) / first + 1.0).ceil();
        Self { first, ratio, count: highest as usize + 1, epsilon }
    }

    /// For CPU in cores: up to 1024, from 0.025, each 5 % wider than the one before.
    pub fn cpu() -> Self {
        Self::new(1024.0, 0.025, 1.05, 0.0001)
    }

    /// For memory in bytes: up to 2 TiB, from 5 MiB, each 5 % wider than the one before.
    pub fn memory() -> Self {
        Self::new(2_f64.powi(41), 5.0 * 2_f64.powi(20), 1.05, 0.0001)
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// Where bucket `index` begins.
    #[expect(clippy::cast_precision_loss, reason = "there are a few hundred buckets")]
    pub fn start(&self, index: usize) -> f64 {
        if index == 0 {
            return 0.0;
        }
        self.first * (self.ratio.powf(index as f64) - 1.0) / (self.ratio - 1.0)
    }

    /// The bucket `value` falls into.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the value is at least the first bucket's width, and casts saturate"
    )]
    pub fn of(&self, value: f64) -> usize {
        if value.is_nan() || value < self.first {
            return 0;
        }
        let index = log(self.ratio, value * (self.ratio - 1.0) / self.first + 1.0) as usize;
        index.min(self.count - 1)
    }
}

fn log(base: f64, value: f64) -> f64 {
    value.ln() / base.ln()
}

/// Weights of samples by bucket; recent samples weigh more.
#[derive(Debug, Clone, PartialEq)]
pub struct DecayingHistogram {
    buckets: Buckets,
    half_life_nanos: i128,
    /// Nanoseconds since 1970 at which a sample weighs one; `None` before the first sample.
    reference: Option<i128>,
    weights: Vec<f64>,
    total: f64,
}

impl DecayingHistogram {
    /// An empty histogram whose weights halve every `half_life`.
    pub fn new(buckets: Buckets, half_life: std::time::Duration) -> Self {
        let half_life_nanos = i128::try_from(half_life.as_nanos()).unwrap_or(i128::MAX).max(1);
        let weights = vec![0.0; buckets.count];
        Self { buckets, half_life_nanos, reference: None, weights, total: 0.0 }
    }

    /// Adds one sample taken at `at`, in nanoseconds since 1970.
    pub fn add(&mut self, value: f64, at: i128) {
        let reference = self.reference_for(at);
        let weight = self.half_lives(at - reference).exp2();
        let bucket = self.buckets.of(value);
        if let Some(slot) = self.weights.get_mut(bucket) {
            *slot += weight;
            self.total += weight;
        }
    }

    /// The value below which the share `fraction` of all weight lies; 0 for an empty histogram.
    pub fn percentile(&self, fraction: f64) -> f64 {
        let heavy = |weight: &f64| *weight >= self.buckets.epsilon;
        let lowest = self.weights.iter().position(heavy);
        let highest = self.weights.iter().rposition(heavy);
        let (Some(lowest), Some(highest)) = (lowest, highest) else { return 0.0 };
        let wanted = fraction * self.total;
        let mut sum = 0.0;
        let reached = (lowest..highest).find(|&bucket| {
            sum += self.weights.get(bucket).copied().unwrap_or(0.0);
            sum >= wanted
        });
        let bucket = reached.unwrap_or(highest);
        let edge = if bucket + 1 < self.buckets.count { bucket + 1 } else { bucket };
        self.buckets.start(edge)
    }

    pub fn is_empty(&self) -> bool {
        !self.weights.iter().any(|weight| *weight >= self.buckets.epsilon)
    }

    /// The reference time for a sample at `at`, after moving it if it has become too old.
    fn reference_for(&mut self, at: i128) -> i128 {
        let longest = self.half_life_nanos.saturating_mul(MAX_DECAY_HALF_LIVES);
        match self.reference {
            Some(reference) if at <= reference.saturating_add(longest) => reference,
            old => {
                let new = self.nearest_multiple(at);
                if let Some(old) = old {
                    self.scale(self.half_lives(old - new).round().exp2());
                }
                self.reference = Some(new);
                new
            }
        }
    }

    /// The multiple of the half-life nearest to `at`, counted from year one, halves up.
    fn nearest_multiple(&self, at: i128) -> i128 {
        let since_year_one = at + YEAR_ONE_TO_UNIX;
        let remainder = since_year_one.rem_euclid(self.half_life_nanos);
        let down = at - remainder;
        if remainder * 2 < self.half_life_nanos { down } else { down + self.half_life_nanos }
    }

    #[expect(clippy::cast_precision_loss, reason = "a weight needs no nanoseconds")]
    fn half_lives(&self, nanos: i128) -> f64 {
        nanos as f64 / self.half_life_nanos as f64
    }

    fn scale(&mut self, factor: f64) {
        for weight in &mut self.weights {
            *weight *= factor;
        }
        self.total *= factor;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const HOUR_NANOS: i128 = 3_600_000_000_000;
    /// 2025-05-25T00:00:00Z.
    const DAY: i128 = 1_748_131_200_000_000_000;

    fn cpu() -> DecayingHistogram {
        DecayingHistogram::new(Buckets::cpu(), HOUR * 12)
    }

    #[test]
    fn buckets_are_counted_and_placed_by_the_formula() {
        assert_eq!(Buckets::cpu().count(), 158);
        assert_eq!(Buckets::memory().count(), 205);
        let buckets = Buckets::cpu();
        let cases = [
            ("zero", 0.0, 0),
            ("just below the first edge", 0.0249, 0),
            ("the first edge", 0.025, 1),
            ("one core", 1.0, 22),
            ("the maximum", 1024.0, 156),
            ("far too much", 1e12, 157),
            ("negative", -1.0, 0),
            ("not a number", f64::NAN, 0),
        ];
        for (name, value, want) in cases {
            assert_eq!(buckets.of(value), want, "{name}");
        }
        assert_eq!(buckets.start(0), 0.0);
        assert!((buckets.start(1) - 0.025).abs() < 1e-12);
        assert!((buckets.start(2) - 0.051_25).abs() < 1e-12);
    }

    #[test]
    fn a_day_of_one_core_predicts_the_upper_edge_of_its_bucket() {
        let mut histogram = cpu();
        for minute in 0..24 * 60 {
            histogram.add(1.0, DAY + minute * HOUR_NANOS / 60);
        }
        let buckets = Buckets::cpu();
        assert_eq!(histogram.percentile(0.95), buckets.start(buckets.of(1.0) + 1));
    }

    #[test]
    fn an_idle_model_still_asks_for_one_bucket_and_an_empty_one_for_nothing() {
        let mut histogram = cpu();
        assert_eq!(histogram.percentile(0.95), 0.0);
        assert!(histogram.is_empty());
        histogram.add(0.0, DAY);
        assert!((histogram.percentile(0.95) - 0.025).abs() < 1e-12);
        assert!(!histogram.is_empty());
    }

    #[test]
    fn the_reference_is_the_nearest_multiple_of_the_half_life() {
        let cases = [
            ("on a multiple", 0, 0),
            ("before the half", 6 * HOUR_NANOS - 1, 0),
            ("halves go up", 6 * HOUR_NANOS, 12 * HOUR_NANOS),
        ];
        for (name, after, want) in cases {
            let mut histogram = cpu();
            histogram.add(1.0, DAY + after);
            assert_eq!(histogram.reference, Some(DAY + want), "{name}");
        }
        let mut odd = DecayingHistogram::new(Buckets::cpu(), Duration::from_secs(7));
        odd.add(1.0, DAY);
        let reference = odd.reference.unwrap() + YEAR_ONE_TO_UNIX;
        assert_eq!(reference % 7_000_000_000, 0, "counted from year one");
    }

    #[test]
    fn old_samples_fade_and_the_reference_moves_on() {
        let mut histogram = cpu();
        for _ in 0..10 {
            histogram.add(8.0, DAY);
        }
        let later = DAY + 12 * HOUR_NANOS * 5;
        histogram.add(1.0, later);
        assert!(histogram.percentile(0.5) < 2.0, "one new sample outweighs ten old ones");
        histogram.add(1.0, DAY + 12 * HOUR_NANOS * 101);
        assert_eq!(histogram.reference, Some(DAY + 12 * HOUR_NANOS * 101));
        assert!(histogram.weights[Buckets::cpu().of(8.0)] < 1e-20);
        assert!(histogram.percentile(1.0) < 1.1, "faded weight is below epsilon");
    }

    proptest! {
        /// Percentiles are monotonic, bracket the samples, and do not depend on their order.
        #[test]
        fn percentiles_obey_their_laws(
            mut values in proptest::collection::vec(0.0f64..900.0, 1..100),
            step in 0i128..HOUR_NANOS,
        ) {
            let build = |values: &[f64]| {
                let mut histogram = cpu();
                values.iter().for_each(|value| histogram.add(*value, DAY + step));
                histogram
            };
            let histogram = build(&values);
            let reported: Vec<f64> =
                [0.6, 0.9, 0.95, 0.98, 1.0].iter().map(|p| histogram.percentile(*p)).collect();
            prop_assert!(reported.is_sorted());
            let most = values.iter().copied().fold(0.0, f64::max);
            prop_assert!(reported[4] >= most, "everything lies below the hundredth percentile");
            prop_assert!(reported[4] <= most * 1.05 + 0.0263, "and by no more than a bucket");
            values.reverse();
            let turned = build(&values);
            prop_assert_eq!(turned.percentile(0.95), histogram.percentile(0.95));
        }

        /// Moving all samples by whole half-lives changes nothing.
        #[test]
        fn time_is_relative(
            samples in proptest::collection::vec((0.0f64..100.0, 0i128..48 * HOUR_NANOS), 1..50),
            shift in 0i128..2000,
        ) {
            let build = |shift: i128| {
                let mut histogram = cpu();
                let mut sorted = samples.clone();
                sorted.sort_by_key(|(_, at)| *at);
                sorted.iter().for_each(|(value, at)| histogram.add(*value, DAY + shift + *at));
                histogram
            };
            let (here, there) = (build(0), build(shift * 12 * HOUR_NANOS));
            prop_assert_eq!(here.percentile(0.95), there.percentile(0.95));
        }
    }
}
