//! May a new leader trust what it has seen?
//!
//! A watch may be behind: a leader that decides on an old picture gives room away that its
//! predecessor has just given to somebody else. Behind the gate `SyncBarrier` a new leader
//! therefore writes an annotation onto a pod that exists for this purpose, and decides nothing
//! before its own watch shows that write. Pods arrive in one watch and in the order of their
//! versions, so everything that was bound before has been seen by then, too.
//!
//! Should the write or the watch take too long, it goes on regardless and says so: a cluster
//! without a scheduler is worse.

use std::time::Duration;

use api::protocol::object::SYNC_BARRIER_PREFIX;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use sched::Time;
use sched::scheduler::{Change, Update};
use serde_json::json;
use tokio::time::sleep;
use tracing::{info, warn};

/// Pause before the write is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Which pod, and how long to wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub namespace: String,
    pub name: String,
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: "kube-system".to_owned(),
            name: "koord-scheduler-sync-barrier".to_owned(),
            patience: Duration::from_secs(60),
        }
    }
}

/// How far a new leader has come.
#[derive(Debug)]
pub(super) struct Barrier {
    settings: Settings,
    state: State,
    /// The version of the pod that was last seen.
    seen: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// It has not been leader yet.
    Ahead,
    Writing {
        until: Time,
    },
    Written {
        version: String,
        until: Time,
    },
    Passed,
}

impl Barrier {
    pub(super) fn new(settings: Option<Settings>) -> Self {
        let state = if settings.is_some() { State::Ahead } else { State::Passed };
        Self { settings: settings.unwrap_or_default(), state, seen: None }
    }

    pub(super) fn is_passed(&self) -> bool {
        self.state == State::Passed
    }

    /// This process leads now: true when the annotation is to be written.
    pub(super) fn begin(&mut self, now: Time) -> bool {
        let is_first = self.state == State::Ahead;
        if is_first {
            self.state = State::Writing { until: now + self.settings.patience };
        }
        is_first
    }

    /// The pod has this version now.
    pub(super) fn written(&mut self, version: String) {
        if let State::Writing { until } = self.state {
            self.state = State::Written { version, until };
            self.compare();
        }
    }

    /// Takes note of a change that has been worked through.
    pub(super) fn see(&mut self, change: &Change) {
        if self.is_passed() {
            return;
        }
        if let Change::Pod(Update::Upsert(pod)) = change
            && pod.metadata.name.as_deref() == Some(self.settings.name.as_str())
            && pod.metadata.namespace.as_deref() == Some(self.settings.namespace.as_str())
        {
            self.seen.clone_from(&pod.metadata.resource_version);
            self.compare();
        }
    }

    fn compare(&mut self) {
        if let (State::Written { version, .. }, Some(seen)) = (&self.state, &self.seen)
            && has_reached(seen, version)
        {
            info!(version, "the picture of the cluster is newer than this leadership");
            self.state = State::Passed;
        }
    }

    /// Gives up waiting when it is time to.
    pub(super) fn tick(&mut self, now: Time) {
        let until = match &self.state {
            State::Writing { until } | State::Written { until, .. } => *until,
            State::Ahead | State::Passed => return,
        };
        if now >= until {
            let Settings { namespace, name, .. } = &self.settings;
            warn!(namespace, name, "the sync barrier was not passed in time; going on without it");
            self.state = State::Passed;
        }
    }

    pub(super) fn settings(&self) -> Settings {
        self.settings.clone()
    }
}

/// Versions are numbers that grow; should one not be, only the very same will do.
fn has_reached(seen: &str, version: &str) -> bool {
    match (seen.parse::<u64>(), version.parse::<u64>()) {
        (Ok(seen), Ok(version)) => seen >= version,
        _ => seen == version,
    }
}

/// Writes the annotation, until it is written or the time is up; returns the pod's version.
pub(super) async fn write(
    client: Client,
    settings: Settings,
    lease: String,
    now: Timestamp,
) -> Option<String> {
    let pods: Api<Pod> = Api::namespaced(client, &settings.namespace);
    let annotation = format!("{SYNC_BARRIER_PREFIX}{lease}");
    let patch = json!({"metadata": {"annotations": {annotation: now.to_string()}}});
    let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
    let writing = async {
        let mut is_told = false;
        loop {
            match pods.patch(&settings.name, &params, &patch).await {
                Ok(pod) => return pod.metadata.resource_version,
                Err(error) if !is_told => {
                    let Settings { namespace, name, .. } = &settings;
                    warn!(namespace, name, %error, "cannot write the sync barrier; is there such a pod?");
                    is_told = true;
                }
                Err(_) => {}
            }
            sleep(AGAIN).await;
        }
    };
    tokio::time::timeout(settings.patience, writing).await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn shown(name: &str, version: &str) -> Change {
        let mut pod = Pod::default();
        pod.metadata.namespace = Some("kube-system".to_owned());
        pod.metadata.name = Some(name.to_owned());
        pod.metadata.resource_version = Some(version.to_owned());
        Change::Pod(Update::Upsert(Arc::new(pod)))
    }

    const POD: &str = "koord-scheduler-sync-barrier";

    fn barrier() -> Barrier {
        Barrier::new(Some(Settings::default()))
    }

    #[test]
    fn the_write_must_be_seen() {
        let mut barrier = barrier();
        let now = Time::from_secs(100);
        barrier.see(&shown(POD, "7"));
        assert!(barrier.begin(now) && !barrier.begin(now), "once");
        barrier.written("10".to_owned());
        assert!(!barrier.is_passed(), "7 is older than 10");
        barrier.see(&shown("other", "12"));
        assert!(!barrier.is_passed(), "another pod");
        barrier.see(&shown(POD, "9"));
        assert!(!barrier.is_passed());
        barrier.see(&shown(POD, "10"));
        assert!(barrier.is_passed());
    }

    #[test]
    fn a_watch_that_is_faster_than_the_answer_counts() {
        let mut barrier = barrier();
        barrier.begin(Time::from_secs(100));
        barrier.see(&shown(POD, "11"));
        assert!(!barrier.is_passed(), "nobody knows yet what was written");
        barrier.written("10".to_owned());
        assert!(barrier.is_passed());
    }

    #[test]
    fn patience_ends() {
        let mut barrier = barrier();
        let at = Time::from_secs;
        barrier.tick(at(1_000));
        assert!(!barrier.is_passed(), "it has not begun");
        barrier.begin(at(100));
        barrier.tick(at(159));
        assert!(!barrier.is_passed());
        barrier.tick(at(160));
        assert!(barrier.is_passed());
        assert!(Barrier::new(None).is_passed(), "nobody asked for it");
    }
}
