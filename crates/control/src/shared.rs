//! What do all controllers of the process hold?

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;

use crate::caches::Caches;
use crate::instruments::Instruments;
use crate::intake::Configs;
use crate::leader::Leadership;

/// Handles that every controller needs; cheap to clone.
#[derive(Clone)]
pub struct Shared {
    pub client: Client,
    pub caches: Arc<Caches>,
    pub configs: Configs,
    pub leadership: Leadership,
    pub instruments: Instruments,
    pub clock: Clock,
}

/// Where the time comes from: the system, or a test.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    pub fn system() -> Self {
        Self::from_fn(Timestamp::now)
    }

    pub fn from_fn(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
