//! The files with which online work is protected.

use units::Bytes;

use super::met;
use crate::probe::{Area, Facts, Met, Need, Requirement};

/// A row about files of a group, of which any will do.
struct FileRow {
    name: &'static str,
    files: &'static [&'static str],
    need: Need,
    consequence: &'static str,
    fix: &'static str,
}

impl FileRow {
    fn judge(self, area: Area, facts: &Facts) -> Requirement {
        let found = self.files.iter().find(|file| facts.has_file(file));
        // Without a group to look at, absence proves nothing.
        let can_tell = facts.cgroups.as_ref().is_none_or(|cgroups| cgroups.has_sample);
        Requirement {
            area,
            name: self.name,
            need: self.need,
            met: match (found, can_tell) {
                (None, false) => Met::Unknown,
                (found, _) => met(found.is_some()),
            },
            found: match (found, can_tell) {
                (Some(file), _) => (*file).to_owned(),
                (None, true) => "absent".to_owned(),
                (None, false) => "no group to look at".to_owned(),
            },
            consequence: self.consequence,
            fix: self.fix,
        }
    }
}

pub(super) fn cpu(facts: &Facts) -> Vec<Requirement> {
    let files = [
        FileRow {
            name: "idle groups (cpu.idle)",
            files: &["cpu.idle"],
            need: Need::Recommended,
            consequence: "a waking online task does not see CPUs of best-effort work as free",
            fix: "boot Linux 5.15 or newer",
        },
        FileRow {
            name: "burst above a quota",
            files: &["cpu.max.burst", "cpu.cfs_burst_us"],
            need: Need::Recommended,
            consequence: "CPUBurst raises quotas instead, a second later",
            fix: "boot Linux 5.14 or newer",
        },
        FileRow {
            name: "group identity (bvt)",
            files: &["cpu.bvt_warp_ns"],
            need: Need::Optional,
            consequence: "idle groups and weights take its place",
            fix: "use an Anolis kernel where strict preemption is needed",
        },
    ];
    let mut rows: Vec<Requirement> =
        files.into_iter().map(|row| row.judge(Area::Cpu, facts)).collect();
    let (core, found) = facts.live.core_scheduling.judge("available");
    rows.push(Requirement {
        area: Area::Cpu,
        name: "core scheduling",
        need: Need::Optional,
        met: core,
        found,
        consequence: "best-effort is kept off siblings by CPU sets of whole cores instead",
        fix: "boot Linux 5.14 or newer with CONFIG_SCHED_CORE and SMT on",
    });
    rows.push(Requirement {
        area: Area::Cpu,
        name: "sched_ext",
        need: Need::Optional,
        met: met(facts.sched_ext),
        found: if facts.sched_ext { "available" } else { "absent" }.to_owned(),
        consequence: "mode X is not possible; no other mode needs it",
        fix: "boot Linux 6.12 or newer with CONFIG_SCHED_CLASS_EXT",
    });
    rows
}

pub(super) fn memory(facts: &Facts) -> Vec<Requirement> {
    let files = [
        FileRow {
            name: "memory protection (memory.low)",
            files: &["memory.low"],
            need: Need::Recommended,
            consequence: "reclaim takes memory from online work as from any other",
            fix: "use cgroup v2",
        },
        FileRow {
            name: "memory brake (memory.high)",
            files: &["memory.high"],
            need: Need::Recommended,
            consequence: "best-effort memory is bounded by eviction only",
            fix: "use cgroup v2",
        },
        FileRow {
            name: "reclaim on request (memory.reclaim)",
            files: &["memory.reclaim", "memory.wmark_ratio"],
            need: Need::Optional,
            consequence: "best-effort page cache is taken only when the host is short of memory",
            fix: "boot Linux 5.19 or newer with cgroup v2",
        },
    ];
    let mut rows: Vec<Requirement> =
        files.into_iter().map(|row| row.judge(Area::Memory, facts)).collect();
    rows.push(Requirement {
        area: Area::Memory,
        name: "multi-generational LRU",
        need: Need::Optional,
        met: met(facts.multi_gen_lru),
        found: if facts.multi_gen_lru { "on" } else { "off or absent" }.to_owned(),
        consequence: "working sets are found less exactly",
        fix: "boot Linux 6.1 or newer and write y to /sys/kernel/mm/lru_gen/enabled",
    });
    rows.push(Requirement {
        area: Area::Memory,
        name: "no swap",
        need: Need::Optional,
        met: facts.swap.map_or(Met::Unknown, |swap| met(swap == Bytes::ZERO)),
        found: match facts.swap {
            Some(Bytes::ZERO) => "none".to_owned(),
            Some(swap) => swap.to_string(),
            None => "not readable".to_owned(),
        },
        consequence: "online work may wait for pages that were swapped out under pressure",
        fix: "swapoff -a, or set memory.swap.max of online pods to 0",
    });
    rows
}

pub(super) fn io(facts: &Facts) -> Vec<Requirement> {
    let files = [
        FileRow {
            name: "disk limits (io.max)",
            files: &["io.max", "blkio.throttle.read_bps_device"],
            need: Need::Recommended,
            consequence: "best-effort disk use cannot be limited",
            fix: "enable the io controller (blkio on v1)",
        },
        FileRow {
            name: "disk shares (io.cost)",
            files: &["io.cost.qos", "blkio.cost.qos"],
            need: Need::Optional,
            consequence: "BlkIOReconcile sets limits only, no weights",
            fix: "boot Linux 5.4 or newer with CONFIG_BLK_CGROUP_IOCOST and cgroup v2",
        },
        FileRow {
            name: "disk latency targets (io.latency)",
            files: &["io.latency"],
            need: Need::Optional,
            consequence: "limits take its place",
            fix: "boot a kernel with CONFIG_BLK_CGROUP_IOLATENCY and cgroup v2",
        },
    ];
    files.into_iter().map(|row| row.judge(Area::Io, facts)).collect()
}
