//! How full would a node be? Formulas over what is requested and what there is.
//!
//! | strategy | one resource | node |
//! |---|---|---|
//! | least | `(cap − req) · 100 / cap`, 0 when overcommitted | weighted mean |
//! | most | `min(req, cap) · 100 / cap` | weighted mean |
//! | ratio | piecewise linear over the utilisation in percent | weighted mean of those above 0, rounded |
//! | balanced | fraction `min(1, req / cap)` | `(1 − deviation of the fractions) · 100` |
//!
//! Resources of which the node has nothing are left out.

use serde::Deserialize;

/// One resource of one node: what would be requested with the pod there, and what there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) requested: i64,
    pub(super) capacity: i64,
    pub(super) weight: i64,
}

/// A point of the ratio strategy: utilisation in percent, score 0..=10.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShapePoint {
    #[serde(default)]
    pub(super) utilization: i64,
    #[serde(default)]
    pub(super) score: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Strategy {
    Least,
    Most,
    /// Scores already scaled to 0..=100.
    Ratio(Vec<ShapePoint>),
}

impl Strategy {
    pub(super) fn rate(&self, loads: impl Iterator<Item = Load>) -> i64 {
        let (mut sum, mut weights) = (0_i64, 0_i64);
        for load in loads.filter(|load| load.capacity > 0) {
            let score = match self {
                Self::Least => least(load.requested, load.capacity),
                Self::Most => most(load.requested, load.capacity),
                Self::Ratio(shape) => {
                    let score = ratio(shape, load.requested, load.capacity);
                    if score <= 0 {
                        continue;
                    }
                    score
                }
            };
            sum = sum.saturating_add(score.saturating_mul(load.weight));
            weights = weights.saturating_add(load.weight);
        }
        if weights == 0 {
            return 0;
        }
        match self {
            Self::Least | Self::Most => sum / weights,
            // Half away from zero; both are positive here.
            Self::Ratio(_) => (2 * sum + weights) / (2 * weights),
        }
    }
}

fn least(requested: i64, capacity: i64) -> i64 {
    if requested > capacity {
        return 0;
    }
    (capacity - requested).saturating_mul(100) / capacity
}

fn most(requested: i64, capacity: i64) -> i64 {
    requested.min(capacity).saturating_mul(100) / capacity
}

fn ratio(shape: &[ShapePoint], requested: i64, capacity: i64) -> i64 {
    let utilization =
        if requested > capacity { 100 } else { requested.saturating_mul(100) / capacity };
    let mut before: Option<ShapePoint> = None;
    for point in shape {
        if utilization <= point.utilization {
            let Some(before) = before else { return point.score };
            let rise = (point.score - before.score) * (utilization - before.utilization);
            return before.score + rise / (point.utilization - before.utilization);
        }
        before = Some(*point);
    }
    before.map_or(0, |last| last.score)
}

/// How even the fractions are, 0..=100. Two passes over the loads, so they are given twice.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "the reference computes fractions as floats and truncates"
)]
pub(super) fn balance(loads: impl Iterator<Item = Load> + Clone) -> i64 {
    let fractions = loads
        .filter(|load| load.capacity > 0)
        .map(|load| (load.requested as f64 / load.capacity as f64).min(1.0));
    let (count, sum) = fractions.clone().fold((0_u32, 0.0), |(n, sum), one| (n + 1, sum + one));
    let deviation = match count {
        0 | 1 => 0.0,
        2 => {
            let mut both = fractions;
            let (first, second) = (both.next().unwrap_or(0.0), both.next().unwrap_or(0.0));
            ((first - second) / 2.0).abs()
        }
        _ => {
            let mean = sum / f64::from(count);
            let squares: f64 = fractions.map(|one| (one - mean) * (one - mean)).sum();
            (squares / f64::from(count)).sqrt()
        }
    };
    ((1.0 - deviation) * 100.0) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: i64 = 1 << 30;

    fn load(requested: i64, capacity: i64, weight: i64) -> Load {
        Load { requested, capacity, weight }
    }

    fn shape(points: &[(i64, i64)]) -> Strategy {
        let scaled = points.iter().map(|(utilization, score)| ShapePoint {
            utilization: *utilization,
            score: score * 10,
        });
        Strategy::Ratio(scaled.collect())
    }

    /// P1 to P6 of the specification, and their neighbours.
    #[test]
    fn strategies_follow_their_formulas() {
        let half = [load(8_000, 16_000, 1), load(14 * GIB, 32 * GIB, 1)];
        let gpu = [load(6, 8, 3), load(8_000, 16_000, 1)];
        let bent = shape(&[(0, 10), (70, 4), (100, 0)]);
        let cases: [(&str, Strategy, &[Load], i64); 14] = [
            ("P1 least", Strategy::Least, &half, 53),
            ("P2 most", Strategy::Most, &half, 46),
            ("P5 ratio weighs and rounds", shape(&[(0, 0), (100, 10)]), &gpu, 69),
            ("P6 ratio between points", bent.clone(), &[load(50, 100, 1)], 58),
            ("P6 ratio further up", bent.clone(), &[load(85, 100, 1)], 20),
            ("ratio of an overfull node", bent.clone(), &[load(150, 100, 1)], 0),
            ("ratio at a point", bent, &[load(70, 100, 1)], 40),
            (
                "ratio leaves zeros out of the weights",
                shape(&[(0, 0), (100, 10)]),
                &[load(0, 100, 9), load(50, 100, 1)],
                50,
            ),
            ("least of an overfull node", Strategy::Least, &[load(9, 8, 1)], 0),
            ("most of an overfull node", Strategy::Most, &[load(9, 8, 1)], 100),
            ("least weighs", Strategy::Least, &[load(0, 10, 3), load(10, 10, 1)], 75),
            (
                "absent resources do not count",
                Strategy::Least,
                &[load(5, 10, 1), load(1, 0, 1)],
                50,
            ),
            ("nothing to weigh", Strategy::Least, &[load(1, 0, 1)], 0),
            ("division truncates", Strategy::Least, &[load(1, 3, 1)], 66),
        ];
        for (name, strategy, loads, want) in cases {
            assert_eq!(strategy.rate(loads.iter().copied()), want, "{name}");
        }
    }

    #[test]
    fn balance_follows_the_deviation() {
        let cases: [(&str, &[Load], i64); 6] = [
            ("P3 two fractions", &[load(8_000, 16_000, 1), load(14 * GIB, 32 * GIB, 1)], 96),
            (
                "P4 three fractions",
                &[load(8_000, 16_000, 1), load(14 * GIB, 32 * GIB, 1), load(9, 10, 1)],
                79,
            ),
            ("one fraction is even", &[load(1, 10, 1)], 100),
            ("equal fractions are even", &[load(1, 10, 1), load(2, 20, 1)], 100),
            ("fractions end at one", &[load(30, 10, 1), load(10, 10, 1)], 100),
            ("absent resources do not count", &[load(5, 10, 1), load(0, 0, 1)], 100),
        ];
        for (name, loads, want) in cases {
            assert_eq!(balance(loads.iter().copied()), want, "{name}");
        }
    }
}
