//! NodeResourceTopology: which NUMA nodes does a machine have, and what does each hold?
//!
//! This kind belongs to Kubernetes' topology-aware scheduling and has no `spec`: its fields sit at
//! the top. Two versions are served without conversion, so one object may be read as either;
//! `v1alpha2` is stored, while the node agent and the scheduler speak `v1alpha1`. The node agent
//! owns the object and the manager adds batch resources to its zones; each leaves the other's
//! resource names alone.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::ClusterResourceScope;
use schemars::JsonSchema;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use units::Quantity;

const GROUP: &str = "topology.node.k8s.io";
const KIND: &str = "NodeResourceTopology";
const PLURAL: &str = "noderesourcetopologies";
const V1ALPHA1: &str = "v1alpha1";
const V1ALPHA2: &str = "v1alpha2";

/// The NUMA nodes of a machine, in the version that is spoken (`v1alpha1`).
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeResourceTopology {
    #[serde(default)]
    #[schemars(skip)]
    pub metadata: ObjectMeta,
    /// Topology manager policy and scope of the node's kubelet, as one word such as
    /// `SingleNUMANodePodLevel`.
    // Required here, but an object that was written as `v1alpha2` may lack it.
    #[serde(default)]
    pub topology_policies: Vec<String>,
    /// The NUMA nodes, in order of name.
    pub zones: Vec<Zone>,
}

/// The NUMA nodes of a machine, in the version that is stored (`v1alpha2`).
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeResourceTopologyV1Alpha2 {
    #[serde(default)]
    #[schemars(skip)]
    pub metadata: ObjectMeta,
    /// Older form of the attributes that name the topology manager's policy and scope.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topology_policies: Vec<String>,
    /// The NUMA nodes, in order of name.
    pub zones: Vec<Zone>,
    /// Properties of the node as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<Attribute>,
}

/// One NUMA node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Zone {
    /// Name of the zone: `node-` and the NUMA node's id.
    pub name: String,
    /// Kind of the zone: `Node`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Name of the zone around this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Distance to other zones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<Cost>,
    /// Properties of the zone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<Attribute>,
    /// What the zone holds, in order of name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ZoneResource>,
}

/// Distance from one zone to another.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Name of the other zone.
    pub name: String,
    /// The distance, as the machine's firmware gives it.
    pub value: i64,
}

/// A property with a name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attribute {
    /// Name of the property.
    pub name: String,
    /// Value of the property.
    pub value: String,
}

/// What a zone holds of one resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ZoneResource {
    /// Name of the resource.
    pub name: String,
    /// Amount that is there.
    pub capacity: Quantity,
    /// Amount that pods may use.
    pub allocatable: Quantity,
    /// Amount that is still free.
    pub available: Quantity,
}

impl Serialize for NodeResourceTopology {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct(KIND, 5)?;
        object.serialize_field("apiVersion", &Self::api_version(&()))?;
        object.serialize_field("kind", KIND)?;
        object.serialize_field("metadata", &self.metadata)?;
        object.serialize_field("topologyPolicies", &self.topology_policies)?;
        object.serialize_field("zones", &self.zones)?;
        object.end()
    }
}

impl Serialize for NodeResourceTopologyV1Alpha2 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct(KIND, 6)?;
        object.serialize_field("apiVersion", &Self::api_version(&()))?;
        object.serialize_field("kind", KIND)?;
        object.serialize_field("metadata", &self.metadata)?;
        if self.topology_policies.is_empty() {
            object.skip_field("topologyPolicies")?;
        } else {
            object.serialize_field("topologyPolicies", &self.topology_policies)?;
        }
        object.serialize_field("zones", &self.zones)?;
        if self.attributes.is_empty() {
            object.skip_field("attributes")?;
        } else {
            object.serialize_field("attributes", &self.attributes)?;
        }
        object.end()
    }
}

impl Resource for NodeResourceTopology {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        V1ALPHA1.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Resource for NodeResourceTopologyV1Alpha2 {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        V1ALPHA2.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
