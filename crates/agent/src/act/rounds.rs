//! Who asks the strategies, and how often?
//!
//! ```text
//! every second           strategies that follow load: suppress, burst, memory, ...
//! when the state changes strategies that follow pods: batch, bind, identity, ... (and every 10 s)
//! four times a second    whether the online side waits for memory
//! twenty times a second  the frame around best-effort, while suppression is on
//! ```
//!
//! Each strategy's wishes go to the arbiter under its name, its reasons to the journal. Nothing is
//! written before the cluster has said what it wants: until then a new agent leaves what the last one
//! left. Off means that all wishes are taken back, and stays so until somebody turns it on.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use api::decisions::{ChangeOutcome, KernelChange, Switch};
use api::protocol::gate::AgentGate;
use groups::{CgroupPath, Knob, Layout, Version};
use host::cgroup::Tree;
use jiff::Timestamp;
use qos::claim::{Bound, Value};
use qos::frame;
use qos::wish::{Target, Wish};
use tracing::{debug, info, warn};
use units::{MilliCpu, Percent, Rounding};

use super::emergency::{Emergency, Sight};
use super::facts::{Facts, Kernel, Settings};
use super::journal::Journal;
use super::reflex::{Grant, IDLE_TICK, Reflex};
use super::strategy::cookies::CoreSharing;
use super::strategy::network::NetworkDivision;
use super::strategy::{self, Memory};
use super::wake::{self, Prober, WakeProbe};
use super::why::Decision;
use super::writer::Devices;
use super::{Arbiter, Change, Ledger, Outcome, gauges};
use crate::audit::{Audit, Record, Subject};
use crate::exposition::Exposition;
use crate::node_state::NodeState;
use crate::series::Metrics;
use crate::topology::Topology;
use crate::worker::End;

/// How often strategies that follow pods are asked although no pod changed.
const SLOWLY: Duration = Duration::from_secs(10);

/// Best-effort keeps two CPUs or, on small machines, this part of it.
const SMALL_FLOOR: Percent = Percent(10);
const FLOOR: MilliCpu = MilliCpu(2_000);

/// Owner of the quota that follows online load between two rounds.
const FAST_QUOTA: &str = api::decisions::strategy::FAST_QUOTA;

/// Who else says why.
const WAKE: &str = "wake";
const CACHE: &str = "cache";
const COOKIES: &str = "cookies";
const NETWORK: &str = "network";
const EMERGENCY: &str = "emergency";

/// What a round looks at, besides what the rounds know themselves.
#[derive(Debug, Clone)]
pub struct Inputs {
    pub state: Arc<NodeState>,
    pub topology: Option<Arc<Topology>>,
    pub metrics: Metrics,
    /// Who turned acting off; `None` while it is on.
    pub off_by: Option<String>,
}

/// One strategy and its rhythm.
struct Turn {
    name: &'static str,
    gate: AgentGate,
    /// Follows pods rather than load.
    is_slow: bool,
    decide: fn(&Facts<'_>, &mut Memory) -> Option<Decision>,
}

/// Every strategy. Suppression also runs without its gate: best-effort never gets CPUs of LSE pods.
const TURNS: &[Turn] = &[
    Turn {
        name: "suppress",
        gate: AgentGate::BECPUSuppress,
        is_slow: false,
        decide: |facts, memory| strategy::suppress::decide(facts, &mut memory.suppress),
    },
    Turn {
        name: "batch",
        gate: AgentGate::BatchResource,
        is_slow: true,
        decide: |facts, _| Some(strategy::batch::decide(facts)),
    },
    Turn {
        name: "bind",
        gate: AgentGate::CPUSetAllocator,
        is_slow: true,
        decide: |facts, _| strategy::bind::decide(facts),
    },
    Turn {
        name: "identity",
        gate: AgentGate::GroupIdentity,
        is_slow: true,
        decide: |facts, _| Some(strategy::identity::decide(facts)),
    },
    Turn {
        name: "burst",
        gate: AgentGate::CPUBurst,
        is_slow: false,
        decide: |facts, memory| Some(strategy::burst::decide(facts, &mut memory.burst)),
    },
    Turn {
        name: "normalize",
        gate: AgentGate::CPUNormalization,
        is_slow: true,
        decide: |facts, _| Some(strategy::normalize::decide(facts)),
    },
    Turn {
        name: "memory",
        gate: AgentGate::CgroupReconcile,
        is_slow: true,
        decide: |facts, _| Some(strategy::memory::decide(facts)),
    },
    Turn {
        name: "block",
        gate: AgentGate::BlkIOReconcile,
        is_slow: true,
        decide: |facts, _| strategy::block::decide(facts),
    },
    Turn {
        name: "system",
        gate: AgentGate::SystemConfig,
        is_slow: true,
        decide: |facts, _| Some(strategy::system::decide(facts)),
    },
    Turn {
        name: "oom",
        gate: AgentGate::OOMScoreAdj,
        is_slow: true,
        decide: |facts, _| Some(strategy::oom::decide(facts)),
    },
    Turn {
        name: "cold",
        gate: AgentGate::ColdPageCollector,
        is_slow: true,
        decide: |facts, _| Some(strategy::cold::decide(facts)),
    },
];

/// All strategies of one node, and the only writer.
#[derive(Debug)]
pub struct Rounds {
    settings: Settings,
    tree: Tree,
    layout: Layout,
    kernel: Option<Kernel>,
    arbiter: Arbiter,
    wake: WakeProbe,
    sharing: CoreSharing,
    network: NetworkDivision,
    emergency: Emergency,
    memory: Memory,
    reflex: Option<Reflex>,
    grant: Option<Grant>,
    /// Groups below the tier that have quotas: v1 wants them below the tier's.
    limited: Vec<CgroupPath>,
    journal: Journal,
    audit: Audit,
    exposition: Option<Exposition>,
    state: Option<Arc<NodeState>>,
    topology: Option<Arc<Topology>>,
    next_round: Duration,
    next_slow: Duration,
    is_off: bool,
    /// Places whose refusal was told already.
    told: BTreeSet<Target>,
}

impl Rounds {
    pub fn new(
        settings: Settings,
        tree: Tree,
        layout: Layout,
        ledger: Ledger,
        journal: Journal,
        audit: Audit,
    ) -> Self {
        Self {
            arbiter: Arbiter::new(tree.clone(), ledger),
            wake: WakeProbe::default(),
            sharing: CoreSharing::default(),
            network: NetworkDivision::default(),
            emergency: Emergency::default(),
            settings,
            tree,
            layout,
            kernel: None,
            memory: Memory::default(),
            reflex: None,
            grant: None,
            limited: Vec::new(),
            journal,
            audit,
            exposition: None,
            state: None,
            topology: None,
            next_round: Duration::ZERO,
            next_slow: Duration::ZERO,
            is_off: false,
            told: BTreeSet::new(),
        }
    }

    /// With a program that measures how late threads wake up.
    pub fn probing(mut self, prober: Prober) -> Self {
        self.wake = WakeProbe::new(prober);
        self
    }

    /// With metrics.
    pub fn publishing(mut self, exposition: Exposition) -> Self {
        self.exposition = Some(exposition);
        self
    }

    /// From now on a thread of its own carries out what is slow; says when that thread has ended.
    pub(crate) fn start_thread(&mut self) -> io::Result<Option<End>> {
        self.arbiter.start_thread(Devices::of(&self.tree))
    }

    /// What a test replaces.
    #[cfg(test)]
    pub(super) fn parts(&mut self) -> (&mut Arbiter, &mut WakeProbe) {
        (&mut self.arbiter, &mut self.wake)
    }

    /// How long the thread may sleep after a tick.
    pub fn pause(&self) -> Duration {
        self.reflex.as_ref().map_or(IDLE_TICK, Reflex::pause)
    }

    /// Whether every target has its original value, and nothing is being written.
    pub fn is_clean(&self) -> bool {
        self.arbiter.is_clean()
    }

    /// Whether something is being written at this moment.
    pub fn is_busy(&self) -> bool {
        self.arbiter.is_busy()
    }

    /// Who writes, and what.
    pub fn arbiter(&self) -> &Arbiter {
        &self.arbiter
    }

    /// Does what is due. `now` counts from any fixed moment and never goes back.
    pub fn tick(&mut self, now: Duration, at: Timestamp, inputs: &Inputs) {
        if let Some(by) = &inputs.off_by {
            self.stay_off(now, at, by);
            return;
        }
        if std::mem::take(&mut self.is_off) {
            info!("acting again");
            self.state = None;
            (self.next_round, self.next_slow) = (now, now);
        }
        if !inputs.state.is_complete {
            return;
        }
        let is_round = now >= self.next_round;
        if is_round {
            self.next_round = now.saturating_add(self.settings.interval);
            self.round(now, at, inputs);
        }
        self.reflex(now, inputs);
        self.look_for_emergency(now, at, inputs);
        self.settle(now, at);
        if is_round {
            self.journal.decided(FAST_QUOTA, self.grant.iter().map(Grant::explain).collect(), at);
            self.explain_slow(at);
            let dirty = self.arbiter.held_count();
            self.journal.switched(Switch { is_on: true, off_by: None, dirty });
        }
    }

    /// Takes everything back, and looks every second whether it stays so.
    pub fn stay_off(&mut self, now: Duration, at: Timestamp, by: &str) {
        if !std::mem::replace(&mut self.is_off, true) {
            info!(by, "restoring everything that was changed");
            self.arbiter.withdraw_all();
            self.wake.stop();
            (self.sharing, self.network) = (CoreSharing::default(), NetworkDivision::default());
            self.memory = Memory::default();
            self.emergency = Emergency::default();
            (self.reflex, self.grant) = (None, None);
            let others = [CACHE, COOKIES, NETWORK, WAKE, EMERGENCY, FAST_QUOTA];
            for name in TURNS.iter().map(|turn| turn.name).chain(others) {
                self.journal.decided(name, Vec::new(), at);
            }
            self.journal.suppress(None);
        }
        self.settle(now, at);
        let dirty = self.arbiter.held_count();
        self.journal.switched(Switch { is_on: false, off_by: Some(by.to_owned()), dirty });
    }

    /// Asks the strategies whose turn it is.
    fn round(&mut self, now: Duration, at: Timestamp, inputs: &Inputs) {
        let kernel = *self.kernel.get_or_insert_with(|| {
            wake::sweep(&self.tree, &self.layout.kubepods());
            Kernel::probe(&self.tree, &self.layout)
        });
        let verdict = self.wake.verdict().cloned();
        let same_state = self.state.as_ref().is_some_and(|old| Arc::ptr_eq(old, &inputs.state));
        let same_topology = match (&self.topology, &inputs.topology) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (None, None) => true,
            _ => false,
        };
        let is_slow_due = !same_state || !same_topology || now >= self.next_slow;
        if is_slow_due {
            self.next_slow = now.saturating_add(SLOWLY);
        }
        self.state = Some(inputs.state.clone());
        self.topology.clone_from(&inputs.topology);
        let facts = Facts {
            now,
            settings: &self.settings,
            tree: &self.tree,
            layout: &self.layout,
            kernel,
            cluster: &inputs.state,
            topology: inputs.topology.as_deref(),
            metrics: &inputs.metrics,
            wake: verdict.as_ref(),
        };
        for turn in TURNS.iter().filter(|turn| !turn.is_slow || is_slow_due) {
            let is_on = facts.is_on(turn.gate) || turn.gate == AgentGate::BECPUSuppress;
            let decision = match is_on {
                true => (turn.decide)(&facts, &mut self.memory),
                false => Some(Decision::default()),
            };
            // A strategy that cannot see keeps what it wanted last.
            let Some(decision) = decision else { continue };
            if turn.name == "batch" {
                self.limited = limited(&decision.wishes, &facts.tier());
            }
            self.arbiter.post(turn.name, decision.wishes, None);
            self.journal.decided(turn.name, decision.whys, at);
        }
        // These look at their gates themselves: each has several.
        if is_slow_due {
            if let Some(decision) = strategy::cache::decide(&facts) {
                self.arbiter.post(CACHE, decision.wishes, None);
                self.journal.decided(CACHE, decision.whys, at);
            }
            self.sharing = strategy::cookies::decide(&facts);
            self.arbiter.post(COOKIES, self.sharing.wishes.clone(), None);
            self.network = strategy::network::decide(&facts);
            if let Some(wishes) = &self.network.wishes {
                self.arbiter.post(NETWORK, wishes.clone(), None);
            }
        }
        self.journal.suppress(strategy::suppress::measured(&facts, &self.memory.suppress));
        if self.wake.round(&facts, &strategy::identity::open_modes(&facts)) {
            // Whoever follows the verdict is asked in the next round.
            self.next_slow = now;
            if let (Some(exposition), Some(verdict)) = (&self.exposition, self.wake.verdict()) {
                gauges::wake(exposition, verdict);
            }
        }
        self.journal.decided(WAKE, self.wake.whys(), at);
        self.follow_suppression(inputs);
    }

    /// Starts and stops looking twenty times a second.
    fn follow_suppression(&mut self, inputs: &Inputs) {
        let is_on = self.memory.suppress.budget.is_some() && inputs.state.node.is_some();
        match (is_on, &self.reflex) {
            (true, None) => {
                let (all, tier) = (self.layout.kubepods(), self.tier());
                self.reflex = Some(Reflex::new(&self.tree, all, tier));
            }
            (false, Some(_)) => {
                (self.reflex, self.grant) = (None, None);
                self.arbiter.post(FAST_QUOTA, Vec::new(), None);
            }
            _ => {}
        }
        // The tier's quota is what systemd resets: it is looked at in every round.
        self.arbiter.watch(self.tier(), Knob::CfsQuota);
    }

    fn tier(&self) -> CgroupPath {
        self.layout.class(api::qos::KubeQos::BestEffort)
    }

    fn reflex(&mut self, now: Duration, inputs: &Inputs) {
        let (Some(reflex), Some(budget), Some(node)) =
            (&mut self.reflex, self.memory.suppress.budget, inputs.state.node.as_ref())
        else {
            return;
        };
        let capacity = node.capacity.cpu;
        let small = SMALL_FLOOR.apply(capacity, Rounding::Down);
        let threshold = inputs.state.slo.spec.resource_used_threshold_with_be.as_ref();
        let least = threshold.and_then(|threshold| threshold.cpu_suppress_min_percent);
        let least = least.map(|least| Percent(least).apply(capacity, Rounding::Down));
        let settings = frame::Settings {
            capacity,
            threshold: Percent(
                threshold.and_then(|t| t.cpu_suppress_threshold_percent).unwrap_or(65),
            ),
            floor: FLOOR.min(small).max(least.unwrap_or_default()),
        };
        match reflex.look(&settings, budget.system.charged(), now) {
            Ok(Some(grant)) => self.grant = Some(grant),
            Ok(None) => {}
            Err(error) => debug!(%error, "cannot look at the load of pods"),
        }
        if let Some(grant) = &self.grant {
            let limited: &[CgroupPath] = match self.tree.version() {
                Version::V1 => &self.limited,
                Version::V2 => &[],
            };
            self.arbiter.post(FAST_QUOTA, reflex.wishes(grant, limited), None);
        }
    }

    /// Looks whether the online side waits for memory, and does what helps at once.
    fn look_for_emergency(&mut self, now: Duration, at: Timestamp, inputs: &Inputs) {
        let sight = Sight {
            now,
            tree: &self.tree,
            layout: &self.layout,
            cluster: &inputs.state,
            metrics: &inputs.metrics,
        };
        let Some(looked) = self.emergency.look(&sight) else { return };
        self.arbiter.post(EMERGENCY, looked.wishes, looked.until);
        self.journal.decided(EMERGENCY, looked.whys, at);
    }

    /// Says what came of wishes that take their time.
    fn explain_slow(&self, at: Timestamp) {
        self.journal.decided(COOKIES, self.sharing.explain(&self.arbiter), at);
        self.journal.decided(
            NETWORK,
            self.network.explain(&self.arbiter).into_iter().collect(),
            at,
        );
        if let Some(exposition) = &self.exposition {
            gauges::cookies(exposition, &self.sharing.cookies(&self.arbiter));
        }
    }

    fn settle(&mut self, now: Duration, at: Timestamp) {
        for change in self.arbiter.settle(now) {
            self.tell(&change, at);
        }
    }

    /// Every change is noted; what needs somebody's eye is said once.
    fn tell(&mut self, change: &Change, at: Timestamp) {
        let place = change.target.to_string();
        let owner = change.owner.unwrap_or("nobody");
        let (outcome, old, new) = match &change.outcome {
            Outcome::Written { old, new } => {
                self.told.remove(&change.target);
                debug!(path = place, value = new, owner, why = change.why, "wrote");
                (ChangeOutcome::Written, old.clone(), new.clone())
            }
            Outcome::Refused { value, error } => {
                if self.told.insert(change.target.clone()) {
                    warn!(path = place, value, error, owner, "the kernel refused; will retry");
                }
                (ChangeOutcome::Refused, String::new(), format!("{value}: {error}"))
            }
            Outcome::Unsupported => {
                debug!(path = place, "this kernel has no such file");
                (ChangeOutcome::Unsupported, String::new(), String::new())
            }
            Outcome::Asked { value } => (ChangeOutcome::Asked, String::new(), value.clone()),
            Outcome::Overridden { ours, theirs } => {
                warn!(
                    path = place,
                    ours, theirs, "somebody else changed this file; it is theirs now"
                );
                (ChangeOutcome::Overridden, ours.clone(), theirs.clone())
            }
            Outcome::LedgerFailed { error } => {
                if self.told.insert(change.target.clone()) {
                    warn!(path = place, error, "the ledger cannot be written; nothing is touched");
                }
                (ChangeOutcome::LedgerFailed, String::new(), error.clone())
            }
        };
        self.count(change);
        let subject = match change.target {
            Target::Knob { .. } | Target::Reclaim(_) => Subject::Group,
            _ => Subject::Node,
        };
        self.audit.record(Record {
            subject,
            name: place.clone(),
            ..Record::node(
                at,
                3,
                owner,
                format!("{}: {old} -> {new}: {}", outcome.name(), change.why),
            )
        });
        self.journal.note(KernelChange {
            at,
            file: place,
            owner: change.owner.map(str::to_owned),
            outcome,
            old,
            new,
            why: change.why.clone(),
        });
    }

    /// Counts what was done about cookies.
    fn count(&self, change: &Change) {
        let (Some(exposition), Target::CoreCookie(group)) = (&self.exposition, &change.target)
        else {
            return;
        };
        let is_done = matches!(change.outcome, Outcome::Written { .. });
        let holders = self.arbiter.holders(&change.target);
        let worked = is_done && holders.is_none_or(|holders| holders.refusing == 0);
        gauges::cookie_status(exposition, group, worked);
    }
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
