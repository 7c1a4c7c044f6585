//! How does a controller run?
//!
//! A few workers take nodes from the queue and bring each one forward. Whatever goes wrong is tried
//! again with growing pauses. Every write asks at its moment whether this process still leads.

use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use reconcile::elect::Leadership;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Debug;
use std::panic::AssertUnwindSafe;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::Shared;
use crate::caches::{Kind, NodeName};
use crate::queue::{Next, Queue};

/// Nodes of one controller that are worked on together.
const WORKERS: usize = 16;

/// Why a node could not be brought forward.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SyncError {
    #[error("cannot {verb} {kind} {name}")]
    Refused { verb: &'static str, kind: String, name: String, source: Box<kube::Error> },
    #[error("cannot {verb} {kind} {name}: the API server does not answer")]
    Slow { verb: &'static str, kind: String, name: String },
    #[error("cannot read {kind} {name}")]
    Unreadable { kind: &'static str, name: String, source: api::kind::KeptError },
    #[error("a decision about {0} broke; this is a mistake in the program")]
    Broken(NodeName),
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
            Self::Slow { .. } => "slow",
            Self::Broken(_) => "broken",
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
    patience: Duration,
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
        let (client, leadership) = (shared.client.clone(), shared.leadership.clone());
        Self { client, leadership, name, patience: shared.patience }
    }

    /// Waits for an answer, but not for ever.
    pub(crate) async fn ask<K: Resource<DynamicType = ()>, T>(
        &self,
        verb: &'static str,
        name: &str,
        asking: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, SyncError> {
        match timeout(self.patience, asking).await {
            Ok(answer) => answer.map_err(refused::<K>(verb, name)),
            Err(_) => {
                let (kind, name) = (K::kind(&()).into_owned(), name.to_owned());
                Err(SyncError::Slow { verb, kind, name })
            }
        }
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
        let api = self.api::<K>()?;
        self.ask::<K, _>("create", name, api.create(&params, object)).await
    }

    pub(crate) async fn patch<K: Written>(
        &self,
        name: &str,
        patch: &Value,
    ) -> Result<K, SyncError> {
        let patch = Patch::Merge(patch);
        let (api, params) = (self.api::<K>()?, self.params());
        self.ask::<K, _>("patch", name, api.patch(name, &params, &patch)).await
    }

    pub(crate) async fn patch_status<K: Written>(
        &self,
        name: &str,
        patch: &Value,
    ) -> Result<K, SyncError> {
        let patch = Patch::Merge(patch);
        let (api, params) = (self.api::<K>()?, self.params());
        self.ask::<K, _>("patch", name, api.patch_status(name, &params, &patch)).await
    }

    /// Deletes an object; one that is gone already is fine.
    pub(crate) async fn delete<K: Written>(&self, name: &str) -> Result<(), SyncError> {
        let (api, params) = (self.api::<K>()?, DeleteParams::default());
        let deleted = self.ask::<K, _>("delete", name, api.delete(name, &params)).await;
        match deleted.map(drop) {
            Err(error) if error.is_missing() => Ok(()),
            result => result,
        }
    }
}

fn refused<K: Resource<DynamicType = ()>>(
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
        // One object that nobody thought of must not stop the others, nor the webhooks beside us.
        let looking = AssertUnwindSafe(controller.reconcile(&name)).catch_unwind().await;
        let (next, result) = match looking.unwrap_or_else(|_| Err(SyncError::Broken(name.clone())))
        {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use prometheus::Registry;

    use super::*;
    use crate::caches::Caches;
    use crate::instruments::Instruments;
    use crate::{Clock, PATIENCE, intake};

    /// Breaks on nodes called so.
    struct Fragile(Mutex<Vec<NodeName>>);

    impl Controller for Fragile {
        const NAME: &'static str = "fragile";
        const NEEDS: &'static [Kind] = &[];

        fn queue(shared: &Shared) -> &Queue {
            &shared.caches.metrics
        }

        async fn reconcile(&self, name: &NodeName) -> Result<Next, SyncError> {
            assert_ne!(&**name, "odd", "nobody thought of this one");
            self.0.lock().push(name.clone());
            Ok(Next::Settled)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_breaks_its_controller_is_counted_and_tried_again() {
        let nobody = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Err::<http::Response<kube::client::Body>, tower::BoxError>("nobody is asked".into())
        });
        let shared = Shared {
            client: Client::new(nobody, "default"),
            caches: Caches::new(),
            configs: intake::channel().1,
            leadership: Leadership::alone(),
            instruments: Instruments::register(&Registry::new()).unwrap(),
            clock: Clock::system(),
            patience: PATIENCE,
        };
        let fragile = Arc::new(Fragile(Mutex::default()));
        let queue = Fragile::queue(&shared);
        for name in ["odd", "even"] {
            queue.add(name.into());
        }
        let working = worker(&shared, &*fragile, queue);
        let totals = &shared.instruments.reconcile_total;
        let twice = async {
            while totals.with_label_values(&["fragile", "error"]).get() < 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            () = working => unreachable!("workers do not end"),
            () = twice => {}
        }
        assert_eq!(*fragile.0.lock(), [NodeName::from("even")]);
    }
}
