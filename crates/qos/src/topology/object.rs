//! The NodeResourceTopology object: is it as it should be, and how does it get there?
//!
//! We own our annotations, the policy, and four resources of each zone. Resources of other names
//! belong to others and stay; zones that the machine does not have go.

use std::collections::BTreeMap;

use api::kind::NodeResourceTopology;
use api::kind::node_topology::{Zone, ZoneResource};
use api::protocol::resource::{CPU, GPU, HUGEPAGES_1GI, HUGEPAGES_2MI, MEMORY};
use api::protocol::topology::{MANAGED_BY, MANAGER};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};

use super::Topology;
use super::zones::NumaZone;

/// Resources of a zone that nobody else may write. The GPU's is never filled.
const OURS: [&str; 5] = [CPU, GPU, HUGEPAGES_1GI, HUGEPAGES_2MI, MEMORY];

/// The type of all our zones.
const ZONE: &str = "Node";

/// A reference that makes the object go with its Node.
pub fn owner(node: &Node) -> Option<OwnerReference> {
    Some(OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.metadata.name.clone()?,
        uid: node.metadata.uid.clone()?,
        controller: Some(true),
        block_owner_deletion: Some(true),
    })
}

/// The object as it is created.
pub fn create(
    name: &str,
    owner: Option<OwnerReference>,
    topology: &Topology,
) -> NodeResourceTopology {
    let mut metadata = ObjectMeta {
        name: Some(name.to_owned()),
        owner_references: owner.map(|owner| vec![owner]),
        annotations: Some(owned(&topology.annotations)),
        labels: Some(owned(&topology.labels)),
        ..ObjectMeta::default()
    };
    MANAGED_BY.set(&mut metadata, &MANAGER.to_owned());
    NodeResourceTopology {
        metadata,
        topology_policies: vec![topology.policy.to_owned()],
        zones: zones(&[], &topology.zones),
    }
}

fn owned(map: &BTreeMap<&'static str, String>) -> BTreeMap<String, String> {
    map.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
}

/// A merge patch that makes `object` say what `topology` says; `None` when it already does.
pub fn patch(object: &NodeResourceTopology, topology: &Topology) -> Option<Value> {
    let none = BTreeMap::new();
    let annotations = object.metadata.annotations.as_ref().unwrap_or(&none);
    let stale = topology.annotations.iter().filter(|(key, value)| {
        !annotations.get(**key).is_some_and(|known| is_same_json(known, value))
    });
    let stale: serde_json::Map<String, Value> =
        stale.map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    let labels = object.metadata.labels.as_ref().unwrap_or(&none);
    let mut wrong_labels = serde_json::Map::new();
    for (key, value) in &topology.labels {
        if labels.get(*key) != Some(value) {
            wrong_labels.insert((*key).to_owned(), json!(value));
        }
    }
    if MANAGED_BY.raw(&object.metadata).is_none() {
        wrong_labels.insert(MANAGED_BY.name.to_owned(), json!(MANAGER));
    }
    let mut patch = serde_json::Map::new();
    if object.topology_policies.first().map(String::as_str) != Some(topology.policy) {
        patch.insert("topologyPolicies".to_owned(), json!([topology.policy]));
    }
    let zones = zones(&object.zones, &topology.zones);
    if zones != sorted(object.zones.clone()) {
        patch.insert("zones".to_owned(), json!(zones));
    }
    if stale.is_empty() && wrong_labels.is_empty() && patch.is_empty() {
        return None;
    }
    // With the version that was looked at, so that a change in between is not undone.
    let metadata = json!({
        "resourceVersion": object.metadata.resource_version,
        "annotations": stale,
        "labels": wrong_labels,
    });
    patch.insert("metadata".to_owned(), metadata);
    Some(Value::Object(patch))
}

fn is_same_json(a: &str, b: &str) -> bool {
    a == b
        || match (serde_json::from_str::<Value>(a), serde_json::from_str::<Value>(b)) {
            (Ok(a), Ok(b)) => a == b,
            _ => false,
        }
}

/// Our zones, with everything in them that others have written.
fn zones(known: &[Zone], ours: &[NumaZone]) -> Vec<Zone> {
    let zones: Vec<Zone> = ours
        .iter()
        .map(|zone| {
            let before = known.iter().find(|known| known.name == zone.name);
            let mut next = before.cloned().unwrap_or_default();
            next.name.clone_from(&zone.name);
            next.type_ = ZONE.to_owned();
            next.resources.retain(|resource| !OURS.contains(&resource.name.as_str()));
            next.resources.extend(zone.resources.iter().map(|amount| ZoneResource {
                name: amount.name.to_owned(),
                capacity: amount.capacity,
                allocatable: amount.allocatable,
                available: amount.allocatable,
            }));
            next
        })
        .collect();
    sorted(zones)
}

/// Zones and their resources in order of name; others may write them in any.
fn sorted(mut zones: Vec<Zone>) -> Vec<Zone> {
    zones.sort_by(|a, b| a.name.cmp(&b.name));
    for zone in &mut zones {
        zone.resources.sort_by(|a, b| a.name.cmp(&b.name));
    }
    zones
}
