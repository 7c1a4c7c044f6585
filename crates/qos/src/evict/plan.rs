//! What must be freed on this node right now, and by whom?
//!
//! Each rule that is on compares a measurement with its numbers and makes a [`Need`]: so much, by these
//! pods in this order. Online pods appear only where they agreed to (a label) and their priority is low
//! enough.
//!
//! | rule | when | who | what counts |
//! |---|---|---|---|
//! | BECPUEvict | best-effort is starved over a window and now | best-effort | batch CPU asked for |
//! | CPUAllocatableEvict | more asked for than lent | batch and mid up to a priority, willing | batch or mid CPU asked for |
//! | CPUEvict | node busy over a window | up to a priority, willing | CPU used |
//! | BEMemoryEvict | node full | best-effort | memory used |
//! | MemoryAllocatableEvict | more asked for than lent | batch and mid up to a priority, willing | batch or mid memory asked for |
//! | MemoryEvict | node full | up to a priority, willing | memory used |
//!
//! Two inputs are known to lie for a moment, and are believed only when they last: a node that
//! advertises nothing (its manager restarts) and a best-effort limit below one CPU.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use api::priority::PriorityClass;
use api::protocol::resource::{BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY};
use units::{Bytes, MilliCpu, Percent, Rounding};

use super::cpu::{self, Band, Satisfaction, Tier};
use super::order::{self, Candidate};
use super::round::{Need, Target};
use super::rules::{Against, Capped, Feature, Rules};

/// How long a node must have advertised nothing before that is believed.
pub const DEGRADE: Duration = Duration::from_secs(15 * 60);

/// So far above the threshold, in percent of the node, memory is about to run out.
pub const CRITICAL: Percent = Percent(10);

/// A limit of best-effort below this is believed only a victim at a time.
const SMALL: MilliCpu = MilliCpu(1_000);

/// Everything one round looks at.
#[derive(Debug, Clone)]
pub struct Inputs<'a, Id> {
    pub now: Duration,
    pub cpu_capacity: MilliCpu,
    pub memory_capacity: Bytes,
    /// Average over the window; `None` when it is not filled.
    pub cpu_used: Option<MilliCpu>,
    /// `None` when it was not measured lately.
    pub memory_used: Option<Bytes>,
    /// Best-effort against its real limit: average over the window, and last.
    pub tier: Option<(Tier, Option<Tier>)>,
    /// What the node advertises; a resource that is not there is not advertised.
    pub lent: &'a BTreeMap<String, i64>,
    pub pods: &'a [Pod<Id>],
}

/// A pod, as far as it matters who leaves.
#[derive(Debug, Clone, PartialEq)]
pub struct Pod<Id> {
    pub id: Id,
    /// By its label, not by what Kubernetes makes of it.
    pub is_best_effort: bool,
    pub class: PriorityClass,
    /// `spec.priority`.
    pub priority: Option<i32>,
    /// The same with the default of its class.
    pub value: i32,
    pub eviction_priority: i32,
    pub sub_priority: i32,
    /// It agreed to be sent away for others than best-effort's sake.
    pub is_willing: bool,
    /// Rules that may send it away; `None` for all.
    pub allows: Option<Vec<String>>,
    pub cpu_used: Option<MilliCpu>,
    pub memory_used: Option<Bytes>,
    /// What it asked for of [`LENT`], by name.
    pub asked: BTreeMap<String, i64>,
}

impl<Id> Pod<Id> {
    fn allows(&self, feature: Feature) -> bool {
        self.allows.as_ref().is_none_or(|names| names.iter().any(|name| name == feature.name()))
    }

    fn asked(&self, resource: &str) -> i64 {
        self.asked.get(resource).copied().unwrap_or_default()
    }
}

/// Resources that are lent, with the target their requests count for.
const LENT: [(&str, PriorityClass, Target); 4] = [
    (BATCH_CPU, PriorityClass::Batch, Target::BatchCpu),
    (MID_CPU, PriorityClass::Mid, Target::MidCpu),
    (BATCH_MEMORY, PriorityClass::Batch, Target::BatchMemory),
    (MID_MEMORY, PriorityClass::Mid, Target::MidMemory),
];

/// What is remembered from round to round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// Since when a resource that was lent once is not lent any more; `None` while it is.
    withdrawn: BTreeMap<&'static str, Option<Duration>>,
    /// Since when best-effort is starved by what the node advertises.
    starved: Option<Duration>,
}

/// The sum behind a need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Best-effort gets `limit` of what it asked for.
    Starved {
        tier: Tier,
        shares: Satisfaction,
    },
    Cpu {
        used: MilliCpu,
        capacity: MilliCpu,
        band: Band,
    },
    Memory {
        used: Bytes,
        capacity: Bytes,
        band: Band,
    },
    Lent {
        resource: &'static str,
        asked: i64,
        lent: i64,
        band: Band,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share =
            |part: i64, whole: i64| Percent::of(part, whole, Rounding::Down).unwrap_or_default();
        match self {
            Self::Starved { tier: Tier { used, requested, limit }, shares } => write!(
                f,
                "best-effort asked for {requested}, may use {limit} ({}) and uses {used}; below {} \
                 requests leave until {} are met",
                share(limit.0, requested.0),
                shares.lower,
                shares.upper,
            ),
            Self::Cpu { used, capacity, band } => write!(
                f,
                "the node uses {used} of {capacity} ({}); from {} on it goes down to {}",
                share(used.0, capacity.0),
                band.threshold,
                band.lower,
            ),
            Self::Memory { used, capacity, band } => write!(
                f,
                "the node uses {used} of {capacity} memory ({}); from {} on it goes down to {}",
                share(used.0, capacity.0),
                band.threshold,
                band.lower,
            ),
            Self::Lent { resource, asked, lent, band } => write!(
                f,
                "pods asked for {asked} {resource}, the node lends {lent}; above {} it goes down to {}",
                band.threshold, band.lower,
            ),
        }
    }
}

/// What each rule asks for, in the order in which rules are served, and what to remember.
pub fn plan<Id: Ord + Clone>(
    inputs: &Inputs<'_, Id>,
    rules: &Rules,
    state: &State,
) -> (Vec<Need<Id>>, State) {
    let mut state = state.clone();
    state.note(inputs);
    let mut needs = Vec::new();
    if let Some((shares, against)) = rules.satisfaction {
        needs.extend(starved(inputs, rules, &shares, against, &mut state));
    }
    if let Some(rule) = rules.lent_cpu {
        needs.extend(over_lent(inputs, Feature::LentCpu, rule, &LENT[..2], &state));
    }
    if let Some(rule) = rules.cpu {
        needs.extend(busy(inputs, rule));
    }
    if let Some(band) = rules.best_effort_memory {
        needs.extend(full(inputs, Feature::BestEffortMemory, band, best_effort_by_size(inputs)));
    }
    if let Some(rule) = rules.lent_memory {
        needs.extend(over_lent(inputs, Feature::LentMemory, rule, &LENT[2..], &state));
    }
    if let Some(rule) = rules.memory {
        let used = |pod: &Pod<Id>| pod.memory_used.map(|used| used.0);
        let pods = willing(inputs, Feature::Memory, rule.highest, used);
        needs.extend(full(inputs, Feature::Memory, rule.band, pods));
    }
    needs.retain(|need| need.release > 0);
    (needs, state)
}

impl State {
    fn note<Id>(&mut self, inputs: &Inputs<'_, Id>) {
        for (resource, ..) in LENT {
            let is_lent = inputs.lent.get(resource).is_some_and(|lent| *lent > 0);
            if is_lent {
                self.withdrawn.insert(resource, None);
            } else if let Some(since) = self.withdrawn.get_mut(resource) {
                since.get_or_insert(inputs.now);
            }
        }
    }

    /// Whether a resource was lent once and has not been for long.
    fn is_withdrawn(&self, resource: &str, now: Duration) -> bool {
        let since = self.withdrawn.get(resource).copied().flatten();
        since.is_some_and(|since| now.saturating_sub(since) >= DEGRADE)
    }
}

fn starved<Id: Ord + Clone>(
    inputs: &Inputs<'_, Id>,
    rules: &Rules,
    shares: &Satisfaction,
    against: Against,
    state: &mut State,
) -> Option<Need<Id>> {
    let (average, last) = inputs.tier?;
    let (mut release, _) = cpu::release(&average, last.as_ref(), shares);
    let mut limit = average.limit;
    if against == Against::Allocatable {
        let lent = MilliCpu(inputs.lent.get(BATCH_CPU).copied()?);
        let by_lent = |tier: Tier| Tier { limit: lent, ..tier };
        let last = last.map(by_lent);
        let (lacks, _) = cpu::release(&by_lent(average), last.as_ref(), shares);
        if lacks <= MilliCpu::ZERO {
            state.starved = None;
            return None;
        }
        let since = *state.starved.get_or_insert(inputs.now);
        if inputs.now.saturating_sub(since) < rules.window {
            return None;
        }
        release = release.min(lacks);
        limit = limit.min(lent);
    }
    let mut pods: Vec<_> = inputs
        .pods
        .iter()
        .filter(|pod| pod.is_best_effort && pod.allows(Feature::BestEffortCpu))
        .map(|pod| {
            let asked = pod.asked(BATCH_CPU);
            let intensity =
                pod.cpu_used.and_then(|used| Percent::of(used.0, asked, Rounding::Down));
            candidate(pod, Some(asked), intensity.map(|share| share.0))
        })
        .collect();
    order::by_intensity(&mut pods);
    Some(Need {
        feature: Feature::BestEffortCpu.name(),
        target: Target::BatchCpu,
        release: release.0,
        pods: freeing(pods),
        most: (limit < SMALL).then_some(1),
        is_critical: false,
        why: Why::Starved { tier: Tier { limit, ..average }, shares: *shares },
    })
}

fn over_lent<'a, Id: Ord + Clone>(
    inputs: &'a Inputs<'_, Id>,
    feature: Feature,
    rule: Capped,
    resources: &'a [(&'static str, PriorityClass, Target)],
    state: &'a State,
) -> impl Iterator<Item = Need<Id>> + use<'a, Id> {
    resources.iter().filter_map(move |&(resource, class, target)| {
        let of_class = |pod: &&Pod<Id>| pod.class == class && pod.value <= rule.highest;
        let asked = inputs.pods.iter().filter(of_class).map(|pod| pod.asked(resource)).sum::<i64>();
        let lent = inputs.lent.get(resource).copied().unwrap_or_default().max(0);
        let release = if lent == 0 {
            if state.is_withdrawn(resource, inputs.now) { asked } else { return None }
        } else {
            let allowed = i128::from(lent) * i128::from(rule.band.threshold.0);
            if i128::from(asked) * 100 <= allowed {
                return None;
            }
            asked - rule.band.lower.apply(lent, Rounding::Down)
        };
        let frees = |pod: &Pod<Id>| Some(if pod.class == class { pod.asked(resource) } else { 0 });
        Some(Need {
            feature: feature.name(),
            target,
            release,
            pods: willing(inputs, feature, rule.highest, frees),
            most: None,
            is_critical: false,
            why: Why::Lent { resource, asked, lent, band: rule.band },
        })
    })
}

fn busy<Id: Ord + Clone>(inputs: &Inputs<'_, Id>, rule: Capped) -> Option<Need<Id>> {
    let (used, capacity, band) = (inputs.cpu_used?, inputs.cpu_capacity, rule.band);
    let cpu_used = |pod: &Pod<Id>| pod.cpu_used.map(|used| used.0);
    Some(Need {
        feature: Feature::Cpu.name(),
        target: Target::CpuUsed,
        release: band.above(used, capacity).0,
        pods: willing(inputs, Feature::Cpu, rule.highest, cpu_used),
        most: None,
        is_critical: false,
        why: Why::Cpu { used, capacity, band },
    })
}

fn full<Id>(
    inputs: &Inputs<'_, Id>,
    feature: Feature,
    band: Band,
    pods: Vec<(Id, Option<i64>)>,
) -> Option<Need<Id>> {
    let (used, capacity) = (inputs.memory_used?, inputs.memory_capacity);
    let share = Percent::of(used, capacity, Rounding::Down)?;
    Some(Need {
        feature: feature.name(),
        target: Target::MemoryUsed,
        release: band.above(used, capacity).0,
        pods,
        most: None,
        is_critical: share >= band.threshold + CRITICAL,
        why: Why::Memory { used, capacity, band },
    })
}

fn best_effort_by_size<Id: Ord + Clone>(inputs: &Inputs<'_, Id>) -> Vec<(Id, Option<i64>)> {
    let of_tier = |pod: &&Pod<Id>| pod.is_best_effort && pod.allows(Feature::BestEffortMemory);
    let pods = inputs.pods.iter().filter(of_tier);
    let mut pods: Vec<_> =
        pods.map(|pod| candidate(pod, pod.memory_used.map(|used| used.0), None)).collect();
    order::by_size(&mut pods);
    freeing(pods)
}

/// Pods that agreed, up to a priority, and are measured.
fn willing<Id: Ord + Clone>(
    inputs: &Inputs<'_, Id>,
    feature: Feature,
    highest: i32,
    frees: impl Fn(&Pod<Id>) -> Option<i64>,
) -> Vec<(Id, Option<i64>)> {
    let mut pods: Vec<_> = inputs
        .pods
        .iter()
        .filter(|pod| pod.value <= highest && pod.is_willing && pod.allows(feature))
        .filter(|pod| pod.cpu_used.is_some() || pod.memory_used.is_some())
        .map(|pod| candidate(pod, frees(pod), None))
        .collect();
    order::by_wish(&mut pods);
    freeing(pods)
}

fn candidate<Id: Clone>(
    pod: &Pod<Id>,
    frees: Option<i64>,
    intensity: Option<i64>,
) -> Candidate<Id> {
    Candidate {
        id: pod.id.clone(),
        eviction_priority: pod.eviction_priority,
        priority: pod.priority,
        sub_priority: pod.sub_priority,
        frees,
        intensity,
    }
}

fn freeing<Id>(pods: Vec<Candidate<Id>>) -> Vec<(Id, Option<i64>)> {
    pods.into_iter().map(|pod| (pod.id, pod.frees)).collect()
}

#[cfg(test)]
mod tests;
