//! The chart on a cluster that has a Koordinator's objects, and plain manifests over it.

use std::time::Duration;

use serde_json::Value;

use crate::rig::{NODE, Rig, SYSTEM, repository};
use crate::seen::{brief, is_ready, pods, until, within};

/// Components and how many pods each has here.
const COMPONENTS: [(&str, usize); 3] =
    [("koordlet", 1), ("koord-manager", 2), ("koord-scheduler", 1)];

/// How long images may take to start, three at once on two CPUs.
const STARTING: Duration = Duration::from_secs(150);

/// What this cluster's operator sets.
pub(crate) fn values(rig: &Rig) -> Vec<String> {
    let root = format!("koordlet.cgroup.root={}", rig.cgroup_root());
    let fixed = [
        "image.host=localhost",
        "image.tag=dev",
        "koordlet.cgroup.driver=cgroupfs",
        "scheduler.replicas=1",
    ];
    let all = fixed.into_iter().map(str::to_owned).chain([root]);
    all.flat_map(|value| ["--set".to_owned(), value]).collect()
}

/// Where the agent keeps what it must find again.
pub(crate) fn agent_dir(_rig: &Rig) -> String {
    "/var/lib/tidepool/agent".to_owned()
}

/// Whether every component has all its pods, ready and from the one image.
pub(crate) fn all_ready(rig: &Rig) -> Result<(), String> {
    for (app, count) in COMPONENTS {
        let pods = pods(rig, SYSTEM, &format!("koord-app={app}"))?;
        if pods.len() != count || !pods.iter().all(is_ready) {
            return Err(format!("{app}:\n{}", pods.iter().map(brief).collect::<String>()));
        }
        for pod in pods {
            let image = &pod["spec"]["containers"][0]["image"];
            if image != "localhost/tidepool:dev" {
                return Err(format!("{app} runs {image}"));
            }
        }
    }
    Ok(())
}

pub(crate) fn by_chart(rig: &Rig) {
    let chart = repository().join("deploy/chart/tidepool");
    let chart = chart.to_str().unwrap();
    // As often as wanted, for whoever tries a single scenario on a cluster that stays up.
    let mut words = vec!["upgrade", "--install", "tidepool", chart, "-n", SYSTEM];
    let values = values(rig);
    words.extend(values.iter().map(String::as_str));
    words.push("--take-ownership");
    rig.helm(&words).done();
    within(rig, STARTING, "all components are ready", || all_ready(rig));
    until(rig, "the node lends something", || lends(rig));
    reports(rig);
}

/// Whether the node shows batch resources.
fn lends(rig: &Rig) -> Result<(), String> {
    let node = rig.get(&["node", NODE])?;
    let allocatable = &node["status"]["allocatable"];
    for name in ["kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"] {
        if allocatable[name].as_str().is_none_or(|amount| amount == "0") {
            return Err(allocatable.to_string());
        }
    }
    Ok(())
}

/// What the agent and the manager write about the node.
fn reports(rig: &Rig) {
    let metric = rig.get(&["nodemetric", NODE]).unwrap();
    let names = metric["status"]["podsMetric"].as_array().unwrap();
    assert!(names.iter().any(|row| row["name"] == "bystander"), "{metric}");
    assert_eq!(metric["spec"]["metricCollectPolicy"]["reportIntervalSeconds"], 10);
    let topology = until(rig, "a NodeResourceTopology", || {
        rig.get(&["noderesourcetopologies.topology.node.k8s.io", NODE])
    });
    assert!(topology["zones"].as_array().is_some_and(|zones| !zones.is_empty()), "{topology}");
    let slo = rig.get(&["nodeslo", NODE]).unwrap();
    assert_eq!(slo["spec"]["resourceUsedThresholdWithBE"]["enable"], true, "{slo}");
}

fn uids(rig: &Rig) -> Vec<Value> {
    let selector = "koord-app in (koordlet,koord-manager,koord-scheduler)";
    let pods = pods(rig, SYSTEM, selector).unwrap();
    pods.iter().map(|pod| pod["metadata"]["uid"].clone()).collect()
}

pub(crate) fn by_manifests(rig: &Rig) {
    let values = values(rig);
    let mut words = vec!["install", "manifests"];
    words.extend(values.iter().map(String::as_str));
    // Plain manifests cannot look at what is there first, so its configuration is left alone.
    words.extend(["--set", "configMaps.managed=false"]);
    let text = rig.tidepool(&words).done();
    let dry = ["apply", "--server-side", "--force-conflicts", "--dry-run=server"];
    let said = rig.with_file(&dry, &text).done();
    assert!(said.lines().count() > 20, "{said}");
    let before = uids(rig);
    rig.with_file(&["apply", "--server-side", "--force-conflicts"], &text).done();
    within(rig, STARTING, "all components are ready", || all_ready(rig));
    assert_eq!(uids(rig), before, "manifests and chart say the same, so no pod was replaced");
}
