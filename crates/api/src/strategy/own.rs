//! Tidepool's own keys: what the reference has no setting for.
//!
//! They stand in the same ConfigMap and travel in the NodeSLO's `extensions`, under the name of their
//! key. Unlike the reference's keys they are strict: a name or a word that is not known refuses the key.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `tidepool-kernel-config`: how best-effort is kept behind on kernels without group identities.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KernelStrategy {
    /// How best-effort yields: `W` by the weight of its tier, `P` by idle pods (`cpu.idle`), `C` by
    /// whole cores, `auto` by the one that online work notices least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Measures which of them online work notices least, with `auto`; without that, the first that the
    /// kernel offers is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<bool>,
}

/// `tidepool-reaction-config`: what is done at once when online work waits for memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReactionStrategy {
    /// Reclaims memory of best-effort pods, and freezes them, while online work waits for memory. Needs
    /// `enable` of `resource-threshold-config`, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// Decides and shows the decision, and changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// Freezing best-effort pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub freeze: Option<FreezeStrategy>,
}

/// Freezing best-effort pods while online work waits for memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FreezeStrategy {
    /// Freezes best-effort pods when reclaiming their memory does not help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// How long a pod is frozen at a time, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_seconds: Option<i64>,
}

/// `tidepool-switch-config`: whether agents act at all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SwitchStrategy {
    /// `off` lets agents restore every kernel file and change nothing any more; they still measure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Why, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
