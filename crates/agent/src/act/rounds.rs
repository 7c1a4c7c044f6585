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
use groups::{CgroupPath, Knob, Layout, Version};
use host::cgroup::Tree;
use jiff::Timestamp;
use qos::node::strategy::cookies::{CookiesSeen, CoreSharing};
use qos::node::strategy::network::NetworkDivision;
use qos::node::{
    COOKIES, FastQuota, Kernel, Machine, Memory, NETWORK, NodeCpus, NodeState, Post, Settings,
    State, Usage, readings, round, strategies,
};
use qos::wish::Target;
use tracing::{debug, info, warn};

use super::emergency::{Emergency, Sight};
use super::journal::Journal;
use super::reflex::{Grant, IDLE_TICK, Reflex};
use super::wake::{self, Prober, WakeProbe};
use super::writer::Devices;
use super::{Arbiter, Change, Ledger, Outcome, gauges, observe};
use crate::audit::{Audit, Record, Subject};
use crate::exposition::Exposition;
use crate::series::Metrics;
use crate::worker::End;
use qos::topology::Topology;

/// Owner of the quota that follows online load between two rounds.
const FAST_QUOTA: &str = api::decisions::strategy::FAST_QUOTA;

/// Who else says why.
const WAKE: &str = "wake";
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
    fast_quota: Option<FastQuota>,
    journal: Journal,
    audit: Audit,
    exposition: Option<Exposition>,
    state: Option<Arc<NodeState>>,
    cpus: Option<Arc<NodeCpus>>,
    /// Counts changes of the two above.
    revision: u64,
    next_round: Duration,
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
            fast_quota: None,
            journal,
            audit,
            exposition: None,
            state: None,
            cpus: None,
            revision: 0,
            next_round: Duration::ZERO,
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
            self.next_round = now;
        }
        if !inputs.state.is_complete {
            return;
        }
        let is_round = now >= self.next_round;
        if is_round {
            self.next_round = now.saturating_add(self.settings.interval);
            self.round(now, at, inputs);
        }
        self.reflex(now);
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
            (self.reflex, self.grant, self.fast_quota) = (None, None, None);
            for name in strategies().chain([WAKE, EMERGENCY, FAST_QUOTA]) {
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
            observe::kernel(&self.tree, &self.layout)
        });
        let cpus = inputs.topology.as_ref().map(|topology| topology.cpus.clone());
        self.count_revision(&inputs.state, cpus.as_ref());
        let mut state = State {
            now,
            revision: self.revision,
            settings: self.settings.clone(),
            layout: self.layout.clone(),
            kernel,
            cluster: inputs.state.clone(),
            cpus,
            usage: Usage::default(),
            machine: Machine::default(),
            wake: self.wake.verdict().cloned(),
        };
        let readings = readings(&state, &self.memory);
        state.machine = observe::machine(&self.tree, &inputs.metrics, &readings);
        state.usage = observe::usage(&inputs.metrics, &state, &readings);
        let round = round(&state, &mut self.memory);
        for Post { strategy, wishes, whys } in round.posts {
            self.arbiter.post(strategy, wishes, None);
            if let Some(whys) = whys {
                self.journal.decided(strategy, whys, at);
            }
        }
        self.sharing = round.core_sharing.unwrap_or_else(|| std::mem::take(&mut self.sharing));
        self.network = round.network.unwrap_or_else(|| std::mem::take(&mut self.network));
        self.journal.suppress(round.suppressed);
        if self.wake.round(&self.tree, &state, &round.open_modes) {
            // Whoever follows the verdict is asked in the next round.
            self.memory.hurry();
            if let (Some(exposition), Some(verdict)) = (&self.exposition, self.wake.verdict()) {
                gauges::wake(exposition, verdict);
            }
        }
        self.journal.decided(WAKE, self.wake.whys(), at);
        self.follow_suppression(round.fast_quota);
    }

    /// Every part of what is known has an `Arc` of its own, which changes with it.
    fn count_revision(&mut self, state: &Arc<NodeState>, cpus: Option<&Arc<NodeCpus>>) {
        let same_state = self.state.as_ref().is_some_and(|old| Arc::ptr_eq(old, state));
        let same_cpus = match (&self.cpus, cpus) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (None, None) => true,
            _ => false,
        };
        if !same_state || !same_cpus {
            self.revision += 1;
            self.state = Some(state.clone());
            self.cpus = cpus.cloned();
        }
    }

    /// Starts and stops looking twenty times a second.
    fn follow_suppression(&mut self, fast_quota: Option<FastQuota>) {
        self.fast_quota = fast_quota;
        match (fast_quota.is_some(), &self.reflex) {
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

    fn reflex(&mut self, now: Duration) {
        let (Some(reflex), Some(FastQuota { settings, system })) =
            (&mut self.reflex, self.fast_quota)
        else {
            return;
        };
        match reflex.look(&settings, system, now) {
            Ok(Some(grant)) => self.grant = Some(grant),
            Ok(None) => {}
            Err(error) => debug!(%error, "cannot look at the load of pods"),
        }
        if let Some(grant) = &self.grant {
            let limited: &[CgroupPath] = match self.tree.version() {
                Version::V1 => self.memory.limited(),
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
            self.network
                .explain(|target| self.arbiter.trouble(target).map(str::to_owned))
                .into_iter()
                .collect(),
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
