//! ClusterColocationProfile: which pods become co-located pods, and what are they given?
//!
//! The pod webhook applies every matching profile when a pod is created, so that workloads need
//! not be changed.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::shape;
use super::spec::absent_is_default;

/// Which pods the profile applies to and what it sets on them.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.koordinator.sh",
    version = "v1alpha1",
    kind = "ClusterColocationProfile",
    plural = "clustercolocationprofiles",
    status = "ClusterColocationProfileStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "Which pods become co-located pods, and what they are given."
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct ClusterColocationProfileSpec {
    /// Labels of the namespaces whose pods are meant; without it, all namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::label_selector")]
    pub namespace_selector: Option<LabelSelector>,
    /// Labels of the pods that are meant; without it, all pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::label_selector")]
    pub selector: Option<LabelSelector>,
    /// Share of the matching pods that get the profile, in percent (`30` or `30%`); without it,
    /// all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<IntOrString>,
    /// QoS class the pods get.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["LSE", "LSR", "LS", "BE", "SYSTEM"]))]
    pub qos_class: Option<String>,
    /// PriorityClass the pods get, with its value and preemption policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Priority of the pods within their priority class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub koordinator_priority: Option<i32>,
    /// Labels set on the pods, over existing ones.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations set on the pods, over existing ones.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels copied under another key, from old key to new key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub label_keys_mapping: BTreeMap<String, String>,
    /// Annotations copied under another key, from old key to new key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotation_keys_mapping: BTreeMap<String, String>,
    /// Texts appended to the values of existing labels, by label key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub label_suffixes: BTreeMap<String, String>,
    /// Scheduler the pods get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// Strategic merge patch of the pods, applied last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<BTreeMap<String, Value>>,
}

absent_is_default!(ClusterColocationProfileSpec);

/// Nothing is reported here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterColocationProfileStatus {}
