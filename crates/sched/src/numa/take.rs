//! Which CPUs does a pod get?
//!
//! [`take`] chooses `count` CPUs out of the free ones. Three plans are tried, each for what the
//! one before left open:
//!
//! | plan | for | looks for |
//! |---|---|---|
//! | whole cores | [`Bind::Full`], or one thread a core | one NUMA node, one socket, whole sockets, then cores |
//! | spread | [`Bind::Spread`] | one NUMA node, then one socket; first one thread of every core |
//! | remainder | everyone | single CPUs, next to what was already taken |
//!
//! The [`Fill`] says which of several suitable places comes first: the fullest
//! ([`Fill::Most`]) or the emptiest ([`Fill::Least`]). [`Exclusive`] is a wish: places
//! that pods with the same wish hold are passed over on a first try and allowed on a second.
//!
//! A *required* policy takes CPUs it cannot use out of the free ones before anything else: without
//! complete cores nothing is left for [`Bind::Full`], and [`Bind::Spread`] sees one thread of a core.
//!
//! An available CPU is held by nobody, so the number of its holders never decides an order.

use std::cmp::Reverse;

use units::CpuSet;

use super::topology::{Position, Topology};

/// How CPUs are shared out to a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bind {
    /// Whole cores.
    Full,
    /// One thread of as many cores as possible.
    Spread,
}

/// What a pod would rather not share with pods of the same wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Exclusive {
    #[default]
    None,
    /// Its cores.
    Core,
    /// Its NUMA nodes.
    Node,
}

/// Which place is preferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Fill {
    /// The fullest.
    Most,
    /// The emptiest.
    #[default]
    Least,
}

impl Fill {
    /// Sorts first what this strategy prefers.
    fn rank(self, free: usize) -> (usize, Reverse<usize>) {
        match self {
            Self::Most => (free, Reverse(0)),
            Self::Least => (0, Reverse(free)),
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    pub count: usize,
    pub bind: Bind,
    /// Must the policy hold, or is it a wish?
    pub required: bool,
    pub exclusive: Exclusive,
    pub strategy: Fill,
}

/// Why there are no CPUs for a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Shortage {
    #[error("not enough cpus available to satisfy request")]
    NotEnough,
    #[error("failed to allocate cpus")]
    Failed,
}

/// Chooses CPUs among `available`; `marked` are those held by pods with the same exclusive wish.
pub fn take(
    topology: &Topology,
    available: &CpuSet,
    marked: &CpuSet,
    ask: &Ask,
) -> Result<CpuSet, Shortage> {
    if ask.count == 0 {
        return Ok(CpuSet::new());
    }
    let mut picker = Picker::new(topology, available, marked, ask);
    if ask.required {
        picker.keep_usable(ask.bind);
    }
    if picker.free_in_socket.iter().sum::<usize>() < ask.count {
        return Err(Shortage::NotEnough);
    }
    if ask.bind == Bind::Full || topology.cpus_per_core() == 1 {
        picker.take_whole_cores();
    }
    if ask.bind == Bind::Spread {
        picker.take_spread();
    }
    picker.take_remainder();
    if picker.want > 0 {
        return Err(Shortage::Failed);
    }
    Ok(picker.taken.iter().map(|position| topology.cpus()[*position].id).collect())
}

/// One run of the algorithm. All vectors are indexed by position.
struct Picker<'a> {
    topology: &'a Topology,
    exclusive: Exclusive,
    strategy: Fill,
    want: usize,
    taken: Vec<Position>,
    free: Vec<bool>,
    free_in_core: Vec<usize>,
    free_in_node: Vec<usize>,
    free_in_socket: Vec<usize>,
    taken_in_socket: Vec<usize>,
    /// Cores or NUMA nodes, whichever the exclusive wish is about.
    marked: Vec<bool>,
}

/// What CPUs are grouped by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Node,
    Socket,
}

impl<'a> Picker<'a> {
    fn new(topology: &'a Topology, available: &CpuSet, marked: &CpuSet, ask: &Ask) -> Self {
        let marks = match ask.exclusive {
            Exclusive::None => 0,
            Exclusive::Core => topology.cores().len(),
            Exclusive::Node => topology.nodes().len(),
        };
        let mut picker = Self {
            topology,
            exclusive: ask.exclusive,
            strategy: ask.strategy,
            want: ask.count,
            taken: Vec::with_capacity(ask.count),
            free: vec![false; topology.cpus().len()],
            free_in_core: vec![0; topology.cores().len()],
            free_in_node: vec![0; topology.nodes().len()],
            free_in_socket: vec![0; topology.sockets()],
            taken_in_socket: vec![0; topology.sockets()],
            marked: vec![false; marks],
        };
        for (position, cpu) in topology.cpus().iter().enumerate() {
            if available.contains(cpu.id) {
                picker.free[position] = true;
                picker.free_in_core[cpu.core] += 1;
                picker.free_in_node[cpu.node] += 1;
                picker.free_in_socket[cpu.socket] += 1;
            }
            if marked.contains(cpu.id) {
                picker.mark(position);
            }
        }
        picker
    }

    fn mark(&mut self, position: Position) {
        let cpu = self.topology.cpus()[position];
        match self.exclusive {
            Exclusive::None => {}
            Exclusive::Core => self.marked[cpu.core] = true,
            Exclusive::Node => self.marked[cpu.node] = true,
        }
    }

    fn is_marked(&self, position: Position) -> bool {
        let cpu = self.topology.cpus()[position];
        match self.exclusive {
            Exclusive::None => false,
            Exclusive::Core => self.marked[cpu.core],
            Exclusive::Node => self.marked[cpu.node],
        }
    }

    fn use_up(&mut self, position: Position) {
        let cpu = self.topology.cpus()[position];
        self.free[position] = false;
        self.free_in_core[cpu.core] -= 1;
        self.free_in_node[cpu.node] -= 1;
        self.free_in_socket[cpu.socket] -= 1;
    }

    fn take(&mut self, position: Position) {
        self.use_up(position);
        self.taken_in_socket[self.topology.cpus()[position].socket] += 1;
        self.mark(position);
        self.taken.push(position);
        self.want -= 1;
    }

    /// Takes the first CPUs of a list, as many as are wanted.
    fn take_first(&mut self, list: &[Position]) {
        for position in list.iter().take(self.want) {
            self.take(*position);
        }
    }

    fn is_whole(&self, core: Position) -> bool {
        self.free_in_core[core] == self.topology.cores()[core].len()
    }

    /// Hides what a required policy can never use.
    fn keep_usable(&mut self, bind: Bind) {
        let topology = self.topology;
        for (core, threads) in topology.cores().iter().enumerate() {
            let kept = match bind {
                Bind::Full => usize::from(self.is_whole(core)) * threads.len(),
                Bind::Spread => 1,
            };
            let free: Vec<_> = threads.iter().filter(|cpu| self.free[**cpu]).copied().collect();
            for position in free.into_iter().skip(kept) {
                self.use_up(position);
            }
        }
    }

    fn domain(&self, level: Level, position: Position) -> Position {
        let cpu = self.topology.cpus()[position];
        match level {
            Level::Node => cpu.node,
            Level::Socket => cpu.socket,
        }
    }

    fn domains(&self, level: Level) -> usize {
        match level {
            Level::Node => self.topology.nodes().len(),
            Level::Socket => self.topology.sockets(),
        }
    }

    /// Plan A: whole cores, as close together as possible.
    fn take_whole_cores(&mut self) {
        if self.want <= self.topology.cpus_per_node() && self.take_cores_of_one(Level::Node) {
            return;
        }
        if self.want <= self.topology.cpus_per_socket() && self.take_cores_of_one(Level::Socket) {
            return;
        }
        let mut sockets = self.whole_cores(Level::Socket, false);
        sockets.sort_by_key(|list| Reverse(list.len()));
        let mut left = Vec::new();
        for list in sockets {
            if list.len() <= self.want {
                self.take_first(&list);
            } else {
                left.push(list);
            }
        }
        left.sort_by_key(Vec::len);
        self.take_core_by_core(&left);
    }

    fn take_cores_of_one(&mut self, level: Level) -> bool {
        let tries: &[bool] = if level == Level::Node { &[true, false] } else { &[false] };
        for is_exclusive in tries {
            let lists = self.whole_cores(level, *is_exclusive);
            let order = |domain: Position| match level {
                Level::Node => (self.strategy.rank(lists[domain].len()), self.socket_rank(domain)),
                Level::Socket => (self.strategy.rank(lists[domain].len()), (0, Reverse(0))),
            };
            let best = (0..lists.len())
                .filter(|domain| lists[*domain].len() >= self.want)
                .min_by_key(|domain| order(*domain));
            if let Some(best) = best {
                self.take_first(&lists[best]);
                return true;
            }
        }
        false
    }

    fn socket_rank(&self, node: Position) -> (usize, Reverse<usize>) {
        self.strategy.rank(self.free_in_socket[self.topology.nodes()[node].socket])
    }

    /// The CPUs of complete cores of each domain, core by core.
    fn whole_cores(&self, level: Level, is_exclusive: bool) -> Vec<Vec<Position>> {
        let mut lists = vec![Vec::new(); self.domains(level)];
        for (core, threads) in self.topology.cores().iter().enumerate() {
            if !self.is_whole(core) {
                continue;
            }
            for position in threads {
                let is_passed_over =
                    is_exclusive && self.exclusive == Exclusive::Node && self.is_marked(*position);
                if !is_passed_over {
                    lists[self.domain(level, *position)].push(*position);
                }
            }
        }
        lists
    }

    /// Stops at the first core that is more than what is still wanted.
    fn take_core_by_core(&mut self, sockets: &[Vec<Position>]) {
        let topology = self.topology;
        let core_of = |position: &Position| topology.cpus()[*position].core;
        for threads in
            sockets.iter().flat_map(|list| list.chunk_by(|a, b| core_of(a) == core_of(b)))
        {
            if self.want < topology.cpus_per_core() || self.want < threads.len() {
                return;
            }
            self.take_first(threads);
        }
    }

    /// Plan B: one thread of many cores, inside one NUMA node or one socket.
    fn take_spread(&mut self) {
        if self.want > 0 && self.want <= self.topology.cpus_per_node() {
            self.spread_over_one(Level::Node);
        }
        if self.want > 0 && self.want <= self.topology.cpus_per_socket() {
            self.spread_over_one(Level::Socket);
        }
    }

    fn spread_over_one(&mut self, level: Level) {
        for is_thin in [true, false] {
            let mut lists = self.free_cpus(level, is_thin);
            let order = |domain: Position| match level {
                Level::Node => {
                    (self.strategy.rank(self.free_in_node[domain]), self.socket_rank(domain))
                }
                Level::Socket => (self.strategy.rank(lists[domain].len()), (0, Reverse(0))),
            };
            let best = (0..lists.len())
                .filter(|domain| lists[*domain].len() >= self.want)
                .min_by_key(|domain| order(*domain));
            if let Some(best) = best {
                let mut list = std::mem::take(&mut lists[best]);
                self.deal(&mut list);
                self.take_first(&list);
                return;
            }
        }
    }

    /// Free CPUs of each domain, ascending. Thin: one thread of each core, and nothing of a place
    /// that others would rather not share.
    fn free_cpus(&self, level: Level, is_thin: bool) -> Vec<Vec<Position>> {
        let mut lists = vec![Vec::new(); self.domains(level)];
        let mut is_seen = vec![false; self.topology.cores().len()];
        for (position, cpu) in self.topology.cpus().iter().enumerate() {
            if !self.free[position] {
                continue;
            }
            let counts_here = level == Level::Node || self.exclusive == Exclusive::Core;
            let is_passed_over = is_seen[cpu.core] || (counts_here && self.is_marked(position));
            if is_thin && is_passed_over {
                continue;
            }
            is_seen[cpu.core] = true;
            lists[self.domain(level, position)].push(position);
        }
        lists
    }

    /// Reorders a list as cards are dealt: the first thread of every core, then the second ones.
    fn deal(&self, list: &mut Vec<Position>) {
        let mut dealt = vec![0_usize; self.topology.cores().len()];
        let mut rounds: Vec<(usize, Position)> = Vec::with_capacity(list.len());
        for position in list.iter() {
            let round = &mut dealt[self.topology.cpus()[*position].core];
            rounds.push((*round, *position));
            *round += 1;
        }
        rounds.sort_by_key(|(round, _)| *round);
        list.clear();
        list.extend(rounds.into_iter().map(|(_, position)| position));
    }

    /// Plan C: single CPUs, near those already taken.
    fn take_remainder(&mut self) {
        for is_exclusive in [true, false] {
            if self.want == 0 {
                return;
            }
            let list = self.near_cpus(is_exclusive);
            self.take_first(&list);
        }
    }

    fn near_cpus(&self, is_exclusive: bool) -> Vec<Position> {
        let topology = self.topology;
        let mut cores: Vec<(Position, Vec<Position>)> = Vec::new();
        for (core, threads) in topology.cores().iter().enumerate() {
            let is_open = |position: &&Position| {
                self.free[**position] && !(is_exclusive && self.is_marked(**position))
            };
            let free: Vec<_> = threads.iter().filter(is_open).copied().collect();
            if !free.is_empty() {
                cores.push((core, free));
            }
        }
        cores.sort_by_key(|(core, free)| {
            let cpu = topology.cpus()[free[0]];
            (
                Reverse(self.taken_in_socket[cpu.socket]),
                self.strategy.rank(self.free_in_socket[cpu.socket]),
                self.strategy.rank(self.free_in_node[cpu.node]),
                free.len(),
                cpu.socket,
                *core,
            )
        });
        let mut list: Vec<_> = cores.into_iter().flat_map(|(_, free)| free).collect();
        self.deal(&mut list);
        list
    }
}

#[cfg(test)]
mod tests;
