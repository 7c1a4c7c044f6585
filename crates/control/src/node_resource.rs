//! How much of each node is lent out?

use tokio_util::sync::CancellationToken;

use crate::Shared;

/// What flags say about the calculation.
#[derive(Debug, Clone, Default)]
pub struct Options {}

/// Runs until told to stop; writes only while this process leads.
pub async fn run(_shared: Shared, _options: Options, shutdown: CancellationToken) {
    shutdown.cancelled().await;
}
