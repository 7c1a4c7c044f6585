//! Which way of keeping best-effort behind is worth its price on this kernel?
//!
//! What a group marked idle buys differs from kernel to kernel. So it is measured: a thread of the online
//! side wakes up every millisecond on a CPU on which best-effort spins, once for each mode, and the time
//! by which it is late is what counts. Of all modes
//!
//! ```text
//! chosen = the safest whose p99 is at most 1.5 times the best p99
//! ```
//!
//! The safest changes least: weights are the kubelet's own, idle groups lock their weight, and cores of
//! one's own cost capacity. Modes are measured in turns; when one half of the turns would choose another
//! mode than the other half, the machine is too noisy to tell. Too few samples say nothing either, and then
//! nothing is changed.

use std::fmt;

use serde::{Deserialize, Serialize};
use units::{CpuSet, Micros, MilliCpu, Percent, Rounding};

use crate::identity::{Kernel, Mode};

/// Fewer samples than these have no p99.
pub const LEAST_SAMPLES: usize = 100;

/// A node that uses more is not asked: online work comes before measuring.
pub const IDLE: Percent = Percent(50);

/// How late threads woke up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delays {
    pub p50: Micros,
    pub p99: Micros,
}

/// What was measured for one mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    pub mode: Mode,
    pub delays: Delays,
}

/// By how much threads woke up late in one mode, turn by turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Samples {
    pub mode: Mode,
    pub turns: Vec<Vec<Micros>>,
}

impl Samples {
    /// Of some of the turns; `None` when they are too few to judge.
    fn of(&self, is_counted: impl Fn(usize) -> bool) -> Option<Measured> {
        let turns = self.turns.iter().enumerate().filter(|(at, _)| is_counted(*at));
        let delays: Vec<Micros> = turns.flat_map(|(_, turn)| turn).copied().collect();
        Some(Measured { mode: self.mode, delays: Delays::of(&delays)? })
    }
}

/// Why there is no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unclear {
    #[error("too few samples to judge")]
    TooFew,
    #[error("there is nothing to choose from")]
    NoChoice,
    #[error("the machine is too noisy: one half of the turns says {}, the other {}", one.beside(), other.beside())]
    Noisy { one: Mode, other: Mode },
}

/// The mode to use, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub mode: Mode,
    pub why: Why,
}

/// What the verdict was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// All modes, the safest first.
    pub measured: Vec<Measured>,
    /// The most that a mode may have to be chosen.
    pub allowed: Micros,
}

impl Delays {
    /// `None` when there are too few to judge.
    pub fn of(delays: &[Micros]) -> Option<Self> {
        if delays.len() < LEAST_SAMPLES {
            return None;
        }
        let mut sorted = delays.to_vec();
        sorted.sort_unstable();
        let at = |percent: usize| {
            let rank = sorted.len().saturating_mul(percent).div_ceil(100).max(1);
            sorted.get(rank - 1).copied()
        };
        Some(Self { p50: at(50)?, p99: at(99)? })
    }
}

/// The modes between which there is a choice; one alone need not be measured.
pub fn candidates(kernel: Kernel) -> Vec<Mode> {
    match kernel {
        Kernel { has_identity: false, has_idle: true, .. } => vec![Mode::Weight, Mode::IdlePods],
        _ => Vec::new(),
    }
}

/// Whether the node has room for a probe.
pub fn has_room(used: MilliCpu, capacity: MilliCpu) -> bool {
    used <= IDLE.apply(capacity, Rounding::Down)
}

/// The CPU to probe on: the last one that nobody was given for himself.
pub fn cpu(online: &CpuSet, given: &CpuSet) -> Option<u16> {
    online.difference(given).last()
}

/// The verdict on which both halves of the turns agree.
pub fn settle(samples: &[Samples]) -> Result<Verdict, Unclear> {
    let verdict = |is_counted: &dyn Fn(usize) -> bool| {
        let measured: Option<Vec<Measured>> =
            samples.iter().map(|samples| samples.of(is_counted)).collect();
        judge(&measured.ok_or(Unclear::TooFew)?).ok_or(Unclear::NoChoice)
    };
    let one = verdict(&|turn| turn % 2 == 0)?.mode;
    let other = verdict(&|turn| turn % 2 == 1)?.mode;
    if one != other {
        return Err(Unclear::Noisy { one, other });
    }
    verdict(&|_| true)
}

/// `None` without a choice.
pub fn judge(measured: &[Measured]) -> Option<Verdict> {
    let mut measured = measured.to_vec();
    measured.sort_by_key(|measured| measured.mode);
    if measured.len() < 2 {
        return None;
    }
    let best = measured.iter().map(|measured| measured.delays.p99).min()?;
    let allowed = Micros(best.0.saturating_mul(3) / 2);
    let mode = measured.iter().find(|measured| measured.delays.p99 <= allowed)?.mode;
    Some(Verdict { mode, why: Why { measured, allowed } })
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "online threads wake up late by")?;
        for (at, Measured { mode, delays }) in self.measured.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let (p50, p99) = (delays.p50.0, delays.p99.0);
            write!(f, "{comma} {p50} us (p99 {p99} us) beside {}", mode.beside())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn measured(mode: Mode, p99: i64) -> Measured {
        Measured { mode, delays: Delays { p50: Micros(p99 / 2), p99: Micros(p99) } }
    }

    #[test]
    fn the_safest_mode_that_is_nearly_the_best_is_chosen() {
        let (weight, idle, cores) = (Mode::Weight, Mode::IdlePods, Mode::WholeCores);
        let cases = [
            ("idle groups are worth it", [4_000, 60, 60], idle),
            ("weight does as well", [61, 60, 60], weight),
            ("weight at one and a half", [90, 60, 60], weight),
            ("just above", [91, 60, 60], idle),
            ("idle groups at one and a half", [200, 90, 60], idle),
            ("only whole cores help", [200, 91, 60], cores),
            ("idle groups make it worse", [60, 4_000, 4_000], weight),
            ("no delay at all", [1, 0, 0], idle),
        ];
        for (name, [a, b, c], want) in cases {
            // The order of measuring does not matter.
            let all = [measured(cores, c), measured(weight, a), measured(idle, b)];
            assert_eq!(judge(&all).map(|verdict| verdict.mode), Some(want), "{name}");
        }
        assert_eq!(judge(&[measured(idle, 60)]), None, "one alone is no choice");
        assert_eq!(judge(&[]), None);
    }

    #[test]
    fn a_verdict_says_what_was_measured() {
        let verdict =
            judge(&[measured(Mode::IdlePods, 60), measured(Mode::Weight, 4_000)]).unwrap();
        assert_eq!(verdict.why.allowed, Micros(90));
        assert_eq!(
            verdict.why.to_string(),
            "online threads wake up late by 2000 us (p99 4000 us) beside the least weight, \
             30 us (p99 60 us) beside idle groups"
        );
    }

    #[test]
    fn a_verdict_needs_two_halves_that_agree() {
        // The delay of every sample of each turn.
        let samples = |mode, turns: [i64; 4]| Samples {
            mode,
            turns: turns.map(|delay| vec![Micros(delay); LEAST_SAMPLES]).to_vec(),
        };
        let idle = samples(Mode::IdlePods, [60; 4]);
        let (weight, pods) = (Mode::Weight, Mode::IdlePods);
        let noisy = |one, other| Err(Unclear::Noisy { one, other });
        let cases = [
            ("always worse", [4_000; 4], Ok(pods)),
            ("always as good", [70; 4], Ok(weight)),
            ("worse in every other turn", [70, 4_000, 70, 4_000], noisy(weight, pods)),
            ("one turn of four", [4_000, 70, 70, 70], noisy(pods, weight)),
        ];
        for (name, turns, want) in cases {
            let all = [samples(weight, turns), idle.clone()];
            assert_eq!(settle(&all).map(|verdict| verdict.mode), want, "{name}");
        }
        assert_eq!(settle(std::slice::from_ref(&idle)), Err(Unclear::NoChoice));
        let few = Samples { turns: vec![vec![Micros(60)]; 4], ..idle.clone() };
        assert_eq!(settle(&[few, idle]), Err(Unclear::TooFew));
    }

    #[test]
    fn percentiles_are_of_enough_samples() {
        let delays: Vec<Micros> = (1..=200).rev().map(Micros).collect();
        assert_eq!(Delays::of(&delays), Some(Delays { p50: Micros(100), p99: Micros(198) }));
        assert_eq!(Delays::of(&delays[..LEAST_SAMPLES - 1]), None);
    }

    #[test]
    fn only_a_kernel_with_a_choice_is_probed() {
        let idle = Kernel { has_idle: true, ..Kernel::default() };
        assert_eq!(candidates(idle), [Mode::Weight, Mode::IdlePods]);
        assert_eq!(candidates(Kernel::default()), []);
        assert_eq!(candidates(Kernel { has_identity: true, ..idle }), []);
    }

    #[test]
    fn a_busy_node_and_given_cpus_are_left_alone() {
        assert!(has_room(MilliCpu(8_000), MilliCpu(16_000)));
        assert!(!has_room(MilliCpu(8_001), MilliCpu(16_000)));
        let set = |text: &str| text.parse::<CpuSet>().unwrap();
        assert_eq!(cpu(&set("0-15"), &set("14-15")), Some(13));
        assert_eq!(cpu(&set("0-1"), &set("0-3")), None);
    }

    proptest! {
        /// The chosen mode is allowed, and no safer one is.
        #[test]
        fn nothing_safer_would_have_done(delays in proptest::array::uniform3(0..10_000i64)) {
            let modes = [Mode::Weight, Mode::IdlePods, Mode::WholeCores];
            let all: Vec<Measured> =
                modes.into_iter().zip(delays).map(|(mode, p99)| measured(mode, p99)).collect();
            let verdict = judge(&all).unwrap();
            let best = delays.into_iter().min().unwrap();
            for Measured { mode, delays } in all {
                let is_allowed = delays.p99.0 * 2 <= best * 3;
                prop_assert!(mode >= verdict.mode || !is_allowed);
                prop_assert!(mode != verdict.mode || is_allowed);
            }
        }
    }
}
