//! Which CPUs does a packed allocation take?
//!
//! The kubelet reserves CPUs for itself by this rule, and so must whoever wants to know which:
//! whole sockets while they fit, then whole NUMA nodes, then whole cores, then single threads.
//! Where there is a choice, the socket, NUMA node or core with the fewest free CPUs goes first,
//! and of equals the one with the lowest id.

use std::collections::BTreeMap;

use units::{Cpu, CpuLayout, CpuSet};

/// Fewer CPUs are free than were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} CPUs wanted, {free} free")]
pub struct TooFew {
    pub wanted: usize,
    pub free: usize,
}

/// Takes `wanted` of the `free` CPUs among `cpus`.
pub fn take(cpus: &CpuLayout, free: &CpuSet, wanted: usize) -> Result<CpuSet, TooFew> {
    let mut left = Free {
        cpus,
        free: cpus.iter().map(|cpu| cpu.id).filter(|id| free.contains(*id)).collect(),
    };
    let count = left.free.len();
    if wanted > count {
        return Err(TooFew { wanted, free: count });
    }
    let mut missing = wanted;
    let mut taken = CpuSet::new();
    let levels: [fn(&Cpu) -> Unit; 3] = [
        |cpu| (cpu.socket, 0, 0),
        |cpu| (cpu.socket, cpu.numa, 0),
        |cpu| (cpu.socket, cpu.numa, cpu.core),
    ];
    for level in levels {
        for unit in left.whole(level) {
            if unit.len() <= missing {
                missing -= unit.len();
                left.free = left.free.difference(&unit);
                taken = taken.union(&unit);
            }
        }
    }
    for cpu in left.threads().into_iter().take(missing) {
        taken.insert(cpu);
    }
    Ok(taken)
}

/// Socket, NUMA node and core; the parts below a level are zero.
type Unit = (u16, u16, u16);

struct Free<'c> {
    cpus: &'c CpuLayout,
    free: CpuSet,
}

impl Free<'_> {
    /// Units of a level all of whose CPUs are free, in the order in which they are taken.
    fn whole(&self, unit_of: fn(&Cpu) -> Unit) -> Vec<CpuSet> {
        let mut units: BTreeMap<(Rank, Unit), CpuSet> = BTreeMap::new();
        for cpu in self.cpus.iter() {
            let unit = unit_of(cpu);
            units.entry((self.rank(cpu), unit)).or_default().insert(cpu.id);
        }
        // CPUs of one unit may rank differently only below the unit's level; merge them.
        let mut merged: Vec<(Unit, CpuSet)> = Vec::new();
        for ((_, unit), cpus) in units {
            match merged.iter_mut().find(|(known, _)| *known == unit) {
                Some((_, known)) => *known = known.union(&cpus),
                None => merged.push((unit, cpus)),
            }
        }
        let free =
            merged.into_iter().map(|(_, cpus)| cpus).filter(|cpus| cpus.is_subset(&self.free));
        free.collect()
    }

    /// Free CPUs in the order in which they are taken.
    fn threads(&self) -> Vec<u16> {
        let mut free: Vec<(Rank, u16)> = self
            .cpus
            .iter()
            .filter(|cpu| self.free.contains(cpu.id))
            .map(|cpu| (self.rank(cpu), cpu.id))
            .collect();
        free.sort_unstable();
        free.into_iter().map(|(_, id)| id).collect()
    }

    /// How soon a CPU's socket, NUMA node and core are visited: fewest free first, then by id.
    fn rank(&self, cpu: &Cpu) -> Rank {
        let count = |is_in: &dyn Fn(&Cpu) -> bool| {
            self.cpus.iter().filter(|other| is_in(other) && self.free.contains(other.id)).count()
        };
        let socket = count(&|other| other.socket == cpu.socket);
        let node = count(&|other| (other.socket, other.numa) == (cpu.socket, cpu.numa));
        let core = count(&|other| {
            (other.socket, other.numa, other.core) == (cpu.socket, cpu.numa, cpu.core)
        });
        [(socket, cpu.socket), (node, cpu.numa), (core, cpu.core)]
    }
}

type Rank = [(usize, u16); 3];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Two sockets of two NUMA nodes of two cores of two threads: siblings are 8 apart.
    fn machine() -> CpuLayout {
        (0..16)
            .map(|id: u16| {
                let core = id % 8;
                Cpu { id, core, socket: core / 4, numa: core / 2 }
            })
            .collect()
    }

    fn cpus(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    #[test]
    fn whole_units_go_first() {
        let cases = [
            ("nothing", "0-15", 0, ""),
            ("a thread", "0-15", 1, "0"),
            ("a core", "0-15", 2, "0,8"),
            ("a core and a thread", "0-15", 3, "0-1,8"),
            ("a NUMA node", "0-15", 4, "0-1,8-9"),
            ("a socket", "0-15", 8, "0-3,8-11"),
            ("a socket and a core", "0-15", 10, "0-4,8-12"),
            ("all", "0-15", 16, "0-15"),
            ("the emptier socket is finished first", "1-15", 2, "1,9"),
            ("single threads come from broken cores", "1-15", 1, "8"),
            ("a broken socket is no socket", "1-15", 8, "4-7,12-15"),
        ];
        for (name, free, wanted, want) in cases {
            let taken = take(&machine(), &cpus(free), wanted).unwrap();
            assert_eq!(taken.to_string(), want, "{name}");
        }
    }

    #[test]
    fn more_than_there_is_cannot_be_taken() {
        assert_eq!(take(&machine(), &cpus("0-3"), 5), Err(TooFew { wanted: 5, free: 4 }));
        assert_eq!(take(&machine(), &cpus("0-3,99"), 5), Err(TooFew { wanted: 5, free: 4 }));
        assert_eq!(
            take(&CpuLayout::default(), &cpus("0-3"), 1),
            Err(TooFew { wanted: 1, free: 0 })
        );
    }

    proptest! {
        /// As many as asked for, all of them free, and whole cores unless a thread is left over.
        #[test]
        fn what_is_taken_was_free(mask in any::<u16>(), wanted in 0usize..=16) {
            let free: CpuSet = (0..16).filter(|bit| mask & (1 << bit) != 0).collect();
            match take(&machine(), &free, wanted) {
                Ok(taken) => {
                    prop_assert_eq!(taken.len(), wanted);
                    prop_assert!(taken.is_subset(&free));
                }
                Err(few) => prop_assert!(few.free < wanted),
            }
        }
    }
}
