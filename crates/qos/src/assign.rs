//! On which CPUs does a container run?
//!
//! | class | runs on |
//! |---|---|
//! | any, bound by the scheduler | the CPUs it was given, without a quota |
//! | any, bound to NUMA nodes | the shared pools of these nodes |
//! | SYSTEM | the system's own CPUs if there are any, else the shared pools |
//! | LS | the shared pools |
//! | BE | what suppression grants; its own file is left alone here |
//!
//! Everything else follows the kubelet: with its static policy nothing is touched, otherwise the shared
//! pools apply. An empty set is never written, because the kernel would not have it and the tasks would
//! be stuck.

use std::collections::BTreeMap;

use units::CpuSet;

/// Who runs here, in the eyes of CPU placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Lse,
    Lsr,
    Ls,
    Be,
    System,
    /// Without a label.
    None,
}

/// What the scheduler said about the pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    /// CPUs of its own.
    pub cpus: CpuSet,
    /// NUMA nodes on which it has CPU.
    pub numa: Vec<u16>,
}

/// What the node offers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pools {
    /// By NUMA node, for everybody above best-effort.
    pub shared: BTreeMap<u16, CpuSet>,
    /// By NUMA node, for best-effort.
    pub best_effort: BTreeMap<u16, CpuSet>,
    pub system: Option<CpuSet>,
    /// The kubelet binds pods itself.
    pub is_kubelet_static: bool,
    /// Best-effort is placed by NUMA node instead of being suppressed.
    pub is_best_effort_placed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Assignment {
    /// CPUs of its own; a quota would only throttle it on them.
    Own(CpuSet),
    Shared(CpuSet),
    Untouched(Reason),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Suppression decides.
    BestEffort,
    /// The kubelet decides.
    Kubelet,
    /// The pool it should run in has no CPU; somebody should know.
    EmptyPool,
}

pub fn assign(class: Class, placement: &Placement, pools: &Pools) -> Assignment {
    if !placement.cpus.is_empty() {
        return Assignment::Own(placement.cpus.clone());
    }
    let is_placed = !placement.numa.is_empty();
    match class {
        Class::Be if is_placed && pools.is_best_effort_placed => {
            shared(join(&pools.best_effort, Some(&placement.numa)))
        }
        Class::Be => Assignment::Untouched(Reason::BestEffort),
        _ if is_placed => shared(join(&pools.shared, Some(&placement.numa))),
        Class::System if pools.system.is_some() => shared(pools.system.clone().unwrap_or_default()),
        Class::Ls => shared(join(&pools.shared, None)),
        _ if pools.is_kubelet_static => Assignment::Untouched(Reason::Kubelet),
        _ => shared(join(&pools.shared, None)),
    }
}

fn shared(cpus: CpuSet) -> Assignment {
    if cpus.is_empty() {
        Assignment::Untouched(Reason::EmptyPool)
    } else {
        Assignment::Shared(cpus)
    }
}

fn join(pools: &BTreeMap<u16, CpuSet>, only: Option<&[u16]>) -> CpuSet {
    pools
        .iter()
        .filter(|(numa, _)| only.is_none_or(|only| only.contains(numa)))
        .fold(CpuSet::new(), |joined, (_, pool)| joined.union(pool))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    fn pools() -> Pools {
        Pools {
            shared: BTreeMap::from([(0, set("4-7")), (1, set("8-15"))]),
            best_effort: BTreeMap::from([(0, set("2-7")), (1, set("8-15"))]),
            ..Pools::default()
        }
    }

    fn free() -> Placement {
        Placement::default()
    }

    fn on(numa: u16) -> Placement {
        Placement { numa: vec![numa], ..free() }
    }

    #[test]
    fn classes_run_where_they_belong() {
        let own = Placement { cpus: set("0-1"), numa: vec![1] };
        let fixed = Pools { is_kubelet_static: true, ..pools() };
        let system = Pools { system: Some(set("0")), ..pools() };
        let placed = Pools { is_best_effort_placed: true, ..pools() };
        let all = || Assignment::Shared(set("4-15"));
        let untouched = Assignment::Untouched;
        let cases = [
            ("bound", Class::Lse, &own, &pools(), Assignment::Own(set("0-1"))),
            ("bound, whatever the label", Class::None, &own, &fixed, Assignment::Own(set("0-1"))),
            ("LS", Class::Ls, &free(), &pools(), all()),
            ("LS under a static kubelet", Class::Ls, &free(), &fixed, all()),
            ("LS on a NUMA node", Class::Ls, &on(1), &pools(), Assignment::Shared(set("8-15"))),
            ("unlabelled", Class::None, &free(), &pools(), all()),
            ("unlabelled, static", Class::None, &free(), &fixed, untouched(Reason::Kubelet)),
            ("LSR without CPUs", Class::Lsr, &free(), &pools(), all()),
            ("best-effort", Class::Be, &free(), &pools(), untouched(Reason::BestEffort)),
            ("best-effort on a node", Class::Be, &on(0), &pools(), untouched(Reason::BestEffort)),
            ("best-effort placed", Class::Be, &on(0), &placed, Assignment::Shared(set("2-7"))),
            ("system", Class::System, &free(), &pools(), all()),
            ("system with CPUs", Class::System, &free(), &system, Assignment::Shared(set("0"))),
            ("no such NUMA node", Class::Ls, &on(7), &pools(), untouched(Reason::EmptyPool)),
            ("no pool", Class::Ls, &free(), &Pools::default(), untouched(Reason::EmptyPool)),
        ];
        for (name, class, placement, pools, want) in cases {
            assert_eq!(assign(class, placement, pools), want, "{name}");
        }
    }
}
