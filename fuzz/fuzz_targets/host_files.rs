//! Whatever a kernel file holds: a value or an error, and what is printed again means the same.

#![no_main]

use groups::resctrl::Schemata;
use groups::{Knob, Version};
use host::cgroup::{CpuMax, CpuStat, MemoryStat, Throttling};
use host::proc::{MemInfo, ProcessCgroups, Stat};
use host::psi::Pressure;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let _ = (CpuStat::parse_v2(text), Throttling::parse_v1(text), CpuMax::parse_v2(text));
    let _ = (Stat::parse(text), MemInfo::parse(text), ProcessCgroups::parse(text));
    let _ = (Pressure::parse(text), host::cold::IdlePages::parse(text));
    for version in [Version::V1, Version::V2] {
        let _ = MemoryStat::parse(version, text);
        for knob in [Knob::CfsQuota, Knob::CpuShares, Knob::CpusetCpus, Knob::ReadBps] {
            let _ = knob.decode(version, text);
        }
    }
    if let Ok(schemata) = Schemata::parse(text) {
        let printed = schemata.to_string();
        assert_eq!(Schemata::parse(printed.as_bytes()), Ok(schemata), "{printed:?}");
    }
});
