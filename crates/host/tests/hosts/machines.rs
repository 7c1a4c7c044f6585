//! Whole machines: processors, memory, cache control.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use groups::resctrl::{Group, Resource};
use host::fs::{Buffer, FakeFs};
use host::proc::{NodeReader, Stat};
use host::psi::Resource as Psi;
use host::resctrl::Resctrl;
use host::topology::{CpuModel, Topology};
use host::{FileError, Reading};
use units::Bytes;

use super::{ANOLIS, RESCTRL, V1, V2};

fn topology(text: &str) -> (FakeFs, Topology) {
    let fake = FakeFs::from_fixture(text).unwrap();
    let topology = Topology::read(&fake).unwrap();
    (fake, topology)
}

#[test]
fn numbers_are_those_of_lscpu() {
    let cases =
        [(V1, 32, 16, 2, 2), (V2, 16, 8, 1, 1), (RESCTRL, 64, 32, 2, 2), (ANOLIS, 8, 8, 1, 1)];
    for (text, cpus, cores, sockets, nodes) in cases {
        let (fake, topology) = topology(text);
        let counts =
            (topology.cpus.len(), topology.cpus.core_count(), topology.cpus.socket_count());
        assert_eq!(counts, (cpus, cores, sockets));
        assert_eq!(topology.cpu_nodes().count(), nodes);
        let model = CpuModel::read(&fake, &topology).unwrap();
        assert_eq!(model.smt_active, cores < cpus);
    }
    let (_, topology) = topology(V1);
    let cpu = |id| {
        let cpu = topology.cpus.get(id).unwrap();
        (cpu.core, cpu.socket, cpu.numa, topology.l3[&id])
    };
    assert_eq!((cpu(0), cpu(16)), ((0, 0, 0, 0), (0, 0, 0, 0)), "siblings share a core");
    assert_eq!((cpu(8), cpu(31)), ((8, 1, 1, 1), (15, 1, 1, 1)), "cores go on in the next socket");
    assert_eq!(topology.cpus.siblings(9).to_string(), "9,25");
    let order: Vec<u16> = topology.cpus.iter().take(4).map(|cpu| cpu.id).collect();
    assert_eq!(order, [0, 16, 1, 17], "by node, socket, core");
}

#[test]
fn a_machine_without_details_still_has_cpus() {
    let text = "-- sys/devices/system/cpu/online --\n0-3\n-- proc/cpuinfo --\nprocessor : 0\n";
    let (fake, topology) = topology(text);
    let caches: BTreeSet<_> = topology.l3.values().collect();
    let counts = (topology.cpus.core_count(), topology.cpus.socket_count(), caches.len());
    assert_eq!(counts, (4, 1, 1));
    assert!(topology.cpus.iter().all(|cpu| cpu.numa == 0));
    let model = CpuModel::read(&fake, &topology).unwrap();
    assert_eq!((model.vendor.as_str(), model.model.as_str()), ("unknown", "unknown"));
    assert_eq!((model.smt_active, model.turbo), (false, None));
    assert!(matches!(Topology::read(&FakeFs::default()), Err(FileError::Read { .. })));
}

#[test]
fn a_cache_without_an_id_is_counted() {
    let mut text = String::from("-- sys/devices/system/cpu/online --\n0-3\n");
    for cpu in 0..4 {
        let shared = if cpu < 2 { "0-1" } else { "2-3" };
        let dir = format!("sys/devices/system/cpu/cpu{cpu}/cache/index3");
        text += &format!("-- {dir}/level --\n3\n-- {dir}/shared_cpu_list --\n{shared}\n");
    }
    let (_, topology) = topology(&text);
    let caches: Vec<_> = topology.l3.values().copied().collect();
    assert_eq!(caches, [0, 0, 1, 1]);
}

#[test]
fn memory_only_nodes_are_told_apart() {
    let (fake, _) = topology(V2);
    fake.set("/sys/devices/system/node/node1/cpulist", "\n");
    fake.set("/sys/devices/system/node/has_generic_initiator", "1\n");
    let topology = Topology::read(&fake).unwrap();
    assert_eq!((topology.nodes.len(), topology.cpu_nodes().count()), (2, 1));
    assert!(topology.nodes.get(1).unwrap().is_generic_initiator);
}

/// A virtual machine that accepts its memory lazily counts a node's memory only as it is used.
#[test]
fn the_only_node_has_the_memory_of_the_host() {
    const ACCEPTED: &str = "Node 0 MemTotal: 1024 kB\nNode 0 MemFree: 512 kB\n\
        Node 0 Active(file): 0 kB\nNode 0 Inactive(file): 0 kB\nNode 0 SReclaimable: 0 kB\n";
    for (text, is_one) in [(V1, false), (V1, true), (V2, true)] {
        let (fake, _) = topology(text);
        if is_one {
            fake.remove("/sys/devices/system/node/node1");
        }
        fake.set("/sys/devices/system/node/node0/meminfo", ACCEPTED);
        let topology = Topology::read(&fake).unwrap();
        let mut node = NodeReader::new(Arc::new(fake));
        let mut buffer = Buffer::new();
        let host = node.memory(&mut buffer).unwrap().total;
        let first = topology.nodes.first().unwrap();
        let capacity = node.node_capacity(&topology, first, &mut buffer).unwrap();
        let want = if topology.nodes.len() == 1 { host } else { Bytes::from_mib(1) };
        assert_eq!((topology.nodes.len() == 1, capacity), (is_one, want));
    }
}

#[test]
fn the_host_says_how_busy_it_is() {
    for (text, has_pressure) in [(V1, false), (V2, true)] {
        let (fake, topology) = topology(text);
        let mut node = NodeReader::new(Arc::new(fake));
        let mut buffer = Buffer::new();
        let mut stat = Stat::default();
        node.stat(&mut buffer, &mut stat).unwrap();
        assert_eq!(stat.cpus.len(), topology.cpus.len());
        let sum: u64 = stat.cpus.iter().map(|(_, times)| times.busy()).sum();
        assert_eq!(stat.total.busy(), sum);
        let memory = node.memory(&mut buffer).unwrap();
        assert_eq!(memory.used().0, memory.total.0 * 3 / 8);
        let mut total = Bytes::ZERO;
        for numa in topology.cpu_nodes() {
            total += node.node_memory(&numa.meminfo, &mut buffer).unwrap().total;
        }
        assert_eq!(total, memory.total);
        assert!(node.load(&mut buffer).unwrap().tasks > 0);
        assert_eq!(node.vmstat(&mut buffer).unwrap().pgmajfault, 77);
        let pressure = node.pressure(Psi::Memory, &mut buffer).unwrap();
        assert_eq!(pressure.value().is_some(), has_pressure);
    }
}

#[test]
fn cache_and_bandwidth_are_divided_by_group() {
    let fake = FakeFs::from_fixture(RESCTRL).unwrap();
    let resctrl = Resctrl::find(Arc::new(fake.clone())).value().unwrap();
    let info = resctrl.info().unwrap();
    assert_eq!(info.l3.unwrap().mask, 0xfff);
    assert_eq!(info.bandwidth.unwrap().step, 10);
    assert_eq!(info.l3_counters.len(), 3);
    let be = Group::new("BE").unwrap();
    assert_eq!(resctrl.groups().unwrap(), std::slice::from_ref(&be));
    let mut schemata = resctrl.schemata(&be).unwrap().value().unwrap();
    assert_eq!(schemata.get(&Resource::L3), Some(&BTreeMap::from([(0, 0xf), (1, 0xf)])));
    schemata.set(Resource::L3, BTreeMap::from([(0, 0x3), (1, 0x7)]));
    resctrl.set(&be, &Resource::L3, &schemata).unwrap();
    let lines = "    MB:0=50;1=50\n    L3:0=3;1=7";
    assert_eq!(fake.text("/sys/fs/resctrl/BE/schemata").unwrap(), lines, "the other line stays");

    let ls = Group::new("LS").unwrap();
    resctrl.make(&ls).unwrap();
    resctrl.make(&ls).unwrap();
    assert!(resctrl.schemata(&ls).unwrap().value().is_some());
    assert_eq!(resctrl.add_task(&ls, 4_101).unwrap(), Reading::Value(()));
    assert_eq!(resctrl.tasks(&ls).unwrap(), Reading::Value(vec![4_101]));
    fake.fail("/sys/fs/resctrl/LS/tasks", Some(rustix::io::Errno::SRCH));
    assert_eq!(resctrl.add_task(&ls, 4_102).unwrap(), Reading::Gone, "the thread ended");
    resctrl.remove(&ls).unwrap();
    assert!(resctrl.schemata(&ls).unwrap().is_gone());
    for name in ["", "info", "mon_groups", "a/b", ".."] {
        assert_eq!(Group::new(name), None, "{name:?}");
    }
}

#[test]
fn a_counter_may_have_no_answer() {
    let fake = FakeFs::from_fixture(RESCTRL).unwrap();
    let resctrl = Resctrl::find(Arc::new(fake)).value().unwrap();
    let monitor = resctrl.monitor(&Group::root()).unwrap().value().unwrap();
    let mut uses = Vec::new();
    monitor.read(&mut Buffer::new(), &mut uses).unwrap();
    let seen: Vec<_> = uses
        .iter()
        .map(|domain| (domain.id, domain.llc_occupancy, domain.mbm_total_bytes))
        .collect();
    assert_eq!(seen, [(0, Some(4_718_592), Some(1_500_000)), (1, None, None)]);
    let plain = FakeFs::from_fixture(V2).unwrap();
    assert!(Resctrl::find(Arc::new(plain)).is_unsupported());
}
