//! Which of many selectors match these labels, without trying all of them?
//!
//! A selector that lists values of a label (`In`, `matchLabels`) or demands that a label exists can match
//! only labels with one of these. Each selector is filed under the rarest such demand, so that the
//! selectors to try for some labels are few even where thousands share a demand. A selector that only
//! excludes labels is filed nowhere and tried always.

use std::collections::BTreeMap;

use super::{Labels, Requirement, Selector};

/// Selectors by number, filed for [`SelectorIndex::matching`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SelectorIndex {
    /// By label and value.
    by_value: BTreeMap<(String, String), Vec<usize>>,
    /// By label.
    by_label: BTreeMap<String, Vec<usize>>,
    /// Selectors that demand nothing.
    everywhere: Vec<usize>,
}

/// A demand that labels must meet for a selector to match.
enum Demand<'s> {
    Values(&'s str, Vec<&'s str>),
    Label(&'s str),
}

impl SelectorIndex {
    /// Files selectors under their numbers.
    pub fn new<'s>(selectors: impl IntoIterator<Item = (usize, &'s Selector)>) -> Self {
        let selectors: Vec<(usize, &Selector)> = selectors.into_iter().collect();
        let mut values: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let mut labels: BTreeMap<&str, usize> = BTreeMap::new();
        for demand in selectors.iter().flat_map(|(_, selector)| demands(selector)) {
            match demand {
                Demand::Values(key, list) => {
                    list.into_iter()
                        .for_each(|value| *values.entry((key, value)).or_default() += 1);
                }
                Demand::Label(key) => *labels.entry(key).or_default() += 1,
            }
        }
        let crowd = |demand: &Demand<'_>| match demand {
            Demand::Values(key, list) => {
                let crowds = list.iter().filter_map(|value| values.get(&(*key, *value)));
                crowds.copied().max().unwrap_or_default()
            }
            Demand::Label(key) => labels.get(key).copied().unwrap_or_default(),
        };
        let mut index = Self::default();
        for (number, selector) in &selectors {
            match demands(selector).min_by_key(crowd) {
                Some(Demand::Values(key, list)) => {
                    for value in list {
                        let place = (key.to_owned(), value.to_owned());
                        index.by_value.entry(place).or_default().push(*number);
                    }
                }
                Some(Demand::Label(key)) => {
                    index.by_label.entry(key.to_owned()).or_default().push(*number);
                }
                None => index.everywhere.push(*number),
            }
        }
        index
    }

    /// Numbers of the selectors that may match these labels, ascending. All others do not.
    pub fn candidates(&self, labels: &Labels) -> Vec<usize> {
        let by_label = labels.keys().filter_map(|key| self.by_label.get(key)).flatten();
        let by_value = labels
            .iter()
            .filter_map(|(key, value)| self.by_value.get(&(key.clone(), value.clone())))
            .flatten();
        let mut found: Vec<usize> =
            self.everywhere.iter().chain(by_label).chain(by_value).copied().collect();
        found.sort_unstable();
        found
    }
}

fn demands(selector: &Selector) -> impl Iterator<Item = Demand<'_>> {
    selector.requirements.iter().filter_map(|requirement| match requirement {
        Requirement::In { key, values } => {
            Some(Demand::Values(key, values.iter().map(String::as_str).collect()))
        }
        Requirement::Exists { key } => Some(Demand::Label(key)),
        Requirement::NotIn { .. } | Requirement::DoesNotExist { .. } => None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn selector(value: serde_json::Value) -> Selector {
        Selector::compile(&serde_json::from_value(value).unwrap()).unwrap()
    }

    #[test]
    fn a_shared_demand_is_not_the_one_that_counts() {
        let all: Vec<Selector> = (0..1_000)
            .map(|zone| selector(json!({"matchLabels": {"pool": "web", "zone": zone.to_string()}})))
            .collect();
        let index = SelectorIndex::new(all.iter().enumerate());
        let labels = [("pool".to_owned(), "web".to_owned()), ("zone".to_owned(), "7".to_owned())];
        assert_eq!(index.candidates(&labels.into()), [7]);
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
        prop::collection::vec(expression, 0..4)
            .prop_map(|expressions| json!({"matchExpressions": expressions}))
    }

    proptest! {
        /// Whoever matches is a candidate.
        #[test]
        fn nobody_who_matches_is_missed(
            selectors in prop::collection::vec(a_selector(), 0..12),
            labels in prop::collection::btree_map("[abc]", "[xyz]", 0..4),
        ) {
            let selectors: Vec<Selector> = selectors.into_iter().map(selector).collect();
            let candidates = SelectorIndex::new(selectors.iter().enumerate()).candidates(&labels);
            prop_assert!(candidates.is_sorted());
            for (number, selector) in selectors.iter().enumerate() {
                if selector.matches(&labels) {
                    prop_assert!(candidates.contains(&number), "{selector:?} of {candidates:?}");
                }
            }
        }
    }
}
