//! What does the manager remember of the cluster?

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::Shared;

/// Compact views of nodes, pods and the objects named like a node.
#[derive(Debug, Default)]
pub struct Caches {}

impl Caches {
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }
}

/// Fills the caches from watches until told to stop. Runs on every replica.
pub async fn run(_shared: Shared, shutdown: CancellationToken) {
    shutdown.cancelled().await;
}
