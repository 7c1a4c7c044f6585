//! The control groups of a pod, read through the host layer.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::{Duration, Instant};

use groups::{CgroupPath, DeviceNumber, Knob, Limit, Setting, Version};
use host::Reading;
use host::block;
use host::cgroup::CgroupReader;
use host::fs::Buffer;
use host::topology::Topology;
use units::{Bytes, CpuSet};

use crate::sandbox::Sandbox;
use crate::workload::{FOLDER, Workload};
use crate::{assert_within, sandbox_or_skip};

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
fn memory_is_on_the_node_that_the_container_is_bound_to() {
    let sandbox = sandbox_or_skip!("numa");
    let topology = Topology::read(sandbox.tree.fs()).unwrap();
    let (group, mut reader, mut workload) = container(&sandbox);
    let node = topology.nodes.last().unwrap().id;
    let mems = Setting::Cpus(CpuSet::from_iter([node]));
    assert_eq!(sandbox.tree.set(&group, Knob::CpusetMems, &mems).unwrap(), Reading::Value(()));
    let held = workload.hold(128 << 20);
    let held = bytes(Bytes(held.try_into().unwrap()));
    let mut nodes = Vec::new();
    let start = Instant::now();
    // The kernel sums up what each CPU has counted every two seconds.
    let there = loop {
        value(reader.numa_memory(&mut Buffer::new(), &mut nodes));
        let there = bytes(nodes[usize::from(node)]);
        if there >= 0.99 * held || start.elapsed() > Duration::from_secs(20) {
            break there;
        }
        thread::sleep(Duration::from_millis(100));
    };
    assert_within(1.0, there, held);
}

/// From kernel 6.9 on, v1 only counts what it may have to throttle.
fn begin_to_count_writes(sandbox: &Sandbox, group: &CgroupPath) {
    let device = fs::metadata(FOLDER).unwrap().dev();
    let device =
        DeviceNumber { major: rustix::fs::major(device), minor: rustix::fs::minor(device) };
    let disks = block::disks(sandbox.tree.fs()).unwrap();
    let disk = groups::disk_of(&disks, device).expect("the target directory is on a disk");
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

#[expect(clippy::cast_precision_loss, reason = "far below the precision of a double")]
fn bytes(bytes: Bytes) -> f64 {
    bytes.0 as f64
}
