//! Ending pods that the API does not know any more.
//!
//! A pod may be deleted while the node is down, or its cluster thrown away. Its processes are then
//! still here, with everything needed to stop them in their directories.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinSet, spawn_blocking};
use tracing::{info, warn};

use super::cgroup::Kernel;
use super::dir::PodDir;
use super::process::{Found, look, stop};
use super::record::{RunDir, RunSpec};

/// Stops every container of the pod with its own grace period, and removes all that is left of it.
pub(crate) async fn end(kernel: Arc<dyn Kernel>, uid: &str, dir: PodDir) {
    let mut stops = JoinSet::new();
    for container in dir.containers() {
        for restarts in dir.runs(&container) {
            stops.spawn(end_run(kernel.clone(), dir.run(&container, restarts)));
        }
    }
    stops.join_all().await;
    if let Ok(Err(error)) = spawn_blocking(move || dir.remove()).await {
        warn!(uid, %error, "cannot remove an orphan's directory");
    }
    info!(uid, "ended a pod that the API does not know");
}

async fn end_run(kernel: Arc<dyn Kernel>, run: RunDir) {
    let spec = run.spec().ok();
    let seconds = spec.as_ref().map_or(0, |spec| spec.grace_seconds);
    let looked = run.clone();
    if let Ok(Ok(Found::Alive)) = spawn_blocking(move || look(&looked)).await {
        stop(&run, Duration::from_secs(seconds)).await;
    }
    if let Some(spec) = spec {
        let _ = spawn_blocking(move || remove_groups(kernel.as_ref(), &spec)).await;
    }
}

/// The container's group, and the pod's if it was the last one in it.
fn remove_groups(kernel: &dyn Kernel, spec: &RunSpec) {
    for dir in &spec.cgroups {
        let _ = kernel.remove(dir);
        if let Some(pod) = dir.parent().filter(|dir| is_pod(dir)) {
            let _ = kernel.remove(pod);
        }
    }
}

fn is_pod(dir: &Path) -> bool {
    dir.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"pod"))
}
