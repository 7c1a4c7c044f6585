//! From the pods of the API to one supervisor each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use reconcile::watch::{Config, Update as WatchUpdate, Watch};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::cgroup::Disk;
use super::context::Context;
use super::dir::PodDir;
use super::orphan;
use super::pod::{Supervisor, Update};

/// The supervisors of this node.
struct Pods {
    context: Arc<Context>,
    shutdown: CancellationToken,
    known: BTreeMap<String, watch::Sender<Update>>,
    tasks: JoinSet<Ended>,
    /// The pods of the list that is arriving; `None` between lists.
    arriving: Option<BTreeSet<String>>,
}

/// How long a supervisor that failed rests.
const AGAIN: Duration = Duration::from_secs(1);

/// A task is over: that of a pod, by uid, or that of an orphan.
enum Ended {
    Pod(String),
    Orphan,
}

/// Watches the pods bound to this node until shutdown.
pub(crate) async fn run(context: Arc<Context>, node: &str, shutdown: CancellationToken) {
    let api: Api<Pod> = Api::all(context.client.clone());
    let config = Config::default().fields(&format!("spec.nodeName={node}"));
    let mut updates = Watch::new(api, config, shutdown.clone());
    let mut pods = Pods {
        context,
        shutdown: shutdown.clone(),
        known: BTreeMap::new(),
        tasks: JoinSet::new(),
        arriving: None,
    };
    loop {
        tokio::select! {
            update = updates.next() => match update {
                Some(update) => pods.take(update),
                None => break,
            },
            Some(ended) = pods.tasks.join_next() => match ended {
                Ok(Ended::Pod(uid)) => pods.forget(&uid),
                Ok(Ended::Orphan) => {}
                Err(failed) => error!(error = %failed, "the supervisor of a pod failed"),
            },
        }
    }
    // Supervisors see the same token; what runs goes on running.
    while pods.tasks.join_next().await.is_some() {}
}

impl Pods {
    fn take(&mut self, update: WatchUpdate<Pod>) {
        match update {
            WatchUpdate::Relist => self.arriving = Some(BTreeSet::new()),
            WatchUpdate::Applied(pod) => {
                if let Some(arriving) = &mut self.arriving {
                    arriving.extend(pod.metadata.uid.clone());
                }
                self.apply(pod);
            }
            WatchUpdate::Listed => {
                let listed = self.arriving.take().unwrap_or_default();
                self.end_unlisted(&listed);
            }
            WatchUpdate::Refused(_) => {}
            WatchUpdate::Deleted(pod) => {
                if let Some(known) = pod.metadata.uid.and_then(|uid| self.known.get(&uid)) {
                    known.send_replace(Update::Vanished);
                }
            }
        }
    }

    fn apply(&mut self, pod: Pod) {
        let Some(uid) = pod.metadata.uid.clone() else { return };
        match self.known.get(&uid) {
            Some(known) => {
                known.send_replace(Update::Current(Box::new(pod)));
            }
            None => self.supervise(uid, pod, Duration::ZERO),
        }
    }

    fn supervise(&mut self, uid: String, pod: Pod, delay: Duration) {
        let (sender, receiver) = watch::channel(Update::Current(Box::new(pod.clone())));
        let Some(supervisor) = Supervisor::new(self.context.clone(), pod, receiver) else {
            warn!(uid, "a pod's uid is no file name; it is not run");
            return;
        };
        self.known.insert(uid.clone(), sender);
        let shutdown = self.shutdown.clone();
        self.tasks.spawn(async move {
            sleep(delay).await;
            supervisor.run(shutdown).await;
            Ended::Pod(uid)
        });
    }

    /// A supervisor that ended while its pod is still there has failed, and gets a successor.
    fn forget(&mut self, uid: &str) {
        let Some(known) = self.known.remove(uid) else { return };
        let last = known.borrow().clone();
        let dir = PodDir::new(&self.context.state_dir, uid);
        let is_left = dir.is_some_and(|dir| !dir.containers().is_empty());
        if let (Update::Current(pod), true, false) = (last, is_left, self.shutdown.is_cancelled()) {
            warn!(uid, "the supervisor of a pod ended early; starting it again");
            self.supervise(uid.to_owned(), *pod, AGAIN);
        }
    }

    /// The API has listed all pods there are.
    fn end_unlisted(&mut self, listed: &BTreeSet<String>) {
        for (uid, known) in &self.known {
            if !listed.contains(uid) {
                known.send_replace(Update::Vanished);
            }
        }
        for (uid, dir) in PodDir::all(&self.context.state_dir) {
            if listed.contains(&uid) || self.known.contains_key(&uid) {
                continue;
            }
            let shutdown = self.shutdown.clone();
            self.tasks.spawn(async move {
                tokio::select! {
                    () = orphan::end(Arc::new(Disk), &uid, dir) => {}
                    () = shutdown.cancelled() => {}
                }
                Ended::Orphan
            });
        }
    }
}
