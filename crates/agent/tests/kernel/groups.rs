//! The control groups of a pod, read through the host layer.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;
use std::{fs, thread};

use host::block;
use host::cgroup::{CgroupPath, CgroupReader, DeviceNumber, Knob, Setting, Version};
use host::fs::Buffer;
use host::psi::Resource;
use host::topology::Topology;
use host::{Limit, Reading};
use units::{Bytes, CpuSet};

use crate::sandbox::Sandbox;
use crate::workload::{FOLDER, Workload};
use crate::{assert_cpu, assert_within, sandbox_or_skip};

const CONTAINER: &str = "kubepods/besteffort/pod6b0b/0123";

/// A container with one idle process in it.
fn container(sandbox: &Sandbox) -> (CgroupPath, CgroupReader, Workload) {
    let group = sandbox.make(CONTAINER);
    let workload = Workload::start();
    sandbox.tree.enter(&group, workload.id()).unwrap();
    let reader = sandbox.tree.reader(group.clone());
    (group, reader, workload)
}

#[track_caller]
fn value<T, E: std::fmt::Debug>(reading: Result<Reading<T>, E>) -> T {
    reading.unwrap().value().expect("this kernel has the file")
}

#[test]
fn cpu_time_of_a_container_and_its_pod_is_what_its_process_used() {
    let sandbox = sandbox_or_skip!("cpu");
    let (group, mut reader, mut workload) = container(&sandbox);
    let mut pod = sandbox.tree.reader(group.parent().unwrap());
    let buffer = &mut Buffer::new();
    let before = (value(reader.cpu_usage(buffer)), value(pod.cpu_usage(buffer)));
    let used = workload.spin(Duration::from_secs(1));
    assert_cpu(value(reader.cpu_usage(buffer)) - before.0, used);
    assert_cpu(value(pod.cpu_usage(buffer)) - before.1, used);
}

#[test]
fn memory_of_a_container_is_what_its_process_holds() {
    let sandbox = sandbox_or_skip!("memory");
    let (_, mut reader, mut workload) = container(&sandbox);
    let buffer = &mut Buffer::new();
    let before = value(reader.memory_stat(buffer)).used();
    let held = workload.hold(256 << 20);
    let after = value(reader.memory_stat(buffer)).used();
    assert_within(1.0, bytes(after) - bytes(before), bytes(Bytes(held.try_into().unwrap())));
    let mut nodes = Vec::new();
    value(reader.numa_memory(buffer, &mut nodes));
    let sum: i64 = nodes.iter().map(|node| node.0).sum();
    assert_within(1.0, bytes(Bytes(sum)), bytes(after));
}

#[test]
fn memory_is_on_the_node_that_the_container_is_bound_to() {
    let sandbox = sandbox_or_skip!("numa");
    let topology = Topology::read(sandbox.tree.fs()).unwrap();
    let (group, mut reader, mut workload) = container(&sandbox);
    let node = topology.nodes.last().unwrap().id;
    let mems = Setting::Cpus(CpuSet::from_iter([node]));
    assert_eq!(sandbox.tree.set(&group, Knob::CpusetMems, &mems).unwrap(), Reading::Value(()));
    let held = workload.hold(128 << 20);
    let mut nodes = Vec::new();
    value(reader.numa_memory(&mut Buffer::new(), &mut nodes));
    let there = nodes[usize::from(node)];
    assert_within(2.0, bytes(there), bytes(Bytes(held.try_into().unwrap())));
}

#[test]
fn a_quota_throttles_and_is_counted() {
    let sandbox = sandbox_or_skip!("quota");
    let (group, mut reader, mut workload) = container(&sandbox);
    let buffer = &mut Buffer::new();
    let quota = Setting::Limit(Limit::At(5_000));
    assert_eq!(sandbox.tree.set(&group, Knob::CfsQuota, &quota).unwrap(), Reading::Value(()));
    assert_eq!(sandbox.tree.get(&group, Knob::CfsQuota).unwrap(), Reading::Value(quota));
    workload.spin(Duration::from_millis(50));
    let throttling = value(reader.cpu_stat(buffer)).throttling.expect("the group has a quota");
    assert!(throttling.nr_throttled >= 3, "{throttling:?}");
    assert!(throttling.nr_periods >= throttling.nr_throttled, "{throttling:?}");
    assert!(!throttling.throttled.is_zero(), "{throttling:?}");
}

#[test]
fn processes_and_cpus_of_a_container_are_its_own() {
    let sandbox = sandbox_or_skip!("pids");
    let (group, mut reader, workload) = container(&sandbox);
    let buffer = &mut Buffer::new();
    assert_eq!(value(sandbox.tree.procs(&group)), [workload.id()]);
    assert!(value(reader.pids(buffer)).current >= 1);
    let one = CpuSet::from_iter([0]);
    let cpus = Setting::Cpus(one.clone());
    assert_eq!(sandbox.tree.set(&group, Knob::CpusetCpus, &cpus).unwrap(), Reading::Value(()));
    assert_eq!(value(reader.cpus(buffer)), &one);
}

/// From kernel 6.9 on, v1 only counts what it may have to throttle.
fn begin_to_count_writes(sandbox: &Sandbox, group: &CgroupPath) {
    let device = fs::metadata(FOLDER).unwrap().dev();
    let device =
        DeviceNumber { major: rustix::fs::major(device), minor: rustix::fs::minor(device) };
    let disks = block::disks(sandbox.tree.fs()).unwrap();
    let disk = block::disk_of(&disks, device).expect("the target directory is on a disk");
    let plenty = Setting::Rates(BTreeMap::from([(disk.number, Limit::At(1 << 40))]));
    assert_eq!(sandbox.tree.set(group, Knob::WriteBps, &plenty).unwrap(), Reading::Value(()));
}

#[test]
fn writes_are_charged_to_the_container() {
    let sandbox = sandbox_or_skip!("io");
    let (group, mut reader, mut workload) = container(&sandbox);
    if sandbox.tree.version() == Version::V1 {
        begin_to_count_writes(&sandbox, &group);
    }
    let written = workload.write(8 << 20);
    let mut devices = Vec::new();
    value(reader.io(&mut Buffer::new(), &mut devices));
    let most = devices.iter().map(|device| device.write_bytes).max();
    assert_eq!(most, Some(written), "{devices:?}");
}

/// Two processes on one CPU wait for each other. v1 has no such file in mainline kernels.
#[test]
fn pressure_is_felt_by_those_who_wait() {
    let sandbox = sandbox_or_skip!("psi");
    let (group, mut reader, mut one) = container(&sandbox);
    let buffer = &mut Buffer::new();
    if sandbox.tree.version() == Version::V1 {
        for resource in [Resource::Cpu, Resource::Memory, Resource::Io] {
            assert_eq!(reader.pressure(resource, buffer).unwrap(), Reading::Unsupported);
        }
        return;
    }
    let mut two = Workload::start();
    sandbox.tree.enter(&group, two.id()).unwrap();
    let cpus = Setting::Cpus(CpuSet::from_iter([1]));
    assert_eq!(sandbox.tree.set(&group, Knob::CpusetCpus, &cpus).unwrap(), Reading::Value(()));
    let before = value(reader.pressure(Resource::Cpu, buffer)).some.total;
    thread::scope(|scope| {
        scope.spawn(|| one.spin(Duration::from_millis(300)));
        scope.spawn(|| two.spin(Duration::from_millis(300)));
    });
    let waited = value(reader.pressure(Resource::Cpu, buffer)).some.total - before;
    assert!(waited > Duration::from_millis(150), "{waited:?}");
}

#[test]
fn a_group_that_vanishes_is_gone_and_no_error() {
    let sandbox = sandbox_or_skip!("gone");
    let (group, mut reader, workload) = container(&sandbox);
    let buffer = &mut Buffer::new();
    value(reader.cpu_usage(buffer));
    value(reader.memory_stat(buffer));
    drop(workload);
    sandbox.remove(&group).unwrap();
    assert_eq!(reader.cpu_usage(buffer).unwrap(), Reading::Gone);
    assert_eq!(reader.cpu_stat(buffer).unwrap(), Reading::Gone);
    assert!(reader.memory_stat(buffer).unwrap().is_gone());
    assert_eq!(sandbox.tree.procs(&group).unwrap(), Reading::Gone);
}

/// The kernel's own numbers, counted another way.
#[test]
fn the_topology_has_every_cpu_and_node_once() {
    let sandbox = sandbox_or_skip!("topology");
    let topology = Topology::read(sandbox.tree.fs()).unwrap();
    let text = fs::read_to_string("/proc/cpuinfo").unwrap();
    let field = |name: &str| -> Vec<&str> {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim()).collect()
    };
    assert_eq!(topology.cpus.len(), field("processor").len());
    let packages = field("physical id");
    assert_eq!(topology.socket_count(), packages.iter().collect::<BTreeSet<_>>().len());
    let cores: BTreeSet<_> = packages.into_iter().zip(field("core id")).collect();
    assert_eq!(topology.core_count(), cores.len());
    let nodes = fs::read_dir("/sys/devices/system/node").unwrap().filter_map(Result::ok);
    let nodes = nodes.filter_map(|entry| entry.file_name().into_string().ok());
    let nodes = nodes.filter(|name| {
        name.strip_prefix("node").is_some_and(|number| number.parse::<u16>().is_ok())
    });
    assert_eq!(topology.nodes.len(), nodes.count());
    for cpu in &topology.cpus {
        assert!(topology.siblings(cpu.id).contains(cpu.id));
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below the precision of a double")]
fn bytes(bytes: Bytes) -> f64 {
    bytes.0 as f64
}
