//! Something is killed: does everything come back to where it was?
//!
//! Three Deployments run all the time. After every fault their pods are ready, all components are, and
//! the kernel's files say the same as before.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::kernel::Kernel;
use crate::rig::{NODE, Rig, SYSTEM, WORK};
use crate::seen::{pods, ready, until, within};
use crate::{classes, install};

/// How long a fault may be felt.
const RECOVERY: Duration = Duration::from_secs(180);

/// Runs a fault, and waits until nothing is left of it.
fn overcome(rig: &Rig, fault: impl FnOnce(&Rig)) {
    classes::deploy(rig);
    let before = classes::until_arranged(rig);
    fault(rig);
    within(rig, RECOVERY, "all pods are ready and the kernel's files as before", || {
        install::all_ready(rig)?;
        let now = classes::view(rig)?;
        if now == before { Ok(()) } else { Err(format!("{now:#?}, wanted {before:#?}")) }
    });
}

/// Kills the processes of a component's pod.
fn kill_component(rig: &Rig, pod: &Value) {
    let kernel = Kernel::of(rig);
    let group = kernel.container(pod).unwrap();
    let processes = kernel.processes(&group);
    assert!(!processes.is_empty(), "{group} has no processes");
    processes.into_iter().for_each(kill);
}

/// kill -9; one that ended by itself is as good.
fn kill(process: u32) {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    let _ = kill_process(pid.unwrap(), Signal::KILL);
}

fn restarts(pod: &Value) -> i64 {
    pod["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap_or_default()
}

/// Kills a component's pod and waits until it was started again.
fn kill_and_wait(rig: &Rig, selector: &str, name: &Value) {
    let named = |rig: &Rig| -> Result<Value, String> {
        let mut all = pods(rig, SYSTEM, selector)?.into_iter();
        all.find(|pod| pod["metadata"]["name"] == *name).ok_or(format!("{name} is gone"))
    };
    let pod = named(rig).unwrap();
    kill_component(rig, &pod);
    until(rig, &format!("{name} is started again"), || {
        let now = restarts(&named(rig)?);
        if now > restarts(&pod) { Ok(()) } else { Err(format!("{now} restarts")) }
    });
}

pub(crate) fn agent(rig: &Rig) {
    overcome(rig, |rig| {
        let selector = "koord-app=koordlet";
        let pod = ready(rig, SYSTEM, selector, 1).remove(0);
        kill_and_wait(rig, selector, &pod["metadata"]["name"]);
    });
}

pub(crate) fn api_server(rig: &Rig) {
    overcome(rig, |rig| {
        let old = rig.kill("kube-apiserver");
        rig.until_another("kube-apiserver", old);
        until(rig, "the API server answers", || {
            let said = rig.kubectl(&["get", "--raw", "/readyz", "--request-timeout=5s"]);
            if said.is_content { Ok(()) } else { Err(said.err) }
        });
        // Watches are back when a new pod gets a node and its limits.
        rig.kubectl(&["delete", "pod", "-n", WORK, "-l", "app=work-be", "--grace-period=1"]).done();
    });
}

pub(crate) fn kubelet(rig: &Rig) {
    overcome(rig, |rig| {
        let old = rig.kill("kubelet");
        rig.until_another("kubelet", old);
        until_node_ready(rig);
    });
}

pub(crate) fn runtime(rig: &Rig) {
    overcome(rig, |rig| {
        let old = rig.kill("containerd");
        rig.until_another("containerd", old);
        until_node_ready(rig);
        rig.kubectl(&["delete", "pod", "-n", WORK, "-l", "app=work-be", "--grace-period=1"]).done();
    });
}

fn until_node_ready(rig: &Rig) {
    until(rig, "the node is ready", || {
        let node = rig.get(&["node", NODE])?;
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is_ready = |own: &Value| own["type"] == "Ready" && own["status"] == "True";
        if conditions.iter().any(is_ready) { Ok(()) } else { Err(format!("{conditions:?}")) }
    });
}

pub(crate) fn leader(rig: &Rig) {
    let lease = || rig.get(&["lease", "koordinator-manager", "-n", SYSTEM]);
    let holder =
        |lease: &Value| lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
    overcome(rig, |rig| {
        let held = holder(&lease().unwrap());
        let selector = "koord-app=koord-manager";
        let pods = pods(rig, SYSTEM, selector).unwrap();
        let leads =
            |pod: &&Value| held.contains(pod["metadata"]["name"].as_str().unwrap_or("no name"));
        let pod = pods.iter().find(leads).or(pods.first()).unwrap();
        kill_and_wait(rig, selector, &pod["metadata"]["name"]);
        // The other one, or the same in its next life.
        let left = lease().unwrap();
        until(rig, "somebody leads again", || {
            let now = lease()?;
            let is_led = now["spec"]["renewTime"] != left["spec"]["renewTime"];
            if is_led { Ok(()) } else { Err(now["spec"].to_string()) }
        });
    });
    // The new leader does the work: nodes follow the configuration.
    let percent = json!({"clusterStrategy": {"enable": true, "cpuSuppressThresholdPercent": 66}});
    rig.configure("resource-threshold-config", &percent.to_string());
    until(rig, "the node is told of a new configuration", || {
        let slo = rig.get(&["nodeslo", NODE])?;
        let told = &slo["spec"]["resourceUsedThresholdWithBE"]["cpuSuppressThresholdPercent"];
        if told == 66 { Ok(()) } else { Err(told.to_string()) }
    });
    rig.configure("resource-threshold-config", &crate::existing::threshold().to_string());
}

/// All that runs on the node ends at once, and its control groups go: as near to a reboot as the
/// machine's other users allow.
pub(crate) fn reboot(rig: &Rig) {
    overcome(rig, |rig| {
        let kernel = Kernel::of(rig);
        let old = [rig.kill("kubelet"), rig.kill("containerd")];
        processes_named("containerd-shim").for_each(kill);
        for group in kernel.below(&kernel.layout.kubepods()) {
            kernel.processes(&group).into_iter().for_each(kill);
        }
        for group in kernel.below(&kernel.layout.kubepods()) {
            // The kubelet may be faster; it makes again what it finds missing.
            let _ = kernel.tree.remove(&group);
        }
        rig.until_another("kubelet", old[0]);
        rig.until_another("containerd", old[1]);
        until_node_ready(rig);
    });
}

/// Processes of this namespace whose name starts so.
fn processes_named(start: &'static str) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(move |id| {
        let name = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
        name.starts_with(start)
    })
}
