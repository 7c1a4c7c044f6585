//! `host-application-config`: which processes outside Kubernetes share the node?

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A process outside Kubernetes that shares the node with pods.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostApplicationSpec {
    /// Name of the application, unique on the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Priority class the application counts as: `koord-prod`, `koord-mid`, `koord-batch` or
    /// `koord-free`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// QoS class the application counts as: `LSE`, `LSR`, `LS`, `BE` or `SYSTEM`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// Where the application's cgroup is; without it the place follows from QoS class and name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_path: Option<CgroupPath>,
    /// Settings of this one application; there are none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<HostApplicationStrategy>,
}

/// A directory below one of the well-known cgroup directories of the node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CgroupPath {
    /// Where the path starts: `CgroupRoot`, `Kubepods`, `KubepodsBurstable` or
    /// `KubepodsBesteffort`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Directory below the base.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_dir: Option<String>,
    /// Directory below the parent directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relative_path: Option<String>,
}

/// Settings of one host application; there are none yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostApplicationStrategy {}
