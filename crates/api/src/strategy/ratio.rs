//! `cpu-normalization-config` and `resource-amplification-config`: what is a core of this node
//! worth?

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much faster than the reference core a node's core is, by CPU model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CpuNormalizationStrategy {
    /// Turns normalization on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// Ratio of nodes whose CPU model has none, at least 1 and at most 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_ratio: Option<f64>,
    /// Ratios by CPU model name, as `/proc/cpuinfo` spells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_model: Option<BTreeMap<String, ModelRatios>>,
}

/// Speed of one CPU model relative to the reference core.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelRatios {
    /// Ratio with hyper-threading and turbo both off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_ratio: Option<f64>,
    /// Ratio with hyper-threading on and turbo off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hyper_thread_enabled_ratio: Option<f64>,
    /// Ratio with hyper-threading off and turbo on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turbo_enabled_ratio: Option<f64>,
    /// Ratio with hyper-threading and turbo both on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hyper_thread_turbo_enabled_ratio: Option<f64>,
}

/// By how much a node's allocatable is multiplied before pods are placed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceAmplificationStrategy {
    /// Turns amplification on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// Factors of at least 1 by resource name; only cpu and memory are amplified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_amplification_ratio: Option<BTreeMap<String, f64>>,
}
