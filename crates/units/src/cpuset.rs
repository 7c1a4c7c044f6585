//! Which CPUs? Sets of CPU numbers and the two text forms Linux has for them.
//!
//! | form | used by | example |
//! |---|---|---|
//! | list | cpuset cgroups, sysfs topology, annotations | `0-3,8,10-11` |
//! | mask | resctrl `cpus`, `/proc/irq/*/smp_affinity` | `ff,ffffffff` |
//!
//! A CPU number is a `u16`: the largest kernels are built for 8192 CPUs, and the type bounds what
//! a hostile text can make us allocate to 8 KiB.

mod list;
mod mask;
mod wire;

pub use mask::Mask;

use std::ops::RangeInclusive;

use crate::excerpt::Excerpt;

/// Why a text is not a set of CPUs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CpuSetError {
    #[error("cpu set {text}: expected {expected} at byte {at}, found {found}")]
    Syntax { text: Excerpt, at: usize, expected: &'static str, found: String },

    #[error("cpu set {text}: the range {first}-{last} runs backwards")]
    Backwards { text: Excerpt, first: u16, last: u16 },

    #[error("cpu set {text}: the cpu at byte {at} is above {max}", max = u16::MAX)]
    TooLarge { text: Excerpt, at: usize },
}

const WORD_BITS: u16 = 64;

/// A set of CPU numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuSet {
    /// Bit `cpu % 64` of word `cpu / 64`; the last word is never zero, so that equal sets have
    /// equal words.
    words: Vec<u64>,
}

impl CpuSet {
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// Adds a CPU and says whether it was missing.
    pub fn insert(&mut self, cpu: u16) -> bool {
        let is_new = !self.contains(cpu);
        self.insert_range(cpu..=cpu);
        is_new
    }

    /// Adds all CPUs of a range.
    pub fn insert_range(&mut self, cpus: RangeInclusive<u16>) {
        if cpus.is_empty() {
            return;
        }
        let (first, last) = (cpus.start(), cpus.end());
        let (first_word, last_word) =
            (usize::from(first / WORD_BITS), usize::from(last / WORD_BITS));
        if self.words.len() <= last_word {
            self.words.resize(last_word + 1, 0);
        }
        for (at, word) in self.words.iter_mut().enumerate().take(last_word + 1).skip(first_word) {
            let low = if at == first_word { first % WORD_BITS } else { 0 };
            let high = if at == last_word { last % WORD_BITS } else { WORD_BITS - 1 };
            *word |= (u64::MAX << low) & (u64::MAX >> (WORD_BITS - 1 - high));
        }
    }

    /// Takes a CPU out and says whether it was there.
    pub fn remove(&mut self, cpu: u16) -> bool {
        let is_present = self.contains(cpu);
        if let Some(word) = self.words.get_mut(usize::from(cpu / WORD_BITS)) {
            *word &= !(1 << (cpu % WORD_BITS));
        }
        self.trim();
        is_present
    }

    pub fn contains(&self, cpu: u16) -> bool {
        let word = self.words.get(usize::from(cpu / WORD_BITS)).copied().unwrap_or_default();
        word >> (cpu % WORD_BITS) & 1 == 1
    }

    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        let bases = (0..=u16::MAX).step_by(usize::from(WORD_BITS));
        bases.zip(&self.words).flat_map(|(base, word)| Bits(*word).map(move |bit| base + bit))
    }

    /// The maximal runs of neighbouring CPUs in ascending order.
    pub fn ranges(&self) -> impl Iterator<Item = RangeInclusive<u16>> + '_ {
        let mut cpus = self.iter().peekable();
        std::iter::from_fn(move || {
            let first = cpus.next()?;
            let mut last = first;
            while let Some(next) = cpus.next_if(|cpu| Some(*cpu) == last.checked_add(1)) {
                last = next;
            }
            Some(first..=last)
        })
    }

    pub fn first(&self) -> Option<u16> {
        self.iter().next()
    }

    pub fn last(&self) -> Option<u16> {
        let (index, word) = (self.words.len().checked_sub(1)?, self.words.last()?);
        let bit = u64::from(WORD_BITS) * index as u64 + u64::from(word.checked_ilog2()?);
        u16::try_from(bit).ok()
    }

    /// The `n` smallest CPUs, or all when there are fewer.
    pub fn first_n(&self, n: usize) -> Self {
        self.iter().take(n).collect()
    }

    pub fn union(&self, other: &Self) -> Self {
        self.combine(other, |a, b| a | b)
    }

    pub fn intersection(&self, other: &Self) -> Self {
        self.combine(other, |a, b| a & b)
    }

    /// The CPUs that are in `self` and not in `other`.
    pub fn difference(&self, other: &Self) -> Self {
        self.combine(other, |a, b| a & !b)
    }

    pub fn is_subset(&self, other: &Self) -> bool {
        self.difference(other).is_empty()
    }

    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.intersection(other).is_empty()
    }

    fn combine(&self, other: &Self, op: impl Fn(u64, u64) -> u64) -> Self {
        let len = self.words.len().max(other.words.len());
        let padded = |set: &'_ Self, at: usize| set.words.get(at).copied().unwrap_or_default();
        let words = (0..len).map(|at| op(padded(self, at), padded(other, at))).collect();
        let mut combined = Self { words };
        combined.trim();
        combined
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

impl FromIterator<u16> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u16>>(cpus: I) -> Self {
        let mut set = Self::new();
        set.extend(cpus);
        set
    }
}

impl Extend<u16> for CpuSet {
    fn extend<I: IntoIterator<Item = u16>>(&mut self, cpus: I) {
        for cpu in cpus {
            self.insert(cpu);
        }
    }
}

/// The positions of the set bits of a word, ascending.
struct Bits(u64);

impl Iterator for Bits {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        u16::try_from(bit).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    #[test]
    fn insert_and_remove_report_changes() {
        let mut cpus = CpuSet::new();
        assert!(cpus.insert(100));
        assert!(!cpus.insert(100));
        assert!(cpus.contains(100) && !cpus.contains(99) && !cpus.contains(u16::MAX));
        assert!(!cpus.remove(99));
        assert!(!cpus.remove(u16::MAX));
        assert!(cpus.remove(100));
        assert!(cpus.is_empty());
        assert_eq!(cpus, CpuSet::new(), "no trace of the words that were used");
    }

    #[test]
    fn ranges_cover_words_exactly() {
        for (first, last) in [(0, 0), (0, 63), (63, 64), (64, 127), (1, 126), (0, u16::MAX)] {
            let mut cpus = CpuSet::new();
            cpus.insert_range(first..=last);
            assert_eq!(cpus.len(), usize::from(last - first) + 1, "{first}-{last}");
            assert_eq!((cpus.first(), cpus.last()), (Some(first), Some(last)));
            assert_eq!(cpus.ranges().collect::<Vec<_>>(), [first..=last]);
        }
        let mut cpus = CpuSet::new();
        #[expect(clippy::reversed_empty_ranges, reason = "an empty range is the case at hand")]
        cpus.insert_range(5..=4);
        assert!(cpus.is_empty());
    }

    #[test]
    fn ends_of_the_empty_set() {
        let empty = CpuSet::new();
        assert_eq!((empty.first(), empty.last(), empty.len()), (None, None, 0));
        assert_eq!(empty.iter().next(), None);
    }

    #[test]
    fn the_first_n_are_the_smallest() {
        assert_eq!(set("8-9,0,70").first_n(3), set("0,8-9"));
        assert_eq!(set("8-9").first_n(0), CpuSet::new());
        assert_eq!(set("8-9").first_n(5), set("8-9"));
    }

    #[test]
    fn algebra_on_sets_of_different_width() {
        let (narrow, wide) = (set("0-3"), set("2-5,200"));
        assert_eq!(narrow.union(&wide), set("0-5,200"));
        assert_eq!(narrow.intersection(&wide), set("2-3"));
        assert_eq!(wide.difference(&narrow), set("4-5,200"));
        assert_eq!(wide.difference(&set("200")), set("2-5"));
        assert!(set("2-3").is_subset(&wide) && !narrow.is_subset(&wide));
        assert!(CpuSet::new().is_subset(&CpuSet::new()));
        assert!(narrow.is_disjoint(&set("64")) && !narrow.is_disjoint(&wide));
    }
}
