//! Which node entries would one node match together?
//!
//! A selector is turned into made-up nodes that carry the values it lists ([`Selector::examples`]), and
//! two entries overlap when one such node matches both. Each made-up node is compared with those entries
//! alone that may match it ([`SelectorIndex`]), so that the work grows with the text and not with its
//! square; and the search ends where so many entries overlap that nobody reads on.

use std::collections::BTreeSet;

use super::selector::{Labels, Selector, SelectorIndex};

/// Overlaps after which the search ends.
const MOST: usize = 1_000;

/// Two entries, by their places in the list, and the node that matches both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Overlap {
    pub(super) first: usize,
    pub(super) other: usize,
    pub(super) labels: Labels,
}

/// Every overlap, in order of discovery, or the first many.
#[derive(Debug, Default)]
pub(super) struct Overlaps {
    pub(super) found: Vec<Overlap>,
    /// Whether the search ended before all was compared.
    pub(super) is_cut: bool,
    /// How often a selector was asked about a node.
    pub(super) compared: usize,
}

/// Overlaps between selectors, which are numbered by their places in the list. An empty selector matches
/// every node and is left out.
pub(super) fn overlaps(selectors: &[(usize, &Selector)]) -> Overlaps {
    let index = SelectorIndex::new(selectors.iter().enumerate().map(|(at, (_, s))| (at, *s)));
    let mut overlaps = Overlaps::default();
    let mut reported = BTreeSet::new();
    let mut examined: BTreeSet<Labels> = BTreeSet::new();
    for example in selectors.iter().flat_map(|(_, selector)| selector.examples()) {
        if !examined.insert(example.clone()) {
            continue;
        }
        let mut first = None;
        for at in index.candidates(&example) {
            let Some((number, selector)) = selectors.get(at) else { continue };
            overlaps.compared += 1;
            if !selector.matches(&example) {
                continue;
            }
            let Some(first) = first else {
                first = Some(*number);
                continue;
            };
            if reported.insert((first, *number)) {
                let overlap = Overlap { first, other: *number, labels: example.clone() };
                overlaps.found.push(overlap);
            }
            if overlaps.found.len() >= MOST {
                overlaps.is_cut = true;
                return overlaps;
            }
        }
    }
    overlaps
}

/// The entries that one made-up node matches together; `None` when all exclude each other.
pub fn first_overlap(selectors: &[Selector]) -> Option<Vec<usize>> {
    let index = SelectorIndex::new(selectors.iter().enumerate());
    let mut examined: BTreeSet<Labels> = BTreeSet::new();
    for example in selectors.iter().flat_map(Selector::examples) {
        if !examined.insert(example.clone()) {
            continue;
        }
        let candidates = index.candidates(&example).into_iter();
        let matches = |at: &usize| selectors.get(*at).is_some_and(|s| s.matches(&example));
        let matching: Vec<usize> = candidates.filter(matches).collect();
        if matching.len() > 1 {
            return Some(matching);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn selector(value: serde_json::Value) -> Selector {
        Selector::compile(&serde_json::from_value(value).unwrap()).unwrap()
    }

    fn of(selectors: &[Selector]) -> Overlaps {
        let numbered: Vec<(usize, &Selector)> = selectors.iter().enumerate().collect();
        overlaps(&numbered)
    }

    /// Every made-up node against every entry, as a person would compare them.
    fn by_hand(selectors: &[Selector]) -> Vec<(usize, usize)> {
        let mut pairs = Vec::new();
        for example in selectors.iter().flat_map(Selector::examples) {
            let matching: Vec<usize> =
                (0..selectors.len()).filter(|at| selectors[*at].matches(&example)).collect();
            let [first, others @ ..] = matching.as_slice() else { continue };
            for other in others {
                if !pairs.contains(&(*first, *other)) {
                    pairs.push((*first, *other));
                }
            }
        }
        pairs
    }

    /// Shapes that thousands of entries have: one value each, shared labels, exclusions, lists.
    fn shapes(count: usize) -> [Vec<Selector>; 5] {
        let all = |make: fn(usize) -> serde_json::Value| {
            (0..count).map(|number| selector(make(number))).collect()
        };
        [
            all(|number| json!({"matchLabels": {"host": number.to_string()}})),
            all(|number| json!({"matchLabels": {"pool": "web", "zone": number.to_string()}})),
            all(|number| {
                json!({"matchLabels": {"pool": "web"}, "matchExpressions": [
                    {"key": format!("own-{number}"), "operator": "Exists"},
                    {"key": format!("not-{number}"), "operator": "NotIn", "values": ["x"]}]})
            }),
            all(|_| json!({"matchLabels": {"pool": "web"}})),
            all(|number| {
                json!({"matchLabels": {"pool": "web"}, "matchExpressions": [
                    {"key": format!("not-{number}"), "operator": "NotIn", "values": ["x"]}]})
            }),
        ]
    }

    #[test]
    fn work_grows_with_the_number_of_entries_and_not_with_its_square() {
        for (at, selectors) in shapes(20_000).iter().enumerate() {
            let overlaps = of(selectors);
            assert!(overlaps.compared <= 40_000, "{at}: {} comparisons", overlaps.compared);
            assert_eq!(overlaps.is_cut, at > 2, "{at}");
        }
    }

    fn a_selector() -> impl Strategy<Value = serde_json::Value> {
        let key = prop::sample::select(vec!["a", "b", "c"]);
        let values = prop::collection::btree_set(prop::sample::select(vec!["x", "y", "z"]), 1..3);
        let expression =
            (key, 0..4_u8, values).prop_map(|(key, operator, values)| match operator {
                0 => json!({"key": key, "operator": "In", "values": values}),
                1 => json!({"key": key, "operator": "NotIn", "values": values}),
                2 => json!({"key": key, "operator": "Exists"}),
                _ => json!({"key": key, "operator": "DoesNotExist"}),
            });
        prop::collection::vec(expression, 1..4)
            .prop_map(|expressions| json!({"matchExpressions": expressions}))
    }

    proptest! {
        #[test]
        fn the_index_misses_no_overlap_and_invents_none(
            selectors in prop::collection::vec(a_selector(), 0..8),
        ) {
            let selectors: Vec<Selector> = selectors.into_iter().map(selector).collect();
            let pairs: Vec<(usize, usize)> =
                of(&selectors).found.iter().map(|overlap| (overlap.first, overlap.other)).collect();
            let want = by_hand(&selectors);
            prop_assert_eq!(first_overlap(&selectors).is_some(), !want.is_empty());
            prop_assert_eq!(pairs, want);
        }
    }
}
