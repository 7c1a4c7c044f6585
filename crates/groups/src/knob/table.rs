//! The translation between v1 and v2, one row a knob.

use super::{Form, Knob};
use crate::Controller;

/// Where a knob is on each version, and what its values look like.
pub(super) struct Row {
    pub(super) controller: Controller,
    pub(super) v1: Option<&'static str>,
    pub(super) v2: Option<&'static str>,
    pub(super) form: Form,
}

/// The most `cpu.cfs_burst_us` takes on kernels that check nothing else.
const MOST_BURST: i64 = 100_000_000;

pub(super) fn row(knob: Knob) -> Row {
    use Controller::{Blkio, Cpu, Cpuset, Freezer, Memory, NetCls};
    use Form::{Cpus, Memory as Bytes, Number, Period, Quota, Rate, Shares, Weight, Words};

    let renamed = |controller, v1, v2, form| Row { controller, v1: Some(v1), v2: Some(v2), form };
    let same = |controller, name, form| renamed(controller, name, name, form);
    match knob {
        Knob::CpuShares => renamed(Cpu, "cpu.shares", "cpu.weight", Shares),
        Knob::CfsQuota => renamed(Cpu, "cpu.cfs_quota_us", "cpu.max", Quota),
        Knob::CfsPeriod => renamed(Cpu, "cpu.cfs_period_us", "cpu.max", Period),
        Knob::CfsBurst => renamed(Cpu, "cpu.cfs_burst_us", "cpu.max.burst", Number(0..=MOST_BURST)),
        Knob::BvtWarp => same(Cpu, "cpu.bvt_warp_ns", Number(-1..=2)),
        Knob::CpuIdle => same(Cpu, "cpu.idle", Number(0..=1)),
        Knob::CpusetCpus => same(Cpuset, "cpuset.cpus", Cpus),
        Knob::CpusetMems => same(Cpuset, "cpuset.mems", Cpus),
        Knob::MemoryLimit => renamed(Memory, "memory.limit_in_bytes", "memory.max", Bytes),
        Knob::MemoryMin => same(Memory, "memory.min", Bytes),
        Knob::MemoryLow => same(Memory, "memory.low", Bytes),
        Knob::MemoryHigh => same(Memory, "memory.high", Bytes),
        Knob::MemoryReclaim => Row {
            controller: Memory,
            v1: None,
            v2: Some("memory.reclaim"),
            form: Number(0..=i64::MAX),
        },
        Knob::WmarkRatio => same(Memory, "memory.wmark_ratio", Number(0..=100)),
        Knob::WmarkScaleFactor => same(Memory, "memory.wmark_scale_factor", Number(1..=1_000)),
        Knob::WmarkMinAdj => same(Memory, "memory.wmark_min_adj", Number(-25..=50)),
        Knob::MemoryPriority => same(Memory, "memory.priority", Number(0..=12)),
        Knob::UsePriorityOom => same(Memory, "memory.use_priority_oom", Number(0..=1)),
        Knob::OomGroup => same(Memory, "memory.oom.group", Number(0..=1)),
        Knob::PagecacheLimitEnable => same(Memory, "memory.pagecache_limit.enable", Number(0..=1)),
        Knob::PagecacheLimitSize => {
            same(Memory, "memory.pagecache_limit.size", Number(0..=i64::MAX))
        }
        Knob::PagecacheLimitSync => same(Memory, "memory.pagecache_limit.sync", Number(0..=1)),
        Knob::ReadBps => renamed(Blkio, "blkio.throttle.read_bps_device", "io.max", Rate("rbps")),
        Knob::WriteBps => renamed(Blkio, "blkio.throttle.write_bps_device", "io.max", Rate("wbps")),
        Knob::ReadIops => {
            renamed(Blkio, "blkio.throttle.read_iops_device", "io.max", Rate("riops"))
        }
        Knob::WriteIops => {
            renamed(Blkio, "blkio.throttle.write_iops_device", "io.max", Rate("wiops"))
        }
        Knob::IoWeight => renamed(Blkio, "blkio.cost.weight", "io.weight", Weight),
        Knob::IoCostQos => renamed(Blkio, "blkio.cost.qos", "io.cost.qos", Words),
        Knob::IoCostModel => renamed(Blkio, "blkio.cost.model", "io.cost.model", Words),
        Knob::NetClassId => Row {
            controller: NetCls,
            v1: Some("net_cls.classid"),
            v2: None,
            form: Number(0..=0xFFFF_FFFF),
        },
        Knob::Frozen => renamed(Freezer, "freezer.state", "cgroup.freeze", Form::Frozen),
    }
}
