//! What goes wrong on real machines, and who must not notice.

use api::qos::KubeQos;
use groups::{Controller, Version};
use qos::node::Pod;
use rustix::io::Errno;

use super::rig::{BOTH, Counters, MIB, Rig, SECOND, container, pod};
use crate::collect::Task;
use crate::series::{Measure, Subject};

/// Two pods that each use half a core, sampled for a while.
fn running(version: Version) -> (Rig, [Pod; 2]) {
    let mut rig = Rig::new(version);
    let pods = ["a", "b"].map(|name| pod(name, KubeQos::Burstable));
    for pod in &pods {
        rig.make(container(pod).cgroup.as_str());
    }
    rig.enter(pods.to_vec());
    for second in 0..3 {
        advance(&mut rig, &pods, second);
    }
    (rig, pods)
}

/// The node uses two cores and each pod that is there half a core.
fn advance(rig: &mut Rig, pods: &[Pod], second: u64) {
    rig.stat(&[50 * second; 4]);
    for pod in pods {
        let counters = Counters { usage_ms: 500 * second, anon: 100 * MIB, ..Counters::default() };
        rig.count(pod.cgroup.as_str(), counters);
        rig.count(container(pod).cgroup.as_str(), counters);
    }
    rig.step();
}

fn cpu(rig: &Rig, uid: &str) -> Option<f64> {
    rig.fresh(Subject::Pod(uid), Measure::Cpu)
}

#[test]
fn a_vanished_pod_disturbs_nobody_and_may_come_back() {
    for version in BOTH {
        let (mut rig, pods) = running(version);
        rig.assert_fresh(Subject::System, Measure::Cpu, 1.0);
        let open = rig.meter.open_files();
        rig.remove(pods[0].cgroup.as_str());
        advance(&mut rig, &pods[1..], 3);
        assert_eq!(cpu(&rig, "a"), None, "{version:?}");
        rig.assert_fresh(Subject::Pod("b"), Measure::Cpu, 0.5);
        rig.assert_fresh(Subject::System, Measure::Cpu, 1.5);
        let health = rig.metrics.health(Task::Usage).unwrap();
        assert_eq!((health.failures, health.failing_objects), (0, 0), "gone is not broken");
        assert!(rig.meter.open_files() < open, "its files are closed");
        rig.make(container(&pods[0]).cgroup.as_str());
        let mut second = 4;
        while cpu(&rig, "a").is_none() && second < 20 {
            advance(&mut rig, &pods, second);
            second += 1;
        }
        rig.assert_fresh(Subject::Pod("a"), Measure::Cpu, 0.5);
    }
}

#[test]
fn a_group_that_vanishes_between_two_of_its_files_is_gone() {
    for version in BOTH {
        let (mut rig, pods) = running(version);
        let memory = rig.file(Controller::Memory, pods[0].cgroup.as_str(), "memory.stat");
        rig.fs.fail(&memory, Some(Errno::NODEV));
        advance(&mut rig, &pods, 3);
        assert_eq!(cpu(&rig, "a"), None, "{version:?}: half a sample is none");
        rig.assert_fresh(Subject::Pod("b"), Measure::Cpu, 0.5);
    }
}

#[test]
fn a_counter_that_goes_backwards_is_a_new_baseline() {
    for version in BOTH {
        let (mut rig, pods) = running(version);
        let restarted = Counters { usage_ms: 7, anon: 100 * MIB, ..Counters::default() };
        rig.count(pods[0].cgroup.as_str(), restarted);
        rig.step();
        assert_eq!(cpu(&rig, "a"), None, "{version:?}");
        rig.count(pods[0].cgroup.as_str(), Counters { usage_ms: 257, ..restarted });
        rig.step();
        rig.assert_fresh(Subject::Pod("a"), Measure::Cpu, 0.25);
        let all = rig.metrics.summary(Subject::Pod("a"), Measure::Cpu, rig.now, SECOND * 60);
        assert!(all.unwrap().p99 <= 0.5, "no absurd value was ever recorded");
    }
}

#[test]
fn a_node_counter_that_goes_backwards_is_a_new_baseline() {
    let (mut rig, _) = running(Version::V2);
    rig.stat(&[1; 4]);
    rig.step();
    assert_eq!(rig.fresh(Subject::Node, Measure::Cpu), None);
    rig.stat(&[26; 4]);
    rig.step();
    rig.assert_fresh(Subject::Node, Measure::Cpu, 1.0);
}

#[test]
fn throttling_that_goes_backwards_is_no_ratio() {
    let (mut rig, pods) = running(Version::V2);
    let group = pods[0].cgroup.as_str();
    for (second, periods, throttled, want) in
        [(3, 100, 50, Some(0.5)), (4, 10, 5, None), (5, 20, 10, Some(0.5)), (6, 20, 10, Some(0.0))]
    {
        let usage_ms = 500 * second;
        rig.count(group, Counters { usage_ms, periods, throttled, ..Counters::default() });
        rig.step();
        assert_eq!(rig.fresh(Subject::Pod("a"), Measure::Throttled), want, "second {second}");
    }
}

#[test]
fn cpus_that_come_and_go_keep_the_others_right() {
    for version in BOTH {
        let (mut rig, _) = running(version);
        rig.stat(&[150, u64::MAX, 150, 150]);
        rig.fs.set("/sys/devices/system/cpu/online", "0,2-3\n");
        rig.step();
        rig.assert_fresh(Subject::Numa(0), Measure::Cpu, 0.5);
        rig.assert_fresh(Subject::Numa(1), Measure::Cpu, 1.0);
        rig.stat(&[200, 3, 200, 200]);
        rig.fs.set("/sys/devices/system/cpu/online", "0-3\n");
        rig.step();
        rig.assert_fresh(Subject::Numa(0), Measure::Cpu, 0.5);
        rig.stat(&[250, 53, 250, 250]);
        rig.step();
        rig.assert_fresh(Subject::Numa(0), Measure::Cpu, 1.0);
        for _ in 0..60 {
            rig.step();
        }
        let online = rig.metrics.facts().node.unwrap().topology.cpus.online();
        assert_eq!(online.len(), 4, "the topology was read again");
    }
}

#[test]
fn a_gap_in_time_makes_no_sample_and_no_burst() {
    for version in BOTH {
        let (mut rig, pods) = running(version);
        let refused = rig.metrics.size().refused;
        rig.stat(&[60_000; 4]);
        rig.pass(SECOND * 600);
        assert_eq!(rig.fresh(Subject::Node, Measure::Cpu), None, "{version:?}");
        assert_eq!(cpu(&rig, "a"), None, "{version:?}");
        rig.stat(&[60_050; 4]);
        let counters = Counters { usage_ms: 1_500, anon: 100 * MIB, ..Counters::default() };
        rig.count(pods[0].cgroup.as_str(), counters);
        rig.step();
        rig.assert_fresh(Subject::Node, Measure::Cpu, 2.0);
        rig.assert_fresh(Subject::Pod("a"), Measure::Cpu, 0.5);
        assert_eq!(rig.metrics.size().refused, refused);
        assert!(rig.collector.skipped() >= 598, "missed ticks are counted, not made up for");
    }
}

#[test]
fn garbage_in_one_file_leaves_out_one_pod() {
    for version in BOTH {
        let (mut rig, pods) = running(version);
        let memory = rig.file(Controller::Memory, pods[0].cgroup.as_str(), "memory.stat");
        for (name, garbage) in [
            ("empty", &b""[..]),
            ("binary", &[0xff, 0x00, 0x80, b'\n'][..]),
            ("words", b"total_rss many\nanon many\n"),
            ("a huge number", b"anon 99999999999999999999999\n"),
        ] {
            advance(&mut rig, &pods[1..], 3);
            rig.fs.set(&memory, garbage);
            rig.step();
            assert_eq!(cpu(&rig, "a"), None, "{version:?}: {name}");
            assert!(cpu(&rig, "b").is_some(), "{version:?}: {name}");
            let health = rig.metrics.health(Task::Usage).unwrap();
            assert_eq!(health.failing_objects, 1, "{version:?}: {name}");
        }
        advance(&mut rig, &pods, 4);
        advance(&mut rig, &pods, 5);
        assert!(cpu(&rig, "a").is_some(), "{version:?}: it can be read again");
        assert_eq!(rig.metrics.health(Task::Usage).unwrap().failing_objects, 0);
    }
}

#[test]
fn garbage_about_the_node_stops_only_what_needs_the_node() {
    for version in BOTH {
        let (mut rig, pods) = running(version);
        for second in 3..20 {
            advance_without_node(&mut rig, &pods, second);
            assert_eq!(rig.fresh(Subject::Node, Measure::Cpu), None, "{version:?}");
            rig.assert_fresh(Subject::Pod("b"), Measure::Cpu, 0.5);
            let has_system = rig.fresh(Subject::System, Measure::Cpu).is_some();
            assert_eq!(has_system, second < 13, "{version:?}: second {second}");
        }
        let health = rig.metrics.health(Task::Usage).unwrap();
        assert_eq!(health.failures, 17);
        assert!(health.last_error.unwrap().contains("/proc/stat"));
    }
}

fn advance_without_node(rig: &mut Rig, pods: &[Pod], second: u64) {
    for pod in pods {
        rig.count(pod.cgroup.as_str(), Counters { usage_ms: 500 * second, ..Counters::default() });
    }
    rig.fs.set("/proc/stat", "cpu  x y z\n");
    rig.step();
}

#[test]
fn a_file_that_cannot_be_opened_leaves_out_one_pod() {
    for errno in [Errno::MFILE, Errno::ACCESS, Errno::IO] {
        let (mut rig, pods) = running(Version::V1);
        let late = pod("late", KubeQos::Burstable);
        rig.make(container(&late).cgroup.as_str());
        rig.fs.fail(
            rig.file(Controller::Cpuacct, late.cgroup.as_str(), "cpuacct.usage"),
            Some(errno),
        );
        rig.enter([&pods[..], &[late]].concat());
        for second in 3..6 {
            advance(&mut rig, &pods, second);
        }
        assert_eq!(cpu(&rig, "late"), None, "{errno:?}");
        rig.assert_fresh(Subject::Pod("a"), Measure::Cpu, 0.5);
        assert_eq!(rig.metrics.health(Task::Usage).unwrap().failing_objects, 1, "{errno:?}");
    }
}

#[test]
fn a_host_without_memory_control_still_has_cpu() {
    let mut rig = Rig::new(Version::V2);
    let web = pod("web", KubeQos::Burstable);
    rig.make(container(&web).cgroup.as_str());
    rig.fs.remove(rig.file(Controller::Memory, web.cgroup.as_str(), "memory.stat"));
    rig.enter(vec![web.clone()]);
    for second in 0..3 {
        let stat = rig.file(Controller::Cpu, web.cgroup.as_str(), "cpu.stat");
        rig.fs.set(stat, format!("usage_usec {}\n", 250_000 * second));
        rig.step();
    }
    rig.assert_fresh(Subject::Pod("web"), Measure::Cpu, 0.25);
    assert_eq!(rig.fresh(Subject::Pod("web"), Measure::Memory), None);
    assert_eq!(rig.fresh(Subject::Pod("web"), Measure::Throttled), None, "no cpu controller");
}
