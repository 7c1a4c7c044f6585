//! What is sampled, with which formula.

use api::qos::KubeQos;
use groups::Controller;

use super::rig::{BOTH, Counters, MIB, Rig, TIER, container, pod};
use crate::series::{Measure, Subject};

#[test]
fn the_node_and_its_numa_nodes_are_sampled() {
    for version in BOTH {
        let mut rig = Rig::new(version);
        rig.step();
        assert_eq!(rig.fresh(Subject::Node, Measure::Cpu), None, "the first tick is a baseline");
        assert_eq!(rig.fresh(Subject::Node, Measure::Memory), None, "and withholds memory too");
        rig.stat(&[100, 50, 25, 0]);
        rig.step();
        rig.assert_fresh(Subject::Node, Measure::Cpu, 1.75);
        rig.assert_fresh(Subject::Node, Measure::Memory, 2_000.0 * MIB as f64);
        rig.assert_fresh(Subject::Numa(0), Measure::Cpu, 1.5);
        rig.assert_fresh(Subject::Numa(1), Measure::Cpu, 0.25);
        rig.assert_fresh(Subject::Numa(1), Measure::Memory, 1_000.0 * MIB as f64);
        assert_eq!(rig.fresh(Subject::Node, Measure::MemoryWithPageCache), None, "flag is off");
        assert_eq!(rig.metrics.numa_nodes(), [0, 1]);
        let facts = rig.metrics.facts().node.unwrap();
        assert_eq!((facts.topology.cpus.len(), facts.topology.nodes.len()), (4, 2));
    }
}

#[test]
fn pods_and_containers_are_sampled_from_their_second_tick_on() {
    for version in BOTH {
        let mut rig = Rig::new(version);
        let web = pod("web", KubeQos::Burstable);
        let main = container(&web).clone();
        rig.make(main.cgroup.as_str());
        let counters = |second: u64| Counters {
            usage_ms: 1_500 * second,
            anon: 300 * MIB,
            file: 100 * MIB,
            periods: 10 * second,
            throttled: 4 * second,
        };
        rig.count(web.cgroup.as_str(), counters(1));
        rig.count(main.cgroup.as_str(), counters(1));
        rig.enter(vec![web.clone()]);
        rig.step();
        assert_eq!(rig.fresh(Subject::Pod("web"), Measure::Memory), None, "{version:?}");
        for second in 2..5 {
            rig.count(web.cgroup.as_str(), counters(second));
            rig.count(main.cgroup.as_str(), counters(second));
            rig.step();
        }
        for subject in [Subject::Pod("web"), Subject::Container(&main.id)] {
            rig.assert_fresh(subject, Measure::Cpu, 1.5);
            rig.assert_fresh(subject, Measure::Memory, 300.0 * MIB as f64);
            rig.assert_fresh(subject, Measure::Throttled, 0.4);
        }
    }
}

#[test]
fn a_group_that_wakes_up_is_asked_for_throttling_at_once() {
    let mut rig = Rig::new(groups::Version::V1);
    let web = pod("web", KubeQos::Burstable);
    rig.make(container(&web).cgroup.as_str());
    rig.enter(vec![web.clone()]);
    let stat = rig.file(Controller::Cpu, web.cgroup.as_str(), "cpu.stat");
    (0..35).for_each(|_| rig.step());
    rig.fs.fail(&stat, Some(rustix::io::Errno::ACCESS));
    rig.step();
    rig.assert_fresh(Subject::Pod("web"), Measure::Throttled, 0.0);
    rig.fs.fail(&stat, None);
    for second in 1..4 {
        let counters = Counters {
            usage_ms: 200 * second,
            periods: 10 * second,
            throttled: 5 * second,
            ..Counters::default()
        };
        rig.count(web.cgroup.as_str(), counters);
        rig.step();
    }
    rig.assert_fresh(Subject::Pod("web"), Measure::Throttled, 0.5);
}

#[test]
fn the_system_is_what_nobody_else_uses() {
    for version in BOTH {
        let mut rig = Rig::new(version);
        let web = pod("web", KubeQos::Guaranteed);
        rig.make(container(&web).cgroup.as_str());
        rig.make("host-latency-sensitive/nginx");
        rig.enter(vec![web.clone()]);
        rig.enter_application("nginx", "host-latency-sensitive/nginx");
        for second in 0..3 {
            rig.stat(&[100 * second, 100 * second, 50 * second, 50 * second]);
            let used = |share, mib| Counters {
                usage_ms: share * second,
                anon: mib * MIB,
                ..Counters::default()
            };
            rig.count(web.cgroup.as_str(), used(1_000, 500));
            rig.count(container(&web).cgroup.as_str(), used(1_000, 500));
            rig.count("host-latency-sensitive/nginx", used(500, 250));
            rig.step();
        }
        rig.assert_fresh(Subject::HostApplication("nginx"), Measure::Cpu, 0.5);
        rig.assert_fresh(Subject::System, Measure::Cpu, 3.0 - 1.0 - 0.5);
        let mib = MIB as f64;
        rig.assert_fresh(Subject::System, Measure::Memory, (2_000.0 - 500.0 - 250.0) * mib);
        rig.assert_fresh(Subject::NumaSystem(0), Measure::Cpu, 1.5 * 2.0 / 3.0);
        rig.assert_fresh(Subject::NumaSystem(0), Measure::Memory, 500.0 * mib);
        rig.assert_fresh(Subject::NumaSystem(1), Measure::Memory, 1_000.0 * mib);
    }
}

#[test]
fn more_used_by_pods_than_by_the_node_leaves_no_system() {
    let mut rig = Rig::new(BOTH[1]);
    let web = pod("web", KubeQos::Guaranteed);
    rig.make(container(&web).cgroup.as_str());
    rig.enter(vec![web.clone()]);
    for second in 0..3 {
        rig.stat(&[50 * second, 0, 0, 0]);
        let counters =
            Counters { usage_ms: 900 * second, anon: 4_000 * MIB, ..Counters::default() };
        rig.count(web.cgroup.as_str(), counters);
        rig.step();
    }
    rig.assert_fresh(Subject::System, Measure::Cpu, 0.0);
    rig.assert_fresh(Subject::System, Measure::Memory, 0.0);
}

#[test]
fn the_best_effort_tier_is_bound_by_its_narrowest_limit() {
    for version in BOTH {
        let mut rig = Rig::new(version);
        let sort = pod("sort", KubeQos::BestEffort);
        rig.make(container(&sort).cgroup.as_str());
        let (set, quota) = match version {
            groups::Version::V1 => ("cpuset.cpus", "cpu.cfs_quota_us"),
            groups::Version::V2 => ("cpuset.cpus.effective", "cpu.max"),
        };
        let tier_set = rig.file(Controller::Cpuset, TIER, set);
        let container_set = rig.file(Controller::Cpuset, container(&sort).cgroup.as_str(), set);
        let tier_quota = rig.file(Controller::Cpu, TIER, quota);
        rig.fs.set(&tier_set, "0-3\n");
        rig.fs.set(&container_set, "0-2\n");
        rig.enter(vec![sort.clone(), pod("web", KubeQos::Burstable)]);
        for _ in 0..7 {
            rig.step();
        }
        rig.assert_fresh(Subject::BestEffort, Measure::RealLimit, 3.0);
        rig.assert_fresh(Subject::BestEffort, Measure::Request, 1.5);
        rig.assert_fresh(Subject::BestEffort, Measure::Cpu, 0.0);
        rig.fs.set(&tier_set, "0-1\n");
        rig.count(TIER, Counters { usage_ms: 1_250, ..Counters::default() });
        rig.step();
        rig.assert_fresh(Subject::BestEffort, Measure::RealLimit, 2.0);
        rig.assert_fresh(Subject::BestEffort, Measure::Cpu, 1.25);
        rig.fs.set(&tier_quota, if quota == "cpu.max" { "50000 100000\n" } else { "50000\n" });
        rig.step();
        rig.assert_fresh(Subject::BestEffort, Measure::RealLimit, 0.5);
    }
}

#[test]
fn a_pod_that_leaves_takes_its_series_and_files_along() {
    let mut rig = Rig::new(BOTH[0]);
    let pods = || ["a", "b"].map(|name| pod(name, KubeQos::Burstable)).to_vec();
    for pod in pods() {
        rig.make(container(&pod).cgroup.as_str());
    }
    rig.enter(Vec::new());
    rig.step();
    let open = rig.meter.open_files();
    rig.enter(pods());
    (0..3).for_each(|_| rig.step());
    let with_both = rig.meter.open_files();
    rig.enter(pods().split_off(1));
    (0..3).for_each(|_| rig.step());
    assert_eq!(rig.metrics.latest(Subject::Pod("a"), Measure::Cpu), None);
    assert!(rig.fresh(Subject::Pod("b"), Measure::Cpu).is_some());
    assert_eq!(rig.meter.open_files() - open, (with_both - open) / 2);
    rig.enter(Vec::new());
    rig.step();
    assert_eq!(rig.meter.open_files(), open);
}

#[test]
fn a_hundred_pods_cost_fewer_than_six_hundred_calls_a_second() {
    for version in BOTH {
        let mut rig = Rig::new(version);
        let pods: Vec<_> =
            (0..110).map(|number| pod(&format!("p{number}"), KubeQos::Burstable)).collect();
        for pod in &pods {
            rig.make(container(pod).cgroup.as_str());
            rig.count(pod.cgroup.as_str(), Counters::default());
            rig.count(container(pod).cgroup.as_str(), Counters::default());
        }
        rig.enter(pods);
        (0..10).for_each(|_| rig.step());
        let before = rig.meter.count();
        (0..50).for_each(|_| rig.step());
        let a_second = (rig.meter.count() - before) / 50;
        assert!(a_second <= 540, "{version:?}: {a_second}, and the reflex needs 60");
    }
}

#[test]
fn memory_with_page_cache_is_kept_when_asked_for() {
    let settings = crate::collect::CollectSettings {
        page_cache: true,
        ..crate::collect::CollectSettings::default()
    };
    let mut rig = Rig::with(BOTH[1], settings);
    let web = pod("web", KubeQos::Burstable);
    rig.make(container(&web).cgroup.as_str());
    rig.count(
        web.cgroup.as_str(),
        Counters { anon: 300 * MIB, file: 100 * MIB, ..Counters::default() },
    );
    rig.enter(vec![web]);
    (0..2).for_each(|_| rig.step());
    rig.assert_fresh(Subject::Node, Measure::MemoryWithPageCache, 4_000.0 * MIB as f64);
    rig.assert_fresh(Subject::Pod("web"), Measure::MemoryWithPageCache, 400.0 * MIB as f64);
    rig.assert_fresh(Subject::Pod("web"), Measure::Memory, 300.0 * MIB as f64);
}
