//! What goes wrong with kernel files, and what the reader makes of it.

use api::qos::KubeQos;
use groups::{CgroupPath, Knob, Setting};
use host::cgroup::{Tree, TreeError};
use host::fs::{Buffer, FakeFs, LARGEST_FILE};
use host::{FileError, Reading};
use rustix::io::Errno;
use std::sync::Arc;

use super::{Machine, v1, v2};

fn file(machine: &Machine, controller: &str, file: &str) -> String {
    match machine.tree.version() {
        groups::Version::V1 => {
            format!("/sys/fs/cgroup/{controller}/{}/{file}", machine.web.as_str())
        }
        groups::Version::V2 => format!("/sys/fs/cgroup/{}/{file}", machine.web.as_str()),
    }
}

#[test]
fn a_group_that_vanishes_in_mid_read_is_gone() {
    for machine in [v1(), v2()] {
        let stat = file(&machine, "memory", "memory.stat");
        let mut buffer = Buffer::new();
        for errno in [Errno::NODEV, Errno::NOENT, Errno::IO] {
            let mut kept = machine.tree.reader(machine.web.clone());
            assert!(kept.memory_stat(&mut buffer).unwrap().value().is_some());
            machine.fake.fail(&stat, Some(errno));
            let is_still_there = kept.memory_stat(&mut buffer);
            match errno {
                // The group is there: this one file has a problem of its own.
                Errno::IO => assert!(matches!(is_still_there, Err(FileError::Read { .. }))),
                Errno::NOENT => assert!(is_still_there.unwrap().is_unsupported()),
                _ => assert!(is_still_there.unwrap().is_gone()),
            }
            machine.fake.fail(&stat, None);
        }
        let mut kept = machine.tree.reader(machine.web.clone());
        kept.memory_stat(&mut buffer).unwrap();
        for dir in machine.tree.dirs(&machine.web) {
            machine.fake.remove(dir);
        }
        machine.fake.fail(&stat, Some(Errno::IO));
        assert!(kept.memory_stat(&mut buffer).unwrap().is_gone());
        assert!(kept.cpu_usage(&mut buffer).unwrap().is_gone(), "and stays so");
        assert!(machine.tree.children(&machine.web).unwrap().is_gone());
        assert!(machine.tree.procs(&machine.web).unwrap().is_gone());
        let shares = machine.tree.get(&machine.web, Knob::CpuShares).unwrap();
        assert!(shares.is_gone());
        let set = machine.tree.set(&machine.web, Knob::CpuIdle, &Setting::Number(1)).unwrap();
        assert!(set.is_gone());
    }
}

#[test]
fn one_broken_file_does_not_hurt_the_others() {
    let broken: [&[u8]; 6] =
        [b"", b"\n", b"garbage", b"\xff\xfe\xfd", b"anon\n", b"99999999999999999999999\n"];
    for machine in [v1(), v2()] {
        let stat = file(&machine, "memory", "memory.stat");
        let mut buffer = Buffer::new();
        let mut reader = machine.tree.reader(machine.web.clone());
        let good = machine.fake.text(&stat).unwrap();
        for text in broken {
            machine.fake.set(&stat, text);
            let error = reader.memory_stat(&mut buffer).unwrap_err();
            let FileError::Parse { path, .. } = &error else { panic!("{error:?}") };
            assert!(stat.ends_with(path.to_str().unwrap().trim_start_matches('/')), "{error}");
            assert!(reader.cpu_usage(&mut buffer).unwrap().value().is_some());
        }
        machine.fake.set(&stat, good);
        assert!(reader.memory_stat(&mut buffer).unwrap().value().is_some(), "and it recovers");
    }
}

#[test]
fn a_file_without_end_is_refused() {
    let machine = v2();
    machine.fake.set(file(&machine, "", "memory.stat"), vec![b'x'; LARGEST_FILE + 1]);
    let mut reader = machine.tree.reader(machine.web.clone());
    let error = reader.memory_stat(&mut Buffer::new()).unwrap_err();
    assert!(matches!(error, FileError::Read { .. }), "{error}");
}

#[test]
fn a_forbidden_file_is_an_error_with_its_path() {
    let machine = v1();
    let usage = file(&machine, "cpuacct", "cpuacct.usage");
    machine.fake.fail(&usage, Some(Errno::ACCESS));
    let mut reader = machine.tree.reader(machine.web.clone());
    let error = reader.cpu_usage(&mut Buffer::new()).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot read {usage}"));
    machine.fake.fail(&usage, None);
    assert!(reader.cpu_usage(&mut Buffer::new()).unwrap().value().is_some(), "it is asked again");
}

#[test]
fn pressure_that_is_switched_off_is_unsupported() {
    let machine = v2();
    machine.fake.fail(file(&machine, "", "cpu.pressure"), Some(Errno::OPNOTSUPP));
    let mut reader = machine.tree.reader(machine.web.clone());
    let pressure = reader.pressure(host::psi::Resource::Cpu, &mut Buffer::new()).unwrap();
    assert_eq!(pressure, Reading::Unsupported);
}

#[test]
fn a_controller_that_is_not_there_is_unsupported() {
    let machine = v1();
    machine.fake.remove("/sys/fs/cgroup/memory");
    let tree = Tree::find(Arc::new(machine.fake.clone())).unwrap();
    let mut reader = tree.reader(machine.web.clone());
    let mut buffer = Buffer::new();
    assert!(reader.memory_stat(&mut buffer).unwrap().is_unsupported());
    assert!(reader.cpu_usage(&mut buffer).unwrap().value().is_some());
    let set = tree.set(&machine.web, Knob::OomGroup, &Setting::Number(1)).unwrap();
    assert!(set.is_unsupported());
}

#[test]
fn a_host_without_hierarchies_has_no_tree() {
    let bare = FakeFs::from_fixture("-- proc/stat --\ncpu 0\n").unwrap();
    assert!(matches!(Tree::find(Arc::new(bare)), Err(TreeError::NotMounted)));
    let empty = FakeFs::from_fixture("-- sys/fs/cgroup/readme --\n").unwrap();
    assert!(matches!(Tree::find(Arc::new(empty)), Err(TreeError::NotMounted)));
}

#[test]
fn a_pair_of_controllers_may_share_a_hierarchy() {
    let fake = FakeFs::from_fixture(
        "-- sys/fs/cgroup/cpu,cpuacct/cgroup.procs --\n\
         -- sys/fs/cgroup/cpu,cpuacct/a/cpuacct.usage --\n7\n\
         -- sys/fs/cgroup/unified/cgroup.controllers --\n",
    )
    .unwrap();
    let tree = Tree::find(Arc::new(fake)).unwrap();
    assert!(tree.is_hybrid());
    let mut reader = tree.reader(CgroupPath::new("a"));
    let usage = reader.cpu_usage(&mut Buffer::new()).unwrap().value().unwrap();
    assert_eq!(usage.as_nanos(), 7);
    assert_eq!(tree.dirs(&CgroupPath::new("a")).len(), 1);
}

#[test]
fn cpus_come_and_go() {
    let machine = v2();
    let topology = host::topology::Topology::read(&machine.fake).unwrap();
    assert_eq!((topology.cpus.len(), topology.cpus.core_count()), (16, 8));
    machine.fake.set("/sys/devices/system/cpu/online", "0-7,9-15\n");
    machine.fake.set("/sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0\n");
    let fewer = host::topology::Topology::read(&machine.fake).unwrap();
    assert_eq!((fewer.cpus.len(), fewer.cpus.core_count()), (15, 8));
    assert_eq!(fewer.nodes.first().unwrap().cpus.len(), 15);
    let class = machine.layout.class(KubeQos::BestEffort);
    assert!(machine.tree.exists(&class));
}
