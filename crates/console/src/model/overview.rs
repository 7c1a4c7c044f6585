//! Is the cluster safe, and what is it used for?

use api::decisions::PodWait;
use serde::Serialize;
use units::{Bytes, MilliCpu};

use super::World;
use super::history::FleetSample;
use super::row::{NodeRow, State};

/// Nodes that are named on the first page.
const NAMED: usize = 12;
/// A wait that the first page tells of, in hundredths of a percent of a minute.
const LONG_WAIT: u32 = 500;
/// Width of a bar of the distribution, in percent.
const BAR: i64 = 10;
const BARS: usize = 10;

/// The first page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// The answer in one sentence.
    pub headline: String,
    /// The worst state of any node.
    pub state: Option<State>,
    pub counts: Counts,
    pub cpu: Cpu,
    pub memory: Memory,
    pub batch: Batch,
    pub day: Day,
    /// How many nodes use how much of their CPU: under 10 %, under 20 %, and so on.
    pub distribution: [usize; BARS],
    /// Online pods that waited for long, the worst first.
    pub hints: Vec<Hint>,
    /// Those that someone should look at, worst first.
    pub attention: Vec<NodeRow>,
    pub history: Vec<FleetSample>,
}

/// A pod that waited, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hint {
    pub node: String,
    #[serde(flatten)]
    pub wait: PodWait,
}

fn hints(world: &World) -> Vec<Hint> {
    let waits = world.agents.iter().flat_map(|(node, page)| {
        let long = page.waits.iter().flatten().filter(|wait| wait.share >= LONG_WAIT);
        long.map(move |wait| (node, wait))
    });
    let mut waits: Vec<_> = waits.collect();
    waits.sort_by(|a, b| b.1.share.cmp(&a.1.share).then_with(|| a.1.pod.cmp(&b.1.pod)));
    let worst = waits.into_iter().take(NAMED);
    worst.map(|(node, wait)| Hint { node: node.clone(), wait: wait.clone() }).collect()
}

/// Nodes by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub nodes: usize,
    pub safe: usize,
    pub held: usize,
    #[serde(rename = "unsafe")]
    pub unsafe_: usize,
    pub unknown: usize,
    pub off: usize,
}

impl Counts {
    pub fn get(&self, state: State) -> usize {
        match state {
            State::Safe => self.safe,
            State::Held => self.held,
            State::Unsafe => self.unsafe_,
            State::Unknown => self.unknown,
            State::Off => self.off,
        }
    }

    fn add(&mut self, state: State) {
        self.nodes += 1;
        match state {
            State::Safe => self.safe += 1,
            State::Held => self.held += 1,
            State::Unsafe => self.unsafe_ += 1,
            State::Unknown => self.unknown += 1,
            State::Off => self.off += 1,
        }
    }
}

/// CPU of measured nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cpu {
    pub capacity: MilliCpu,
    pub used: MilliCpu,
    pub without_batch: MilliCpu,
}

/// Memory of measured nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    pub capacity: Bytes,
    pub used: Bytes,
}

/// What is lent to batch work, and what becomes of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    pub lent: MilliCpu,
    pub requested: MilliCpu,
    pub used: MilliCpu,
    pub pods: usize,
}

/// The last 24 hours, or as much of them as was seen, in tenths of a percent of all CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Day {
    pub seconds: i64,
    pub utilization_per_mille: Option<i64>,
    pub without_batch_per_mille: Option<i64>,
}

impl Overview {
    pub fn of(world: &World, rows: &[NodeRow]) -> Self {
        let mut this = Self {
            headline: String::new(),
            state: rows.iter().map(|row| row.state).min(),
            counts: Counts::default(),
            cpu: Cpu::default(),
            memory: Memory::default(),
            batch: Batch::default(),
            day: world.ledger.average(),
            distribution: [0; BARS],
            hints: hints(world),
            attention: Vec::new(),
            history: world.fleet.samples().copied().collect(),
        };
        for row in rows {
            this.add(row);
        }
        let mut attention: Vec<&NodeRow> =
            rows.iter().filter(|row| matches!(row.state, State::Unsafe | State::Unknown)).collect();
        attention.sort_by(|a, b| a.state.cmp(&b.state).then_with(|| a.name.cmp(&b.name)));
        this.attention = attention.into_iter().take(NAMED).cloned().collect();
        this.headline = this.counts.headline();
        this
    }

    fn add(&mut self, row: &NodeRow) {
        self.counts.add(row.state);
        self.batch.lent += row.batch_lent.unwrap_or_default();
        self.batch.requested += row.batch_requested;
        self.batch.pods += row.best_effort_pods;
        let (Some(used), Some(classes)) = (row.used, row.classes) else { return };
        self.cpu.capacity += row.capacity.milli_cpu;
        self.cpu.used += used.milli_cpu;
        self.cpu.without_batch += used.milli_cpu - classes.be;
        self.memory.capacity += row.capacity.bytes;
        self.memory.used += used.bytes;
        self.batch.used += classes.be;
        let bar = row.used_percent().map_or(0, |percent| percent.0.max(0) / BAR);
        let bar = usize::try_from(bar).unwrap_or(BARS).min(BARS - 1);
        if let Some(count) = self.distribution.get_mut(bar) {
            *count += 1;
        }
    }
}

impl Counts {
    fn headline(&self) -> String {
        let nodes = |count: usize| match count {
            1 => "1 node".to_owned(),
            _ => format!("{count} nodes"),
        };
        match self {
            Self { nodes: 0, .. } => "There are no nodes yet".to_owned(),
            Self { unsafe_: 1, .. } => "1 node needs attention".to_owned(),
            Self { unsafe_: 2.., .. } => format!("{} need attention", nodes(self.unsafe_)),
            Self { off, nodes, .. } if off == nodes => "Co-location is switched off".to_owned(),
            Self { unknown, nodes, .. } if unknown == nodes => {
                "Nothing was measured yet".to_owned()
            }
            Self { unknown: 1, .. } => "Safe, as far as is known: 1 node says nothing".to_owned(),
            Self { unknown: 2.., .. } => {
                format!("Safe, as far as is known: {} say nothing", nodes(self.unknown))
            }
            Self { off: 1.., .. } => format!("Safe; {} switched off", nodes(self.off)),
            Self { nodes: 1, .. } => "The node is safe".to_owned(),
            _ => format!("All {} are safe", nodes(self.nodes)),
        }
    }
}
