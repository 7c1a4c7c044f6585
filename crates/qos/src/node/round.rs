//! What does this node do for its online pods in this round?

use std::time::Duration;

use api::protocol::gate::AgentGate;
use api::why::Why;
use groups::{CgroupPath, Knob};
use units::{MilliCpu, Percent, Rounding};

use super::strategy::cookies::CoreSharing;
use super::strategy::network::NetworkDivision;
use super::strategy::suppress::Suppressed;
use super::strategy::{self, Decision};
use super::{Readings, State};
use crate::claim::{Bound, Value};
use crate::frame;
use crate::identity::Mode;
use crate::wish::{Target, Wish};

/// How often strategies that follow pods are asked although no pod changed.
const SLOWLY: Duration = Duration::from_secs(10);

/// Best-effort keeps two CPUs or, on small machines, this part of it.
const SMALL_FLOOR: Percent = Percent(10);
const FLOOR: MilliCpu = MilliCpu(2_000);

/// Strategies that look at their gates themselves: each has several.
pub const CACHE: &str = "cache";
pub const COOKIES: &str = "cookies";
pub const NETWORK: &str = "network";

/// What strategies remember from round to round.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    pub suppress: strategy::suppress::Memory,
    pub burst: strategy::burst::Memory,
    /// What strategies that follow pods were last asked about, and when they are asked again.
    revision: Option<u64>,
    next_slow: Duration,
    /// Groups below the tier that have quotas: v1 wants them below the tier's.
    limited: Vec<CgroupPath>,
}

impl Memory {
    /// Whether strategies that follow pods are asked in the next round.
    pub fn is_slow_due(&self, state: &State) -> bool {
        self.revision != Some(state.revision) || state.now >= self.next_slow
    }

    /// Has strategies that follow pods asked in the next round.
    pub fn hurry(&mut self) {
        self.revision = None;
    }

    /// Groups below the tier that were given a quota.
    pub fn limited(&self) -> &[CgroupPath] {
        &self.limited
    }
}

/// One strategy and its rhythm.
pub(super) struct Turn {
    name: &'static str,
    gate: AgentGate,
    /// Follows pods rather than load.
    pub(super) is_slow: bool,
    pub(super) read: fn(&State, &Memory, &mut Readings),
    decide: fn(&State, &mut Memory) -> Option<Decision>,
}

impl Turn {
    /// Suppression also runs without its gate: best-effort never gets CPUs of LSE pods.
    pub(super) fn is_on(&self, state: &State) -> bool {
        state.is_on(self.gate) || self.gate == AgentGate::BECPUSuppress
    }
}

/// Every strategy with one gate.
pub(super) const TURNS: &[Turn] = &[
    Turn {
        name: "suppress",
        gate: AgentGate::BECPUSuppress,
        is_slow: false,
        read: |state, memory, readings| {
            strategy::suppress::read(state, &memory.suppress, readings);
        },
        decide: |state, memory| strategy::suppress::decide(state, &mut memory.suppress),
    },
    Turn {
        name: "batch",
        gate: AgentGate::BatchResource,
        is_slow: true,
        read: |_, _, _| {},
        decide: |state, _| Some(strategy::batch::decide(state)),
    },
    Turn {
        name: "bind",
        gate: AgentGate::CPUSetAllocator,
        is_slow: true,
        read: |state, _, readings| strategy::bind::read(state, readings),
        decide: |state, _| strategy::bind::decide(state),
    },
    Turn {
        name: "identity",
        gate: AgentGate::GroupIdentity,
        is_slow: true,
        read: |_, _, _| {},
        decide: |state, _| Some(strategy::identity::decide(state)),
    },
    Turn {
        name: "burst",
        gate: AgentGate::CPUBurst,
        is_slow: false,
        read: |state, _, readings| strategy::burst::read(state, readings),
        decide: |state, memory| Some(strategy::burst::decide(state, &mut memory.burst)),
    },
    Turn {
        name: "normalize",
        gate: AgentGate::CPUNormalization,
        is_slow: true,
        read: |_, _, _| {},
        decide: |state, _| Some(strategy::normalize::decide(state)),
    },
    Turn {
        name: "memory",
        gate: AgentGate::CgroupReconcile,
        is_slow: true,
        read: |_, _, _| {},
        decide: |state, _| Some(strategy::memory::decide(state)),
    },
    Turn {
        name: "block",
        gate: AgentGate::BlkIOReconcile,
        is_slow: true,
        read: |_, _, _| {},
        decide: |state, _| strategy::block::decide(state),
    },
    Turn {
        name: "system",
        gate: AgentGate::SystemConfig,
        is_slow: true,
        read: |_, _, _| {},
        decide: |state, _| Some(strategy::system::decide(state)),
    },
    Turn {
        name: "oom",
        gate: AgentGate::OOMScoreAdj,
        is_slow: true,
        read: |state, _, readings| strategy::oom::read(state, readings),
        decide: |state, _| Some(strategy::oom::decide(state)),
    },
    Turn {
        name: "cold",
        gate: AgentGate::ColdPageCollector,
        is_slow: true,
        read: |_, _, readings| strategy::cold::read(readings),
        decide: |state, _| Some(strategy::cold::decide(state)),
    },
];

/// The names of all strategies that wish for something in a round.
pub fn strategies() -> impl Iterator<Item = &'static str> {
    TURNS.iter().map(|turn| turn.name).chain([CACHE, COOKIES, NETWORK])
}

/// What one strategy wants from now on, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Post {
    pub strategy: &'static str,
    pub wishes: Vec<Wish>,
    /// `None` where what came of the wishes has to be known first.
    pub whys: Option<Vec<Why>>,
}

/// What the quota that follows online load between two rounds is bound by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastQuota {
    pub settings: frame::Settings,
    /// Used outside of pods, or reserved for that.
    pub system: MilliCpu,
}

/// What a round comes to. Strategies that are not in here keep what they wanted last.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Round {
    pub posts: Vec<Post>,
    /// What the reference shows of suppression.
    pub suppressed: Option<Suppressed>,
    /// `None` while suppression is off.
    pub fast_quota: Option<FastQuota>,
    /// What the kernel offers to keep best-effort behind, where somebody should measure it.
    pub open_modes: Vec<Mode>,
    /// What can be explained only by what came of it; `None` keeps the last.
    pub core_sharing: Option<CoreSharing>,
    pub network: Option<NetworkDivision>,
}

/// Asks the strategies whose turn it is.
pub fn round(state: &State, memory: &mut Memory) -> Round {
    let is_slow_due = memory.is_slow_due(state);
    if is_slow_due {
        memory.next_slow = state.now.saturating_add(SLOWLY);
        memory.revision = Some(state.revision);
    }
    let mut round = Round::default();
    for turn in TURNS.iter().filter(|turn| !turn.is_slow || is_slow_due) {
        let decision = match turn.is_on(state) {
            true => (turn.decide)(state, memory),
            false => Some(Decision::default()),
        };
        // A strategy that cannot see keeps what it wanted last.
        let Some(decision) = decision else { continue };
        if turn.name == "batch" {
            memory.limited = limited(&decision.wishes, &state.tier());
        }
        round.post(turn.name, decision);
    }
    if is_slow_due {
        if let Some(decision) = strategy::cache::decide(state) {
            round.post(CACHE, decision);
        }
        let sharing = strategy::cookies::decide(state);
        round.posts.push(Post { strategy: COOKIES, wishes: sharing.wishes.clone(), whys: None });
        round.core_sharing = Some(sharing);
        let network = strategy::network::decide(state);
        if let Some(wishes) = network.wishes.clone() {
            round.posts.push(Post { strategy: NETWORK, wishes, whys: None });
        }
        round.network = Some(network);
    }
    round.suppressed = strategy::suppress::measured(state, &memory.suppress);
    round.fast_quota = fast_quota(state, memory);
    round.open_modes = strategy::identity::open_modes(state);
    round
}

impl Round {
    fn post(&mut self, strategy: &'static str, Decision { wishes, whys }: Decision) {
        self.posts.push(Post { strategy, wishes, whys: Some(whys) });
    }
}

fn fast_quota(state: &State, memory: &Memory) -> Option<FastQuota> {
    let (budget, node) = (memory.suppress.budget?, state.cluster.node.as_ref()?);
    let capacity = node.capacity.cpu;
    let small = SMALL_FLOOR.apply(capacity, Rounding::Down);
    let threshold = &state.policy().threshold;
    let least =
        threshold.cpu_suppress_min_percent.map(|least| least.apply(capacity, Rounding::Down));
    let settings = frame::Settings {
        capacity,
        threshold: threshold.cpu_suppress_threshold_percent,
        floor: FLOOR.min(small).max(least.unwrap_or_default()),
    };
    Some(FastQuota { settings, system: budget.system.charged() })
}

/// The groups below the tier that are given a quota.
fn limited(wishes: &[Wish], tier: &CgroupPath) -> Vec<CgroupPath> {
    let prefix = format!("{}/", tier.as_str());
    let quotas = wishes.iter().filter_map(|wish| match (&wish.target, &wish.bound) {
        (Target::Knob { group, knob: Knob::CfsQuota }, Bound::Set(Value::Number(Some(_)))) => {
            Some(group)
        }
        _ => None,
    });
    quotas.filter(|group| group.as_str().starts_with(&prefix)).cloned().collect()
}
