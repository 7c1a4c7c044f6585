//! What do all controllers of the process hold?

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use reconcile::clock::Clock;
use reconcile::elect::Leadership;

use crate::caches::Caches;
use crate::instruments::Instruments;
use crate::intake::Configs;

/// Handles that every controller needs; cheap to clone.
#[derive(Clone)]
pub struct Shared {
    pub client: Client,
    pub caches: Arc<Caches>,
    pub configs: Configs,
    pub leadership: Leadership,
    pub instruments: Instruments,
    pub clock: Clock,
    /// How long a write may take, see [`PATIENCE`].
    pub patience: Duration,
}

/// What is asked of the API server must be answered within this time, or counts as failed.
///
/// A lease is 15 s long and its holder gives up after 10 s without renewing it: what a leader began
/// at the last moment is over before another one begins.
pub const PATIENCE: Duration = Duration::from_secs(5);

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
