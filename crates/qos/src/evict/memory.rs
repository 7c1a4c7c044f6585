//! How much memory must best-effort pods give back?
//!
//! Memory cannot be throttled. When the node uses more than the threshold, so much goes that it is at
//! the lower share again:
//!
//! ```text
//! release = capacity * (used% - lower%)        used% cut to whole percents
//! ```

use units::{Bytes, Percent};

use super::cpu::Band;

/// Shares of memory outside of which a configuration makes no sense.
pub fn band(threshold: Percent, lower: Option<Percent>) -> Option<Band> {
    Band::new(threshold, lower).filter(|band| {
        (Percent::ZERO..=Percent::HUNDRED).contains(&band.threshold) && band.lower >= Percent::ZERO
    })
}

/// What a node must get rid of; `used` is total less available memory.
pub fn release(used: Bytes, capacity: Bytes, band: Band) -> Bytes {
    band.above(used, capacity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_node_gives_back_down_to_the_lower_share() {
        let gib = Bytes::from_gib;
        let band = band(Percent(70), None).unwrap();
        let cases = [
            ("room", gib(69), gib(0)),
            ("at the threshold", gib(70), gib(2)),
            ("above", gib(75), gib(7)),
            ("far above", gib(90), gib(22)),
        ];
        for (name, used, want) in cases {
            assert_eq!(release(used, gib(100), band), want, "{name}");
        }
    }

    #[test]
    fn shares_are_of_a_whole() {
        assert_eq!(band(Percent(101), None), None);
        assert_eq!(band(Percent(1), None), None, "two below is less than nothing");
        assert!(band(Percent(100), Some(Percent(0))).is_some());
    }
}
