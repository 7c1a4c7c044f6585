//! A group's share of the CPU among its siblings, in the units of v1 and of v2.
//!
//! Two maps from shares to weights are in use. Kubelet's and that of runtimes before runc 1.3.2 and
//! crun 1.23 is a line from 2..262144 to 1..10000, on which the default of 1024 shares is a weight of
//! 39. The newer one is a curve through the defaults, 1024 shares and a weight of 100:
//!
//! ```text
//! linear      w = 1 + (s - 2) * 9999 / 262142
//! quadratic   w = ceil(10 ^ ((l^2 + 125 l) / 612 - 7/34)),  l = log2 s
//! ```

/// `cpu.shares`: 2 to 262144.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shares(u64);

/// `cpu.weight`: 1 to 10000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u64);

/// How shares become weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WeightMap {
    #[default]
    Linear,
    Quadratic,
}

impl Shares {
    pub const LEAST: u64 = 2;
    pub const MOST: u64 = 262_144;

    /// `None` outside the range.
    pub fn new(shares: u64) -> Option<Self> {
        (Self::LEAST..=Self::MOST).contains(&shares).then_some(Self(shares))
    }

    pub fn get(self) -> u64 {
        self.0
    }

    pub fn to_weight(self, map: WeightMap) -> Weight {
        match map {
            WeightMap::Linear => Weight(1 + (self.0 - Self::LEAST) * 9_999 / 262_142),
            WeightMap::Quadratic => Weight(quadratic(self.0)),
        }
    }
}

impl Weight {
    pub const LEAST: u64 = 1;
    pub const MOST: u64 = 10_000;

    /// `None` outside the range.
    pub fn new(weight: u64) -> Option<Self> {
        (Self::LEAST..=Self::MOST).contains(&weight).then_some(Self(weight))
    }

    pub fn get(self) -> u64 {
        self.0
    }

    /// The smallest shares that have this weight, or on the line the reference's inverse.
    pub fn to_shares(self, map: WeightMap) -> Shares {
        match map {
            WeightMap::Linear => Shares((self.0 - 1) * 262_142 / 9_999 + Shares::LEAST),
            WeightMap::Quadratic => {
                // The curve only rises, so its inverse can be searched.
                let (mut low, mut high) = (Shares::LEAST, Shares::MOST);
                while low < high {
                    let middle = low.midpoint(high);
                    if quadratic(middle) < self.0 { low = middle + 1 } else { high = middle }
                }
                Shares(low)
            }
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "shares are below 2^18 and the result is clamped to 1..10000"
)]
fn quadratic(shares: u64) -> u64 {
    let log = (shares as f64).log2();
    let exponent = (log * log + 125.0 * log) / 612.0 - 7.0 / 34.0;
    let weight = 10_f64.powf(exponent).ceil();
    weight.clamp(Weight::LEAST as f64, Weight::MOST as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_and_the_curve_meet_at_the_ends() {
        let cases = [(2, 1, 1), (1_024, 39, 100), (102, 4, 17), (262_144, 10_000, 10_000)];
        for (shares, linear, curve) in cases {
            let shares = Shares::new(shares).unwrap();
            assert_eq!(shares.to_weight(WeightMap::Linear).get(), linear, "{shares:?}");
            assert_eq!(shares.to_weight(WeightMap::Quadratic).get(), curve, "{shares:?}");
        }
    }

    #[test]
    fn every_weight_comes_back_from_its_shares() {
        for weight in Weight::LEAST..=Weight::MOST {
            let weight = Weight::new(weight).unwrap();
            let shares = weight.to_shares(WeightMap::Quadratic);
            assert!(shares.to_weight(WeightMap::Quadratic) >= weight, "{weight:?}");
            let shares = weight.to_shares(WeightMap::Linear);
            let back = shares.to_weight(WeightMap::Linear).get();
            assert!(back.abs_diff(weight.get()) <= 1, "{weight:?}");
        }
    }

    #[test]
    fn values_outside_the_range_are_refused() {
        assert_eq!((Shares::new(1), Shares::new(262_145)), (None, None));
        assert_eq!((Weight::new(0), Weight::new(10_001)), (None, None));
    }
}
