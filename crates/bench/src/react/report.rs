//! What many steps say together.

use std::time::Duration;

use serde::Serialize;

use super::millis;
use crate::percentile;

/// What one step of online load led to.
pub(super) struct Step {
    pub(super) written: Option<Duration>,
    pub(super) effective: Option<Duration>,
    /// What the online side got done.
    pub(super) work: u64,
}

/// Everything that was measured.
#[derive(Default)]
pub(super) struct Measured {
    pub(super) steps: Vec<Step>,
    /// Answered by a loop that samples and acts once a second.
    pub(super) baseline: Vec<Step>,
    /// Work without best-effort.
    pub(super) alone: Vec<u64>,
}

/// Stable keys; more may be added.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    steps: usize,
    /// Steps that were not answered within their second.
    missed: usize,
    written_p50_ms: Option<f64>,
    written_p99_ms: Option<f64>,
    effective_p50_ms: Option<f64>,
    effective_p99_ms: Option<f64>,
    /// What part of the work of its first second the online side lost, on average.
    loss: f64,
    /// The same under a loop that samples and acts once a second.
    baseline_loss: f64,
    /// One over the other; absent when the slow loop lost nothing either.
    loss_ratio: Option<f64>,
}

impl Report {
    pub(super) fn new(measured: &Measured) -> Self {
        let Measured { steps, baseline, alone } = measured;
        let alone = mean(alone.iter().copied());
        let (loss, baseline_loss) = (lost(steps, alone), lost(baseline, alone));
        let written = sorted(steps.iter().filter_map(|step| step.written));
        let effective = sorted(steps.iter().filter_map(|step| step.effective));
        Self {
            steps: steps.len(),
            missed: steps.len() - written.len().min(effective.len()),
            written_p50_ms: percentile(&written, 500).map(millis),
            written_p99_ms: percentile(&written, 990).map(millis),
            effective_p50_ms: percentile(&effective, 500).map(millis),
            effective_p99_ms: percentile(&effective, 990).map(millis),
            loss,
            baseline_loss,
            loss_ratio: (baseline_loss > 0.0).then(|| round(loss / baseline_loss)),
        }
    }

    pub(super) fn to_text(&self) -> String {
        let shown =
            |time: Option<f64>| time.map_or("never".to_owned(), |time| format!("{time} ms"));
        format!(
            "{} steps of online load, {} without an answer\n\
             limit written    p50 {}, p99 {}\n\
             limit effective  p50 {}, p99 {}\n\
             online side lost {:.1} % of its first second; {:.1} % under a loop of a second\n",
            self.steps,
            self.missed,
            shown(self.written_p50_ms),
            shown(self.written_p99_ms),
            shown(self.effective_p50_ms),
            shown(self.effective_p99_ms),
            self.loss * 100.0,
            self.baseline_loss * 100.0,
        )
    }
}

fn sorted(times: impl Iterator<Item = Duration>) -> Vec<Duration> {
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    times
}

#[expect(clippy::cast_precision_loss, reason = "counts of a bench are far below 2^53")]
fn mean(work: impl Iterator<Item = u64>) -> f64 {
    let (count, sum) = work.fold((0_u32, 0), |(count, sum), work| (count + 1, sum + work));
    sum as f64 / f64::from(count.max(1))
}

/// The part of the work that was not done.
fn lost(steps: &[Step], alone: f64) -> f64 {
    if alone <= 0.0 || steps.is_empty() {
        return 0.0;
    }
    round((1.0 - mean(steps.iter().map(|step| step.work)) / alone).max(0.0))
}

fn round(share: f64) -> f64 {
    (share * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(written: Option<u64>, work: u64) -> Step {
        let time = written.map(Duration::from_millis);
        Step { written: time, effective: time, work }
    }

    fn report(steps: Vec<Step>, baseline: Vec<Step>, alone: Vec<u64>) -> Report {
        Report::new(&Measured { steps, baseline, alone })
    }

    #[test]
    fn percentiles_are_of_answered_steps_and_the_rest_is_counted() {
        let steps = (1..=100).map(|ms| step(Some(ms), 900)).chain([step(None, 900)]).collect();
        let report = report(steps, vec![step(None, 500)], vec![990, 1_010]);
        assert_eq!((report.steps, report.missed), (101, 1));
        assert_eq!((report.written_p50_ms, report.written_p99_ms), (Some(50.0), Some(99.0)));
        assert_eq!((report.loss, report.baseline_loss), (0.1, 0.5));
        assert_eq!(report.loss_ratio, Some(0.2));
    }

    #[test]
    fn no_answer_at_all_is_no_number() {
        let report = report(vec![step(None, 10)], vec![], vec![10]);
        assert_eq!((report.missed, report.written_p99_ms), (1, None));
        assert_eq!((report.loss, report.loss_ratio), (0.0, None), "and nothing was lost");
        assert!(report.to_text().contains("p99 never"));
    }
}
