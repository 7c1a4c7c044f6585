//! What is written into a control group, file by file?

use units::{Bytes, MilliCpu};

use super::amount::{PERIOD, quota, shares, weight};
use crate::node::resource::Amounts;

/// Which of the two kernel interfaces a hierarchy has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V1,
    V2,
}

/// What a group gets. `None` leaves the kernel's default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    shares: Option<u64>,
    quota: Option<u64>,
    memory: Option<Bytes>,
    /// Containers neither swap nor survive the death of a part of them.
    is_container: bool,
    pids: Option<u64>,
}

/// One write: the controller's file and its new content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) controller: &'static str,
    pub(crate) file: &'static str,
    pub(crate) value: String,
    /// A kernel without the file is not a failure.
    pub(crate) is_optional: bool,
}

impl Settings {
    /// A group that only has a weight.
    pub(crate) fn weighing(request: MilliCpu) -> Self {
        Self { shares: Some(shares(request)), ..Self::default() }
    }

    /// The group of all pods: the node's allocatable.
    pub(crate) fn of_node(cpu: MilliCpu, memory: Bytes) -> Self {
        Self { memory: Some(memory), ..Self::weighing(cpu) }
    }

    pub(crate) fn of_pod(amounts: &Amounts, pids: Option<u64>) -> Self {
        Self {
            shares: Some(shares(amounts.cpu_request)),
            quota: amounts.cpu_limit.and_then(quota),
            memory: amounts.memory_limit,
            is_container: false,
            pids,
        }
    }

    pub(crate) fn of_container(amounts: &Amounts) -> Self {
        Self { is_container: true, ..Self::of_pod(amounts, None) }
    }

    /// The writes, in the order the kernel accepts them.
    pub(crate) fn writes(&self, version: Version) -> Vec<Setting> {
        match version {
            Version::V1 => self.writes_v1(),
            Version::V2 => self.writes_v2(),
        }
    }

    fn writes_v1(&self) -> Vec<Setting> {
        let mut writes = Vec::new();
        if let Some(shares) = self.shares {
            writes.push(required("cpu", "cpu.shares", shares));
        }
        if let Some(quota) = self.quota {
            writes.push(required("cpu", "cpu.cfs_period_us", PERIOD));
            writes.push(required("cpu", "cpu.cfs_quota_us", quota));
        }
        if let Some(memory) = self.memory {
            writes.push(required("memory", "memory.limit_in_bytes", memory.0));
            if self.is_container {
                // Memory and swap together may not exceed the limit: no swap. The file is absent
                // when the kernel does not account for swap.
                writes.push(optional("memory", "memory.memsw.limit_in_bytes", memory.0));
            }
        }
        if let Some(pids) = self.pids {
            writes.push(required("pids", "pids.max", pids));
        }
        writes
    }

    fn writes_v2(&self) -> Vec<Setting> {
        let mut writes = Vec::new();
        if let Some(shares) = self.shares {
            writes.push(required("cpu", "cpu.weight", weight(shares)));
        }
        if let Some(quota) = self.quota {
            writes.push(required("cpu", "cpu.max", format!("{quota} {PERIOD}")));
        }
        if let Some(memory) = self.memory {
            writes.push(required("memory", "memory.max", memory.0));
        }
        if self.is_container {
            writes.push(optional("memory", "memory.swap.max", 0));
            writes.push(optional("memory", "memory.oom.group", 1));
        }
        if let Some(pids) = self.pids {
            writes.push(required("pids", "pids.max", pids));
        }
        writes
    }
}

fn required(controller: &'static str, file: &'static str, value: impl ToString) -> Setting {
    Setting { controller, file, value: value.to_string(), is_optional: false }
}

fn optional(controller: &'static str, file: &'static str, value: impl ToString) -> Setting {
    Setting { is_optional: true, ..required(controller, file, value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(settings: &Settings, version: Version) -> Vec<String> {
        let writes = settings.writes(version);
        writes.iter().map(|write| format!("{}={}", write.file, write.value)).collect()
    }

    #[test]
    fn the_same_pod_on_both_versions() {
        let amounts = Amounts {
            cpu_request: MilliCpu(500),
            cpu_limit: Some(MilliCpu(1_500)),
            memory_request: Bytes(1 << 20),
            memory_limit: Some(Bytes(64 << 20)),
        };
        let pod = Settings::of_pod(&amounts, Some(100));
        assert_eq!(
            text(&pod, Version::V1),
            [
                "cpu.shares=512",
                "cpu.cfs_period_us=100000",
                "cpu.cfs_quota_us=150000",
                "memory.limit_in_bytes=67108864",
                "pids.max=100",
            ]
        );
        assert_eq!(
            text(&pod, Version::V2),
            ["cpu.weight=59", "cpu.max=150000 100000", "memory.max=67108864", "pids.max=100"]
        );
        let container = Settings::of_container(&amounts);
        assert_eq!(
            text(&container, Version::V1),
            [
                "cpu.shares=512",
                "cpu.cfs_period_us=100000",
                "cpu.cfs_quota_us=150000",
                "memory.limit_in_bytes=67108864",
                "memory.memsw.limit_in_bytes=67108864",
            ]
        );
        assert_eq!(
            text(&container, Version::V2),
            [
                "cpu.weight=59",
                "cpu.max=150000 100000",
                "memory.max=67108864",
                "memory.swap.max=0",
                "memory.oom.group=1",
            ]
        );
    }

    #[test]
    fn without_limits_only_the_weight_is_written() {
        let pod = Settings::of_pod(&Amounts::default(), None);
        assert_eq!(text(&pod, Version::V1), ["cpu.shares=2"]);
        assert_eq!(text(&pod, Version::V2), ["cpu.weight=1"]);
    }
}
