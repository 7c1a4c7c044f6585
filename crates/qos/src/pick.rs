//! Which CPUs should best-effort get?
//!
//! Best-effort work is spread over NUMA nodes and sockets, so that no memory bus carries it alone,
//! and gets both threads of a core where it can: a half-lent core slows down the online thread on
//! its other half. CPUs that best-effort has already are kept where the number allows, because moving
//! a task costs it its caches.

use std::collections::BTreeMap;

use units::{CpuLayout, CpuSet};

/// Chooses `count` of `from`, or all of it when there are fewer; `kept` are preferred.
pub fn pick(layout: &CpuLayout, count: usize, from: &CpuSet, kept: &CpuSet) -> CpuSet {
    let mut picking = Picking::new(layout, from, count);
    for preferred in [Some(kept), None] {
        picking.whole_cores(preferred);
    }
    for preferred in [Some(kept), None] {
        picking.single_cpus(preferred);
    }
    picking.picked
}

/// The cores of one NUMA node and socket, each with the candidates on it in ascending order.
type Domain = Vec<Vec<u16>>;

struct Picking {
    domains: Vec<Domain>,
    /// Whose turn it is.
    turn: usize,
    needed: usize,
    picked: CpuSet,
}

impl Picking {
    fn new(layout: &CpuLayout, from: &CpuSet, count: usize) -> Self {
        let mut domains: BTreeMap<(u16, u16), BTreeMap<u16, Vec<u16>>> = BTreeMap::new();
        for cpu in layout.iter().filter(|cpu| from.contains(cpu.id)) {
            let cores = domains.entry((cpu.numa, cpu.socket)).or_default();
            cores.entry(cpu.core).or_default().push(cpu.id);
        }
        let mut domains: Vec<Domain> =
            domains.into_values().map(|cores| cores.into_values().collect()).collect();
        let size = |domain: &Domain| domain.iter().map(Vec::len).sum::<usize>();
        let first = |domain: &Domain| domain.iter().flatten().min().copied();
        domains.sort_by_key(|domain| (std::cmp::Reverse(size(domain)), first(domain)));
        Self { domains, turn: 0, needed: count, picked: CpuSet::new() }
    }

    /// Takes cores with all their candidate threads while two or more CPUs are needed.
    fn whole_cores(&mut self, preferred: Option<&CpuSet>) {
        self.in_turns(2, |domain, picked, needed| {
            let core = domain.iter().find(|core| {
                (2..=needed).contains(&core.len())
                    && core.iter().all(|cpu| {
                        !picked.contains(*cpu) && preferred.is_none_or(|kept| kept.contains(*cpu))
                    })
            })?;
            Some(core.clone())
        });
    }

    fn single_cpus(&mut self, preferred: Option<&CpuSet>) {
        self.in_turns(1, |domain, picked, _| {
            let free = domain.iter().flatten().find(|cpu| {
                !picked.contains(**cpu) && preferred.is_none_or(|kept| kept.contains(**cpu))
            })?;
            Some(vec![*free])
        });
    }

    /// Lets the domains take turns until nothing is needed or nobody has anything to give.
    fn in_turns(
        &mut self,
        least: usize,
        give: impl Fn(&Domain, &CpuSet, usize) -> Option<Vec<u16>>,
    ) {
        let mut fruitless = 0;
        while self.needed >= least && fruitless < self.domains.len() {
            let given = self
                .domains
                .get(self.turn)
                .and_then(|domain| give(domain, &self.picked, self.needed))
                .unwrap_or_default();
            fruitless = if given.is_empty() { fruitless + 1 } else { 0 };
            self.needed = self.needed.saturating_sub(given.len());
            self.picked.extend(given);
            self.turn = (self.turn + 1) % self.domains.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use units::Cpu;

    use super::*;

    /// Two sockets, one NUMA node each, four cores a socket, two threads a core: the siblings
    /// of CPU n are n and n + 8.
    fn machine() -> CpuLayout {
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
            ("the larger domain goes first", 2, "1,4-5,12-13", "", "4,12"),
            ("what it has is kept", 4, "0-15", "3,7,11,15", "3,7,11,15"),
            ("and grows around that", 6, "0-15", "3,7,11,15", "0,3,7-8,11,15"),
            ("and shrinks within that", 2, "0-15", "3,7,11,15", "3,11"),
            ("a kept half core is finished last", 3, "0-15", "5", "0,5,8"),
        ];
        for (name, count, from, kept, want) in cases {
            let picked = pick(&machine(), count, &set(from), &set(kept));
            assert_eq!(picked, set(want), "{name}");
        }
    }

    fn cpus() -> impl Strategy<Value = CpuSet> {
        proptest::collection::vec(0..16u16, 0..16).prop_map(|cpus| cpus.into_iter().collect())
    }

    proptest! {
        #[test]
        fn a_pick_has_the_size_asked_for(count in 0..20usize, from in cpus(), kept in cpus()) {
            let picked = pick(&machine(), count, &from, &kept);
            prop_assert!(picked.is_subset(&from));
            prop_assert_eq!(picked.len(), count.min(from.len()));
        }

        #[test]
        fn picking_the_same_number_again_moves_nobody(count in 0..16usize, from in cpus()) {
            let picked = pick(&machine(), count, &from, &CpuSet::new());
            prop_assert_eq!(pick(&machine(), count, &from, &picked), picked);
        }
    }
}
