//! Where does each logical CPU of a machine sit?
//!
//! The one description of a machine's CPUs that readers, engines and the wire share. Whoever needs an index
//! (by core, by NUMA node, by dense position) builds it from here.

use serde::{Deserialize, Serialize};

use crate::CpuSet;

/// A logical CPU, by the numbers that `lscpu` prints: the number of a core is unique on the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cpu {
    pub numa: u16,
    pub socket: u16,
    pub core: u16,
    pub id: u16,
}

/// The online CPUs of a machine, each once, in order of NUMA node, socket, core and number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Cpu>")]
pub struct CpuLayout(Vec<Cpu>);

impl FromIterator<Cpu> for CpuLayout {
    /// Of two CPUs with one number the first counts.
    fn from_iter<I: IntoIterator<Item = Cpu>>(cpus: I) -> Self {
        let mut cpus: Vec<Cpu> = cpus.into_iter().collect();
        cpus.sort_by_key(|cpu| cpu.id);
        cpus.dedup_by_key(|cpu| cpu.id);
        cpus.sort_unstable();
        Self(cpus)
    }
}

impl From<Vec<Cpu>> for CpuLayout {
    fn from(cpus: Vec<Cpu>) -> Self {
        cpus.into_iter().collect()
    }
}

impl CpuLayout {
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Cpu> + Clone {
        self.0.iter()
    }

    /// The CPUs in order of their numbers.
    pub fn by_id(&self) -> Vec<Cpu> {
        let mut cpus = self.0.clone();
        cpus.sort_unstable_by_key(|cpu| cpu.id);
        cpus
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, id: u16) -> Option<&Cpu> {
        self.0.iter().find(|cpu| cpu.id == id)
    }

    pub fn online(&self) -> CpuSet {
        self.0.iter().map(|cpu| cpu.id).collect()
    }

    /// The CPUs of the same core, with this one.
    pub fn siblings(&self, id: u16) -> CpuSet {
        let Some(core) = self.get(id).map(|cpu| cpu.core) else { return CpuSet::new() };
        self.0.iter().filter(|cpu| cpu.core == core).map(|cpu| cpu.id).collect()
    }

    pub fn core_count(&self) -> usize {
        self.count(|cpu| cpu.core)
    }

    pub fn socket_count(&self) -> usize {
        self.count(|cpu| cpu.socket)
    }

    fn count(&self, number: impl Fn(&Cpu) -> u16) -> usize {
        self.0.iter().map(number).collect::<CpuSet>().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sockets of two cores of two threads: siblings are 4 apart.
    fn machine() -> CpuLayout {
        let cpu = |id: u16| Cpu { numa: id % 4 / 2, socket: id % 4 / 2, core: id % 4, id };
        (0..8).rev().map(cpu).collect()
    }

    #[test]
    fn cpus_are_ordered_by_where_they_sit() {
        let ids = |cpus: &[Cpu]| cpus.iter().map(|cpu| cpu.id).collect::<Vec<_>>();
        let layout = machine();
        assert_eq!(ids(&layout.0), [0, 4, 1, 5, 2, 6, 3, 7]);
        assert_eq!(ids(&layout.by_id()), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!((layout.len(), layout.core_count(), layout.socket_count()), (8, 4, 2));
        assert_eq!(layout.siblings(6).to_string(), "2,6");
        assert_eq!(layout.siblings(9), CpuSet::new());
        assert_eq!(layout.online().to_string(), "0-7");
    }

    #[test]
    fn what_was_saved_comes_back_in_order_and_each_cpu_once() {
        let text = serde_json::to_string(&machine()).unwrap();
        assert_eq!(serde_json::from_str::<CpuLayout>(&text).unwrap(), machine());
        let twice = r#"[{"numa":1,"socket":0,"core":1,"id":1},{"numa":0,"socket":0,"core":0,"id":0},
            {"numa":0,"socket":0,"core":0,"id":1}]"#;
        let layout: CpuLayout = serde_json::from_str(twice).unwrap();
        let places: Vec<_> = layout.iter().map(|cpu| (cpu.numa, cpu.id)).collect();
        assert_eq!(places, [(0, 0), (1, 1)]);
    }
}
