//! What does this machine do, second by second?
//!
//! One thread reads the kernel's files and writes samples into [`Metrics`]. It never waits for the
//! cluster: at the start of a tick it takes the newest [`NodeState`] and follows it. Time is a value, so tests
//! step through days in a moment.
//!
//! | task | every | reads |
//! |---|---|---|
//! | usage | 1 s | node, NUMA nodes, pods, containers, throttling, best-effort tier, host applications; derives the system |
//! | node-info | 60 s | topology |
//! | cold-memory | 5 s | idle pages (gate, kernel) |
//! | psi | 10 s | pressure of pods and containers (gate) |
//! | resctrl | 10 s | cache and bandwidth by class (gate, flag, hardware) |
//! | cpi | 60 s | cycles and instructions of containers (gate, hardware) |
//! | storage | 60 s, in the reference 1 s | disks and mounts (gate) |
//!
//! Whatever cannot be read is left out and counted; the rest of the tick goes on. A counter that goes
//! backwards or a gap in time makes a new baseline, not a number.

mod best_effort;
mod cold;
mod cpi;
mod group;
mod host_applications;
mod meter;
mod node;
mod pods;
mod pressure;
mod resctrl;
mod room;
mod schedule;
mod settings;
mod system;
mod thread;

use std::sync::Arc;
use std::time::Duration;

use api::protocol::gate::AgentGate;
use host::FileError;
use host::cgroup::Tree;
use host::fs::{Buffer, HostFs};
use host::topology::{CpuModel, Topology};
use host::{block, psi};
use stats::RateRule;
use tracing::{info, warn};

use self::best_effort::BestEffort;
use self::cold::ColdMemory;
use self::cpi::CpiCounters;
use self::group::Pass;
use self::host_applications::HostApplications;
pub use self::meter::{Meter, MeteredFs};
use self::node::Node;
use self::pods::{Extras, Pods};
use self::resctrl::CacheMonitor;
use self::room::Enclosing;
pub use self::schedule::{Schedule, Task};
pub use self::settings::CollectSettings;
pub use self::thread::{CollectThread, Ticks};
use crate::series::{Measure, Metrics, NodeInfo, StorageInfo, Subject};
use qos::node::MemoryPolicy;
use qos::node::NodeState;

/// Disks change rarely, and listing them costs a hundred system calls.
const SHORTEST_STORAGE_INTERVAL: Duration = Duration::from_secs(60);

/// All collectors of the node.
#[derive(Debug)]
pub struct Collector {
    fs: Arc<dyn HostFs>,
    tree: Tree,
    settings: CollectSettings,
    metrics: Metrics,
    schedule: Schedule,
    buffer: Buffer,
    scratch: Vec<f64>,
    state: Arc<NodeState>,
    info: Option<Arc<NodeInfo>>,
    node: Node,
    pods: Pods,
    apps: HostApplications,
    best_effort: BestEffort,
    enclosing: Enclosing,
    cold: ColdMemory,
    cache: CacheMonitor,
    cpi: CpiCounters,
}

/// Why a task had nothing to say this time.
#[derive(Debug)]
enum Trouble {
    /// This host cannot do it; it will not be asked for again to no end.
    Unsupported,
    Failed(FileError),
}

impl From<FileError> for Trouble {
    fn from(error: FileError) -> Self {
        Self::Failed(error)
    }
}

impl Collector {
    pub fn new(tree: Tree, settings: CollectSettings, metrics: Metrics) -> Self {
        let fs = tree.shared_fs();
        let tier = &settings.best_effort_cgroup;
        Self {
            schedule: Schedule::new(tasks(&settings)),
            buffer: Buffer::new(),
            scratch: Vec::new(),
            state: Arc::default(),
            info: None,
            node: Node::new(fs.clone()),
            pods: Pods::default(),
            apps: HostApplications::default(),
            best_effort: BestEffort::new(tier),
            enclosing: Enclosing::new(tier),
            cold: ColdMemory::default(),
            cache: CacheMonitor::default(),
            cpi: CpiCounters::default(),
            fs,
            tree,
            settings,
            metrics,
        }
    }

    /// When there is something to do next.
    pub fn next_due(&self) -> Option<Duration> {
        self.schedule.next_due()
    }

    /// Starts the rhythm of all tasks at `now`.
    pub fn start_at(&mut self, now: Duration) {
        self.schedule.start_at(now);
    }

    /// How often a due time passed without a run.
    pub fn skipped(&self) -> u64 {
        self.schedule.skipped()
    }

    /// Does everything that is due at `now`, and tells whether usage was part of it.
    pub fn tick(&mut self, now: Duration, state: &Arc<NodeState>) -> bool {
        if !Arc::ptr_eq(&self.state, state) {
            self.state = state.clone();
            self.pods.follow(state, &self.metrics);
            self.apps.follow(state, &self.metrics);
        }
        let mut has_usage = false;
        while let Some(task) = self.schedule.take_due(now) {
            has_usage |= task == Task::Usage;
            let result = self.run(task, now);
            self.note(task, now, result);
        }
        has_usage
    }

    fn run(&mut self, task: Task, now: Duration) -> Result<(), Trouble> {
        match task {
            Task::NodeInfo => self.node_info(now),
            Task::Usage => self.usage(now),
            Task::ColdMemory => self.cold_memory(now),
            Task::Pressure => self.pressure(now),
            Task::Resctrl => self.cache.tick(&self.fs, &mut self.buffer, now, &self.metrics),
            Task::Cpi => self.cpi(now),
            Task::Storage => self.storage(now),
        }
    }

    /// Remembers how a task went, and says it when that changed.
    fn note(&self, task: Task, now: Duration, result: Result<(), Trouble>) {
        let mut store = self.metrics.lock();
        let health = store.health_mut(task);
        match result {
            Ok(()) => {
                health.is_started = true;
                health.last_success = Some(now);
                if health.last_error.take().is_some() {
                    info!(task = task.name(), "collecting again");
                }
            }
            Err(Trouble::Unsupported) => {
                if !health.is_unsupported {
                    info!(task = task.name(), "not collecting: this host does not offer it");
                }
                health.is_started = true;
                health.is_unsupported = true;
            }
            Err(Trouble::Failed(error)) => {
                if health.last_error.is_none() {
                    warn!(task = task.name(), %error, "cannot collect");
                }
                health.failures += 1;
                health.last_error = Some(error.to_string());
            }
        }
        if task == Task::Usage {
            health.failing_objects = self.pods.failing() + self.apps.failing();
        }
    }

    fn node_info(&mut self, now: Duration) -> Result<(), Trouble> {
        let topology = Topology::read(&*self.fs)?;
        let model = CpuModel::read(&*self.fs, &topology).ok();
        let info = Arc::new(NodeInfo { at: now, topology, model });
        self.info = Some(info.clone());
        self.metrics.lock().facts.node = Some(info);
        Ok(())
    }

    fn usage(&mut self, now: Duration) -> Result<(), Trouble> {
        let Self { tree, buffer, settings, metrics, .. } = self;
        let counts_cache = self.state.policy.memory == MemoryPolicy::WithPageCache;
        let topology = self.info.as_ref().map(|info| &info.topology);
        let mut pass = pass(tree, buffer, settings, now);
        let node = self.node.tick(&mut pass, topology, metrics, settings.page_cache);
        let extras = Extras {
            page_cache: settings.page_cache,
            numa_nodes: topology.map_or(0, |topology| topology.nodes.len()),
            tier: &settings.best_effort_cgroup,
        };
        self.pods.tick(&mut pass, metrics, extras);
        self.apps.tick(&mut pass, metrics, settings.page_cache || counts_cache);
        let best_effort = self.best_effort.tick(&mut pass, &self.pods, metrics);
        let room = self.node.memory().map(|memory| self.enclosing.tick(memory, &mut pass, metrics));
        let inputs = system::Inputs {
            node: &self.node,
            pods: &self.pods,
            apps: &self.apps,
            page_cache: counts_cache,
            outdated: settings.system_outdated,
        };
        system::derive(&inputs, now, metrics, &mut self.scratch);
        node?;
        room.transpose()?;
        Ok(best_effort?)
    }

    fn cold_memory(&mut self, now: Duration) -> Result<(), Trouble> {
        if !host::cold::is_supported(&*self.fs) {
            return Err(Trouble::Unsupported);
        }
        let Self { tree, buffer, settings, metrics, .. } = self;
        let mut pass = pass(tree, buffer, settings, now);
        let used = metrics.recent(
            Subject::Node,
            Measure::MemoryWithPageCache,
            now,
            settings.system_outdated,
        );
        self.cold.tick_node(&mut pass, metrics, used);
        self.pods.visit(|subject, group| cold::sample(subject, group, &mut pass, metrics));
        self.apps.visit(|subject, group| cold::sample(subject, group, &mut pass, metrics));
        Ok(())
    }

    fn pressure(&mut self, now: Duration) -> Result<(), Trouble> {
        let Self { tree, buffer, settings, metrics, .. } = self;
        let mut pass = pass(tree, buffer, settings, now);
        let mut round = pressure::Round::default();
        self.pods.visit(|subject, group| {
            pressure::sample(subject, group, &mut pass, metrics, &mut round);
        });
        // A kernel without pressure files answers so for every group.
        if round.read == 0 && round.unsupported >= psi::Resource::ALL.len() {
            return Err(Trouble::Unsupported);
        }
        Ok(())
    }

    fn cpi(&mut self, now: Duration) -> Result<(), Trouble> {
        let cpus = self.info.as_ref().map(|info| info.topology.cpus.online()).unwrap_or_default();
        self.cpi.tick(&self.tree, &mut self.pods, &cpus, now, &self.metrics)
    }

    fn storage(&mut self, now: Duration) -> Result<(), Trouble> {
        let (disks, mounts) = (block::disks(&*self.fs)?, block::mounts(&*self.fs)?);
        let info = StorageInfo { at: now, disks: Arc::new(disks), mounts };
        self.metrics.lock().facts.storage = Some(Arc::new(info));
        Ok(())
    }
}

/// What the collectors share in one tick.
fn pass<'a>(
    tree: &'a Tree,
    buffer: &'a mut Buffer,
    settings: &CollectSettings,
    now: Duration,
) -> Pass<'a> {
    Pass { tree, buffer, now, rule: RateRule::every(settings.usage_interval) }
}

/// What is to be done, and how often. The topology comes first: others ask for it.
fn tasks(settings: &CollectSettings) -> Vec<(Task, Duration)> {
    let mut tasks = vec![(Task::NodeInfo, settings.node_info_interval)];
    tasks.push((Task::Usage, settings.usage_interval));
    let storage_interval = settings.storage_interval.max(SHORTEST_STORAGE_INTERVAL);
    let gated = [
        (AgentGate::ColdPageCollector, true, Task::ColdMemory, settings.cold_page_interval),
        (AgentGate::PSICollector, true, Task::Pressure, settings.psi_interval),
        (AgentGate::ResctrlCollector, settings.resctrl, Task::Resctrl, settings.resctrl_interval),
        (AgentGate::CPICollector, true, Task::Cpi, cpi::step(settings)),
        (AgentGate::BlkIOReconcile, true, Task::Storage, storage_interval),
    ];
    for (gate, flag, task, interval) in gated {
        if flag && settings.gates.is_on(gate) {
            tasks.push((task, interval));
        }
    }
    tasks
}

#[cfg(test)]
mod tests;
