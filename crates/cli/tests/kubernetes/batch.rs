//! Work on lent resources: is it placed, limited, held back under load, and made by a profile?

use host::cgroup::{CgroupPath, Knob};
use serde_json::{Value, json};

use crate::existing::threshold;
use crate::kernel::Kernel;
use crate::rig::{NODE, Rig, WORK};
use crate::seen::{pods, ready, until};

/// Half a CPU, as the scheduler and as the kernel count it.
const BATCH_CPU: &str = "500";
const SHARES: &str = "512";
const QUOTA: &str = "50000";
const MEMORY: i64 = 128 << 20;

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

fn settings(kernel: &Kernel, group: &CgroupPath) -> Result<[String; 3], String> {
    let [shares, quota, memory] =
        [Knob::CpuShares, Knob::CfsQuota, Knob::MemoryLimit].map(|knob| kernel.text(group, knob));
    Ok([shares?, quota?, memory?])
}

/// Waits until pod and container have these settings.
fn until_settings(rig: &Rig, what: &str, pod: &Value, wanted: &[String; 3]) {
    let kernel = Kernel::of(rig);
    let groups = [kernel.pod(pod), kernel.container(pod).unwrap()];
    until(rig, what, || {
        let seen = [settings(&kernel, &groups[0])?, settings(&kernel, &groups[1])?];
        let is_so = seen.iter().all(|own| own == wanted);
        if is_so { Ok(()) } else { Err(format!("{seen:?}, wanted {wanted:?}")) }
    });
}

pub(crate) fn limits(rig: &Rig) {
    rig.clear();
    rig.apply(&worker());
    let pod = ready(rig, WORK, "app=worker", 1).remove(0);
    assert_eq!(pod["spec"]["nodeName"], NODE);
    let limited = [SHARES.to_owned(), QUOTA.to_owned(), MEMORY.to_string()];
    until_settings(rig, "the worker is limited", &pod, &limited);

    suppression(rig, &pod);

    rig.configure("resource-threshold-config", &threshold());
    until_settings(rig, "the worker has its own quota again", &pod, &limited);
    let kernel = Kernel::of(rig);
    until(rig, "best-effort as a whole has none", || {
        let quota = kernel.text(&kernel.best_effort(), Knob::CfsQuota)?;
        if quota == "-1" { Ok(()) } else { Err(quota) }
    });
}

/// Best-effort as a whole gets a quota that falls while an online pod spins, and rises afterwards.
fn suppression(rig: &Rig, worker: &Value) {
    let by_quota = json!({"clusterStrategy": {"enable": true, "cpuSuppressPolicy": "cfsQuota",
        "cpuSuppressThresholdPercent": 95, "cpuSuppressMinPercent": 5}});
    rig.configure("resource-threshold-config", &by_quota);
    let unlimited = [SHARES.to_owned(), "-1".to_owned(), MEMORY.to_string()];
    until_settings(rig, "one quota takes the place of many", worker, &unlimited);
    let kernel = Kernel::of(rig);
    let quota = || -> Result<i64, String> {
        let text = kernel.text(&kernel.best_effort(), Knob::CfsQuota)?;
        text.parse().map_err(|_| text)
    };
    let before = until(rig, "best-effort has a quota", || match quota()? {
        limited if limited > 0 => Ok(limited),
        other => Err(other.to_string()),
    });
    rig.apply(&online());
    ready(rig, WORK, "app=online", 1);
    let during = until(rig, "the online pod is noticed", || {
        let explained = explained(rig)?;
        let protected = used_above(&explained).ok_or(explained.to_string())?;
        if protected >= 600 { quota() } else { Err(format!("{protected}m are protected")) }
    });
    rig.kubectl(&["delete", "pod", "online", "-n", WORK, "--grace-period=1"]).done();
    let after = until(rig, "best-effort gets back what the online pod left", || {
        let now = quota()?;
        if now > during + 20_000 { Ok(now) } else { Err(format!("{now} after {during}")) }
    });
    println!("best-effort's quota: {before} before, {during} during, {after} after the load");
}

fn explained(rig: &Rig) -> Result<Value, String> {
    rig.tidepool(&["explain", "node", NODE, "cpu", "-o", "json"]).json()
}

/// Thousandths of CPUs that the sum takes off for pods above best-effort.
fn used_above(explained: &Value) -> Option<i64> {
    let answers = explained["answers"].as_array()?;
    let lines = answers.iter().filter_map(|answer| answer["lines"].as_array()).flatten();
    let mut lines = lines.filter(|line| line["label"] == "used above best-effort");
    lines.next()?["amount"].as_i64()
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
