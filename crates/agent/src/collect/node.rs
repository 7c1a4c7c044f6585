//! What do the node and its NUMA nodes use?
//!
//! CPU time comes from `/proc/stat`, in ticks: user, nice, system and both kinds of interrupts count;
//! idle, waiting and stolen time do not. A NUMA node's CPU is the sum of its CPUs, each with a baseline of
//! its own, so that a CPU that comes or goes disturbs no other.

use std::sync::Arc;
use std::time::Duration;

use host::FileError;
use host::fs::HostFs;
use host::proc::{MemInfo, NodeReader, Stat};
use host::topology::Topology;
use stats::{Delta, Rate};

use super::group::Pass;
use super::pods::bytes_f64;
use crate::series::{Measure, Metrics, Subject};

/// The node as a whole.
#[derive(Debug)]
pub(super) struct Node {
    reader: NodeReader,
    stat: Stat,
    total: Rate,
    /// By CPU number.
    cpus: Vec<Rate>,
    /// Seconds in a tick of the kernel's accounting.
    tick: f64,
    last: Option<NodeUsage>,
    memory: Option<MemInfo>,
    numa: Vec<NumaUsage>,
}

/// What the node used when it was last sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct NodeUsage {
    pub(super) at: Duration,
    pub(super) cpu: f64,
    pub(super) memory: f64,
}

/// What a NUMA node used when it was last sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct NumaUsage {
    pub(super) id: u16,
    pub(super) at: Duration,
    pub(super) cpu: f64,
    pub(super) memory: f64,
}

impl Node {
    pub(super) fn new(fs: Arc<dyn HostFs>) -> Self {
        Self {
            reader: NodeReader::new(fs),
            stat: Stat::default(),
            total: Rate::default(),
            cpus: Vec::new(),
            tick: NodeReader::tick().as_secs_f64(),
            last: None,
            memory: None,
            numa: Vec::new(),
        }
    }

    pub(super) fn last(&self) -> Option<NodeUsage> {
        self.last
    }

    /// The machine's memory, as it was last read.
    pub(super) fn memory(&self) -> Option<&MemInfo> {
        self.memory.as_ref()
    }

    /// NUMA nodes that were sampled at `now`.
    pub(super) fn numa(&self, now: Duration) -> impl Iterator<Item = NumaUsage> + '_ {
        self.numa.iter().copied().filter(move |usage| usage.at == now)
    }

    /// Samples the node and, where the topology is known, its NUMA nodes.
    pub(super) fn tick(
        &mut self,
        pass: &mut Pass<'_>,
        topology: Option<&Topology>,
        metrics: &Metrics,
        page_cache: bool,
    ) -> Result<(), FileError> {
        self.reader.stat(pass.buffer, &mut self.stat)?;
        let delta = self.total.advance(self.stat.total.busy(), pass.now, pass.rule);
        let memory = self.reader.memory(pass.buffer)?;
        self.memory = Some(memory);
        if let Some(delta) = delta {
            let usage = NodeUsage {
                at: pass.now,
                cpu: self.cores(delta),
                memory: bytes_f64(memory.used()),
            };
            self.last = Some(usage);
            let mut store = metrics.lock();
            store.push(Subject::Node, Measure::Cpu, pass.now, usage.cpu);
            store.push(Subject::Node, Measure::Memory, pass.now, usage.memory);
            if page_cache {
                let with_cache = bytes_f64(memory.used_with_page_cache());
                store.push(Subject::Node, Measure::MemoryWithPageCache, pass.now, with_cache);
            }
        }
        topology.map_or(Ok(()), |topology| self.tick_numa(pass, topology, metrics))
    }

    fn tick_numa(
        &mut self,
        pass: &mut Pass<'_>,
        topology: &Topology,
        metrics: &Metrics,
    ) -> Result<(), FileError> {
        self.numa.clear();
        self.numa.extend(topology.nodes.iter().map(|node| NumaUsage {
            id: node.id,
            at: Duration::MAX,
            cpu: 0.0,
            memory: 0.0,
        }));
        for (cpu, times) in &self.stat.cpus {
            let at = usize::from(*cpu);
            if self.cpus.len() <= at {
                self.cpus.resize(at + 1, Rate::default());
            }
            let Some(rate) = self.cpus.get_mut(at) else { continue };
            let Some(delta) = rate.advance(times.busy(), pass.now, pass.rule) else { continue };
            let place = topology.nodes.iter().position(|node| node.cpus.contains(*cpu));
            if let Some(usage) = place.and_then(|place| self.numa.get_mut(place)) {
                usage.at = pass.now;
                usage.cpu += delta.per_second() * self.tick;
            }
        }
        for (node, usage) in topology.nodes.iter().zip(&mut self.numa) {
            let memory = self.reader.node_memory(&node.meminfo, pass.buffer)?;
            usage.memory = bytes_f64(memory.used());
            if usage.at == pass.now {
                let subject = Subject::Numa(u32::from(usage.id));
                let mut store = metrics.lock();
                store.push(subject, Measure::Cpu, pass.now, usage.cpu);
                store.push(subject, Measure::Memory, pass.now, usage.memory);
            }
        }
        Ok(())
    }

    fn cores(&self, delta: Delta) -> f64 {
        delta.per_second() * self.tick
    }
}
