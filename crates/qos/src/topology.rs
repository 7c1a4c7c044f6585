//! Which CPUs belong together, and which should best-effort get?
//!
//! Best-effort work is spread over NUMA nodes and sockets, so that no memory bus carries it alone,
//! and gets both threads of a core where it can: a half-lent core slows down the online thread on
//! its other half. CPUs that best-effort has already are kept where the number allows, because moving
//! a task costs it its caches.

use std::collections::BTreeMap;

use units::CpuSet;

/// A logical CPU and where it sits. Core ids are unique on the whole machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cpu {
    pub numa: u16,
    pub socket: u16,
    pub core: u16,
    pub id: u16,
}

/// All online CPUs of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// Sorted by place, then id.
    cpus: Vec<Cpu>,
}

impl FromIterator<Cpu> for Topology {
    fn from_iter<I: IntoIterator<Item = Cpu>>(cpus: I) -> Self {
        let mut cpus: Vec<_> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup_by_key(|cpu| cpu.id);
        Self { cpus }
    }
}

impl Topology {
    pub fn online(&self) -> CpuSet {
        self.cpus.iter().map(|cpu| cpu.id).collect()
    }

    pub fn len(&self) -> usize {
        self.cpus.len()
    }

    pub fn is_empty(&self) -> bool {
        self.cpus.is_empty()
    }

    /// Chooses `count` of `from`, or all of it when there are fewer; `kept` are preferred.
    pub fn pick(&self, count: usize, from: &CpuSet, kept: &CpuSet) -> CpuSet {
        let mut picking = Picking::new(self, from, count);
        for preferred in [Some(kept), None] {
            picking.whole_cores(preferred);
        }
        for preferred in [Some(kept), None] {
            picking.single_cpus(preferred);
        }
        picking.picked
    }
}

/// The cores of one place, each with the candidates on it in ascending order.
type Place = Vec<Vec<u16>>;

struct Picking {
    places: Vec<Place>,
    /// Whose turn it is.
    turn: usize,
    needed: usize,
    picked: CpuSet,
}

impl Picking {
    fn new(topology: &Topology, from: &CpuSet, count: usize) -> Self {
        let mut places: BTreeMap<(u16, u16), BTreeMap<u16, Vec<u16>>> = BTreeMap::new();
        for cpu in topology.cpus.iter().filter(|cpu| from.contains(cpu.id)) {
            let cores = places.entry((cpu.numa, cpu.socket)).or_default();
            cores.entry(cpu.core).or_default().push(cpu.id);
        }
        let mut places: Vec<Place> =
            places.into_values().map(|cores| cores.into_values().collect()).collect();
        let size = |place: &Place| place.iter().map(Vec::len).sum::<usize>();
        let first = |place: &Place| place.iter().flatten().min().copied();
        places.sort_by_key(|place| (std::cmp::Reverse(size(place)), first(place)));
        Self { places, turn: 0, needed: count, picked: CpuSet::new() }
    }

    /// Takes cores with all their candidate threads while two or more CPUs are needed.
    fn whole_cores(&mut self, preferred: Option<&CpuSet>) {
        self.in_turns(2, |place, picked, needed| {
            let core = place.iter().find(|core| {
                (2..=needed).contains(&core.len())
                    && core.iter().all(|cpu| {
                        !picked.contains(*cpu) && preferred.is_none_or(|kept| kept.contains(*cpu))
                    })
            })?;
            Some(core.clone())
        });
    }

    fn single_cpus(&mut self, preferred: Option<&CpuSet>) {
        self.in_turns(1, |place, picked, _| {
            let free = place.iter().flatten().find(|cpu| {
                !picked.contains(**cpu) && preferred.is_none_or(|kept| kept.contains(**cpu))
            })?;
            Some(vec![*free])
        });
    }

    /// Lets the places take turns until nothing is needed or nobody has anything to give.
    fn in_turns(
        &mut self,
        least: usize,
        give: impl Fn(&Place, &CpuSet, usize) -> Option<Vec<u16>>,
    ) {
        let mut fruitless = 0;
        while self.needed >= least && fruitless < self.places.len() {
            let given = self
                .places
                .get(self.turn)
                .and_then(|place| give(place, &self.picked, self.needed))
                .unwrap_or_default();
            fruitless = if given.is_empty() { fruitless + 1 } else { 0 };
            self.needed = self.needed.saturating_sub(given.len());
            self.picked.extend(given);
            self.turn = (self.turn + 1) % self.places.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Two sockets, one NUMA node each, four cores a socket, two threads a core: the siblings
    /// of CPU n are n and n + 8.
    fn machine() -> Topology {
        (0..16).map(|id| Cpu { numa: id % 8 / 4, socket: id % 8 / 4, core: id % 8, id }).collect()
    }

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    #[test]
    fn cores_stay_whole_and_sockets_take_turns() {
        let cases = [
            ("one core", 2, "0-15", "", "0,8"),
            ("a core of each socket", 4, "0-15", "", "0,4,8,12"),
            ("an odd one is the next socket's", 5, "0-15", "", "0-1,4,8,12"),
            ("one CPU", 1, "0-15", "", "0"),
            ("more than there is", 20, "0-3", "", "0-3"),
            ("nothing to choose from", 4, "", "", ""),
            ("no core is whole", 2, "0-7", "", "0,4"),
            ("the larger place goes first", 2, "1,4-5,12-13", "", "4,12"),
            ("what it has is kept", 4, "0-15", "3,7,11,15", "3,7,11,15"),
            ("and grows around that", 6, "0-15", "3,7,11,15", "0,3,7-8,11,15"),
            ("and shrinks within that", 2, "0-15", "3,7,11,15", "3,11"),
            ("a kept half core is finished last", 3, "0-15", "5", "0,5,8"),
        ];
        for (name, count, from, kept, want) in cases {
            let picked = machine().pick(count, &set(from), &set(kept));
            assert_eq!(picked, set(want), "{name}");
        }
    }

    fn cpus() -> impl Strategy<Value = CpuSet> {
        proptest::collection::vec(0..16u16, 0..16).prop_map(|cpus| cpus.into_iter().collect())
    }

    proptest! {
        #[test]
        fn a_pick_has_the_size_asked_for(count in 0..20usize, from in cpus(), kept in cpus()) {
            let picked = machine().pick(count, &from, &kept);
            prop_assert!(picked.is_subset(&from));
            prop_assert_eq!(picked.len(), count.min(from.len()));
        }

        #[test]
        fn picking_the_same_number_again_moves_nobody(count in 0..16usize, from in cpus()) {
            let picked = machine().pick(count, &from, &CpuSet::new());
            prop_assert_eq!(machine().pick(count, &from, &picked), picked);
        }
    }
}
