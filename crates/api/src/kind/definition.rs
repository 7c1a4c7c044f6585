//! What does a cluster have to be told before it stores our objects?
//!
//! One CustomResourceDefinition for each kind. Names, versions and storage are those of an
//! existing installation, so applying them over one keeps every stored object.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, CustomResourceValidation,
};
use kube::core::object::{HasSpec, HasStatus};
use kube::{CustomResourceExt, Resource, ResourceExt};
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::{
    ClusterColocationProfile, ClusterNetworkTopology, Device, ElasticQuota, ElasticQuotaProfile,
    NodeMetric, NodeResourceTopology, NodeResourceTopologyV1Alpha2, NodeSlo, PodGroup,
    PodMigrationJob, Recommendation, Reservation, ScheduleExplanation, schema,
};

/// Marks a CRD in a Kubernetes-owned group as reviewed; the API server refuses it otherwise.
const APPROVED: &str = "api-approved.kubernetes.io";
const APPROVED_SCHEDULING: &str = "https://github.com/kubernetes-sigs/scheduler-plugins/pull/52";
const APPROVED_TOPOLOGY: &str = "https://github.com/kubernetes/enhancements/pull/1870";

/// The definitions of all kinds, in a fixed order.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    vec![
        define::<NodeMetric>("What is used on a node, by whom, and how much of it could be lent."),
        define::<NodeSlo>("How the node agent treats the pods of one node."),
        define::<ClusterColocationProfile>(
            "Which pods become co-located pods, and what they are given.",
        ),
        node_resource_topology(),
        define::<Reservation>("Resources kept free for pods to come."),
        without_status(define::<Device>("The GPUs, RDMA cards and FPGAs of one node.")),
        define::<PodMigrationJob>("The move of one pod to another node."),
        without_status(approved(
            define::<PodGroup>("Pods that must start together."),
            APPROVED_SCHEDULING,
        )),
        without_status(approved(
            define::<ElasticQuota>(
                "How much a group of namespaces may use, and how much it is sure of.",
            ),
            APPROVED_SCHEDULING,
        )),
        without_status(define::<ElasticQuotaProfile>("The nodes a quota tree stands for.")),
        define::<Recommendation>("The requests that would suit a workload."),
        define::<ScheduleExplanation>(
            "Why a pod, job or gang cannot be placed, and what would help.",
        ),
        define::<ClusterNetworkTopology>("How the nodes of the cluster are wired together."),
    ]
}

/// All definitions as one stream of YAML documents, ready for `kubectl apply -f -`.
pub fn yaml() -> String {
    let documents: Vec<Value> = definitions().iter().map(document).collect();
    serde_saphyr::to_string_multiple(&documents)
        .expect("definitions are maps with string keys, which YAML can always hold")
}

fn document(definition: &CustomResourceDefinition) -> Value {
    let mut document = serde_json::to_value(definition)
        .expect("definitions are maps with string keys, which JSON can always hold");
    without_fractions(&mut document);
    document
}

/// Limits are floats in the definition's type; `100.0` is printed as the integer it is.
fn without_fractions(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let whole = number.as_f64().filter(|float| float.fract() == 0.0);
            if let Some(integer) = whole.and_then(|float| format!("{float:.0}").parse().ok()) {
                *value = Value::Number(integer);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(without_fractions),
        Value::Object(fields) => fields.values_mut().for_each(without_fractions),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The definition of a kind with `spec` and `status`.
fn define<K>(about: &str) -> CustomResourceDefinition
where
    K: CustomResourceExt + HasSpec<Spec: JsonSchema> + HasStatus<Status: JsonSchema>,
{
    let mut definition = K::crd();
    let names = &mut definition.spec.names;
    names.list_kind = Some(format!("{}List", names.kind));
    let schema = object(
        about,
        json!({
            "spec": schema::of::<K::Spec>(),
            "status": schema::of::<K::Status>(),
        }),
    );
    for version in &mut definition.spec.versions {
        version.schema = Some(validation(schema.clone()));
    }
    definition
}

fn node_resource_topology() -> CustomResourceDefinition {
    let about = "The NUMA nodes of a machine and what each holds.";
    let names = CustomResourceDefinitionNames {
        kind: NodeResourceTopology::kind(&()).into_owned(),
        list_kind: Some(format!("{}List", NodeResourceTopology::kind(&()))),
        plural: NodeResourceTopology::plural(&()).into_owned(),
        singular: Some("noderesourcetopology".to_owned()),
        short_names: Some(vec!["node-res-topo".to_owned()]),
        ..CustomResourceDefinitionNames::default()
    };
    let mut definition = CustomResourceDefinition::default();
    definition.metadata.name =
        Some(format!("{}.{}", names.plural, NodeResourceTopology::group(&())));
    definition.spec = CustomResourceDefinitionSpec {
        group: NodeResourceTopology::group(&()).into_owned(),
        names,
        scope: "Cluster".to_owned(),
        conversion: Some(CustomResourceConversion { strategy: "None".to_owned(), webhook: None }),
        versions: vec![
            CustomResourceDefinitionVersion {
                storage: false,
                ..top_level::<NodeResourceTopology>(about)
            },
            CustomResourceDefinitionVersion {
                storage: true,
                ..top_level::<NodeResourceTopologyV1Alpha2>(about)
            },
        ],
        ..CustomResourceDefinitionSpec::default()
    };
    approved(definition, APPROVED_TOPOLOGY)
}

/// A served version of a kind whose fields sit at the top.
fn top_level<K: Resource<DynamicType = ()> + JsonSchema>(
    about: &str,
) -> CustomResourceDefinitionVersion {
    let mut fields = schema::of::<K>();
    let mut schema = object(about, fields["properties"].take());
    schema["required"] = fields["required"].take();
    CustomResourceDefinitionVersion {
        name: K::version(&()).into_owned(),
        served: true,
        schema: Some(validation(schema)),
        ..CustomResourceDefinitionVersion::default()
    }
}

/// The schema of a whole object with the given fields beside those every object has.
///
/// `spec` is never required: the objects of an existing installation were accepted without it.
fn object(about: &str, fields: Value) -> Value {
    let mut properties = json!({
        "apiVersion": {
            "description": "Group and version of this form of the object.",
            "type": "string",
        },
        "kind": { "description": "Kind of the object.", "type": "string" },
        "metadata": { "type": "object" },
    });
    if let (Value::Object(properties), Value::Object(fields)) = (&mut properties, fields) {
        properties.extend(fields);
    }
    json!({ "description": about, "type": "object", "properties": properties })
}

fn validation(schema: Value) -> CustomResourceValidation {
    let schema = serde_json::from_value(schema)
        .expect("a tidied schema only has keywords of JSONSchemaProps");
    CustomResourceValidation { open_api_v3_schema: Some(schema) }
}

fn approved(mut definition: CustomResourceDefinition, by: &str) -> CustomResourceDefinition {
    definition.annotations_mut().insert(APPROVED.to_owned(), by.to_owned());
    definition
}

/// Turns the status subresource off: `status` is written with the object.
fn without_status(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut definition.spec.versions {
        version.subresources = None;
    }
    definition
}
