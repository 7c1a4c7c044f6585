//! Keeps one object for each node.

use tokio_util::sync::CancellationToken;

use crate::Shared;

/// Runs until told to stop; writes only while this process leads.
pub async fn run(_shared: Shared, shutdown: CancellationToken) {
    shutdown.cancelled().await;
}
