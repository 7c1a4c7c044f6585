//! This machine's control groups, as root.

use std::fs;
use std::path::{Path, PathBuf};

use kube::api::LogParams;
use serde_json::json;

use crate::rig::{Rig, status, until};

/// The mount point of a v1 controller that we may write to; the reason for skipping otherwise.
fn v1(controller: &str) -> Result<PathBuf, String> {
    let mount = PathBuf::from("/sys/fs/cgroup").join(controller);
    if !rustix::process::geteuid().is_root() {
        return Err("not root".into());
    }
    if !mount.join("cgroup.sane_behavior").exists() {
        return Err(format!("no cgroup v1 hierarchy at {}", mount.display()));
    }
    let probe = mount.join(format!("tidepool-test-probe-{}-{controller}", std::process::id()));
    fs::create_dir(&probe).map_err(|error| format!("cannot make {}: {error}", probe.display()))?;
    fs::remove_dir(&probe).map_err(|error| error.to_string())?;
    Ok(mount)
}

macro_rules! or_skip {
    ($found:expr) => {
        match $found {
            Ok(found) => found,
            Err(reason) => {
                println!("skipped: {reason}");
                return;
            }
        }
    };
}

fn read(path: &Path, file: &str) -> String {
    fs::read_to_string(path.join(file)).unwrap().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_where_kubelet_would_put_it() {
    let cpu = or_skip!(v1("cpu"));
    let memory = or_skip!(v1("memory"));
    let rig = Rig::new().await;
    let root = rig.config.cgroup_root.clone();
    let resources = json!({"containers": {"command": ["sleep", "600"], "resources": {
        "requests": {"cpu": "250m", "memory": "16Mi"},
        "limits": {"cpu": "500m", "memory": "32Mi"},
    }}});
    let pod = rig.run("held", "exec sleep 600", resources).await;
    let own = status(&rig.until_ready("held").await);
    let id = own.container_id.unwrap().replace("tidepool://", "");
    let kubepods = format!("{root}/kubepods");
    let pod_path = format!("{kubepods}/burstable/pod{}", pod.metadata.uid.unwrap());
    let container = format!("{pod_path}/{id}");

    assert_eq!(read(&cpu.join(&container), "cpu.shares"), "256");
    assert_eq!(read(&cpu.join(&container), "cpu.cfs_quota_us"), "50000");
    assert_eq!(read(&cpu.join(&pod_path), "cpu.shares"), "256");
    assert_eq!(read(&cpu.join(&pod_path), "cpu.cfs_quota_us"), "50000");
    assert_eq!(read(&cpu.join(format!("{kubepods}/burstable")), "cpu.shares"), "256");
    assert_eq!(read(&cpu.join(format!("{kubepods}/besteffort")), "cpu.shares"), "2");
    assert_eq!(read(&memory.join(&container), "memory.limit_in_bytes"), "33554432");
    assert_eq!(read(&memory.join(&pod_path), "memory.limit_in_bytes"), "33554432");
    for mount in [&cpu, &memory] {
        let procs = read(&mount.join(&container), "cgroup.procs");
        let pid: u32 = procs.parse().expect("one process: the shim stays outside");
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
        assert!(line.starts_with("sleep"), "{line}");
    }
    let procs = read(&cpu.join(&container), "cgroup.procs");
    let groups = fs::read_to_string(format!("/proc/{procs}/cgroup")).unwrap();
    for controller in ["cpu", "memory", "pids", "cpuset"] {
        let mut lines = groups.lines().filter(|line| line.contains(&format!(":{controller}:")));
        assert!(lines.all(|line| line.ends_with(&container)), "{controller}: {groups}");
    }

    rig.delete("held").await;
    rig.until_gone("held").await;
    until("the groups to go", || async {
        (!cpu.join(&pod_path).exists() && !memory.join(&pod_path).exists()).then_some(())
    })
    .await;
    assert_eq!(read(&cpu.join(format!("{kubepods}/burstable")), "cpu.shares"), "2");
    drop(rig);
    assert!(!cpu.join(&root).exists(), "nothing of ours is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn guaranteed_pods_are_directly_below_kubepods() {
    let cpu = or_skip!(v1("cpu"));
    let rig = Rig::new().await;
    let resources =
        json!({"containers": {"resources": {"limits": {"cpu": "1", "memory": "32Mi"}}}});
    let pod = rig.run("sure", "exec sleep 600", resources).await;
    let now = rig.until_ready("sure").await;
    assert_eq!(now.status.unwrap().qos_class.as_deref(), Some("Guaranteed"));
    let path = format!("{}/kubepods/pod{}", rig.config.cgroup_root, pod.metadata.uid.unwrap());
    assert_eq!(read(&cpu.join(path), "cpu.shares"), "1024");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_above_its_memory_limit_is_killed_and_says_so() {
    or_skip!(v1("memory"));
    let rig = Rig::new().await;
    let limit = json!({"containers": {"resources": {"limits": {"memory": "16Mi"}}}});
    // tail keeps everything it reads in memory: there is no line end.
    rig.run("greedy", "head -c 200000000 /dev/zero | tail", limit).await;
    let pod = rig.until_phase("greedy", "Failed").await;
    let ended = status(&pod).state.unwrap().terminated.unwrap();
    assert_eq!(ended.reason.as_deref(), Some("OOMKilled"));
    assert_eq!(ended.exit_code, 137);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_forks_too_much_is_held_back_and_ends_whole() {
    let pids = or_skip!(v1("pids"));
    let rig = Rig::with(|config| config.pids_limit = Some(20)).await;
    let script = "i=0; while [ $i -lt 40 ]; do sleep 600 & i=$((i+1)); done; exec sleep 600";
    let pod = rig.run("bomb", script, json!({})).await;
    rig.until_phase("bomb", "Failed").await;
    let log = rig.logs("bomb", LogParams::default()).await;
    assert!(log.to_lowercase().contains("fork"), "{log}");
    let uid = pod.metadata.uid.unwrap();
    let path = format!("{}/kubepods/besteffort/pod{uid}", rig.config.cgroup_root);
    let path = pids.join(path);
    until("the group to go", || async { (!path.exists()).then_some(()) }).await;
}
