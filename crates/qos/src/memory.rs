//! How is the memory of a pod protected, and how is it held back?
//!
//! Protection (`memory.min`, `memory.low`) is a share of what was requested and must be carried by every
//! ancestor, so tiers get the sum of their pods. Holding back (`memory.high`) starts between request and
//! limit: the kernel reclaims from whoever is above, long before anybody is killed.

use units::{Bytes, Percent, Rounding};

const PAGE: i64 = 4_096;

/// What operators want for a class or a pod. Shares that are not given are not managed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shares {
    pub min: Option<Percent>,
    pub low: Option<Percent>,
    /// Where between request and limit holding back begins; zero is nowhere.
    pub throttling: Option<Percent>,
}

/// What a pod or container asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asked {
    pub request: Bytes,
    /// `None` without a limit.
    pub limit: Option<Bytes>,
}

/// What is written; the outer `None` is not managed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Protection {
    pub min: Option<Bytes>,
    pub low: Option<Bytes>,
}

/// What holds a container back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum High {
    Unmanaged,
    Unlimited,
    At(Bytes),
}

pub fn protection(asked: Asked, shares: &Shares) -> Protection {
    let share =
        |share: Option<Percent>| share.map(|share| share.apply(asked.request, Rounding::Down));
    let (min, low) = (share(shares.min), share(shares.low));
    // The kernel protects up to `low` what `min` protects anyway; a smaller one would say nothing.
    let low = low.map(|low| if low > Bytes::ZERO { low.max(min.unwrap_or_default()) } else { low });
    Protection { min, low }
}

/// A tier carries what its pods are promised, so that the promise holds; an empty one carries nothing.
pub fn tier_protection(pods: impl IntoIterator<Item = (Asked, Shares)>) -> Protection {
    let mut sum = Protection { min: Some(Bytes::ZERO), low: Some(Bytes::ZERO) };
    for (asked, shares) in pods {
        let share = |share: Option<Percent>| {
            share.map_or(Bytes::ZERO, |share| share.apply(asked.request, Rounding::Down))
        };
        sum.min = sum.min.map(|min| min + share(shares.min));
        sum.low = sum.low.map(|low| low + share(shares.low));
    }
    sum
}

/// Where holding back begins; a container without a limit is measured by the node.
pub fn high(asked: Asked, shares: &Shares, allocatable: Bytes) -> High {
    let Some(throttling) = shares.throttling else {
        return High::Unmanaged;
    };
    if throttling <= Percent::ZERO {
        return High::Unlimited;
    }
    let limit = asked.limit.filter(|limit| *limit > Bytes::ZERO).unwrap_or(allocatable);
    let room = throttling.apply(limit - asked.request, Rounding::Down);
    let high = Bytes((asked.request + room).0.div_euclid(PAGE) * PAGE);
    High::At(high.max(protection(asked, shares).min.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn asked(request: i64, limit: Option<i64>) -> Asked {
        Asked { request: Bytes(request), limit: limit.map(Bytes) }
    }

    fn shares(min: i64, low: i64, throttling: i64) -> Shares {
        Shares {
            min: Some(Percent(min)),
            low: Some(Percent(low)),
            throttling: Some(Percent(throttling)),
        }
    }

    #[test]
    fn protection_is_a_share_of_the_request() {
        let cases = [
            ("nothing wanted", Shares::default(), None, None),
            ("both", shares(50, 80, 0), Some(500), Some(800)),
            ("low is not below min", shares(50, 20, 0), Some(500), Some(500)),
            ("no low stays none", shares(50, 0, 0), Some(500), Some(0)),
        ];
        for (name, shares, min, low) in cases {
            let want = Protection { min: min.map(Bytes), low: low.map(Bytes) };
            assert_eq!(protection(asked(1_000, None), &shares), want, "{name}");
        }
    }

    #[test]
    fn a_tier_carries_the_sum() {
        let pods = [
            (asked(1_000, None), shares(50, 20, 0)),
            (asked(3_000, None), shares(10, 100, 0)),
            (asked(9_000, None), Shares::default()),
        ];
        let want = Protection { min: Some(Bytes(800)), low: Some(Bytes(3_200)) };
        assert_eq!(tier_protection(pods), want);
        let nothing = Protection { min: Some(Bytes(0)), low: Some(Bytes(0)) };
        assert_eq!(tier_protection([]), nothing);
    }

    #[test]
    fn holding_back_begins_between_request_and_limit() {
        let node = Bytes(1_000 * PAGE);
        let pages = |pages| High::At(Bytes(pages * PAGE));
        let cases = [
            ("not managed", asked(0, None), Shares::default(), High::Unmanaged),
            ("nowhere", asked(0, Some(PAGE)), shares(0, 0, 0), High::Unlimited),
            ("half way", asked(10 * PAGE, Some(20 * PAGE)), shares(0, 0, 50), pages(15)),
            ("cut to pages", asked(10 * PAGE, Some(13 * PAGE)), shares(0, 0, 50), pages(11)),
            ("measured by the node", asked(0, None), shares(0, 0, 80), pages(800)),
            ("a limit of nothing is none", asked(0, Some(0)), shares(0, 0, 80), pages(800)),
            (
                "not below the minimum",
                asked(10 * PAGE, Some(5 * PAGE)),
                shares(100, 0, 90),
                pages(10),
            ),
        ];
        for (name, asked, shares, want) in cases {
            assert_eq!(high(asked, &shares, node), want, "{name}");
        }
    }

    proptest! {
        #[test]
        fn nobody_is_held_back_below_what_is_promised(
            request in 0..1i64 << 40, limit in proptest::option::of(0..1i64 << 40),
            min in 0..=100i64, throttling in 1..=100i64,
        ) {
            let (asked, shares) = (asked(request, limit), shares(min, 0, throttling));
            let promised = protection(asked, &shares).min.unwrap();
            let High::At(high) = high(asked, &shares, Bytes::from_gib(64)) else { unreachable!() };
            prop_assert!(high >= promised);
        }
    }
}
