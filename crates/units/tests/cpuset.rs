//! Laws of CPU sets, checked against ordinary sets of numbers.

use std::collections::BTreeSet;

use proptest::prelude::*;
use units::CpuSet;

/// Mostly crowded small numbers, sometimes the whole range.
fn numbers() -> impl Strategy<Value = BTreeSet<u16>> {
    prop_oneof![
        prop::collection::btree_set(0..12_u16, 0..12),
        prop::collection::btree_set(0..200_u16, 0..80),
        prop::collection::btree_set(any::<u16>(), 0..6),
    ]
}

fn set(numbers: &BTreeSet<u16>) -> CpuSet {
    numbers.iter().copied().collect()
}

fn numbers_of(set: &CpuSet) -> BTreeSet<u16> {
    set.iter().collect()
}

proptest! {
    #[test]
    fn algebra_agrees_with_ordinary_sets(a in numbers(), b in numbers(), n in 0..50_usize) {
        let (left, right) = (set(&a), set(&b));
        prop_assert_eq!(left.union(&right), set(&(&a | &b)));
        prop_assert_eq!(left.intersection(&right), set(&(&a & &b)));
        prop_assert_eq!(left.difference(&right), set(&(&a - &b)));
        prop_assert_eq!(left.is_subset(&right), a.is_subset(&b));
        prop_assert_eq!(left.is_disjoint(&right), a.is_disjoint(&b));
        prop_assert_eq!(left == right, a == b);
        prop_assert_eq!(left.len(), a.len());
        prop_assert_eq!(left.is_empty(), a.is_empty());
        prop_assert_eq!((left.first(), left.last()), (a.first().copied(), a.last().copied()));
        prop_assert_eq!(numbers_of(&left.first_n(n)), a.iter().copied().take(n).collect());
        prop_assert!(left.iter().eq(a.iter().copied()), "ascending order");
        prop_assert!(left.intersection(&right).is_subset(&left));
    }

    #[test]
    fn changes_agree_with_ordinary_sets(
        start in numbers(),
        changes in prop::collection::vec((any::<bool>(), 0..200_u16), 0..60),
    ) {
        let (mut cpus, mut model) = (set(&start), start);
        for (is_insert, cpu) in changes {
            if is_insert {
                prop_assert_eq!(cpus.insert(cpu), model.insert(cpu));
            } else {
                prop_assert_eq!(cpus.remove(cpu), model.remove(&cpu));
            }
            prop_assert_eq!(cpus.contains(cpu), is_insert);
        }
        prop_assert_eq!(&cpus, &set(&model), "equal however it came about");
    }

    #[test]
    fn printing_loses_nothing(numbers in numbers()) {
        let cpus = set(&numbers);
        let list = cpus.to_string();
        prop_assert_eq!(list.parse(), Ok(cpus.clone()));
        let mask = cpus.as_mask().to_string();
        prop_assert_eq!(CpuSet::from_mask(&mask), Ok(cpus.clone()));
        prop_assert_eq!(CpuSet::from_mask(&format!("{mask}\n")), Ok(cpus));
    }

    #[test]
    fn ranges_are_maximal_and_cover_the_set(numbers in numbers()) {
        let cpus = set(&numbers);
        let ranges: Vec<_> = cpus.ranges().collect();
        prop_assert!(ranges.iter().cloned().flatten().eq(numbers.iter().copied()));
        for pair in ranges.windows(2) {
            prop_assert!(pair[0].end() + 1 < *pair[1].start());
        }
    }

    #[test]
    fn lists_agree_with_ordinary_sets(ranges in prop::collection::vec((0..300_u16, 0..70_u16), 0..8)) {
        let texts: Vec<_> = ranges.iter().map(|(first, len)| format!("{first}-{}", first + len)).collect();
        let model: BTreeSet<u16> = ranges.iter().flat_map(|(first, len)| *first..=first + len).collect();
        prop_assert_eq!(numbers_of(&texts.join(",").parse().unwrap()), model);
    }

    #[test]
    fn no_text_panics(text in "[-,0-9a-f \n]{0,24}|\\PC*") {
        if let Ok(cpus) = text.parse::<CpuSet>() {
            prop_assert_eq!(cpus.to_string().parse(), Ok(cpus));
        }
        if let Ok(cpus) = CpuSet::from_mask(&text) {
            prop_assert_eq!(CpuSet::from_mask(&cpus.as_mask().to_string()), Ok(cpus));
        }
    }
}
