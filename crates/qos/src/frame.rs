//! What does best-effort get between two rounds of suppression?
//!
//! A round a second is too slow for an online service: when its load steps up, best-effort holds the
//! CPUs for up to two seconds. So twenty times a second one cheap sample of the machine is compared
//! with what best-effort is granted. The *frame* around best-effort shrinks at once to what the online
//! side leaves, and grows slowly: a tenth of the machine for every second in which nothing was missing.
//!
//! ```text
//! leaves = capacity * threshold% - max(use above best-effort over the last half second)
//! ```
//!
//! The maximum and not the average is taken, because a service that needed its CPUs a moment ago will
//! need them again in a moment.
//!
//! A load that jumps shows only a part of itself: it began within the sample, and best-effort still had
//! the CPUs. So what it rose by is kept free once more, until quiet time proves that it was all.

use std::time::Duration;

use units::{MilliCpu, Percent, Rounding};

/// How many samples back the online side's use is remembered.
pub const MEMORY: usize = 10;

/// How long nothing must be missing before the frame grows.
pub const QUIET: Duration = Duration::from_secs(1);

/// What of the machine the frame grows by in a second.
const GROWTH: Percent = Percent(10);

/// A rise by this part of the machine, above all that is remembered, is a jump.
const JUMP: Percent = Percent(10);

/// So many samples make a past that a jump can be told from.
const PAST: u8 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    pub capacity: MilliCpu,
    /// What all work together may use.
    pub threshold: Percent,
    /// What best-effort keeps, however busy the machine is.
    pub floor: MilliCpu,
}

/// One look at the machine, over the time since the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    pub node: MilliCpu,
    pub best_effort: MilliCpu,
    pub elapsed: Duration,
}

/// What is remembered from sample to sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// What best-effort is granted.
    pub granted: MilliCpu,
    /// Use above best-effort, newest last.
    recent: [MilliCpu; MEMORY],
    /// Samples seen, as far as it matters.
    seen: u8,
    quiet: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Why {
    /// The most that was used above best-effort lately.
    pub protected: MilliCpu,
    pub leaves: MilliCpu,
    /// What is kept free besides because the load jumped in this sample.
    pub jump: MilliCpu,
    pub step: Step,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The online side wants its CPUs back.
    Shrink,
    Grow,
    Hold,
}

impl State {
    /// Starts with everything granted that may be.
    pub fn new(settings: &Settings) -> Self {
        let granted = settings.threshold.apply(settings.capacity, Rounding::Down);
        Self {
            granted: granted.max(settings.floor),
            recent: [MilliCpu::ZERO; MEMORY],
            seen: 0,
            quiet: Duration::ZERO,
        }
    }
}

/// The state after a sample, and why. The grant may have changed by a little; writing it is worth
/// while only when [`is_worth_writing`] says so.
pub fn decide(settings: &Settings, state: &State, sample: &Sample) -> (State, Why) {
    let used = (sample.node - sample.best_effort).max(MilliCpu::ZERO);
    let rise = used - state.recent.iter().copied().max().unwrap_or_default();
    let mut recent = state.recent;
    recent.rotate_left(1);
    if let Some(newest) = recent.last_mut() {
        *newest = used;
    }
    let protected = recent.iter().copied().max().unwrap_or_default();
    let allowed = settings.threshold.apply(settings.capacity, Rounding::Down);
    let leaves = (allowed - protected).max(settings.floor);
    let is_jump = state.seen >= PAST && rise >= JUMP.apply(settings.capacity, Rounding::Up);
    let jump = if is_jump { rise } else { MilliCpu::ZERO };

    let (granted, quiet, step) = if leaves < state.granted {
        ((leaves - jump).max(settings.floor), Duration::ZERO, Step::Shrink)
    } else if leaves == state.granted {
        (leaves, state.quiet.saturating_add(sample.elapsed), Step::Hold)
    } else {
        let quiet = state.quiet.saturating_add(sample.elapsed);
        if quiet < QUIET {
            (state.granted, quiet, Step::Hold)
        } else {
            ((state.granted + growth(settings, sample.elapsed)).min(leaves), quiet, Step::Grow)
        }
    };
    let seen = state.seen.saturating_add(1);
    (State { granted, recent, seen, quiet }, Why { protected, leaves, jump, step })
}

/// Growth for this much time, never none.
fn growth(settings: &Settings, elapsed: Duration) -> MilliCpu {
    let a_second = GROWTH.apply(settings.capacity, Rounding::Down);
    let millis = i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX);
    MilliCpu((a_second.0.saturating_mul(millis) / 1_000).max(1))
}

/// Whether a grant differs enough from what was last written: any shrinking by a hundredth of the
/// machine counts, growing is written in steps of a fiftieth.
pub fn is_worth_writing(written: MilliCpu, granted: MilliCpu, capacity: MilliCpu) -> bool {
    let change = granted - written;
    let least = if change < MilliCpu::ZERO { Percent(1) } else { Percent(2) };
    change.0.saturating_abs() >= least.apply(capacity, Rounding::Up).0.max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TICK: Duration = Duration::from_millis(50);

    fn settings() -> Settings {
        Settings { capacity: MilliCpu(16_000), threshold: Percent(65), floor: MilliCpu(2_000) }
    }

    fn sample(protected: i64) -> Sample {
        let best_effort = MilliCpu(1_000);
        Sample { node: MilliCpu(protected) + best_effort, best_effort, elapsed: TICK }
    }

    fn after(state: &State, protected: i64, ticks: usize) -> (State, Why) {
        let mut next = decide(&settings(), state, &sample(protected));
        for _ in 1..ticks {
            next = decide(&settings(), &next.0, &sample(protected));
        }
        next
    }

    #[test]
    fn a_step_of_online_load_is_answered_in_one_sample() {
        let (calm, _) = after(&State::new(&settings()), 1_000, 5);
        assert_eq!(calm.granted, MilliCpu(9_400));
        let (state, why) = after(&calm, 2_500, 1);
        assert_eq!((state.granted, why.step), (MilliCpu(7_900), Step::Shrink));
    }

    #[test]
    fn a_jump_is_kept_free_twice() {
        let (calm, _) = after(&State::new(&settings()), 1_000, 5);
        let (state, why) = after(&calm, 3_600, 1);
        assert_eq!((why.leaves, why.jump), (MilliCpu(6_800), MilliCpu(2_600)));
        assert_eq!((state.granted, why.step), (MilliCpu(4_200), Step::Shrink));
        let (state, why) = after(&state, 3_600, 19);
        assert_eq!((state.granted, why.jump), (MilliCpu(4_200), MilliCpu(0)), "a quiet second");
        let (state, _) = after(&state, 3_600, 40);
        assert_eq!(state.granted, MilliCpu(6_800), "it was all");
        let (first, why) = after(&State::new(&settings()), 7_000, 1);
        assert_eq!((first.granted, why.jump), (MilliCpu(3_400), MilliCpu(0)), "no past, no jump");
    }

    #[test]
    fn a_full_machine_leaves_the_floor() {
        let (state, _) = after(&State::new(&settings()), 16_000, 1);
        assert_eq!(state.granted, MilliCpu(2_000));
    }

    #[test]
    fn growth_waits_and_then_takes_its_time() {
        let (busy, _) = after(&State::new(&settings()), 8_400, 20);
        assert_eq!(busy.granted, MilliCpu(2_000));
        // The load goes, but is remembered for half a second, and a quiet second is asked for.
        let (state, why) = after(&busy, 400, MEMORY - 1);
        assert_eq!((state.granted, why.step), (MilliCpu(2_000), Step::Hold));
        let (state, _) = after(&state, 400, 60);
        assert!(state.granted > MilliCpu(2_000) && state.granted < MilliCpu(8_000), "{state:?}");
        let (state, _) = after(&state, 400, 200);
        assert_eq!(state.granted, MilliCpu(10_000));
    }

    #[test]
    fn a_short_lull_changes_nothing() {
        let (busy, _) = after(&State::new(&settings()), 8_000, 20);
        let (lull, why) = after(&busy, 0, 5);
        assert_eq!((lull.granted, why.step), (busy.granted, Step::Hold));
    }

    #[test]
    fn small_changes_are_not_written() {
        let cases = [
            ("nothing", 5_000, 5_000, false),
            ("a little less", 5_000, 4_841, false),
            ("a hundredth less", 5_000, 4_840, true),
            ("a hundredth more", 5_000, 5_160, false),
            ("a fiftieth more", 5_000, 5_320, true),
        ];
        for (name, written, granted, want) in cases {
            let worth = is_worth_writing(MilliCpu(written), MilliCpu(granted), MilliCpu(16_000));
            assert_eq!(worth, want, "{name}");
        }
    }

    proptest! {
        /// Whatever came before, a load is answered in its own sample, and never by giving more than a
        /// sample's growth.
        #[test]
        fn the_frame_shrinks_at_once_and_grows_slowly(
            loads in proptest::collection::vec((0..20_000i64, 1..200u64), 1..100),
        ) {
            let mut state = State::new(&settings());
            for (load, millis) in loads {
                let elapsed = Duration::from_millis(millis);
                let sample = Sample { elapsed, ..sample(load) };
                let (next, why) = decide(&settings(), &state, &sample);
                let leaves = MilliCpu(10_400 - load).max(settings().floor);
                prop_assert!(next.granted <= leaves, "{load} leaves {leaves}, {why:?}");
                let most = state.granted + growth(&settings(), elapsed);
                prop_assert!(next.granted <= most, "grew by more than {most}");
                // Deciding on a quiet sample again changes nothing downwards.
                let (again, _) = decide(&settings(), &next, &sample);
                prop_assert!(again.granted >= next.granted);
                state = next;
            }
        }

        #[test]
        fn the_grant_stays_between_floor_and_threshold(
            loads in proptest::collection::vec(-5_000..40_000i64, 1..100),
        ) {
            let mut state = State::new(&settings());
            for load in loads {
                let (next, why) = decide(&settings(), &state, &sample(load));
                prop_assert!((MilliCpu(2_000)..=MilliCpu(10_400)).contains(&next.granted));
                prop_assert!(next.granted <= why.leaves);
                state = next;
            }
        }
    }
}
