//! How did it go, in one line that people and machines read?

use std::fmt;

/// One check or test, and why it did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) what: String,
    pub(crate) why: String,
}

impl Note {
    pub(crate) fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into() }
    }
}

/// How a step that is not a test run ended: well, or with a reason.
pub(crate) type Outcome = Result<(), String>;

/// All results so far. Everything that did not pass is a note, so nothing can be
/// counted without being explained.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: Vec<Note>,
    pub(crate) skipped: Vec<Note>,
}

impl Tally {
    pub(crate) fn record(&mut self, what: &str, outcome: Outcome) {
        match outcome {
            Ok(()) => self.passed += 1,
            Err(why) => self.failed.push(Note::new(what, why)),
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
        self.skipped.extend(other.skipped);
    }

    /// How many results there are, good or bad.
    pub(crate) fn total(&self) -> u64 {
        let others = self.failed.len().saturating_add(self.skipped.len());
        self.passed.saturating_add(u64::try_from(others).unwrap_or(u64::MAX))
    }

    /// On CI nothing may be left out silently: what was skipped has failed.
    pub(crate) fn refuse_skips(&mut self) {
        self.failed.extend(self.skipped.drain(..).map(|Note { what, why }| {
            Note::new(what, format!("skipped, which CI does not accept: {why}"))
        }));
    }

    pub(crate) fn is_green(&self) -> bool {
        self.failed.is_empty()
    }

    /// The worst result in one word.
    pub(crate) fn verdict(&self) -> &'static str {
        match (self.failed.as_slice(), self.skipped.as_slice(), self.passed) {
            ([_, ..], _, _) => "failed",
            ([], [_, ..], _) => "skipped in part",
            ([], [], 0) => "nothing to do",
            ([], [], _) => "ok",
        }
    }
}

/// Skips and failures with their reasons, then the counts alone on the last line.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (label, notes) in [("skipped", &self.skipped), ("failed", &self.failed)] {
            for Note { what, why } in notes {
                writeln!(f, "{label}: {what}: {why}")?;
            }
        }
        let (failed, skipped) = (self.failed.len(), self.skipped.len());
        write!(f, "{} passed, {failed} failed, {skipped} skipped", self.passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mixed() -> Tally {
        let mut tally = Tally::default();
        tally.record("format", Ok(()));
        tally.record("lints", Err("exit status: 101".into()));
        tally.add(Tally {
            passed: 3,
            failed: vec![Note::new("units: a", "src/lib.rs:1:2: no")],
            skipped: vec![Note::new("host: b", "needs a cgroup root")],
        });
        tally
    }

    #[test]
    fn every_result_that_did_not_pass_is_explained_above_the_counts() {
        assert_eq!(
            mixed().to_string(),
            "skipped: host: b: needs a cgroup root\n\
             failed: lints: exit status: 101\n\
             failed: units: a: src/lib.rs:1:2: no\n\
             4 passed, 2 failed, 1 skipped"
        );
        assert!(!mixed().is_green());
    }

    #[test]
    fn the_verdict_is_the_worst_result() {
        let mut tally = Tally::default();
        assert_eq!(tally.verdict(), "nothing to do");
        tally.record("format", Ok(()));
        assert_eq!(tally.verdict(), "ok");
        tally.skipped.push(Note::new("host: b", "needs a cgroup root"));
        assert_eq!(tally.verdict(), "skipped in part");
        tally.record("lints", Err("exit status: 101".into()));
        assert_eq!(tally.verdict(), "failed");
    }

    #[test]
    fn a_skip_is_green_here_and_red_on_ci() {
        let mut tally = Tally::default();
        tally.skipped.push(Note::new("host: b", "needs a cgroup root"));
        assert!(tally.is_green());
        tally.refuse_skips();
        assert!(!tally.is_green());
        assert_eq!(
            tally.to_string(),
            "failed: host: b: skipped, which CI does not accept: needs a cgroup root\n\
             0 passed, 1 failed, 0 skipped"
        );
    }
}
