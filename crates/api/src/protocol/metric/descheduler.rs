//! Metrics of the descheduler.

use super::Kind::Counter;
use super::{Endpoint, metrics};

metrics! { Endpoint::Internal, "descheduler_";
    /// Evictions tried.
    PODS_EVICTED: Counter, "pods_evicted", [result, strategy, namespace, node];
}

/// Values of the `result` label.
pub mod result {
    pub const SUCCESS: &str = "success";
    pub const ERROR: &str = "error";
    pub const NODE_LIMIT: &str = "maximum number of pods per node reached";
    pub const NAMESPACE_LIMIT: &str = "maximum number of pods per namespace reached";
}
