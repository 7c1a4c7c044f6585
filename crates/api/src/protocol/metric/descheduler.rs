//! Metrics of the descheduler.

use super::{Endpoint, Kind, metrics};

metrics! { Endpoint::Internal;
    /// Evictions tried.
    PODS_EVICTED: Kind::Counter, "descheduler_pods_evicted",
        ["result", "strategy", "namespace", "node"];
}

/// Values of the `result` label.
pub mod result {
    pub const SUCCESS: &str = "success";
    pub const ERROR: &str = "error";
    pub const NODE_LIMIT: &str = "maximum number of pods per node reached";
    pub const NAMESPACE_LIMIT: &str = "maximum number of pods per namespace reached";
}
