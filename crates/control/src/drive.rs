//! How does a controller run?
//!
//! A few workers take nodes from the queue and bring each one forward. Whatever goes wrong is tried
//! again with growing pauses. Every write asks at its moment whether this process still leads.

use std::time::Duration;

use jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Debug;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::Shared;
use crate::caches::{Kind, NodeName};
use crate::leader::Leadership;
use crate::queue::{Next, Queue};

/// Nodes of one controller that are worked on together.
const WORKERS: usize = 16;

/// Why a node could not be brought forward.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SyncError {
    #[error("cannot {verb} {kind} {name}")]
    Refused { verb: &'static str, kind: String, name: String, source: Box<kube::Error> },
    #[error("cannot read {kind} {name}")]
    Unreadable { kind: &'static str, name: String, source: api::kind::KeptError },
    /// The lease went to the other replica.
    #[error("this process no longer leads")]
    NotLeading,
}

impl SyncError {
    fn status(&self) -> Option<&kube::core::Status> {
        match self {
            Self::Refused { source, .. } => match &**source {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
            _ => None,
        }
    }

    /// The object changed since it was looked at; looking again will do.
    pub(crate) fn is_conflict(&self) -> bool {
        self.status().is_some_and(|status| status.code == 409)
    }

    pub(crate) fn is_missing(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404)
    }

    /// One word for a metric's label.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::NotLeading => "notLeading",
            Self::Unreadable { .. } => "unreadable",
            Self::Refused { .. } if self.is_conflict() => "conflict",
            Self::Refused { verb, .. } => verb,
        }
    }

    /// What the server or the network said.
    fn cause(&self) -> String {
        std::error::Error::source(self).map(ToString::to_string).unwrap_or_default()
    }
}

/// Writes cluster-scoped objects, as long as this process leads.
#[derive(Clone)]
pub(crate) struct Writer {
    pub(crate) client: Client,
    leadership: Leadership,
    name: &'static str,
}

/// A cluster-scoped kind that controllers write.
pub(crate) trait Written:
    Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
{
}

impl<K> Written for K where
    K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
{
}

impl Writer {
    /// `name` is the field manager.
    pub(crate) fn new(shared: &Shared, name: &'static str) -> Self {
        Self { client: shared.client.clone(), leadership: shared.leadership.clone(), name }
    }

    fn api<K: Written>(&self) -> Result<Api<K>, SyncError> {
        if !self.leadership.is_held() {
            return Err(SyncError::NotLeading);
        }
        Ok(Api::all(self.client.clone()))
    }

    fn params(&self) -> PatchParams {
        PatchParams { field_manager: Some(self.name.into()), ..PatchParams::default() }
    }

    pub(crate) async fn create<K: Written>(&self, name: &str, object: &K) -> Result<K, SyncError> {
        let params = PostParams { field_manager: Some(self.name.into()), dry_run: false };
        self.api::<K>()?.create(&params, object).await.map_err(refused::<K>("create", name))
    }

    pub(crate) async fn patch<K: Written>(
        &self,
        name: &str,
        patch: &Value,
    ) -> Result<K, SyncError> {
        let patch = Patch::Merge(patch);
        let patched = self.api::<K>()?.patch(name, &self.params(), &patch).await;
        patched.map_err(refused::<K>("patch", name))
    }

    pub(crate) async fn patch_status<K: Written>(
        &self,
        name: &str,
        patch: &Value,
    ) -> Result<K, SyncError> {
        let patch = Patch::Merge(patch);
        let patched = self.api::<K>()?.patch_status(name, &self.params(), &patch).await;
        patched.map_err(refused::<K>("patch", name))
    }

    /// Deletes an object; one that is gone already is fine.
    pub(crate) async fn delete<K: Written>(&self, name: &str) -> Result<(), SyncError> {
        let deleted = self.api::<K>()?.delete(name, &DeleteParams::default()).await;
        match deleted.map(drop).map_err(refused::<K>("delete", name)) {
            Err(error) if error.is_missing() => Ok(()),
            result => result,
        }
    }
}

pub(crate) fn refused<K: Resource<DynamicType = ()>>(
    verb: &'static str,
    name: &str,
) -> impl FnOnce(kube::Error) -> SyncError {
    let (kind, name) = (K::kind(&()).into_owned(), name.to_owned());
    move |source| SyncError::Refused { verb, kind, name, source: Box::new(source) }
}

/// Brings one node after the other forward.
pub(crate) trait Controller: Send + Sync {
    /// As in `--controllers` and in metrics.
    const NAME: &'static str;
    /// Kinds without which nothing can be decided.
    const NEEDS: &'static [Kind];

    fn queue(shared: &Shared) -> &Queue;

    fn reconcile(&self, name: &NodeName) -> impl Future<Output = Result<Next, SyncError>> + Send;
}

/// Runs a controller until told to stop. A replica that does not lead gathers work and waits.
pub(crate) async fn drive<C: Controller>(
    shared: &Shared,
    controller: &C,
    shutdown: CancellationToken,
) {
    let queue = C::queue(shared);
    let work = async {
        shared.caches.until_listed(C::NEEDS).await;
        let workers = (0..WORKERS).map(|_| worker(shared, controller, queue));
        tokio::join!(futures::future::join_all(workers), on_change(shared, queue));
    };
    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        () = work => {}
    }
}

/// Every node must be looked at again when the configuration changes.
async fn on_change(shared: &Shared, queue: &Queue) {
    let mut configs = shared.configs.clone();
    loop {
        configs.changed().await;
        let names: Vec<NodeName> = shared.caches.with(|world| world.names().cloned().collect());
        for name in names {
            queue.add(name);
        }
    }
}

async fn worker<C: Controller>(shared: &Shared, controller: &C, queue: &Queue) {
    let mut leadership = shared.leadership.clone();
    let totals = &shared.instruments.reconcile_total;
    let depth = shared.instruments.workqueue_depth.with_label_values(&[C::NAME]);
    loop {
        leadership.until_held().await;
        let name = queue.next().await;
        depth.set(i64::try_from(queue.depth()).unwrap_or(i64::MAX));
        let (next, result) = match controller.reconcile(&name).await {
            Ok(next) => (next, "success"),
            Err(error) => {
                if error.is_conflict() {
                    debug!(controller = C::NAME, node = %name, %error, "decided on old facts");
                } else {
                    let cause = error.cause();
                    warn!(controller = C::NAME, node = %name, %error, cause, "will try again");
                }
                (Next::Retry, "error")
            }
        };
        totals.with_label_values(&[C::NAME, result]).inc();
        queue.done(name, next);
    }
}

/// How long until then.
pub(crate) fn until(then: Option<Timestamp>, now: Timestamp) -> Next {
    let wait = |then: Timestamp| Duration::try_from(then.duration_since(now)).unwrap_or_default();
    then.map_or(Next::Settled, |then| Next::After(wait(then).max(Duration::from_millis(10))))
}
