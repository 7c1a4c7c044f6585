//! What is done while the online side waits for memory?
//!
//! Limits and brakes have failed by then, and evictions take seconds. In between there is a ladder, climbed
//! only as long as nothing helps; every rung has a whole window to show that it does:
//!
//! ```text
//! at once       reclaim   best-effort gives back max(64 MiB, 2 % of the node), once a second
//! after 1 s     freeze    best-effort pods of the lowest priority stand still, for 2 s at most
//! after 3 s     last      nothing is left but that pods leave, or are killed where that is allowed
//! ```
//!
//! An emergency is a pod or class of the online side in which all tasks together stood still for 30 ms of
//! the last second, or less than 2 % of memory available, which is the last rung at once. Frozen pods
//! thaw for as long as they were frozen before they are frozen again: standing still is no way to live.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use units::{Bytes, Percent, Rounding};

/// Over which waiting is counted.
pub const WINDOW: Duration = Duration::from_secs(1);

/// How much of it is an emergency.
pub const STALL: Duration = Duration::from_millis(30);

/// Less memory available than this is an emergency as well.
pub const SHORT: Percent = Percent(2);

/// When the second and the last rung are reached.
pub const FREEZE_AFTER: Duration = Duration::from_secs(1);
pub const LAST_AFTER: Duration = Duration::from_secs(3);

/// What is reclaimed at a time.
const LEAST_RECLAIM: Bytes = Bytes(64 << 20);
const RECLAIM: Percent = Percent(2);

/// Between two reclaims.
const AGAIN: Duration = Duration::from_secs(1);

/// What operators allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    pub capacity: Bytes,
    /// How long pods may be frozen; `None` never freezes.
    pub freeze: Option<Duration>,
}

/// What is seen at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample<Id> {
    pub now: Duration,
    /// For how long all tasks of each part of the online side have stood still, ever.
    pub stalls: Vec<(Id, Duration)>,
    /// `None` when it is not known.
    pub available: Option<Bytes>,
}

/// What is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State<Id> {
    totals: BTreeMap<Id, VecDeque<(Duration, Duration)>>,
    since: Option<Duration>,
    reclaimed: Option<Duration>,
    frozen: Option<Duration>,
    /// Not frozen again before.
    rests_until: Duration,
}

impl<Id> Default for State<Id> {
    fn default() -> Self {
        let (since, reclaimed, frozen, rests_until) = (None, None, None, Duration::ZERO);
        Self { totals: BTreeMap::new(), since, reclaimed, frozen, rests_until }
    }
}

/// How far up the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rung {
    Calm,
    Reclaim,
    Freeze,
    Last,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub rung: Rung,
    /// What best-effort has to give back.
    pub reclaim: Option<Bytes>,
    /// Until when pods of the lowest priority stand still.
    pub frozen_until: Option<Duration>,
    pub why: Why,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    /// The most that a part of the online side stood still in the last window.
    pub stalled: Duration,
    pub available: Option<Bytes>,
    /// How long the emergency lasts.
    pub lasts: Duration,
}

pub fn decide<Id: Ord + Clone>(
    settings: &Settings,
    state: &State<Id>,
    sample: &Sample<Id>,
) -> (State<Id>, Decision) {
    let mut next = state.clone();
    let stalled = next.stalled(sample);
    let short = SHORT.apply(settings.capacity, Rounding::Down);
    let is_short = sample.available.is_some_and(|available| available < short);
    let is_emergency = stalled >= STALL || is_short;
    next.since = is_emergency.then(|| state.since.unwrap_or(sample.now));
    let lasts = next.since.map_or(Duration::ZERO, |since| sample.now.saturating_sub(since));
    let rung = match is_emergency {
        false => Rung::Calm,
        true if is_short || lasts >= LAST_AFTER => Rung::Last,
        true if lasts >= FREEZE_AFTER => Rung::Freeze,
        true => Rung::Reclaim,
    };
    let reclaim = next.reclaim(settings, rung, sample.now);
    let frozen_until = next.freeze(settings, rung, sample.now);
    let why = Why { stalled, available: sample.available, lasts };
    (next, Decision { rung, reclaim, frozen_until, why })
}

impl<Id: Ord + Clone> State<Id> {
    /// The most that one part stood still in the last window.
    fn stalled(&mut self, sample: &Sample<Id>) -> Duration {
        let is_there = |id: &Id| sample.stalls.iter().any(|(known, _)| known == id);
        self.totals.retain(|id, _| is_there(id));
        let mut most = Duration::ZERO;
        for (id, total) in &sample.stalls {
            let totals = self.totals.entry(id.clone()).or_default();
            if totals.back().is_some_and(|(at, last)| last > total || *at >= sample.now) {
                totals.clear();
            }
            totals.push_back((sample.now, *total));
            // The newest that is a whole window old is the one to count from.
            let start = sample.now.saturating_sub(WINDOW);
            while totals.get(1).is_some_and(|(at, _)| *at <= start) {
                totals.pop_front();
            }
            let before = totals.front().map_or(*total, |(_, before)| *before);
            most = most.max(total.saturating_sub(before));
        }
        most
    }

    fn reclaim(&mut self, settings: &Settings, rung: Rung, now: Duration) -> Option<Bytes> {
        let is_due = self.reclaimed.is_none_or(|at| now.saturating_sub(at) >= AGAIN);
        if rung == Rung::Calm || !is_due {
            return None;
        }
        self.reclaimed = Some(now);
        Some(RECLAIM.apply(settings.capacity, Rounding::Down).max(LEAST_RECLAIM))
    }

    fn freeze(&mut self, settings: &Settings, rung: Rung, now: Duration) -> Option<Duration> {
        let longest = settings.freeze.filter(|longest| !longest.is_zero());
        let wanted = longest.filter(|_| rung >= Rung::Freeze);
        match (self.frozen, wanted) {
            (Some(since), Some(longest)) if now < since.saturating_add(longest) => {
                Some(since.saturating_add(longest))
            }
            (Some(since), _) => {
                self.frozen = None;
                self.rests_until = now.saturating_add(now.saturating_sub(since));
                None
            }
            (None, Some(longest)) if now >= self.rests_until => {
                self.frozen = Some(now);
                Some(now.saturating_add(longest))
            }
            (None, _) => None,
        }
    }
}

/// A best-effort pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elastic<Id> {
    pub id: Id,
    pub priority: i32,
}

/// All pods of the lowest priority there is.
pub fn first_to_freeze<Id: Clone>(pods: &[Elastic<Id>]) -> Vec<Id> {
    let lowest = pods.iter().map(|pod| pod.priority).min();
    let first = pods.iter().filter(|pod| Some(pod.priority) == lowest);
    first.map(|pod| pod.id.clone()).collect()
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stalled, window) = (self.stalled.as_millis(), WINDOW.as_millis());
        write!(f, "the online side stood still for {stalled} of {window} ms")?;
        if let Some(available) = self.available {
            write!(f, ", {available} are available")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NODE: Settings =
        Settings { capacity: Bytes(64 << 30), freeze: Some(Duration::from_secs(2)) };
    const LOOK: Duration = Duration::from_millis(250);

    struct Rig {
        settings: Settings,
        state: State<&'static str>,
        now: Duration,
        total: Duration,
    }

    impl Rig {
        fn new() -> Self {
            let mut rig = Self {
                settings: NODE,
                state: State::default(),
                now: Duration::ZERO,
                total: Duration::from_secs(9),
            };
            for _ in 0..8 {
                assert_eq!(rig.look(0).rung, Rung::Calm);
            }
            rig
        }

        /// A quarter of a second in which the online side stood still for so many milliseconds.
        fn look(&mut self, stalled: u64) -> Decision {
            self.look_with(stalled, Some(Bytes(8 << 30)))
        }

        fn look_with(&mut self, stalled: u64, available: Option<Bytes>) -> Decision {
            self.now += LOOK;
            self.total += Duration::from_millis(stalled);
            let stalls = vec![("burstable", self.total), ("idle", Duration::ZERO)];
            let sample = Sample { now: self.now, stalls, available };
            let (state, decision) = decide(&self.settings, &self.state, &sample);
            self.state = state;
            decision
        }
    }

    #[test]
    fn the_ladder_is_climbed_only_while_nothing_helps() {
        let mut rig = Rig::new();
        assert_eq!(rig.look(29).rung, Rung::Calm, "29 ms of a second");
        let first = rig.look(1);
        assert_eq!(first.rung, Rung::Reclaim, "30 ms of a second");
        assert_eq!(first.reclaim, Some(Bytes((64 << 30) / 50)), "2 % of the node");
        assert_eq!(rig.look(30).reclaim, None, "once a second");
        for _ in 0..2 {
            assert_eq!(rig.look(30).rung, Rung::Reclaim);
        }
        let frozen = rig.look(30);
        assert_eq!((frozen.rung, frozen.reclaim.is_some()), (Rung::Freeze, true), "after a second");
        assert_eq!(frozen.frozen_until, Some(rig.now + Duration::from_secs(2)));
        for _ in 0..7 {
            assert_eq!(rig.look(30).rung, Rung::Freeze);
        }
        assert_eq!(rig.look(30).rung, Rung::Last, "after three seconds");
    }

    #[test]
    fn what_helps_ends_it() {
        let mut rig = Rig::new();
        rig.look(40);
        for _ in 0..3 {
            assert_eq!(rig.look(0).rung, Rung::Reclaim, "the window still holds it");
        }
        assert_eq!(rig.look(0).rung, Rung::Calm);
        assert_eq!(rig.look(40).rung, Rung::Reclaim, "and it begins below");
    }

    #[test]
    fn nobody_is_frozen_longer_than_allowed_and_everybody_rests() {
        let mut rig = Rig::new();
        let frozen: Vec<bool> = (0..32).map(|_| rig.look(100).frozen_until.is_some()).collect();
        let quarters = |from: usize, to: usize| &frozen[from..to];
        assert!(quarters(0, 4).iter().all(|is| !is), "{frozen:?}");
        assert!(quarters(4, 12).iter().all(|is| *is), "two seconds, {frozen:?}");
        assert!(quarters(12, 20).iter().all(|is| !is), "as long, {frozen:?}");
        assert!(quarters(20, 28).iter().all(|is| *is), "{frozen:?}");
        let mut rig = Rig::new();
        rig.settings.freeze = None;
        assert!((0..32).all(|_| rig.look(100).frozen_until.is_none()), "operators may forbid it");
    }

    #[test]
    fn little_memory_is_the_last_rung_at_once() {
        let line = Bytes((64 << 30) / 50);
        let cases = [
            ("at the line", Some(line), Rung::Calm),
            ("below it", Some(Bytes(line.0 - 1)), Rung::Last),
            ("not known", None, Rung::Calm),
        ];
        for (name, available, want) in cases {
            let decision = Rig::new().look_with(0, available);
            assert_eq!(decision.rung, want, "{name}");
            assert_eq!(decision.frozen_until.is_some(), want == Rung::Last, "{name}");
        }
    }

    #[test]
    fn small_nodes_reclaim_at_least_64_mib() {
        let mut rig = Rig::new();
        rig.settings.capacity = Bytes(1 << 30);
        assert_eq!(rig.look(40).reclaim, Some(Bytes(64 << 20)));
    }

    #[test]
    fn a_counter_that_goes_back_or_is_new_is_no_stall() {
        let mut rig = Rig::new();
        rig.total = Duration::from_secs(1);
        assert_eq!(rig.look(0).rung, Rung::Calm);
        let mut rig = Rig::new();
        rig.state = State::default();
        assert_eq!(rig.look(500).rung, Rung::Calm, "one reading is no stall");
    }

    #[test]
    fn those_of_the_lowest_priority_are_frozen_first() {
        let pod = |id, priority| Elastic { id, priority };
        let pods = [pod("a", 5_500), pod("b", 5_000), pod("c", 5_000)];
        assert_eq!(first_to_freeze(&pods), ["b", "c"]);
        assert_eq!(first_to_freeze::<&str>(&[]), [""; 0]);
    }

    proptest! {
        /// Whatever happens: calm means nothing is done, nobody is frozen for more than two seconds or
        /// again before as much time has passed, and reclaims are a second apart.
        #[test]
        fn the_ladder_keeps_its_promises(stalls in proptest::collection::vec(0..120u64, 8..80)) {
            let mut rig = Rig::new();
            let (mut frozen, mut owed) = (0_u32, 0_u32);
            let mut reclaimed: Option<Duration> = None;
            for stalled in stalls {
                let decision = rig.look(stalled);
                if decision.rung == Rung::Calm {
                    prop_assert_eq!((decision.reclaim, decision.frozen_until), (None, None));
                }
                if decision.reclaim.is_some() {
                    prop_assert!(reclaimed.is_none_or(|at| rig.now - at >= AGAIN));
                    reclaimed = Some(rig.now);
                }
                match decision.frozen_until {
                    Some(_) => {
                        prop_assert_eq!(owed, 0);
                        frozen += 1;
                        prop_assert!(frozen <= 8);
                    }
                    None => {
                        owed = (owed + std::mem::take(&mut frozen)).saturating_sub(1);
                    }
                }
            }
        }
    }
}
