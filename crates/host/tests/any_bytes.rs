//! Whatever a file holds: a value or an error, never a panic.

use groups::resctrl::Schemata;
use groups::{CgroupPath, ContainerId, Driver, Knob, Layout, Version};
use host::cgroup::{CpuMax, CpuStat, MemoryEvents, MemoryStat, Throttling};
use host::cold::IdlePages;
use host::fs::FakeFs;
use host::proc::{LoadAverage, MemInfo, NodeMemInfo, ProcessCgroups, SchedStat, Stat, VmStat};
use host::psi::Pressure;
use host::topology::Topology;
use proptest::prelude::*;

const KNOBS: [Knob; 8] = [
    Knob::CpuShares,
    Knob::CfsQuota,
    Knob::CfsPeriod,
    Knob::CpusetCpus,
    Knob::MemoryLimit,
    Knob::ReadBps,
    Knob::IoWeight,
    Knob::IoCostQos,
];

fn parse_all(text: &[u8]) {
    for version in [Version::V1, Version::V2] {
        let _ = MemoryStat::parse(version, text);
        for knob in KNOBS {
            if let Ok(setting) = knob.decode(version, text) {
                let _ = knob.encode(version, &setting);
            }
        }
    }
    let _ = (CpuStat::parse_v2(text), Throttling::parse_v1(text), CpuMax::parse_v2(text));
    let _ = CpuMax::parse_v1(text, text).map(CpuMax::cpus);
    let _ = (MemoryEvents::parse(text), IdlePages::parse(text), Pressure::parse(text));
    let _ = (Stat::parse(text), MemInfo::parse(text), NodeMemInfo::parse(text));
    let _ = (LoadAverage::parse(text), VmStat::parse(text), SchedStat::parse(text));
    let _ = ProcessCgroups::parse(text);
    if let Ok(schemata) = Schemata::parse(text) {
        assert_eq!(Schemata::parse(schemata.to_string().as_bytes()), Ok(schemata));
    }
    let text = String::from_utf8_lossy(text);
    let _ = text.parse::<ContainerId>();
    for driver in [Driver::Cgroupfs, Driver::Systemd] {
        let _ = Layout::new(driver).classify(&CgroupPath::new(&text));
    }
    let _ = FakeFs::from_fixture(&text);
}

/// Words and shapes that the kernel's files are made of.
fn kernel_like() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(vec![
        "cpu",
        "cpu0",
        "max",
        "-1",
        "0",
        "18446744073709551616",
        "N0=1",
        "N99999=1",
        "8:0",
        "rbps=",
        "some",
        "full",
        "avg10=0.00",
        "total=",
        "usage_usec",
        "anon",
        "L3:0=f;",
        "MB:",
        "MemTotal:",
        "kB",
        "#",
        "cfei",
        "Read",
        "total=5",
        "0-3",
        "3-0",
        "\u{e9}",
        "=",
        ":",
        ";",
    ]);
    let gap = prop::sample::select(vec![" ", "\n", "\t", ""]);
    prop::collection::vec((word, gap), 0..60).prop_map(|words| {
        words.into_iter().flat_map(|(word, gap)| [word, gap]).collect::<String>().into_bytes()
    })
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_no_harm(text in prop::collection::vec(any::<u8>(), 0..300)) {
        parse_all(&text);
    }

    #[test]
    fn neither_do_words_in_disorder(text in kernel_like()) {
        parse_all(&text);
    }

    #[test]
    fn a_topology_of_garbage_is_an_error_or_a_topology(
        online in "[0-9,-]{0,8}", siblings in "[0-9,-]{0,8}", list in "[0-9,-]{0,8}",
    ) {
        let fake = FakeFs::default();
        fake.set("/sys/devices/system/cpu/online", online);
        fake.set("/sys/devices/system/cpu/cpu0/topology/core_cpus_list", siblings);
        fake.set("/sys/devices/system/node/node0/cpulist", list);
        if let Ok(topology) = Topology::read(&fake) {
            prop_assert!(topology.cpus.core_count() <= topology.cpus.len());
        }
    }
}
