//! ElasticQuotaProfile: which nodes does a quota tree stand for?
//!
//! The manager sums the selected nodes into the ElasticQuota the profile names.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shape;
use super::spec::absent_is_default;

/// Which nodes are summed into which quota.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "quota.koordinator.sh",
    version = "v1alpha1",
    kind = "ElasticQuotaProfile",
    plural = "elasticquotaprofiles",
    shortname = "eqp",
    namespaced,
    status = "ElasticQuotaProfileStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "The nodes a quota tree stands for."
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct ElasticQuotaProfileSpec {
    /// ElasticQuota in the same namespace that is kept up to date.
    pub quota_name: String,
    /// Labels copied to the quota.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub quota_labels: BTreeMap<String, String>,
    /// Share of the nodes' resources the quota gets, as a number above 0 and up to 1 in a string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_ratio: Option<String>,
    /// Labels of the nodes that are summed.
    #[schemars(schema_with = "shape::label_selector")]
    pub node_selector: LabelSelector,
}

absent_is_default!(ElasticQuotaProfileSpec);

/// Nothing is reported here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ElasticQuotaProfileStatus {}
