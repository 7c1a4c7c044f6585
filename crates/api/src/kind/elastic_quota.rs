//! ElasticQuota: how much may a group of namespaces use, and how much is it sure of?
//!
//! Labels and annotations hold the place in the quota tree and what the scheduler works out. There
//! is no status subresource.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shape::ResourceList;
use super::spec::absent_is_default;

/// Bounds of a quota.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "scheduling.sigs.k8s.io",
    version = "v1alpha1",
    kind = "ElasticQuota",
    plural = "elasticquotas",
    namespaced,
    status = "ElasticQuotaStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "How much a group of namespaces may use, and how much it is sure of."
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct ElasticQuotaSpec {
    /// Amounts the quota is sure of.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub min: ResourceList,
    /// Amounts the quota never exceeds.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub max: ResourceList,
}

absent_is_default!(ElasticQuotaSpec);

/// What is used of a quota.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ElasticQuotaStatus {
    /// Amounts in use.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub used: ResourceList,
}
