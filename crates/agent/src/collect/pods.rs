//! What does each pod use, and each of its containers?
//!
//! The table of pods follows the node's state: whoever stays keeps open files and baselines, whoever leaves
//! takes them along. A pod's first tick sets the baseline and says nothing about its containers either,
//! so that all series of a pod have the same points.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use api::qos::QosClass;
use groups::CgroupPath;
use host::Reading;
use host::cgroup::MemoryStat;
use qos::node::{Container, ContainerState, Pod};
use units::{Bytes, MilliCpu};

use super::group::{Group, GroupUsage, Outcome, Pass};
use crate::series::{Measure, Metrics, Store, Subject};
use qos::node::NodeState;

/// NUMA memory of pods and CPU sets of containers change slowly: each is read every so many ticks, a
/// part of the pods at a time.
const SLOW_TURNS: usize = 5;

/// All pods of the node.
#[derive(Debug, Default)]
pub(super) struct Pods {
    entries: Vec<PodEntry>,
    turn: usize,
}

#[derive(Debug)]
struct PodEntry {
    pod: Arc<Pod>,
    group: Group,
    containers: Vec<ContainerEntry>,
    last: Option<Last>,
    /// Memory by NUMA node, and when it was read.
    numa: Vec<Bytes>,
    numa_at: Option<Duration>,
}

/// What a pod used when it was last sampled.
#[derive(Debug, Clone, Copy)]
struct Last {
    at: Duration,
    cpu: f64,
    memory: f64,
}

#[derive(Debug)]
struct ContainerEntry {
    id: String,
    is_running: bool,
    group: Group,
    /// How many CPUs the container may run on.
    cpus: Option<usize>,
}

impl ContainerEntry {
    fn new(container: &Container) -> Self {
        Self {
            id: container.id.clone(),
            is_running: container.state == ContainerState::Running,
            group: Group::new(&container.cgroup),
            cpus: None,
        }
    }
}

/// Usage of all pods together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sum {
    pub(super) cpu: f64,
    pub(super) memory: f64,
}

/// What a tick looks for besides usage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extras<'a> {
    pub(super) page_cache: bool,
    pub(super) numa_nodes: usize,
    /// The group of the best-effort tier.
    pub(super) tier: &'a CgroupPath,
}

impl Pods {
    /// Follows the state: who is new, who stays, who left.
    pub(super) fn follow(&mut self, state: &NodeState, metrics: &Metrics) {
        let mut known: HashMap<String, PodEntry> =
            self.entries.drain(..).map(|entry| (entry.pod.uid.clone(), entry)).collect();
        self.entries.extend(state.pods.values().map(|pod| match known.remove(&pod.uid) {
            Some(entry) if entry.group.is_at(&pod.cgroup) => entry.follow(pod),
            _ => PodEntry::new(pod),
        }));
        let uids: HashSet<&str> = state.pods.values().map(|pod| pod.uid.as_str()).collect();
        let containers = state.pods.values().flat_map(|pod| &pod.containers);
        let ids: HashSet<&str> = containers.map(|container| container.id.as_str()).collect();
        let mut store = metrics.lock();
        store.keep_pods(&uids);
        store.keep_containers(&ids);
    }

    /// Samples all pods and their containers.
    pub(super) fn tick(&mut self, pass: &mut Pass<'_>, metrics: &Metrics, extras: Extras<'_>) {
        self.turn = (self.turn + 1) % SLOW_TURNS;
        for (index, pod) in self.entries.iter_mut().enumerate() {
            let is_slow_turn = index % SLOW_TURNS == self.turn;
            pod.tick(pass, metrics, extras, is_slow_turn);
        }
    }

    /// What pods used that were sampled in the last `window`.
    pub(super) fn sum(&self, now: Duration, window: Duration) -> Sum {
        let lasts = self.entries.iter().filter_map(|pod| pod.last);
        let recent = lasts.filter(|last| last.at >= now.saturating_sub(window));
        recent.fold(Sum::default(), |sum, last| Sum {
            cpu: sum.cpu + last.cpu,
            memory: sum.memory + last.memory,
        })
    }

    /// Adds up the pods' memory by NUMA node; `false` when nothing is known, or nothing recent of
    /// some pod.
    pub(super) fn sum_numa(&self, now: Duration, window: Duration, sums: &mut Vec<f64>) -> bool {
        let mut is_known = false;
        for pod in &self.entries {
            let Some(at) = pod.numa_at else { continue };
            if at < now.saturating_sub(window) {
                return false;
            }
            is_known = true;
            for (node, bytes) in pod.numa.iter().enumerate() {
                if sums.len() <= node {
                    sums.resize(node + 1, 0.0);
                }
                if let Some(sum) = sums.get_mut(node) {
                    *sum += bytes_f64(*bytes);
                }
            }
        }
        is_known
    }

    /// What pods of the raw best-effort class asked for.
    pub(super) fn batch_request(&self) -> MilliCpu {
        let pods = self.entries.iter().map(|entry| &entry.pod);
        pods.filter(|pod| pod.raw_qos == Some(QosClass::Be))
            .fold(MilliCpu::ZERO, |sum, pod| sum + pod.batch_requests.cpu)
    }

    /// The fewest CPUs any container below `tier` may run on.
    pub(super) fn fewest_cpus(&self, tier: &CgroupPath) -> Option<usize> {
        let pods = self.entries.iter().filter(|entry| entry.pod.cgroup.is_below(tier));
        let sets = pods.flat_map(|pod| &pod.containers).filter_map(|container| container.cpus);
        sets.min()
    }

    /// Groups that are there and cannot be read.
    pub(super) fn failing(&self) -> usize {
        let containers = |pod: &PodEntry| {
            pod.containers.iter().filter(|container| container.group.is_failing()).count()
        };
        self.entries.iter().map(|pod| usize::from(pod.group.is_failing()) + containers(pod)).sum()
    }

    /// Visits the groups of pods and running containers that were sampled lately.
    pub(super) fn visit(&mut self, mut visit: impl FnMut(Subject<'_>, &mut Group)) {
        for pod in &mut self.entries {
            if pod.last.is_none() {
                continue;
            }
            visit(Subject::Pod(&pod.pod.uid), &mut pod.group);
            for container in pod.containers.iter_mut().filter(|container| container.is_running) {
                visit(Subject::Container(&container.id), &mut container.group);
            }
        }
    }
}

impl PodEntry {
    fn new(pod: &Arc<Pod>) -> Self {
        Self {
            pod: pod.clone(),
            group: Group::new(&pod.cgroup),
            containers: pod.containers.iter().map(ContainerEntry::new).collect(),
            last: None,
            numa: Vec::new(),
            numa_at: None,
        }
    }

    /// Takes over what is newly known of the same pod.
    fn follow(mut self, pod: &Arc<Pod>) -> Self {
        if Arc::ptr_eq(&self.pod, pod) {
            return self;
        }
        self.group.look_again();
        let mut known = std::mem::take(&mut self.containers);
        self.containers.extend(pod.containers.iter().map(|new| {
            let at = known.iter().position(|old| old.id == new.id && old.group.is_at(&new.cgroup));
            let mut entry = at.map_or_else(|| ContainerEntry::new(new), |at| known.swap_remove(at));
            entry.is_running = new.state == ContainerState::Running;
            entry.group.look_again();
            entry
        }));
        self.pod = pod.clone();
        self
    }

    fn tick(
        &mut self,
        pass: &mut Pass<'_>,
        metrics: &Metrics,
        extras: Extras<'_>,
        is_slow_turn: bool,
    ) {
        let is_first = self.last.is_none();
        let Some(usage) = self.sample(pass) else { return };
        if extras.numa_nodes == 1 {
            self.numa.clear();
            self.numa.extend(usage.memory.map(|memory| memory.used_with_page_cache()));
            self.numa_at = usage.memory.map(|_| pass.now);
        } else if extras.numa_nodes > 1 && (is_slow_turn || is_first) {
            self.read_numa(pass);
        }
        record(&mut metrics.lock(), Subject::Pod(&self.pod.uid), &usage, pass.now, extras);
        let is_best_effort = self.pod.cgroup.is_below(extras.tier);
        for container in self.containers.iter_mut().filter(|container| container.is_running) {
            if let Outcome::Sampled(usage) = container.group.sample(pass) {
                let subject = Subject::Container(&container.id);
                record(&mut metrics.lock(), subject, &usage, pass.now, extras);
            }
            if is_slow_turn && is_best_effort {
                container.read_cpus(pass);
            }
        }
    }

    fn sample(&mut self, pass: &mut Pass<'_>) -> Option<GroupUsage> {
        match self.group.sample(pass) {
            Outcome::Sampled(usage) => {
                let memory = usage.memory.map_or(0.0, |memory| bytes_f64(memory.used()));
                self.last = Some(Last { at: pass.now, cpu: usage.cpu, memory });
                Some(usage)
            }
            Outcome::Absent => {
                self.last = None;
                self.numa_at = None;
                None
            }
            Outcome::Baseline => {
                for container in self.containers.iter_mut().filter(|entry| entry.is_running) {
                    container.group.sample(pass);
                }
                None
            }
            Outcome::Failed => None,
        }
    }

    fn read_numa(&mut self, pass: &mut Pass<'_>) {
        let Some(reader) = self.group.open_reader() else { return };
        if let Ok(Reading::Value(())) = reader.numa_memory(pass.buffer, &mut self.numa) {
            self.numa_at = Some(pass.now);
        }
    }
}

impl ContainerEntry {
    fn read_cpus(&mut self, pass: &mut Pass<'_>) {
        let Some(reader) = self.group.open_reader() else { return };
        if let Ok(Reading::Value(cpus)) = reader.cpus(pass.buffer) {
            // A v1 group that nobody configured has no CPUs of its own; that is no limit.
            self.cpus = Some(cpus.len()).filter(|count| *count > 0);
        }
    }
}

/// Writes down what a pod or container used.
fn record(
    store: &mut Store,
    subject: Subject<'_>,
    usage: &GroupUsage,
    now: Duration,
    extras: Extras<'_>,
) {
    store.push(subject, Measure::Cpu, now, usage.cpu);
    if let Some(memory) = &usage.memory {
        record_memory(store, subject, memory, now, extras.page_cache);
    }
    if let Some(throttled) = usage.throttled {
        store.push(subject, Measure::Throttled, now, throttled);
    }
}

/// Writes down a group's memory.
pub(super) fn record_memory(
    store: &mut Store,
    subject: Subject<'_>,
    memory: &MemoryStat,
    now: Duration,
    page_cache: bool,
) {
    store.push(subject, Measure::Memory, now, bytes_f64(memory.used()));
    if page_cache {
        let with_cache = bytes_f64(memory.used_with_page_cache());
        store.push(subject, Measure::MemoryWithPageCache, now, with_cache);
    }
}

/// Bytes as samples are kept.
#[expect(clippy::cast_precision_loss, reason = "samples are kept in single precision")]
pub(super) fn bytes_f64(bytes: Bytes) -> f64 {
    bytes.0 as f64
}
