//! Windows over synthetic days agree with sorting the very same samples.
//!
//! A day is a node's CPU second by second: a daily wave (presets `mixed2018`, `tidal` and `global`), noise
//! with memory of minutes and hours, surges, and noise within the minute.

use std::time::Duration;

use proptest::prelude::*;
use stats::{Buckets, DecayingHistogram, Ring};

const DAY: u32 = 86_400;
const SECOND: Duration = Duration::from_secs(1);
/// Cores of the node.
const CAPACITY: f64 = 96.0;

/// Amplitudes and phases (hours) of the first three harmonics of a day.
type Shape = [(f64, f64); 3];
const MIXED: Shape = [(0.26, 8.5), (0.08, 7.9), (0.08, 6.2)];
const TIDAL: Shape = [(0.55, 15.0), (0.20, 11.0), (0.05, 8.0)];
const GLOBAL: Shape = [(0.05, 17.0), (0.015, 12.0), (0.0, 0.0)];

/// A small generator; the seed is printed when a property fails.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let bits =
            u32::try_from((mixed ^ (mixed >> 31)) >> 32).expect("the upper half of 64 bits has 32");
        f64::from(bits) / f64::from(u32::MAX)
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().max(1e-12).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// Noise of unit variance that forgets with a time constant, in steps.
struct Drift {
    value: f64,
    keep: f64,
}

impl Drift {
    fn new(steps: f64) -> Self {
        Self { value: 0.0, keep: (-1.0 / steps).exp() }
    }

    fn next(&mut self, random: &mut Random) -> f64 {
        let fresh = (1.0 - self.keep * self.keep).sqrt() * random.normal();
        self.value = self.value * self.keep + fresh;
        self.value
    }
}

/// Cores in use, second by second.
fn day(shape: Shape, seed: u64) -> Vec<f64> {
    let mut random = Random(seed);
    let mut minute_noise = [(0.34, 2.5), (0.32, 7.4), (0.34, 260.0)]
        .map(|(variance, minutes): (f64, f64)| (variance.sqrt(), Drift::new(minutes)));
    let mut second_noise = Drift::new(2.0);
    let (mut level, mut surge, mut surge_left) = (1.0, 1.0, 0.0);
    let mean = 0.14 * CAPACITY * (1.0 + random.uniform() * 2.0);
    (0..DAY)
        .map(|second| {
            if second % 60 == 0 {
                let noise: f64 = minute_noise
                    .iter_mut()
                    .map(|(part, drift)| *part * drift.next(&mut random))
                    .sum();
                let hours = f64::from(second) / 3600.0;
                let wave: f64 = shape
                    .iter()
                    .zip([1.0, 2.0, 3.0])
                    .map(|((amplitude, phase), k)| {
                        amplitude * (std::f64::consts::TAU * k * (hours - phase) / 24.0).cos()
                    })
                    .sum();
                let sigma: f64 = 0.17;
                level = (1.0 + wave).max(0.05) * (sigma * noise - sigma * sigma / 2.0).exp();
                surge_left -= 1.0;
                if surge_left <= 0.0 {
                    let begins = random.uniform() < 1.0 / 720.0;
                    surge = if begins { 1.25 + 0.75 * random.uniform() } else { 1.0 };
                    surge_left =
                        if begins { 1.0 - 4.0 * random.uniform().max(1e-9).ln() } else { 0.0 };
                }
            }
            let sub: f64 = 0.10 * second_noise.next(&mut random);
            (mean * level * surge * sub.exp()).min(CAPACITY)
        })
        .collect()
}

/// The sample at the whole part of `percent` of all ranks, which is the rank NodeMetric reports.
fn at_rank(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() * percent / 100).max(1) - 1]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// Every window of every day equals exact sorting to a hundredth of the node.
    #[test]
    fn percentiles_of_a_day_equal_exact_sorting(
        seed: u64,
        shape in prop_oneof![Just(MIXED), Just(TIDAL), Just(GLOBAL)],
        ask_every in 1_201u32..3_600,
    ) {
        let samples = day(shape, seed);
        let mut ring = Ring::covering(SECOND * 1800, SECOND);
        let mut scratch = Vec::new();
        for (second, value) in (0..DAY).zip(&samples) {
            ring.push(SECOND * second, *value);
            if second < 1800 || second % ask_every != 0 {
                continue;
            }
            for window in [300u32, 600, 1800] {
                let summary = ring.summary(SECOND * second, SECOND * window, &mut scratch).unwrap();
                let from = usize::try_from(second - window).unwrap();
                let mut exact = samples[from..=usize::try_from(second).unwrap()].to_vec();
                let mean = exact.iter().sum::<f64>() / f64::from(window + 1);
                exact.sort_by(f64::total_cmp);
                prop_assert_eq!(summary.count, exact.len());
                prop_assert!((summary.avg - mean).abs() <= 0.0001 * CAPACITY);
                prop_assert!((summary.last - value).abs() <= 0.0001 * CAPACITY);
                for (got, percent) in
                    [(summary.p50, 50), (summary.p90, 90), (summary.p95, 95), (summary.p99, 99)]
                {
                    let want = at_rank(&exact, percent);
                    prop_assert!(
                        (got - want).abs() <= 0.01 * CAPACITY,
                        "p{percent} of {window} s at {second}: {got} instead of {want}"
                    );
                }
            }
        }
    }

    /// The histogram of a day's minutes brackets their exact percentile by one bucket, when all weigh
    /// about the same.
    #[test]
    fn a_slow_histogram_equals_exact_sorting_to_a_bucket(
        seed: u64,
        shape in prop_oneof![Just(MIXED), Just(TIDAL), Just(GLOBAL)],
    ) {
        let minutes: Vec<f64> = day(shape, seed).into_iter().step_by(60).collect();
        let mut histogram = DecayingHistogram::new(Buckets::cpu(), SECOND * DAY * 1000);
        for (minute, value) in (0i128..).zip(&minutes) {
            histogram.add(*value, minute * 60_000_000_000);
        }
        let mut exact = minutes;
        exact.sort_by(f64::total_cmp);
        let got = histogram.percentile(0.95);
        let (low, high) = (at_rank(&exact, 94), at_rank(&exact, 96));
        prop_assert!(got >= low && got <= high * 1.05 + 0.03, "{got} for {low} to {high}");
    }
}
