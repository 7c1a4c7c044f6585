//! How much of a request falls on each NUMA node of a mask?
//!
//! Evenly, as far as each node can: nodes are asked in order of what they have left, the poorest
//! first, and node `i` of `k` gives `min(available, remaining / (k - i))`. What a poor node cannot
//! give is thus shared by the richer ones after it.
//!
//! ```text
//! 12 CPUs over free 8, 2, 8, 8:   node 1 gives 2, node 0 3, node 2 3, node 3 4
//! ```

/// One node's part: what it could give, and what it gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) zone: usize,
    pub(crate) available: i64,
    pub(crate) given: i64,
}

impl Part {
    pub(crate) fn of(zone: usize, available: i64) -> Self {
        Self { zone, available: available.max(0), given: 0 }
    }
}

/// Fills in what each part gives, in portions of `unit`; returns what nobody could give.
pub(crate) fn share(parts: &mut [Part], quantity: i64, unit: i64) -> i64 {
    parts.sort_unstable_by_key(|part| (part.available, part.zone));
    let unit = unit.max(1);
    let mut rest = quantity;
    let mut nodes = i64::try_from(parts.len()).unwrap_or(i64::MAX);
    for part in parts {
        let even = rest / unit / nodes * unit;
        part.given = even.min(part.available / unit * unit);
        rest -= part.given;
        nodes -= 1;
    }
    rest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shared(free: &[i64], quantity: i64, unit: i64) -> (Vec<i64>, i64) {
        let mut parts: Vec<_> =
            free.iter().enumerate().map(|(at, free)| Part::of(at, *free)).collect();
        let rest = share(&mut parts, quantity, unit);
        parts.sort_by_key(|part| part.zone);
        (parts.iter().map(|part| part.given).collect(), rest)
    }

    #[test]
    fn poor_nodes_give_what_they_have() {
        let cases = [
            ("C22", &[3, 8][..], 10, 1, (vec![3, 7], 0)),
            ("C23", &[8, 8], 10, 1, (vec![5, 5], 0)),
            ("C23 whole cores", &[8, 8], 10, 2, (vec![4, 6], 0)),
            ("C24", &[8, 2, 8, 8], 12, 1, (vec![3, 2, 3, 4], 0)),
            ("one too many", &[3, 8], 12, 1, (vec![3, 8], 1)),
            ("a broken core gives nothing", &[3, 8], 10, 2, (vec![2, 8], 0)),
            ("overdrawn", &[-5, 8], 4, 1, (vec![0, 4], 0)),
            ("nothing wanted", &[1, 1], 0, 1, (vec![0, 0], 0)),
            ("nobody asked", &[], 3, 1, (vec![], 3)),
        ];
        for (name, free, quantity, unit, want) in cases {
            assert_eq!(shared(free, quantity, unit), want, "{name}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nobody_gives_more_than_it_has(
            free in prop::collection::vec(-5..100_i64, 0..6),
            quantity in 0..300_i64,
        ) {
            let (given, rest) = shared(&free, quantity, 1);
            prop_assert_eq!(given.iter().sum::<i64>() + rest, quantity);
            prop_assert!(given.iter().zip(&free).all(|(given, free)| *given <= (*free).max(0)));
            let total: i64 = free.iter().map(|free| (*free).max(0)).sum();
            prop_assert_eq!(rest == 0, quantity <= total);
        }
    }
}
