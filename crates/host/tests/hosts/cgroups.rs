//! Groups of pods: where they are, and what they say.

use std::time::Duration;

use api::qos::KubeQos;
use groups::{CgroupPath, ContainerId, Driver, Group, Layout, Limit, PodUid, Runtime, Version};
use host::Reading;
use host::fs::Buffer;
use host::psi::{Hundredths, Resource};
use units::{Bytes, MilliCpu};

use super::{ANOLIS, WEB, WEB_CONTAINER, WEB_SANDBOX, machine, v1, v2};

#[test]
fn both_versions_read_as_the_same_values() {
    for (machine, version) in [(v1(), Version::V1), (v2(), Version::V2)] {
        assert_eq!(machine.tree.version(), version);
        let mut reader = machine.tree.reader(machine.web.clone());
        let mut buffer = Buffer::new();
        let stat = reader.cpu_stat(&mut buffer).unwrap().value().unwrap();
        assert_eq!(stat.usage, Duration::from_millis(2_990), "{version:?}");
        let throttling = stat.throttling.unwrap();
        assert_eq!((throttling.nr_periods, throttling.nr_throttled), (1_000, 40));
        assert_eq!(throttling.throttled, Duration::from_millis(2_500));
        let max = reader.cpu_max(&mut buffer).unwrap().value().unwrap();
        assert_eq!(max.cpus(), Limit::At(MilliCpu(2_000)));

        let memory = reader.memory_stat(&mut buffer).unwrap().value().unwrap();
        let whole = Bytes::from_mib(383);
        assert_eq!(memory.used_with_page_cache(), whole);
        assert_eq!(memory.used(), Bytes(whole.0 * 3 / 4));
        let usage = reader.memory_usage(&mut buffer).unwrap();
        assert_eq!(usage, Reading::Value(whole + Bytes(131_072)));
        assert_eq!(reader.memory_limit(&mut buffer).unwrap(), Reading::Value(Limit::Max));
        assert_eq!(reader.memory_events(&mut buffer).unwrap().value().unwrap().oom_kill, 0);

        let mut devices = Vec::new();
        assert_eq!(reader.io(&mut buffer, &mut devices).unwrap(), Reading::Value(()));
        let [disk] = devices.as_slice() else { panic!("{devices:?}") };
        let counts = (disk.read_bytes, disk.write_bytes, disk.reads, disk.writes);
        assert_eq!(counts, (4_096_000, 8_192_000, 100, 200));

        let pids = reader.pids(&mut buffer).unwrap().value().unwrap();
        assert_eq!((pids.current, pids.max), (12, Limit::Max));
        let mut ids = Vec::new();
        assert_eq!(reader.procs(&mut buffer, &mut ids).unwrap(), Reading::Value(()));
        assert_eq!(ids, [4_101, 4_102]);
        assert_eq!(machine.tree.procs(&machine.web).unwrap(), Reading::Value(ids));
        assert!(reader.idle_pages(&mut buffer).unwrap().is_unsupported());
    }
}

#[test]
fn numa_memory_is_bytes_on_both_versions() {
    let mut buffer = Buffer::new();
    let mut nodes = Vec::new();
    let machine = v1();
    machine.tree.reader(machine.web).numa_memory(&mut buffer, &mut nodes).unwrap();
    assert_eq!(nodes, [Bytes(200_802_304), Bytes(200_802_304)]);
    let machine = v2();
    machine.tree.reader(machine.web).numa_memory(&mut buffer, &mut nodes).unwrap();
    assert_eq!(nodes, [Bytes::from_mib(383)]);
}

#[test]
fn pressure_is_there_on_v2_and_on_anolis() {
    let mut buffer = Buffer::new();
    for (machine, is_there) in [(v1(), false), (v2(), true), (machine(ANOLIS, "pouch"), true)] {
        let mut reader = machine.tree.reader(machine.web.clone());
        for resource in Resource::ALL {
            let pressure = reader.pressure(resource, &mut buffer).unwrap();
            let some = pressure.map(|pressure| pressure.some.avg10);
            let want =
                if is_there { Reading::Value(Hundredths(125)) } else { Reading::Unsupported };
            assert_eq!(some, want, "{resource:?} in {}", machine.web);
        }
    }
}

#[test]
fn cold_memory_is_what_has_been_idle_for_sixty_scans() {
    let machine = machine(ANOLIS, "pouch");
    let mut reader = machine.tree.reader(machine.web);
    let pages = reader.idle_pages(&mut Buffer::new()).unwrap().value().unwrap();
    assert_eq!(pages.cold, Bytes(2 * 4_096 * (6 + 7 + 8)));
    assert_eq!((pages.scan_period_seconds, pages.page_scans), (5, 24));
    assert!(host::cold::is_supported(&machine.fake));
    assert!(!host::cold::is_supported(&v2().fake));
}

#[test]
fn a_changed_cpu_set_is_seen() {
    for (machine, file) in [
        (v1(), "/sys/fs/cgroup/cpuset/kubepods/besteffort/cpuset.cpus"),
        (v2(), "/sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice/cpuset.cpus.effective"),
    ] {
        let mut reader = machine.tree.reader(machine.layout.class(KubeQos::BestEffort));
        let mut buffer = Buffer::new();
        let mut seen = || {
            let cpus = reader.cpus(&mut buffer).unwrap().value().unwrap();
            (cpus.len(), cpus.first())
        };
        assert_eq!(seen().1, Some(0));
        machine.fake.set(file, "2-5\n");
        assert_eq!([seen(), seen()], [(4, Some(2)); 2]);
        machine.fake.set(file, "");
        assert_eq!(seen(), (0, None));
    }
}

#[test]
fn the_tree_shows_pods_and_containers() {
    for machine in [v1(), v2()] {
        let pod = machine.layout.pod(KubeQos::Burstable, &PodUid::new(WEB));
        let names = machine.tree.children(&pod).unwrap().value().unwrap();
        let groups: Vec<_> =
            names.iter().map(|name| machine.layout.classify(&pod.child(name))).collect();
        let mut ids = Vec::new();
        for group in groups {
            let Some(Group::Container { qos, uid, id, .. }) = group else { panic!("{group:?}") };
            assert_eq!((qos, uid.as_str()), (KubeQos::Burstable, WEB));
            ids.push(id);
        }
        assert_eq!(ids, [WEB_SANDBOX, WEB_CONTAINER]);
    }
}

#[test]
fn paths_lead_there_and_back() {
    let uid = PodUid::new(WEB);
    let layouts = [
        ("cgroupfs", Layout::new(Driver::Cgroupfs)),
        ("systemd", Layout::new(Driver::Systemd)),
        ("below a root", Layout::new(Driver::Cgroupfs).below("/a/b/")),
        ("nested kubelet", Layout::new(Driver::Systemd).below("kubelet")),
        ("one machine", Layout::one_machine()),
    ];
    for (name, layout) in layouts {
        assert_eq!(layout.classify(&layout.kubepods()), Some(Group::Kubepods), "{name}");
        for qos in KubeQos::ALL.iter().copied() {
            let class = match qos {
                KubeQos::Guaranteed => Group::Kubepods,
                other => Group::Class(other),
            };
            assert_eq!(layout.classify(&layout.class(qos)), Some(class), "{name}");
            let pod = layout.pod(qos, &uid);
            assert_eq!(layout.classify(&pod), Some(Group::Pod { qos, uid: uid.clone() }), "{name}");
            for runtime in Runtime::ALL {
                if layout.driver() == Driver::Systemd && runtime == Runtime::Tidepool {
                    continue;
                }
                let id: ContainerId = format!("{}://c0ffee", runtime.scheme()).parse().unwrap();
                let path = layout.container(qos, &uid, &id);
                let runtime = (layout.driver() == Driver::Systemd).then_some(runtime);
                let want =
                    Group::Container { qos, uid: uid.clone(), runtime, id: "c0ffee".to_owned() };
                assert_eq!(layout.classify(&path), Some(want), "{name}: {path}");
                assert_eq!(layout.classify(&path.child("init.scope")), None, "{name}: inside");
            }
        }
    }
}

#[test]
fn paths_are_spelled_as_kubelet_does() {
    let uid = PodUid::new("1-2");
    let id: ContainerId = "cri-o://c0".parse().unwrap();
    let cases = [
        (Layout::new(Driver::Cgroupfs), "kubepods/burstable/pod1-2/c0"),
        (
            Layout::new(Driver::Systemd),
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/crio-c0.scope",
        ),
        (
            Layout::new(Driver::Systemd).below("/kubelet"),
            "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/\
             kubelet-kubepods-burstable-pod1_2.slice/crio-c0.scope",
        ),
        (Layout::one_machine(), "tidepool/kubepods/burstable/pod1-2/c0"),
    ];
    for (layout, want) in cases {
        assert_eq!(layout.container(KubeQos::Burstable, &uid, &id).as_str(), want);
    }
}

#[test]
fn strangers_are_nobodys() {
    let systemd = Layout::new(Driver::Systemd);
    let pod = "kubepods.slice/kubepods-podu.slice";
    for path in [
        "",
        "system.slice",
        "kubepods",
        "kubepods.slice.d",
        "kubepods.slice/kubepods-.slice",
        "kubepods.slice/kubepods-pod.slice",
        "kubepods.slice/kubepods-burstable-podu.slice",
        &format!("{pod}/crio-conmon-c0.scope"),
        &format!("{pod}/cri-containerd-.scope"),
        &format!("{pod}/docker-c0"),
        &format!("{pod}/c0"),
    ] {
        assert_eq!(systemd.classify(&CgroupPath::new(path)), None, "{path:?}");
    }
    let infra = systemd.classify(&CgroupPath::new(&format!("{pod}/crio-c0")));
    assert!(matches!(infra, Some(Group::Container { runtime: Some(Runtime::CriO), .. })));
}
