//! How late threads wake up, and what follows from it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use groups::{CgroupPath, Driver, Knob, Layout, Version};
use host::cgroup::Tree;
use host::fs::{Mounts, RealFs};
use host::wake::serve;
use qos::identity::Mode;
use qos::wake::{Delays, Measured, judge, settle};
use serde_json::{Value, json};
use units::Micros;

use super::super::wake::{Prober, WakeProbe, measure};
use super::rig::{POD, Pod, Rig};

fn behind(extensions: Value) -> Value {
    json!({
        "resourceQOSStrategy": { "beClass": { "cpuQOS": { "enable": true } } },
        "extensions": extensions,
    })
}

fn measured(weight: i64, idle: i64) -> Vec<Measured> {
    let delays = |p99| Delays { p50: Micros(p99 / 2), p99: Micros(p99) };
    [(Mode::Weight, weight), (Mode::IdlePods, idle)]
        .map(|(mode, p99)| Measured { mode, delays: delays(p99) })
        .to_vec()
}

#[test]
fn the_verdict_decides_whether_pods_are_idle_unless_operators_do() {
    let cases = [
        ("idle groups help", 4_000, 60, json!({}), "1"),
        ("weight does as well", 70, 60, json!({}), "0"),
        ("an operator insists", 70, 60, json!({ "mode": "P" }), "1"),
        ("and the other way", 4_000, 60, json!({ "mode": "W" }), "0"),
        ("a mode that is not offered", 70, 60, json!({ "mode": "R" }), "0"),
    ];
    for version in [Version::V1, Version::V2] {
        for (name, weight, idle, config, want) in cases.clone() {
            let mut rig = Rig::new(version);
            rig.slo(behind(json!({ "tidepool-kernel-config": config })));
            let job = rig.add(Pod { name: "job", qos: "BE", ..POD });
            let verdict = judge(&measured(weight, idle)).unwrap();
            rig.use_probe(WakeProbe::decided(verdict));
            rig.tick();
            assert_eq!(rig.text(&job, Knob::CpuIdle), want, "{name}, {version:?}");
            assert_eq!(rig.text(&rig.tier(), Knob::CpuIdle), "0", "{name}, {version:?}");
        }
    }
}

fn headline(rig: &Rig) -> Option<String> {
    let all = rig.journal.about("node");
    all.into_iter().find(|one| one.strategy == "wake").map(|one| one.why.headline)
}

fn nobody() -> Prober {
    let program = PathBuf::from("/nonexistent/prober");
    Prober { program, arguments: Vec::new(), time: Duration::from_millis(1) }
}

#[test]
fn a_probe_that_fails_changes_nothing_and_says_so() {
    let mut rig = Rig::new(Version::V2);
    rig.use_probe(WakeProbe::new(nobody()));
    rig.slo(behind(json!({})));
    let job = rig.add(Pod { name: "job", qos: "BE", ..POD });
    // A kubelet hands down less than there is.
    rig.kernel.fake.set("sys/fs/cgroup/kubepods/cgroup.subtree_control", "cpu memory\n");
    let before = rig.kernel.fake.to_fixture();
    rig.tick();
    assert_eq!(rig.text(&job, Knob::CpuIdle), "1", "nobody waits for the probe");
    let end = Instant::now() + Duration::from_secs(10);
    while headline(&rig).is_some_and(|headline| headline.starts_with("measuring")) {
        assert!(Instant::now() < end, "{:?}", headline(&rig));
        thread::yield_now();
        rig.tick();
    }
    let why = headline(&rig).unwrap();
    assert!(why.contains("is not known: cannot run /nonexistent/prober: "), "{why}");
    assert_eq!(rig.text(&job, Knob::CpuIdle), "1");
    rig.off_by = Some("a test".to_owned());
    rig.tick();
    assert_eq!(rig.kernel.fake.to_fixture(), before, "its groups are gone");
}

#[test]
fn nothing_is_probed_where_nobody_wants_it_or_the_node_is_busy() {
    let cases = [
        ("nothing is configured", json!({}), 0.0, None),
        ("told not to", behind(json!({ "tidepool-kernel-config": { "probe": false } })), 0.0, None),
        (
            "a mode is given",
            behind(json!({ "tidepool-kernel-config": { "mode": "P" } })),
            0.0,
            None,
        ),
        (
            "busy",
            behind(json!({})),
            8.1,
            Some("how late online threads wake up is not measured yet"),
        ),
    ];
    for (name, slo, cores, want) in cases {
        let mut rig = Rig::new(Version::V2);
        rig.use_probe(WakeProbe::new(nobody()));
        rig.slo(slo);
        rig.uses("web", cores);
        for _ in 0..3 {
            rig.tick();
        }
        assert_eq!(headline(&rig).as_deref(), want, "{name}");
    }
}

#[test]
fn what_a_killed_agent_left_is_removed() {
    let mut rig = Rig::new(Version::V2);
    let before = rig.kernel.fake.to_fixture();
    for class in ["tidepool-wake-online", "tidepool-wake-behind"] {
        let class = rig.layout.kubepods().child(class);
        rig.tree.make(&class).unwrap();
        rig.tree.make(&class.child("pod")).unwrap();
    }
    rig.tick();
    assert_eq!(rig.kernel.fake.to_fixture(), before);
}

/// One of the processes of the next test, when that starts it by its name; otherwise nothing.
#[test]
fn prober() {
    if !std::env::args().any(|word| word == "act::tests::wake::prober") {
        return;
    }
    println!();
    serve(io::stdin().lock(), io::stdout().lock()).unwrap();
}

/// On this kernel: delays are finite, both modes are measured, and nothing stays behind.
#[test]
fn this_kernel_is_measured_and_left_as_it_was() {
    let tree = Tree::find(Arc::new(RealFs::new(Mounts::host()))).unwrap();
    let root = CgroupPath::new(&format!("tidepool-test-{}-wake", std::process::id()));
    if let Err(error) = tree.make(&root) {
        println!("skipped: {error}");
        return;
    }
    let layout = Layout::new(Driver::Cgroupfs).below(root.as_str());
    tree.make(&layout.kubepods()).unwrap();
    let prober = Prober {
        program: std::env::current_exe().unwrap(),
        arguments: ["--exact", "act::tests::wake::prober", "--nocapture"]
            .map(str::to_owned)
            .to_vec(),
        time: Duration::from_millis(1_500),
    };
    let cpu = host::topology::Topology::read(tree.fs()).unwrap().cpus.iter().last().unwrap().id;
    let modes = [Mode::Weight, Mode::IdlePods];
    let result = measure(&tree, &layout.kubepods(), &prober, cpu, &modes);
    let children = tree.children(&layout.kubepods()).unwrap().value().unwrap();
    tree.remove(&layout.kubepods()).unwrap();
    tree.remove(&root).unwrap();
    assert_eq!(children, [""; 0], "the groups of the probe are gone");
    let samples = result.unwrap();
    // Whether the machine is quiet enough for a verdict is not ours to say.
    println!("{:?}", settle(&samples).map(|verdict| verdict.why.to_string()));
    assert!(samples.iter().map(|samples| samples.mode).eq(modes));
    let turns = || samples.iter().flat_map(|samples| &samples.turns);
    assert!(turns().count() == 8 && turns().all(|turn| !turn.is_empty()), "four turns a mode");
}
