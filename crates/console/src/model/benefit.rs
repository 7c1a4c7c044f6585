//! What did sharing bring?
//!
//! | word | definition |
//! |---|---|
//! | utilisation | busy core-seconds / capacity core-seconds of all measured nodes |
//! | without batch | the same, less what best-effort pods used |
//! | shared | core-seconds of best-effort pods on nodes that also run others |
//! | lent | core-seconds of best-effort pods on nodes that run nothing else |
//! | cores saved | (shared + lent) / seconds / 0.70: cores of dedicated machines that run at 70 % |
//!
//! Usage is taken to have held since the report before, for two minutes at most: a node that was
//! silent for longer counts for neither busy nor idle time. Sums are kept by the hour for a day.
//! Seconds are those in which at least one node was seen, so a console that was down for a night
//! does not say that the night was idle.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use units::MilliCpu;

use super::overview::Day;

/// Silence beyond this is not accounted.
const LONGEST_STEP: i64 = 120;
const HOUR: i64 = 3_600;
const HOURS: usize = 24;
/// What dedicated machines reach, in percent.
const DEDICATED_PERCENT: i64 = 70;

/// The form of a kept ledger.
const FORM: u32 = 1;

/// Milli-core-seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sums {
    pub capacity: i64,
    pub busy: i64,
    pub shared: i64,
    pub lent: i64,
}

impl Sums {
    fn is_sound(&self) -> bool {
        let parts = [self.busy, self.shared, self.lent];
        parts.iter().all(|part| (0..=self.capacity).contains(part))
    }

    fn add(&mut self, other: &Self) {
        self.capacity = self.capacity.saturating_add(other.capacity);
        self.busy = self.busy.saturating_add(other.busy);
        self.shared = self.shared.saturating_add(other.shared);
        self.lent = self.lent.saturating_add(other.lent);
    }

    /// Tenths of a percent; `None` before anything was measured.
    fn per_mille(&self, part: i64) -> Option<i64> {
        (self.capacity > 0).then(|| part.saturating_mul(1_000) / self.capacity)
    }
}

/// One report of one node, and how long it held.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    pub from: Timestamp,
    pub to: Timestamp,
    pub capacity: MilliCpu,
    pub used: MilliCpu,
    pub best_effort: MilliCpu,
    /// Whether others than best-effort pods run there.
    pub is_shared: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Hour {
    start: i64,
    sums: Sums,
}

/// What was accounted since the start, by the hour.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ledger {
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    /// Time in which at least one node was seen.
    seconds: i64,
    hours: VecDeque<Hour>,
    total: Sums,
}

/// A ledger as it is kept.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    form: u32,
    ledger: Ledger,
}

/// Why a kept ledger cannot be taken over.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeptError {
    #[error("it cannot be read: {0}")]
    Text(String),
    #[error("its form is {0}, and this version reads form {FORM}")]
    Form(u32),
    #[error("its sums contradict each other")]
    Sums,
}

impl Ledger {
    /// The text that [`Ledger::from_text`] takes back.
    pub fn to_text(&self) -> String {
        // Numbers, texts and lists are always written.
        serde_json::to_string(&Kept { form: FORM, ledger: self.clone() }).unwrap_or_default()
    }

    /// What was kept, unless somebody else wrote it.
    pub fn from_text(text: &str) -> Result<Self, KeptError> {
        let kept: serde_json::Value =
            serde_json::from_str(text).map_err(|error| KeptError::Text(error.to_string()))?;
        let form = kept.get("form").and_then(serde_json::Value::as_u64);
        if let Some(form) = form.and_then(|form| u32::try_from(form).ok())
            && form != FORM
        {
            return Err(KeptError::Form(form));
        }
        let kept: Kept =
            serde_json::from_value(kept).map_err(|error| KeptError::Text(error.to_string()))?;
        match kept.ledger.is_sound() {
            true => Ok(kept.ledger),
            false => Err(KeptError::Sums),
        }
    }

    fn is_sound(&self) -> bool {
        let is_ordered = self.hours.iter().is_sorted_by(|a, b| a.start < b.start);
        let are_sound = self.hours.iter().all(|hour| hour.sums.is_sound());
        let length = self
            .since
            .zip(self.until)
            .map_or(0, |(since, until)| until.as_second().saturating_sub(since.as_second()));
        is_ordered
            && are_sound
            && self.total.is_sound()
            && self.hours.len() <= HOURS
            && self.since.is_some() == self.until.is_some()
            && (0..=length.max(0)).contains(&self.seconds)
    }

    pub fn account(&mut self, step: &Step) {
        let seconds = step.to.as_second().saturating_sub(step.from.as_second());
        if seconds <= 0 || seconds > LONGEST_STEP {
            return;
        }
        let over = |milli: MilliCpu| milli.0.max(0).saturating_mul(seconds);
        let reclaimed = over(step.best_effort).min(over(step.capacity));
        let sums = Sums {
            capacity: over(step.capacity),
            busy: over(step.used).min(over(step.capacity)),
            shared: if step.is_shared { reclaimed } else { 0 },
            lent: if step.is_shared { 0 } else { reclaimed },
        };
        let seen = self.until.map_or(step.from, |until| until.max(step.from));
        self.seconds += step.to.as_second().saturating_sub(seen.as_second()).max(0);
        self.since = Some(self.since.map_or(step.from, |since| since.min(step.from)));
        self.until = Some(self.until.map_or(step.to, |until| until.max(step.to)));
        self.total.add(&sums);
        let start = step.to.as_second().div_euclid(HOUR).saturating_mul(HOUR);
        if let Some(hour) = self.hour(start) {
            hour.add(&sums);
        }
    }

    /// The sums of an hour; `None` for one that is older than all that are kept.
    fn hour(&mut self, start: i64) -> Option<&mut Sums> {
        let place = self.hours.iter().take_while(|hour| hour.start < start).count();
        if self.hours.get(place).is_none_or(|hour| hour.start != start) {
            self.hours.insert(place, Hour { start, sums: Sums::default() });
        }
        while self.hours.len() > HOURS {
            self.hours.pop_front();
        }
        self.hours.iter_mut().find(|hour| hour.start == start).map(|hour| &mut hour.sums)
    }

    /// Everything since the start.
    pub fn total(&self) -> Sums {
        self.total
    }

    /// The last 24 hours, or as much of them as was seen.
    pub fn day(&self) -> Sums {
        let mut day = Sums::default();
        for hour in &self.hours {
            day.add(&hour.sums);
        }
        day
    }

    /// The average of the last 24 hours.
    pub fn average(&self) -> Day {
        let day = self.day();
        let without = day.busy.saturating_sub(day.shared).saturating_sub(day.lent);
        Day {
            seconds: self.seconds.min(24 * HOUR),
            utilization_per_mille: day.per_mille(day.busy),
            without_batch_per_mille: day.per_mille(without),
        }
    }

    pub fn benefit(&self, lent_now: MilliCpu, used_now: MilliCpu) -> Benefit {
        let day = self.average();
        let reclaimed = self.total.shared.saturating_add(self.total.lent);
        let seconds = self.seconds;
        let saved = match seconds {
            0 => 0,
            _ => reclaimed.saturating_mul(100) / (seconds.saturating_mul(DEDICATED_PERCENT)),
        };
        Benefit {
            since: self.since,
            seconds,
            lent_now,
            used_now,
            shared_milli_core_seconds: self.total.shared,
            lent_milli_core_seconds: self.total.lent,
            cores_saved: MilliCpu(saved),
            utilization_per_mille: day.utilization_per_mille,
            without_batch_per_mille: day.without_batch_per_mille,
            hours: self.hours.iter().map(HourView::of).collect(),
        }
    }
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Benefit {
    /// When accounting began.
    pub since: Option<Timestamp>,
    /// How much of the time since then was seen.
    pub seconds: i64,
    pub lent_now: MilliCpu,
    pub used_now: MilliCpu,
    pub shared_milli_core_seconds: i64,
    pub lent_milli_core_seconds: i64,
    pub cores_saved: MilliCpu,
    pub utilization_per_mille: Option<i64>,
    pub without_batch_per_mille: Option<i64>,
    pub hours: Vec<HourView>,
}

/// One hour of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HourView {
    pub start: Option<Timestamp>,
    pub reclaimed_milli_core_seconds: i64,
    pub utilization_per_mille: Option<i64>,
    pub without_batch_per_mille: Option<i64>,
}

impl HourView {
    fn of(hour: &Hour) -> Self {
        let sums = &hour.sums;
        let reclaimed = sums.shared.saturating_add(sums.lent);
        Self {
            start: Timestamp::from_second(hour.start).ok(),
            reclaimed_milli_core_seconds: reclaimed,
            utilization_per_mille: sums.per_mille(sums.busy),
            without_batch_per_mille: sums.per_mille(sums.busy.saturating_sub(reclaimed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn step(from: i64, to: i64) -> Step {
        Step {
            from: at(from),
            to: at(to),
            capacity: MilliCpu(4_000),
            used: MilliCpu(2_000),
            best_effort: MilliCpu(1_400),
            is_shared: true,
        }
    }

    #[test]
    fn core_seconds_add_up() {
        let mut ledger = Ledger::default();
        ledger.account(&step(0, 60));
        ledger.account(&Step { is_shared: false, ..step(60, 100) });
        let benefit = ledger.benefit(MilliCpu(3_000), MilliCpu(1_400));
        assert_eq!(benefit.shared_milli_core_seconds, 1_400 * 60);
        assert_eq!(benefit.lent_milli_core_seconds, 1_400 * 40);
        assert_eq!(benefit.cores_saved, MilliCpu(2_000), "1.4 cores at 70 % are 2");
        assert_eq!(benefit.utilization_per_mille, Some(500));
        assert_eq!(benefit.without_batch_per_mille, Some(150));
    }

    #[test]
    fn silence_and_time_that_runs_backwards_count_for_nothing() {
        for (name, from, to) in [("silent", 0, 121), ("backwards", 10, 5), ("twice", 5, 5)] {
            let mut ledger = Ledger::default();
            ledger.account(&step(from, to));
            assert_eq!(ledger, Ledger::default(), "{name}");
        }
    }

    #[test]
    fn a_day_is_remembered_and_the_total_is_not_cut() {
        let mut ledger = Ledger::default();
        for hour in 0..30 {
            ledger.account(&step(hour * HOUR, hour * HOUR + 60));
        }
        assert_eq!(ledger.hours.len(), HOURS);
        assert_eq!(ledger.day().capacity, 24 * 60 * 4_000);
        assert_eq!(ledger.total().capacity, 30 * 60 * 4_000);
        ledger.account(&step(20 * HOUR + 60, 20 * HOUR + 120));
        assert_eq!(ledger.hours.len(), HOURS, "a late report has its hour already");
    }

    #[test]
    fn time_in_which_nobody_looked_is_no_idle_time() {
        let mut ledger = Ledger::default();
        ledger.account(&step(0, 60));
        ledger.account(&step(10, 70));
        ledger.account(&step(8 * HOUR, 8 * HOUR + 60));
        let benefit = ledger.benefit(MilliCpu(0), MilliCpu(0));
        assert_eq!(benefit.seconds, 130, "nodes overlap, and the night is not counted");
        assert_eq!(benefit.cores_saved, MilliCpu(1_400 * 180 * 100 / (130 * 70)));
    }

    #[test]
    fn what_is_kept_comes_back() {
        let mut ledger = Ledger::default();
        assert_eq!(Ledger::from_text(&ledger.to_text()).unwrap(), ledger, "nothing");
        for hour in 0..30 {
            ledger.account(&step(hour * HOUR, hour * HOUR + 60));
        }
        assert_eq!(Ledger::from_text(&ledger.to_text()).unwrap(), ledger);
    }

    #[test]
    fn what_nobody_of_us_kept_is_refused() {
        let mut ledger = Ledger::default();
        ledger.account(&step(0, 60));
        ledger.account(&step(HOUR, HOUR + 60));
        let good: serde_json::Value = serde_json::from_str(&ledger.to_text()).unwrap();
        let with = |path: &str, value: serde_json::Value| {
            let mut bad = good.clone();
            *bad.pointer_mut(path).unwrap() = value;
            bad.to_string()
        };
        let whole = good.to_string();
        let cases = [
            ("nothing", String::new()),
            ("half of it", whole[..whole.len() / 2].to_owned()),
            ("another form", with("/form", 2.into())),
            ("no form", with("/form", "one".into())),
            ("a negative sum", with("/ledger/total/busy", (-1).into())),
            ("more work than CPUs", with("/ledger/total/lent", i64::MAX.into())),
            ("hours in disorder", with("/ledger/hours/1/start", 0.into())),
            ("more time than there was", with("/ledger/seconds", 999_999.into())),
            ("an end without a beginning", with("/ledger/since", serde_json::Value::Null)),
            ("a number that is a text", with("/ledger/seconds", "many".into())),
        ];
        for (name, text) in cases {
            assert!(Ledger::from_text(&text).is_err(), "{name}");
        }
        assert!(Ledger::from_text(&whole).is_ok());
    }

    #[test]
    fn a_node_that_is_busier_than_it_is_large_counts_as_full() {
        let mut ledger = Ledger::default();
        ledger.account(&Step { used: MilliCpu(9_000), ..step(0, 60) });
        let benefit = ledger.benefit(MilliCpu(0), MilliCpu(0));
        assert_eq!(benefit.utilization_per_mille, Some(1_000));
    }
}
