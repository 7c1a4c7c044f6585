//! What many steps say together.

use std::time::Duration;

use serde::Serialize;

use super::millis;

/// What one step of online load led to.
pub(super) struct Step {
    pub(super) written: Option<Duration>,
    pub(super) effective: Option<Duration>,
    /// What part of its time the online side did not get.
    pub(super) lost: f64,
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
    /// What part of its first second the online side lost, on average.
    loss: f64,
    /// The same under a loop that samples and acts once a second.
    baseline_loss: f64,
}

impl Report {
    pub(super) fn new(steps: &[Step], baseline: &[Step]) -> Self {
        let written = sorted(steps.iter().filter_map(|step| step.written));
        let effective = sorted(steps.iter().filter_map(|step| step.effective));
        Self {
            steps: steps.len(),
            missed: steps.len() - written.len().min(effective.len()),
            written_p50_ms: percentile(&written, 50).map(millis),
            written_p99_ms: percentile(&written, 99).map(millis),
            effective_p50_ms: percentile(&effective, 50).map(millis),
            effective_p99_ms: percentile(&effective, 99).map(millis),
            loss: mean(steps),
            baseline_loss: mean(baseline),
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

/// The smallest time that this many percent do not exceed.
fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

fn mean(steps: &[Step]) -> f64 {
    let count = u32::try_from(steps.len()).unwrap_or(u32::MAX).max(1);
    let mean = steps.iter().map(|step| step.lost).sum::<f64>() / f64::from(count);
    (mean * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(written: Option<u64>, lost: f64) -> Step {
        let time = written.map(Duration::from_millis);
        Step { written: time, effective: time, lost }
    }

    #[test]
    fn percentiles_are_of_answered_steps_and_the_rest_is_counted() {
        let steps: Vec<_> =
            (1..=100).map(|ms| step(Some(ms), 0.1)).chain([step(None, 0.3)]).collect();
        let report = Report::new(&steps, &[step(None, 0.5)]);
        assert_eq!((report.steps, report.missed), (101, 1));
        assert_eq!((report.written_p50_ms, report.written_p99_ms), (Some(50.0), Some(99.0)));
        assert_eq!((report.loss, report.baseline_loss), (0.102, 0.5));
    }

    #[test]
    fn no_answer_at_all_is_no_number() {
        let report = Report::new(&[step(None, 1.0)], &[]);
        assert_eq!((report.missed, report.written_p99_ms), (1, None));
        assert!(report.to_text().contains("p99 never"));
    }
}
