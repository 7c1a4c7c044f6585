//! Which of the six rules are on, and with which numbers?
//!
//! A rule needs its gate, the switch of all threshold strategies, and numbers that make sense together.
//! One that lacks any of them is off, and the others go on.

use std::time::Duration;

use api::strategy::ResourceThresholdStrategy;
use units::Percent;

use super::cpu::{BUSY, Band, Satisfaction};
use super::memory;

/// One of the reasons to send a pod away, by its gate's name; pods may opt out of each by that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// Best-effort gets too little of the CPU it asked for.
    BestEffortCpu,
    /// More batch or mid CPU was asked for than is lent by now.
    LentCpu,
    /// The node's CPU is too busy.
    Cpu,
    /// The node's memory is too full, for best-effort pods.
    BestEffortMemory,
    /// More batch or mid memory was asked for than is lent by now.
    LentMemory,
    /// The node's memory is too full, for pods that agreed to leave.
    Memory,
}

impl Feature {
    pub const ALL: [Self; 6] = [
        Self::BestEffortCpu,
        Self::LentCpu,
        Self::Cpu,
        Self::BestEffortMemory,
        Self::LentMemory,
        Self::Memory,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::BestEffortCpu => "BECPUEvict",
            Self::LentCpu => "CPUAllocatableEvict",
            Self::Cpu => "CPUEvict",
            Self::BestEffortMemory => "BEMemoryEvict",
            Self::LentMemory => "MemoryAllocatableEvict",
            Self::Memory => "MemoryEvict",
        }
    }
}

/// What the satisfaction of best-effort is measured against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Against {
    /// CPUs and quota in force.
    #[default]
    RealLimit,
    /// Those, and the batch CPU that the node advertises.
    Allocatable,
}

/// Up to which priority pods may be sent away for a band.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capped {
    pub band: Band,
    pub highest: i32,
}

/// The rules that are on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    pub satisfaction: Option<(Satisfaction, Against)>,
    pub lent_cpu: Option<Capped>,
    pub cpu: Option<Capped>,
    pub best_effort_memory: Option<Band>,
    pub lent_memory: Option<Capped>,
    pub memory: Option<Capped>,
    /// Over how long CPU is averaged.
    pub window: Duration,
}

/// Pods above this priority are never sent away for what is lent.
const HIGHEST_LENT: i32 = 7_999;

impl Rules {
    /// The rules of a node; `is_on` says whether a rule's gate is.
    pub fn new(strategy: &ResourceThresholdStrategy, is_on: impl Fn(Feature) -> bool) -> Self {
        let is_on = |feature| strategy.enable == Some(true) && is_on(feature);
        let percent = |value: Option<i64>| value.map(Percent);
        let capped = |threshold: Option<i64>, lower: Option<i64>, highest: Option<i32>| {
            let band = Band::new(Percent(threshold?), percent(lower))?;
            Some(Capped { band, highest: highest? })
        };
        // What is lent has no lower share by default: both must be given.
        let lent = |threshold: Option<i64>, lower: Option<i64>| {
            let highest = strategy.allocatable_evict_priority_threshold;
            let highest = highest.filter(|highest| *highest <= HIGHEST_LENT);
            capped(threshold, Some(lower?), highest)
        };
        let memory_band = || {
            let lower = percent(strategy.memory_evict_lower_percent);
            memory::band(Percent(strategy.memory_evict_threshold_percent?), lower)
        };
        let on = |feature, rule| if is_on(feature) { rule } else { None };
        Self {
            satisfaction: is_on(Feature::BestEffortCpu).then(|| satisfaction(strategy)).flatten(),
            lent_cpu: on(
                Feature::LentCpu,
                lent(
                    strategy.cpu_allocatable_evict_threshold_percent,
                    strategy.cpu_allocatable_evict_lower_percent,
                ),
            ),
            cpu: on(
                Feature::Cpu,
                capped(
                    strategy.cpu_evict_threshold_percent,
                    strategy.cpu_evict_lower_percent,
                    strategy.evict_enabled_priority_threshold,
                ),
            ),
            best_effort_memory: is_on(Feature::BestEffortMemory).then(memory_band).flatten(),
            lent_memory: on(
                Feature::LentMemory,
                lent(
                    strategy.memory_allocatable_evict_threshold_percent,
                    strategy.memory_allocatable_evict_lower_percent,
                ),
            ),
            memory: on(
                Feature::Memory,
                memory_band().and_then(|band| {
                    Some(Capped { band, highest: strategy.evict_enabled_priority_threshold? })
                }),
            ),
            window: strategy
                .cpu_evict_time_window_seconds
                .and_then(|seconds| u64::try_from(seconds).ok())
                .map_or(Duration::ZERO, Duration::from_secs),
        }
    }

    /// Whether nobody can be sent away at all.
    pub fn is_empty(&self) -> bool {
        self.satisfaction.is_none()
            && self.best_effort_memory.is_none()
            && [self.lent_cpu, self.cpu, self.lent_memory, self.memory].iter().all(Option::is_none)
    }
}

fn satisfaction(strategy: &ResourceThresholdStrategy) -> Option<(Satisfaction, Against)> {
    let shares = Satisfaction {
        lower: Percent(strategy.cpu_evict_be_satisfaction_lower_percent?),
        upper: Percent(strategy.cpu_evict_be_satisfaction_upper_percent?),
        busy: strategy.cpu_evict_be_usage_threshold_percent.map_or(BUSY, Percent),
    };
    let against = match strategy.cpu_evict_policy.as_deref() {
        Some("evictByAllocatable") => Against::Allocatable,
        _ => Against::RealLimit,
    };
    shares.is_valid().then_some((shares, against))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> ResourceThresholdStrategy {
        ResourceThresholdStrategy {
            enable: Some(true),
            memory_evict_threshold_percent: Some(70),
            cpu_evict_be_satisfaction_lower_percent: Some(40),
            cpu_evict_be_satisfaction_upper_percent: Some(60),
            cpu_evict_threshold_percent: Some(80),
            evict_enabled_priority_threshold: Some(5_999),
            cpu_allocatable_evict_threshold_percent: Some(110),
            cpu_allocatable_evict_lower_percent: Some(100),
            memory_allocatable_evict_threshold_percent: Some(110),
            memory_allocatable_evict_lower_percent: Some(100),
            allocatable_evict_priority_threshold: Some(5_999),
            ..Default::default()
        }
    }

    /// Names of the rules that are on.
    fn on(strategy: &ResourceThresholdStrategy) -> Vec<&'static str> {
        let rules = Rules::new(strategy, |_| true);
        let all = [
            rules.satisfaction.is_some(),
            rules.lent_cpu.is_some(),
            rules.cpu.is_some(),
            rules.best_effort_memory.is_some(),
            rules.lent_memory.is_some(),
            rules.memory.is_some(),
        ];
        assert_eq!(rules.is_empty(), !all.contains(&true));
        let named = Feature::ALL.into_iter().zip(all).filter(|(_, is_on)| *is_on);
        named.map(|(feature, _)| feature.name()).collect()
    }

    #[test]
    fn a_rule_needs_all_its_numbers() {
        let all = Feature::ALL.map(Feature::name);
        let without = |names: &[&str]| {
            all.into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>()
        };
        type Change = fn(&mut ResourceThresholdStrategy);
        let cases: [(&str, Change, Vec<&str>); 7] = [
            ("everything given", |_| {}, all.to_vec()),
            ("switched off", |s| s.enable = Some(false), vec![]),
            (
                "no priority to go up to",
                |s| s.evict_enabled_priority_threshold = None,
                without(&["CPUEvict", "MemoryEvict"]),
            ),
            (
                "online pods are not for what is lent",
                |s| s.allocatable_evict_priority_threshold = Some(8_000),
                without(&["CPUAllocatableEvict", "MemoryAllocatableEvict"]),
            ),
            (
                "no lower share of what is lent",
                |s| s.cpu_allocatable_evict_lower_percent = None,
                without(&["CPUAllocatableEvict"]),
            ),
            (
                "shares of satisfaction crossed",
                |s| s.cpu_evict_be_satisfaction_upper_percent = Some(39),
                without(&["BECPUEvict"]),
            ),
            (
                "no threshold of memory",
                |s| s.memory_evict_threshold_percent = None,
                without(&["BEMemoryEvict", "MemoryEvict"]),
            ),
        ];
        for (name, change, want) in cases {
            let mut strategy = full();
            change(&mut strategy);
            assert_eq!(on(&strategy), want, "{name}");
        }
    }

    #[test]
    fn a_rule_needs_its_gate() {
        for feature in Feature::ALL {
            let rules = Rules::new(&full(), |other| other == feature);
            assert!(!rules.is_empty(), "{feature:?}");
        }
        assert!(Rules::new(&full(), |_| false).is_empty());
    }
}
