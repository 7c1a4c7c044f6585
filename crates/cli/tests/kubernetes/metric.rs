//! Do the numbers of the cluster agree with those of the kernel?

use std::fs;
use std::time::{Duration, Instant};

use groups::{CgroupPath, Controller, Version};
use host::cgroup::MemoryStat;
use serde_json::{Value, json};
use units::Quantity;

use crate::kernel::Kernel;
use crate::rig::{NODE, Rig, WORK};
use crate::seen::{ready, within};

/// How far apart the two may be, as a share: they look at slightly different spans of time.
const TOLERANCE: f64 = 0.15;
/// The same for a node on which others come and go.
const NODE_TOLERANCE: f64 = 0.25;
const HELD: u64 = 96;
/// Long enough for a rate; reports come twice a minute.
const SPAN: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) fn agreement(rig: &Rig) {
    rig.clear();
    let spinner = pod("spinner", "while :; do :; done", json!({"cpu": "300m"}));
    // dd fills its block and then waits for a reader that never comes.
    let holding = format!("dd if=/dev/zero bs={HELD}M count=1 | sleep 100000");
    let holder = pod("holder", &holding, json!({"cpu": "100m", "memory": "192Mi"}));
    rig.apply(&format!("{spinner}\n---\n{holder}"));
    let spinner = ready(rig, WORK, "app=spinner", 1).remove(0);
    let holder = ready(rig, WORK, "app=holder", 1).remove(0);
    let kernel = Kernel::of(rig);

    let (began, used) = (Instant::now(), cpu_time(&kernel, &kernel.pod(&spinner)));
    let first = reported(rig).ok().map(|(time, _)| time);
    let mut whole = vec![node_memory()];
    let metric = within(rig, PATIENCE, "a report about enough spinning", || {
        whole.push(node_memory());
        let (time, metric) = reported(rig)?;
        let is_late = began.elapsed() >= SPAN && Some(&time) != first.as_ref();
        if is_late { Ok(metric) } else { Err(format!("that of {time}")) }
    });
    let elapsed = began.elapsed().as_secs_f64();
    let spent = cpu_time(&kernel, &kernel.pod(&spinner)) - used;

    let cores = of_pod(&metric, "spinner", "cpu");
    near("CPU of a spinning pod", cores, spent / elapsed, TOLERANCE);
    let memory = memory(&kernel, &kernel.pod(&holder));
    near("memory of a pod that holds some", of_pod(&metric, "holder", "memory"), memory, TOLERANCE);
    near("memory that it holds", memory, (HELD << 20) as f64, TOLERANCE);
    let node = amount(&metric["nodeMetric"]["nodeUsage"]["resources"]["memory"]);
    // Others of the machine come and go, and a report is about a whole minute.
    let (least, most) = whole
        .into_iter()
        .fold((f64::MAX, 0.0_f64), |(least, most), one| (least.min(one), most.max(one)));
    let bounds = least * (1.0 - NODE_TOLERANCE)..=most * (1.0 + NODE_TOLERANCE);
    assert!(bounds.contains(&node), "memory of the node: reported {node}, seen {bounds:?}");
    assert_eq!(row(&metric, "spinner")["qos"], "LS");
    assert_eq!(row(&metric, "spinner")["priority"], "koord-prod");
}

fn pod(name: &str, script: &str, limits: Value) -> String {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": WORK,
            "labels": {"app": name, "koordinator.sh/qosClass": "LS"}},
        "spec": {
            "schedulerName": "koord-scheduler", "priorityClassName": "koord-prod",
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": "localhost/busybox:dev",
                "command": ["sh", "-c", script],
                "resources": {"limits": limits, "requests": {"cpu": "50m", "memory": "16Mi"}}}],
        },
    })
    .to_string()
}

/// The last report: when, and what.
fn reported(rig: &Rig) -> Result<(String, Value), String> {
    let metric = rig.get(&["nodemetric", NODE])?;
    let time = metric["status"]["updateTime"].as_str().ok_or("not measured yet")?;
    Ok((time.to_owned(), metric["status"].clone()))
}

fn row<'a>(metric: &'a Value, pod: &str) -> &'a Value {
    let rows = metric["podsMetric"].as_array();
    let row = rows.and_then(|rows| rows.iter().find(|row| row["name"] == pod));
    row.unwrap_or_else(|| panic!("{pod} is not in {metric}"))
}

fn of_pod(metric: &Value, pod: &str, resource: &str) -> f64 {
    amount(&row(metric, pod)["podUsage"]["resources"][resource])
}

fn amount(quantity: &Value) -> f64 {
    let text = quantity.as_str().unwrap_or_else(|| panic!("no amount: {quantity}"));
    let quantity: Quantity = text.parse().unwrap();
    quantity.milli_value() as f64 / 1000.0
}

/// Seconds of CPU that a group has had.
fn cpu_time(kernel: &Kernel, group: &CgroupPath) -> f64 {
    let mut reader = kernel.tree.reader(group.clone());
    let mut buffer = host::fs::Buffer::default();
    reader.cpu_usage(&mut buffer).unwrap().value().unwrap().as_secs_f64()
}

fn memory(kernel: &Kernel, group: &CgroupPath) -> f64 {
    let dir = kernel.tree.dir(Controller::Memory, group).unwrap();
    let text = fs::read(dir.join("memory.stat")).unwrap();
    MemoryStat::parse(Version::V1, &text).unwrap().used().0 as f64
}

/// Bytes that the machine cannot give to anyone.
fn node_memory() -> f64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let kib = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim_start_matches(':').trim_end_matches("kB").trim().parse::<f64>().unwrap()
    };
    (kib("MemTotal") - kib("MemAvailable")) * 1024.0
}

#[track_caller]
fn near(what: &str, got: f64, want: f64, tolerance: f64) {
    let apart = (got - want).abs() / want.max(f64::EPSILON);
    assert!(apart <= tolerance, "{what}: reported {got}, the kernel says {want}");
}
