//! What came out of a run?

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// How one case went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// What was seen instead, and where in the transcript.
    Failed(String),
    /// Why it was not tried.
    Skipped(String),
}

/// All cases, by id.
#[derive(Debug, Default)]
pub struct Report {
    pub outcomes: BTreeMap<String, Outcome>,
}

impl Report {
    /// Cases that were not tried, with the reason.
    pub fn skips(&self) -> impl Iterator<Item = (&str, &str)> {
        self.outcomes.iter().filter_map(|(id, outcome)| match outcome {
            Outcome::Skipped(why) => Some((id.as_str(), why.as_str())),
            _ => None,
        })
    }

    /// Prints the outcome; fails the test unless exactly the known gaps failed.
    ///
    /// # Panics
    ///
    /// When another case failed, or one of the known gaps is none.
    pub fn judge(&self, known_gaps: &[(&str, &str)]) {
        for (id, why) in self.skips() {
            println!("SKIPPED {id}: {why}");
        }
        println!("{self}");
        let played = |id: &&str| self.outcomes.contains_key(*id);
        let gaps: BTreeSet<&str> = known_gaps.iter().map(|gap| gap.0).filter(played).collect();
        let failed: BTreeSet<&str> = self.failures().map(|(id, _)| id).collect();
        let mut surprises: Vec<String> = self
            .failures()
            .filter(|(id, _)| !gaps.contains(id))
            .map(|(id, why)| format!("FAILED {id}\n    {why}"))
            .collect();
        for id in gaps.difference(&failed) {
            surprises.push(format!("PASSES NOW, remove it from KNOWN_GAPS: {id}"));
        }
        assert!(surprises.is_empty(), "{} surprises\n{}", surprises.len(), surprises.join("\n"));
    }

    /// Cases that failed, with what was seen.
    pub fn failures(&self) -> impl Iterator<Item = (&str, &str)> {
        self.outcomes.iter().filter_map(|(id, outcome)| match outcome {
            Outcome::Failed(why) => Some((id.as_str(), why.as_str())),
            _ => None,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut areas: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
        for (id, outcome) in &self.outcomes {
            let area = id.split_once(": ").map_or(id.as_str(), |(area, _)| area);
            let [passed, failed, skipped] = areas.entry(area).or_default();
            match outcome {
                Outcome::Passed => *passed += 1,
                Outcome::Failed(_) => *failed += 1,
                Outcome::Skipped(_) => *skipped += 1,
            }
        }
        writeln!(f, "{:<16} {:>6} {:>6} {:>7}", "AREA", "PASSED", "FAILED", "SKIPPED")?;
        let mut total = [0; 3];
        for (area, counts) in &areas {
            for (sum, count) in total.iter_mut().zip(counts) {
                *sum += count;
            }
            let [passed, failed, skipped] = counts;
            writeln!(f, "{area:<16} {passed:>6} {failed:>6} {skipped:>7}")?;
        }
        let [passed, failed, skipped] = total;
        writeln!(f, "{:<16} {passed:>6} {failed:>6} {skipped:>7}", "total")
    }
}
