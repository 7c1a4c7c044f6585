//! Following one object of the API server: the Node, its NodeSLO, its NodeMetric.
//!
//! A watch with a field selector sees one object and nothing else. While the server is away the last
//! known object stays; a watch that the server no longer remembers starts over with a list.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Instant;

use kube::{Api, Resource};
use reconcile::watch::One;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::health::Part;
pub(crate) use reconcile::error::chain;

/// What is known of an object.
#[derive(Debug, Clone)]
pub enum Seen<K> {
    /// The server has not answered yet.
    Waiting,
    Absent {
        since: Instant,
    },
    Present(Arc<K>),
}

impl<K> Seen<K> {
    pub fn present(&self) -> Option<&Arc<K>> {
        match self {
            Self::Present(object) => Some(object),
            Self::Waiting | Self::Absent { .. } => None,
        }
    }
}

/// Whether an object must exist before its part counts as ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    Object,
    /// The server's word that there is none will do.
    Answer,
}

/// Publishes the newest `name` of `api` until shutdown.
pub async fn follow<K>(
    api: Api<K>,
    name: String,
    need: Need,
    out: watch::Sender<Seen<K>>,
    part: Part,
    shutdown: CancellationToken,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let kind = K::kind(&());
    let mut object = One::new(api, &name, shutdown);
    while let Some(answer) = object.next().await {
        let seen = match answer {
            Ok(Some(object)) => Seen::Present(Arc::new(object)),
            Ok(None) => Seen::Absent { since: Instant::now() },
            Err(refusal) => {
                if matches!(*out.borrow(), Seen::Waiting) {
                    part.lacks(format!("cannot list {kind}: {}", refusal.reason));
                }
                continue;
            }
        };
        match (&seen, need) {
            (Seen::Absent { .. }, Need::Object) => part.lacks(format!("{kind} {name} is absent")),
            _ => part.ready(),
        }
        out.send_replace(seen);
    }
}
