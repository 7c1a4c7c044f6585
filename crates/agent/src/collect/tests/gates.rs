//! Collectors that a gate turns on, and hosts that cannot offer them.

use api::protocol::gate::{AgentGate, Gates};
use api::qos::{KubeQos, QosClass};
use groups::{Controller, Version};

use super::rig::{BOTH, Counters, MIB, Rig, container, pod};
use crate::collect::CollectSettings;
use crate::collect::Task;
use crate::series::{Measure, Subject};

fn settings(gates: &[AgentGate]) -> CollectSettings {
    let mut on = Gates::default();
    for gate in gates {
        on.set(*gate, true);
    }
    CollectSettings { gates: on, resctrl: true, page_cache: true, ..CollectSettings::default() }
}

fn with_pod(version: Version, gates: &[AgentGate]) -> Rig {
    let mut rig = Rig::with(version, settings(gates));
    let web = pod("web", KubeQos::Burstable);
    rig.make(container(&web).cgroup.as_str());
    rig.enter(vec![web]);
    rig
}

#[test]
fn nothing_runs_behind_a_closed_gate() {
    let mut rig = with_pod(Version::V2, &[]);
    (0..70).for_each(|_| rig.step());
    for task in [Task::ColdMemory, Task::Pressure, Task::Resctrl, Task::Cpi, Task::Storage] {
        assert_eq!(rig.metrics.health(task), None, "{task:?}");
    }
}

#[test]
fn what_a_host_cannot_offer_is_said_once_and_harms_nobody() {
    let gates = [
        AgentGate::ColdPageCollector,
        AgentGate::PSICollector,
        AgentGate::ResctrlCollector,
        AgentGate::CPICollector,
    ];
    for version in BOTH {
        let mut rig = with_pod(version, &gates);
        (0..70).for_each(|_| rig.step());
        for task in [Task::ColdMemory, Task::Pressure, Task::Resctrl, Task::Cpi] {
            let health = rig.metrics.health(task).unwrap();
            assert!(health.is_unsupported && health.is_started, "{version:?} {task:?} {health:?}");
            assert_eq!(health.failures, 0, "{version:?} {task:?}");
        }
        assert!(rig.fresh(Subject::Pod("web"), Measure::Cpu).is_some());
    }
}

#[test]
fn pressure_is_read_every_ten_seconds() {
    let mut rig = with_pod(Version::V2, &[AgentGate::PSICollector]);
    let group = "kubepods/burstable/podweb";
    let line = "avg10=1.50 avg60=0.75 avg300=0.10 total=1000\n";
    for file in ["cpu.pressure", "memory.pressure", "io.pressure"] {
        let text = format!("some {line}full {line}");
        rig.fs.set(rig.file(Controller::Cpu, group, file), text);
    }
    (0..12).for_each(|_| rig.step());
    let pressure = rig.metrics.pressure(Subject::Pod("web")).unwrap();
    let cpu = pressure.cpu.unwrap();
    assert!((cpu.some.avg10.percent() - 1.5).abs() < 1e-9);
    assert!(cpu.full.is_some() && pressure.memory.is_some() && pressure.io.is_some());
    assert_eq!(rig.metrics.pressure(Subject::Container("containerd://web")), None, "no files");
    assert!(!rig.metrics.health(Task::Pressure).unwrap().is_unsupported);
}

fn idle_pages(cold_mib: u64) -> String {
    let row = |name: &str, bytes: u64| format!("{name} 4096 0 0 0 0 {bytes} 0 0\n");
    let mut text = "# version: 1.0\n# page_scans: 24\n# slab_scans: 0\n\
        # scan_period_in_seconds: 5\n# use_hierarchy: 1\n# buckets: 1,2,5,15,30,60,120,240\n"
        .to_owned();
    for name in ["csei", "cfei", "dfei", "cfui", "dfui"] {
        text += &row(name, if name == "cfei" { cold_mib * MIB } else { 0 });
    }
    text
}

#[test]
fn cold_pages_are_not_hot() {
    let mut rig = with_pod(Version::V1, &[AgentGate::ColdPageCollector]);
    for file in ["scan_period_in_seconds", "use_hierarchy"] {
        rig.fs.set(format!("/sys/kernel/mm/kidled/{file}"), "0\n");
    }
    let group = "kubepods/burstable/podweb";
    let off = idle_pages(0).replace("seconds: 5", "seconds: 0");
    rig.fs.set(rig.file(Controller::Memory, group, "memory.idle_page_stats"), off.clone());
    rig.fs.set("/sys/fs/cgroup/memory/memory.idle_page_stats", off);
    (0..10).for_each(|_| rig.step());
    assert_eq!(rig.fresh(Subject::Pod("web"), Measure::ColdPages), None, "nobody scans yet");
    rig.count(group, Counters { anon: 300 * MIB, file: 100 * MIB, ..Counters::default() });
    rig.fs.set(rig.file(Controller::Memory, group, "memory.idle_page_stats"), idle_pages(40));
    rig.fs.set("/sys/fs/cgroup/memory/memory.idle_page_stats", idle_pages(500));
    (0..10).for_each(|_| rig.step());
    let mib = MIB as f64;
    rig.assert_fresh(Subject::Pod("web"), Measure::ColdPages, 40.0 * mib);
    rig.assert_fresh(Subject::Pod("web"), Measure::MemoryWithHotPages, 360.0 * mib);
    rig.assert_fresh(Subject::Node, Measure::MemoryWithHotPages, 3_500.0 * mib);
    let period = rig.fs.text("/sys/kernel/mm/kidled/scan_period_in_seconds");
    assert_eq!(period.as_deref(), Some("0"), "a collector only reads");
}

#[test]
fn cache_use_is_told_by_class_with_rates() {
    let mut rig = with_pod(Version::V2, &[AgentGate::ResctrlCollector]);
    rig.fs.set("/sys/fs/resctrl/schemata", "L3:0=7ff\n");
    let set = |file: &str, value: &str| {
        rig.fs.set(format!("/sys/fs/resctrl/BE/mon_data/mon_L3_00/{file}"), value);
    };
    set("llc_occupancy", "1048576\n");
    set("mbm_local_bytes", "1000\n");
    set("mbm_total_bytes", "Unavailable\n");
    let mut now = rig.now;
    for local in ["1000\n", "21000\n"] {
        set("mbm_local_bytes", local);
        now += std::time::Duration::from_secs(10);
        rig.collector.tick(now, &rig.state);
    }
    let facts = rig.metrics.facts();
    assert_eq!(facts.cache.len(), 1, "the other classes have no group");
    let best_effort = &facts.cache[0];
    assert_eq!(best_effort.class, QosClass::Be);
    let cache = best_effort.caches[0];
    assert_eq!((cache.id, cache.occupancy, cache.local_bytes), (0, Some(1 << 20), Some(21_000)));
    assert_eq!((cache.local_rate, cache.total_bytes, cache.total_rate), (Some(2000.0), None, None));
}
