//! Which kernel limits does a best-effort pod get for its batch resources?
//!
//! The kubelet sees no native requests on such a pod and gives it nothing: the smallest share, no quota,
//! no memory limit. So its batch resources are turned into what the kubelet would have written for native
//! ones. A pod is the sum of its containers; one that leaves a resource unlimited makes the pod unlimited.

use units::{Bytes, Micros, MilliCpu, Ratio};

/// The fewest and the most shares a group can have.
const SHARES: std::ops::RangeInclusive<i64> = 2..=262_144;

/// A quota below this is refused by the kernel.
const LEAST_QUOTA: Micros = Micros(1_000);

/// What one container asks for. A limit that is not positive is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Container {
    pub cpu_request: Option<MilliCpu>,
    pub cpu_limit: Option<MilliCpu>,
    pub memory_limit: Option<Bytes>,
}

/// What the node has to say about all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Node {
    /// What a core of this machine is worth, compared with the reference machine.
    pub normalization: Option<Ratio>,
    /// The tier as a whole has a quota; the kernel would refuse it while children have their own.
    pub is_quota_on_tier: bool,
}

/// What is written; `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub shares: i64,
    pub quota: Option<Micros>,
    pub memory: Option<Bytes>,
}

pub fn container_limits(container: &Container, node: Node) -> Limits {
    limits(
        container.cpu_request.unwrap_or_default(),
        positive(container.cpu_limit),
        positive(container.memory_limit),
        node,
    )
}

pub fn pod_limits(containers: &[Container], node: Node) -> Limits {
    limits(
        containers.iter().filter_map(|container| container.cpu_request).sum(),
        positive(containers.iter().map(|container| positive(container.cpu_limit)).sum()),
        positive(containers.iter().map(|container| positive(container.memory_limit)).sum()),
        node,
    )
}

fn limits(request: MilliCpu, cpu: Option<MilliCpu>, memory: Option<Bytes>, node: Node) -> Limits {
    let shares = request.0.max(0).saturating_mul(1_024) / 1_000;
    let quota = cpu.filter(|_| !node.is_quota_on_tier).map(|limit| {
        let quota = Micros(limit.0.saturating_mul(100));
        normalize(quota, node.normalization).max(LEAST_QUOTA)
    });
    Limits { shares: shares.clamp(*SHARES.start(), *SHARES.end()), quota, memory }
}

fn positive<T: Default + PartialOrd>(limit: Option<T>) -> Option<T> {
    limit.filter(|limit| *limit > T::default())
}

/// The quota that does the same work on this machine: a faster core needs less time, rounded up.
pub fn normalize(quota: Micros, ratio: Option<Ratio>) -> Micros {
    let Some(hundredths) = ratio.map(Ratio::hundredths).filter(|ratio| *ratio > 100) else {
        return quota;
    };
    let hundredths = i64::try_from(hundredths).unwrap_or(i64::MAX);
    let scaled = quota.0.saturating_mul(100);
    Micros(scaled / hundredths + i64::from(scaled % hundredths > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(request: i64, limit: i64, memory: i64) -> Container {
        Container {
            cpu_request: Some(MilliCpu(request)),
            cpu_limit: Some(MilliCpu(limit)),
            memory_limit: Some(Bytes(memory)),
        }
    }

    fn quiet() -> Node {
        Node::default()
    }

    #[test]
    fn containers_get_what_native_requests_would_give() {
        let fast = Node { normalization: Some(Ratio::from_hundredths(120)), ..quiet() };
        let slow = Node { normalization: Some(Ratio::from_hundredths(80)), ..quiet() };
        let tier = Node { is_quota_on_tier: true, ..quiet() };
        let cases = [
            (
                "one CPU",
                container(1_000, 1_000, 1 << 30),
                quiet(),
                (1_024, Some(100_000), Some(1 << 30)),
            ),
            ("nothing asked", Container::default(), quiet(), (2, None, None)),
            ("no limit", container(500, 0, -1), quiet(), (512, None, None)),
            ("less than the kernel takes", container(1, 1, 1), quiet(), (2, Some(1_000), Some(1))),
            (
                "more than the kernel takes",
                container(i64::MAX, 0, 0),
                quiet(),
                (262_144, None, None),
            ),
            ("a faster core", container(1_000, 1_000, 0), fast, (1_024, Some(83_334), None)),
            (
                "a slower core is not made up for",
                container(1_000, 1_000, 0),
                slow,
                (1_024, Some(100_000), None),
            ),
            ("scaled, and still accepted", container(10, 10, 0), fast, (10, Some(1_000), None)),
            ("the tier has a quota", container(1_000, 1_000, 0), tier, (1_024, None, None)),
        ];
        for (name, container, node, (shares, quota, memory)) in cases {
            let want = Limits { shares, quota: quota.map(Micros), memory: memory.map(Bytes) };
            assert_eq!(container_limits(&container, node), want, "{name}");
        }
    }

    #[test]
    fn a_pod_is_the_sum_of_its_containers() {
        let limited = container(1_000, 2_000, 1_024);
        let open = Container { cpu_request: Some(MilliCpu(500)), ..Container::default() };
        let cases = [
            ("all limited", vec![limited, limited], (2_048, Some(400_000), Some(2_048))),
            ("one is not", vec![limited, open], (1_536, None, None)),
            ("nobody", vec![], (2, None, None)),
        ];
        for (name, containers, (shares, quota, memory)) in cases {
            let want = Limits { shares, quota: quota.map(Micros), memory: memory.map(Bytes) };
            assert_eq!(pod_limits(&containers, quiet()), want, "{name}");
        }
    }
}
