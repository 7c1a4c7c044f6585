//! Which completion indexes are done?
//!
//! Kept as runs, because a job may have a hundred thousand of them. The text is the API's:
//! `1,3-5,7`, where two neighbours are written `1,2` and longer runs `1-3`.

use std::fmt;

/// A set of indexes as sorted runs that neither touch nor overlap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Indexes(Vec<(i32, i32)>);

impl Indexes {
    /// Reads the text; indexes from `limit` on, and what makes no sense, are left out.
    pub(crate) fn parse(text: &str, limit: i32) -> Self {
        let mut runs = Vec::new();
        for run in text.split(',').filter(|run| !run.is_empty()) {
            let (first, last) = run.split_once('-').unwrap_or((run, run));
            let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) else {
                continue;
            };
            let last = last.min(limit.saturating_sub(1));
            if first >= 0 && first <= last {
                runs.push((first, last));
            }
        }
        Self::of(runs)
    }

    fn of(mut runs: Vec<(i32, i32)>) -> Self {
        runs.sort_unstable();
        let mut merged: Vec<(i32, i32)> = Vec::new();
        for (first, last) in runs {
            match merged.last_mut() {
                Some(end) if first <= end.1.saturating_add(1) => end.1 = end.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    pub(crate) fn with(self, more: impl IntoIterator<Item = i32>) -> Self {
        let mut runs = self.0;
        runs.extend(more.into_iter().map(|index| (index, index)));
        Self::of(runs)
    }

    pub(crate) fn len(&self) -> i32 {
        let lengths = self.0.iter().map(|(first, last)| (last - first).saturating_add(1));
        lengths.fold(0, i32::saturating_add)
    }

    /// The lowest indexes below `limit` that are not here, in order.
    pub(crate) fn missing(&self, limit: i32) -> impl Iterator<Item = i32> {
        let mut next = 0;
        let mut gaps = Vec::new();
        for (first, last) in &self.0 {
            gaps.push(next..(*first).min(limit));
            next = last.saturating_add(1);
        }
        gaps.push(next..limit);
        gaps.into_iter().flatten()
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (first, last)) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_str(",")?;
            }
            match last - first {
                0 => write!(f, "{first}")?,
                1 => write!(f, "{first},{last}")?,
                _ => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_text_is_read_and_written_as_the_api_does() {
        let cases = [
            ("nothing", "", ""),
            ("one", "3", "3"),
            ("two neighbours", "1,2", "1,2"),
            ("a run", "1-3", "1-3"),
            ("the documentation's example", "1,3-5,7", "1,3-5,7"),
            ("unsorted and touching", "5,4,3,1", "1,3-5"),
            ("overlapping", "1-4,2-6", "1-6"),
            ("beyond the limit", "8-12,20", "8,9"),
            ("nonsense is left out", "x,-1,4-2,7", "7"),
        ];
        for (name, text, want) in cases {
            assert_eq!(Indexes::parse(text, 10).to_string(), want, "{name}");
        }
    }

    #[test]
    fn a_huge_run_costs_nothing() {
        let all = Indexes::parse("0-2147483647", i32::MAX);
        assert_eq!(all.len(), i32::MAX);
        assert_eq!(all.missing(i32::MAX).next(), None);
    }

    proptest! {
        /// Runs behave like the plain set.
        #[test]
        fn runs_are_a_set(members in prop::collection::btree_set(0..30i32, 0..20)) {
            let indexes = Indexes::default().with(members.iter().copied());
            prop_assert_eq!(indexes.len(), i32::try_from(members.len()).unwrap());
            let missing: BTreeSet<_> = indexes.missing(30).collect();
            prop_assert_eq!(missing, (0..30).filter(|n| !members.contains(n)).collect());
            prop_assert_eq!(Indexes::parse(&indexes.to_string(), 30), indexes);
        }
    }
}
