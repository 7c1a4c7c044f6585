//! ClusterNetworkTopology: how are the nodes wired together?
//!
//! Only the object called `default` counts.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::spec::absent_is_default;

/// The layers of the network.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "scheduling.koordinator.sh",
    version = "v1alpha1",
    kind = "ClusterNetworkTopology",
    plural = "clusternetworktopologies",
    status = "ClusterNetworkTopologyStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "How the nodes of the cluster are wired together."
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct ClusterNetworkTopologySpec {
    /// The layers, and the node labels that tell where a node belongs.
    pub network_topology_spec: Vec<NetworkLayer>,
}

absent_is_default!(ClusterNetworkTopologySpec);

/// One layer of the network, such as racks or spines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkLayer {
    /// Name of the layer.
    pub topology_layer: String,
    /// Name of the layer above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_topology_layer: Option<String>,
    /// Node labels that name a node's place in the layer; any one of them is enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub label_key: Vec<String>,
}

/// What the nodes' labels add up to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNetworkTopologyStatus {
    /// The places of the network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub detail_status: Vec<NetworkPlaceStatus>,
}

/// One place of the network and what is below it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPlaceStatus {
    /// The place.
    pub topology_info: NetworkPlace,
    /// The place above it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_topology_info: Option<NetworkPlace>,
    /// Name of the layer below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child_topology_layer: Option<String>,
    /// Names of the places below.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub child_topology_names: Vec<String>,
    /// Number of nodes at or below the place.
    pub node_num: i32,
}

/// The name of a place within its layer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPlace {
    /// The layer.
    pub topology_layer: String,
    /// The place.
    pub topology_name: String,
}
