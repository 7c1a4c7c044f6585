//! Work on lent resources: is it placed, limited, held back under load, and made by a profile?

use std::time::Duration;

use groups::{CgroupPath, Knob};
use serde_json::{Value, json};

use crate::existing::threshold;
use crate::kernel::Kernel;
use crate::rig::{NODE, Rig, WORK};
use crate::seen::{patiently, pods, ready, until};

/// Half a CPU, as the scheduler and as the kernel count it.
const BATCH_CPU: &str = "500";
const SHARES: i64 = 512;
const QUOTA: i64 = 50_000;
const MEMORY: i64 = 128 << 20;
/// Best-effort grows step by step.
const RELEASE: Duration = Duration::from_secs(30);

fn worker() -> String {
    let lent = json!({"kubernetes.io/batch-cpu": BATCH_CPU, "kubernetes.io/batch-memory": "128Mi"});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "worker", "namespace": WORK,
            "labels": {"app": "worker", "koordinator.sh/qosClass": "BE"}},
        "spec": {
            "schedulerName": "koord-scheduler", "priorityClassName": "koord-batch",
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": "localhost/busybox:dev",
                "command": ["sh", "-c", "while :; do :; done"],
                "resources": {"limits": lent, "requests": lent}}],
        },
    })
    .to_string()
}

fn online() -> String {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "online", "namespace": WORK,
            "labels": {"app": "online", "koordinator.sh/qosClass": "LS"}},
        "spec": {
            "schedulerName": "koord-scheduler", "priorityClassName": "koord-prod",
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": "localhost/busybox:dev",
                "command": ["sh", "-c", "while :; do :; done"],
                "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "200m"}}}],
        },
    })
    .to_string()
}

/// Whether pod and container have their settings; the quota may be anything that `is_fine`.
fn settings(rig: &Rig, pod: &Value, is_fine: impl Fn(i64) -> bool) -> Result<(), String> {
    let kernel = Kernel::of(rig);
    let number = |group: &CgroupPath, knob: Knob| -> Result<i64, String> {
        let text = kernel.text(group, knob)?;
        text.parse().map_err(|_| text)
    };
    for group in [kernel.pod(pod), kernel.container(pod)?] {
        let [shares, quota, memory] =
            [Knob::CpuShares, Knob::CfsQuota, Knob::MemoryLimit].map(|knob| number(&group, knob));
        let (shares, quota, memory) = (shares?, quota?, memory?);
        if (shares, memory) != (SHARES, MEMORY) || !is_fine(quota) {
            return Err(format!("{group}: {shares} shares, quota {quota}, memory {memory}"));
        }
    }
    Ok(())
}

fn until_settings(rig: &Rig, what: &str, pod: &Value, is_fine: impl Fn(i64) -> bool) {
    until(rig, what, || settings(rig, pod, &is_fine));
}

pub(crate) fn limits(rig: &Rig) {
    rig.clear();
    rig.apply(&worker());
    let pod = ready(rig, WORK, "app=worker", 1).remove(0);
    assert_eq!(pod["spec"]["nodeName"], NODE);
    // Less than its limit while the machine is busy: its time follows online load.
    let is_limited = |quota| quota > 0 && quota <= QUOTA;
    until_settings(rig, "the worker is limited", &pod, is_limited);
    suppression(rig, &pod);
    by_one_quota(rig, &pod);
    until_settings(rig, "the worker has its own quota again", &pod, is_limited);
}

/// The worker's time shrinks while an online pod spins, and comes back afterwards.
fn suppression(rig: &Rig, worker: &Value) {
    rig.apply(&online());
    ready(rig, WORK, "app=online", 1);
    until(rig, "the online pod is noticed", || {
        let used = amount(rig, "used above best-effort")?;
        if used >= 250 { Ok(()) } else { Err(format!("{used}m are used above best-effort")) }
    });
    until_settings(rig, "the worker is held back", worker, |quota| quota > 0 && quota < QUOTA);
    rig.kubectl(&["delete", "pod", "online", "-n", WORK, "--grace-period=1"]).done();
    until(rig, "the online pod is forgotten", || {
        let used = amount(rig, "used above best-effort")?;
        if used < 150 { Ok(()) } else { Err(format!("{used}m are used above best-effort")) }
    });
    released(rig, worker);
}

/// Waits until the worker has all its time again, unless others of the machine leave none.
fn released(rig: &Rig, worker: &Value) {
    let look = || settings(rig, worker, |quota| quota == QUOTA);
    let Err(last) = patiently(RELEASE, look) else { return };
    // That is not ours to change.
    let others = amount(rig, "system").unwrap();
    assert!(others > 500, "the worker is not released, and others use {others}m only: {last}");
    println!("not seen to be released: others use {others}m");
}

/// The other policy: best-effort as a whole has a quota, and nobody in it an own one.
fn by_one_quota(rig: &Rig, worker: &Value) {
    let by_quota = json!({"clusterStrategy": {"enable": true, "cpuSuppressPolicy": "cfsQuota"}});
    rig.configure("resource-threshold-config", &by_quota.to_string());
    until_settings(rig, "one quota takes the place of many", worker, |quota| quota == -1);
    let kernel = Kernel::of(rig);
    let quota = || kernel.text(&kernel.best_effort(), Knob::CfsQuota);
    let given = until(rig, "best-effort as a whole has a quota", || match quota()?.as_str() {
        "-1" => Err("it has none".to_owned()),
        quota => Ok(quota.to_owned()),
    });
    println!("best-effort as a whole has a quota of {given}");
    rig.configure("resource-threshold-config", &threshold().to_string());
}

/// A term of the sum that best-effort is held back by, in thousandths of CPUs.
fn amount(rig: &Rig, label: &str) -> Result<i64, String> {
    let explained = rig.tidepool(&["explain", "node", NODE, "cpu", "-o", "json"]).json()?;
    let answers = explained["answers"].as_array().cloned().unwrap_or_default();
    let lines = answers.iter().filter_map(|answer| answer["lines"].as_array()).flatten();
    let mut lines = lines.filter(|line| line["label"] == label);
    lines.next().and_then(|line| line["amount"].as_i64()).ok_or(explained.to_string())
}

pub(crate) const PROFILE: &str = "
apiVersion: config.koordinator.sh/v1alpha1
kind: ClusterColocationProfile
metadata:
  name: nightly
spec:
  selector: {matchLabels: {team: reports}}
  qosClass: BE
  priorityClassName: koord-batch
  schedulerName: koord-scheduler
  labels: {made-by: nightly}
";

/// A Job that knows nothing of us.
const JOB: &str = "
apiVersion: batch/v1
kind: Job
metadata:
  name: report
  namespace: work
spec:
  template:
    metadata:
      labels: {team: reports}
    spec:
      restartPolicy: Never
      containers:
      - name: c
        image: localhost/busybox:dev
        command: [sh, -c, 'echo done']
        resources:
          requests: {cpu: 300m, memory: 32Mi}
          limits: {cpu: 300m, memory: 32Mi}
";

pub(crate) fn profile(rig: &Rig) {
    rig.clear();
    rig.apply(PROFILE);
    until(rig, "the profile takes hold", || turned(rig));
    rig.kubectl(&["delete", "clustercolocationprofile", "nightly"]).done();
}

/// Runs the Job to its end; what the profile made of it.
pub(crate) fn turned(rig: &Rig) -> Result<(), String> {
    rig.kubectl(&["delete", "job", "report", "-n", WORK, "--ignore-not-found"]).done();
    rig.apply(JOB);
    let wait = ["wait", "--for=condition=Complete", "job/report", "-n", WORK, "--timeout=60s"];
    rig.kubectl(&wait).done();
    let pod = pods(rig, WORK, "team=reports")?.remove(0);
    let (labels, spec) = (&pod["metadata"]["labels"], &pod["spec"]);
    let resources = &spec["containers"][0]["resources"];
    let lent = json!({"kubernetes.io/batch-cpu": "300", "kubernetes.io/batch-memory": "32Mi"});
    let seen = json!([
        labels["koordinator.sh/qosClass"],
        labels["made-by"],
        spec["priorityClassName"],
        spec["schedulerName"],
        resources
    ]);
    let wanted = json!(["BE", "nightly", "koord-batch", "koord-scheduler",
        {"limits": lent, "requests": lent}]);
    if seen == wanted { Ok(()) } else { Err(format!("{seen}, wanted {wanted}")) }
}
