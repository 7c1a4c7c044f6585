//! Do the typed objects hold everything the wire may carry, and nothing it may not?
//!
//! `fixtures/wire/kind/` has one object a kind with every field set. The test checks that claim
//! against the schemas, so a new field must come with its sample.

#![expect(clippy::disallowed_methods, reason = "tests read files and settings")]
#![expect(clippy::unwrap_used, reason = "without its fixtures and schemas a test has to stop")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use api::kind::{
    ClusterColocationProfile, ClusterNetworkTopology, Device, ElasticQuota, ElasticQuotaProfile,
    Kept, KeptError, NodeMetric, NodeResourceTopology, NodeResourceTopologyV1Alpha2, NodeSlo,
    PodGroup, PodMigrationJob, Recommendation, Reservation, ScheduleExplanation,
};
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn fixture(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/wire").join(name);
    let text = String::from_utf8(fs::read(&path).unwrap()).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

/// Reads the sample as `K`, expects to write the same, and to have seen every field there is.
fn assert_complete<K>(name: &str)
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
{
    let sample = fixture(&format!("kind/{name}.yaml"));
    let typed: K = serde_json::from_value(sample.clone()).expect(name);
    assert_eq!(serde_json::to_value(&typed).unwrap(), sample, "{name}");

    assert_eq!(sample["apiVersion"], json!(K::api_version(&())), "{name}");
    assert_eq!(sample["kind"], json!(K::kind(&())), "{name}");
    let schema = schema_of::<K>();
    let mut known = BTreeMap::new();
    let mut seen = BTreeSet::new();
    list_properties(&schema, "", &mut known);
    list_fields(&sample, &schema, &mut seen);
    known.retain(|property, _| !seen.contains(property));
    assert!(known.is_empty(), "{name} lacks {:?}", known.values());
}

fn schema_of<K: Resource<DynamicType = ()>>() -> Value {
    let definitions = api::kind::definitions();
    let definition = definitions
        .iter()
        .find(|d| d.spec.group == K::group(&()) && d.spec.names.kind == K::kind(&()))
        .unwrap();
    let version = definition.spec.versions.iter().find(|v| v.name == K::version(&())).unwrap();
    serde_json::to_value(&version.schema.as_ref().unwrap().open_api_v3_schema).unwrap()
}

/// A property of a shape. Shapes that are equal but for their description are the same one, so a
/// shape that occurs in many places needs only one full sample.
type Property = (String, String);

fn property(shape: &Value, name: &str) -> Property {
    let mut shape = shape.clone();
    shape.as_object_mut().unwrap().remove("description");
    (shape.to_string(), name.to_owned())
}

fn list_properties(schema: &Value, path: &str, known: &mut BTreeMap<Property, String>) {
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        known.insert(property(schema, name), path.clone());
        list_properties(child, &path, known);
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(child) = schema.get(keyword) {
            list_properties(child, &format!("{path}[]"), known);
        }
    }
}

fn list_fields(value: &Value, schema: &Value, seen: &mut BTreeSet<Property>) {
    match value {
        Value::Array(items) => {
            items.iter().for_each(|item| list_fields(item, &schema["items"], seen));
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                if let Some(child) = schema["properties"].get(name) {
                    seen.insert(property(schema, name));
                    list_fields(field, child, seen);
                } else if let Some(child) = schema.get("additionalProperties") {
                    list_fields(field, child, seen);
                }
            }
        }
        _ => {}
    }
}

#[test]
fn a_sample_with_every_field_survives() {
    assert_complete::<NodeMetric>("node-metric");
    assert_complete::<NodeSlo>("node-slo");
    assert_complete::<ClusterColocationProfile>("cluster-colocation-profile");
    assert_complete::<NodeResourceTopology>("node-resource-topology-v1alpha1");
    assert_complete::<NodeResourceTopologyV1Alpha2>("node-resource-topology-v1alpha2");
    assert_complete::<Reservation>("reservation");
    assert_complete::<Device>("device");
    assert_complete::<PodMigrationJob>("pod-migration-job");
    assert_complete::<PodGroup>("pod-group");
    assert_complete::<ElasticQuota>("elastic-quota");
    assert_complete::<ElasticQuotaProfile>("elastic-quota-profile");
    assert_complete::<Recommendation>("recommendation");
    assert_complete::<ScheduleExplanation>("schedule-explanation");
    assert_complete::<ClusterNetworkTopology>("cluster-network-topology");
}

/// A NodeMetric that a node agent of the reference wrote.
#[test]
fn a_real_node_metric_survives_to_the_letter() {
    let document = fixture("node-metric-seed-002.yaml");
    let typed: NodeMetric = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap().to_string(), document.to_string());
}

/// The reference leaves out `spec` and `status` when they are empty, and so may a person.
#[test]
fn an_object_may_lack_its_spec() {
    fn assert_readable<K: Resource<DynamicType = ()> + DeserializeOwned>() {
        let bare = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": { "name": "bare" },
        });
        for document in [bare.clone(), with(&bare, "/spec", Value::Null)] {
            let object: K = serde_json::from_value(document).unwrap();
            assert_eq!(object.meta().name.as_deref(), Some("bare"));
        }
    }
    assert_readable::<NodeMetric>();
    assert_readable::<NodeSlo>();
    assert_readable::<ClusterColocationProfile>();
    assert_readable::<Reservation>();
    assert_readable::<Device>();
    assert_readable::<PodMigrationJob>();
    assert_readable::<PodGroup>();
    assert_readable::<ElasticQuota>();
    assert_readable::<ElasticQuotaProfile>();
    assert_readable::<Recommendation>();
    assert_readable::<ScheduleExplanation>();
    assert_readable::<ClusterNetworkTopology>();
}

/// `v1alpha2` is stored without conversion, so its objects are also handed out as `v1alpha1`.
#[test]
fn a_topology_of_the_stored_version_is_readable_as_the_spoken_one() {
    let mut document = fixture("kind/node-resource-topology-v1alpha2.yaml");
    document["apiVersion"] = json!("topology.node.k8s.io/v1alpha1");
    document.as_object_mut().unwrap().remove("topologyPolicies");
    let topology: NodeResourceTopology = serde_json::from_value(document).unwrap();
    assert_eq!(topology.topology_policies, Vec::<String>::new());
    assert_eq!(topology.zones.len(), 1);
    assert_eq!(serde_json::to_value(&topology).unwrap()["topologyPolicies"], json!([]));
}

#[test]
fn a_time_is_written_in_whole_seconds_of_utc() {
    let document = json!({
        "metadata": {},
        "status": { "updateTime": "2025-05-25T11:36:38.987654+08:00" },
    });
    let metric: NodeMetric = serde_json::from_value(document).unwrap();
    let written = serde_json::to_value(&metric).unwrap();
    assert_eq!(written["status"]["updateTime"], "2025-05-25T03:36:38Z");
}

#[test]
fn a_value_of_the_wrong_type_is_refused_by_the_name_of_its_field() {
    fn refusal<K: Serialize + DeserializeOwned>(name: &str, at: &str, value: Value) -> String {
        let document = with(&fixture(&format!("kind/{name}.yaml")), at, value);
        match Kept::<K>::read(document) {
            Err(KeptError::Read { path, .. }) => path,
            Err(error) => panic!("{name} {at}: {error}"),
            Ok(_) => panic!("{name} {at} was accepted"),
        }
    }
    let text = || json!("ten");
    let cases = [
        (
            refusal::<NodeMetric>(
                "node-metric",
                "/spec/metricCollectPolicy/reportIntervalSeconds",
                json!("60"),
            ),
            "spec.metricCollectPolicy.reportIntervalSeconds",
        ),
        (
            refusal::<NodeMetric>(
                "node-metric",
                "/spec/metricCollectPolicy/nodeAggregatePolicy/durations/1",
                json!(300),
            ),
            "spec.metricCollectPolicy.nodeAggregatePolicy.durations[1]",
        ),
        (
            refusal::<NodeMetric>(
                "node-metric",
                "/status/podsMetric/0/podUsage/resources/cpu",
                json!("26 m"),
            ),
            "status.podsMetric[0].podUsage.resources.cpu",
        ),
        (
            refusal::<NodeSlo>("node-slo", "/spec/cpuBurstStrategy/cpuBurstPercent", json!(1.5)),
            "spec.cpuBurstStrategy.cpuBurstPercent",
        ),
        (
            refusal::<ClusterColocationProfile>(
                "cluster-colocation-profile",
                "/spec/koordinatorPriority",
                json!(1_i64 << 31),
            ),
            "spec.koordinatorPriority",
        ),
        (
            refusal::<NodeResourceTopology>(
                "node-resource-topology-v1alpha1",
                "/zones/0/costs/0/value",
                text(),
            ),
            "zones[0].costs[0].value",
        ),
        (
            refusal::<NodeResourceTopologyV1Alpha2>(
                "node-resource-topology-v1alpha2",
                "/attributes/0/value",
                json!(1),
            ),
            "attributes[0].value",
        ),
        (refusal::<Reservation>("reservation", "/spec/ttl", json!(1800)), "spec.ttl"),
        (
            refusal::<Device>("device", "/spec/devices/0/health", json!("true")),
            "spec.devices[0].health",
        ),
        (
            refusal::<PodMigrationJob>("pod-migration-job", "/spec/podRef", json!("web-0")),
            "spec.podRef",
        ),
        (refusal::<PodGroup>("pod-group", "/spec/minMember", text()), "spec.minMember"),
        (refusal::<ElasticQuota>("elastic-quota", "/spec/min", json!([])), "spec.min"),
        (
            refusal::<ElasticQuotaProfile>(
                "elastic-quota-profile",
                "/spec/resourceRatio",
                json!(0.9),
            ),
            "spec.resourceRatio",
        ),
        (
            refusal::<Recommendation>("recommendation", "/status/updateTime", json!("yesterday")),
            "status.updateTime",
        ),
        (
            refusal::<ScheduleExplanation>("schedule-explanation", "/status/schedulable", json!(0)),
            "status.schedulable",
        ),
        (
            refusal::<ClusterNetworkTopology>(
                "cluster-network-topology",
                "/spec/networkTopologySpec/0/labelKey",
                text(),
            ),
            "spec.networkTopologySpec[0].labelKey",
        ),
    ];
    for (found, wanted) in cases {
        assert_eq!(found, wanted);
    }
}

/// `document` with another value at a JSON pointer, whose last step may be new.
fn with(document: &Value, at: &str, value: Value) -> Value {
    let mut document = document.clone();
    let (parent, field) = at.rsplit_once('/').unwrap();
    let parent = document.pointer_mut(parent).expect(at);
    match parent {
        Value::Array(items) => items[field.parse::<usize>().unwrap()] = value,
        parent => parent[field] = value,
    }
    document
}
