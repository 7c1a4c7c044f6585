//! The kinds every cluster has.
//!
//! Shapes come from k8s-openapi, which carries the OpenAPI document that Kubernetes publishes. That copy has
//! lost how lists and maps merge, so [`merging`] states it again. All built-in kinds share one graph.

mod checks;
mod create;
mod defaults;
mod merging;
mod normal;

pub(super) use checks::check;
pub(super) use create::prepare;
pub use create::qos_class;
pub(super) use defaults::default;
pub(super) use normal::normalize;

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use k8s_openapi::schemars::JsonSchema;
use k8s_openapi::schemars::generate::{SchemaGenerator, SchemaSettings};
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope, Resource};
use serde_json::{Map, Value};

use super::graph::{Graph, Node, NodeId};
use super::{Gvk, Origin, Schema, build};

/// The shape of `metadata`.
pub(super) fn object_meta() -> Node<'static> {
    let schemas = Schemas::built_in();
    schemas.graph.node(schemas.object_meta)
}

/// One built-in kind and where it is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    /// The resource in the URL; for kinds that exist only as a subresource, the subresource.
    pub plural: &'static str,
    pub scope: Scope,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Cluster,
    Namespace,
    /// Only read or written below another resource, like `Scale`.
    Subresource,
}

/// The schemas of all built-in kinds.
#[derive(Debug)]
pub struct Schemas {
    kinds: Vec<Kind>,
    by_kind: BTreeMap<Gvk, Schema>,
    graph: Arc<Graph>,
    object_meta: NodeId,
}

impl Schemas {
    /// Built once, on first use.
    pub fn built_in() -> &'static Self {
        static BUILT_IN: LazyLock<Schemas> = LazyLock::new(Schemas::build);
        &BUILT_IN
    }

    pub fn get(&self, gvk: &Gvk) -> Option<&Schema> {
        self.by_kind.get(gvk)
    }

    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    fn build() -> Self {
        let (kinds, definitions) = published();
        let (graph, roots) = build::definitions(&definitions)
            .expect("the definitions are compiled in and a test builds them");
        let object_meta = *roots
            .get("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
            .expect("every kind refers to ObjectMeta");
        let graph = Arc::new(graph);
        let by_kind = kinds
            .iter()
            .filter_map(|(kind, definition)| {
                let gvk = Gvk::new(kind.group, kind.version, kind.kind);
                let root = *roots.get(definition)?;
                let graph = Arc::clone(&graph);
                let namespaced = match kind.scope {
                    Scope::Namespace => Some(true),
                    Scope::Cluster => Some(false),
                    Scope::Subresource => None,
                };
                let origin = Origin::BuiltIn;
                Some((gvk.clone(), Schema { graph, root, gvk, origin, namespaced }))
            })
            .collect();
        let kinds = kinds.into_iter().map(|(kind, _)| kind).collect();
        Self { kinds, by_kind, graph, object_meta }
    }
}

/// All kinds with the name of their definition, and the definitions with merge facts. Made anew on each call:
/// the descriptions weigh megabytes and only OpenAPI documents need them.
pub(super) fn published() -> (Vec<(Kind, String)>, Map<String, Value>) {
    let mut catalogue = Catalogue::new();
    catalogue.add_all();
    let Catalogue { mut generator, kinds } = catalogue;
    let mut definitions = generator.take_definitions(false);
    merging::annotate(&mut definitions);
    (kinds, definitions)
}

struct Catalogue {
    generator: SchemaGenerator,
    kinds: Vec<(Kind, String)>,
}

impl Catalogue {
    fn new() -> Self {
        Self { generator: SchemaSettings::openapi3().into_generator(), kinds: Vec::new() }
    }

    fn add<T>(&mut self)
    where
        T: Resource + JsonSchema,
        T::Scope: 'static,
    {
        self.generator.subschema_for::<T>();
        let scope = TypeId::of::<T::Scope>();
        let scope = if scope == TypeId::of::<NamespaceResourceScope>() {
            Scope::Namespace
        } else if scope == TypeId::of::<ClusterResourceScope>() {
            Scope::Cluster
        } else {
            Scope::Subresource
        };
        let kind = Kind {
            group: T::GROUP,
            version: T::VERSION,
            kind: T::KIND,
            plural: T::URL_PATH_SEGMENT,
            scope,
        };
        self.kinds.push((kind, T::schema_name().into_owned()));
    }

    fn add_all(&mut self) {
        self.add_core();
        self.add_workloads();
        self.add_policy();
        self.add_extension();
    }

    fn add_core(&mut self) {
        use k8s_openapi::api::core::v1;
        self.add::<v1::Binding>();
        self.add::<v1::ConfigMap>();
        self.add::<v1::Endpoints>();
        self.add::<v1::Event>();
        self.add::<v1::LimitRange>();
        self.add::<v1::Namespace>();
        self.add::<v1::Node>();
        self.add::<v1::PersistentVolume>();
        self.add::<v1::PersistentVolumeClaim>();
        self.add::<v1::Pod>();
        self.add::<v1::PodTemplate>();
        self.add::<v1::ReplicationController>();
        self.add::<v1::ResourceQuota>();
        self.add::<v1::Secret>();
        self.add::<v1::Service>();
        self.add::<v1::ServiceAccount>();
    }

    fn add_workloads(&mut self) {
        use k8s_openapi::api::{apps, autoscaling, batch};
        self.add::<apps::v1::ControllerRevision>();
        self.add::<apps::v1::DaemonSet>();
        self.add::<apps::v1::Deployment>();
        self.add::<apps::v1::ReplicaSet>();
        self.add::<apps::v1::StatefulSet>();
        self.add::<autoscaling::v1::Scale>();
        self.add::<batch::v1::CronJob>();
        self.add::<batch::v1::Job>();
    }

    fn add_policy(&mut self) {
        use k8s_openapi::api::{authentication, authorization, coordination, events, policy};
        use k8s_openapi::api::{rbac, scheduling, storage};
        self.add::<authentication::v1::SelfSubjectReview>();
        self.add::<authentication::v1::TokenRequest>();
        self.add::<authentication::v1::TokenReview>();
        self.add::<authorization::v1::LocalSubjectAccessReview>();
        self.add::<authorization::v1::SelfSubjectAccessReview>();
        self.add::<authorization::v1::SelfSubjectRulesReview>();
        self.add::<authorization::v1::SubjectAccessReview>();
        self.add::<coordination::v1::Lease>();
        self.add::<events::v1::Event>();
        self.add::<policy::v1::Eviction>();
        self.add::<policy::v1::PodDisruptionBudget>();
        self.add::<rbac::v1::ClusterRole>();
        self.add::<rbac::v1::ClusterRoleBinding>();
        self.add::<rbac::v1::Role>();
        self.add::<rbac::v1::RoleBinding>();
        self.add::<scheduling::v1::PriorityClass>();
        self.add::<storage::v1::CSIDriver>();
        self.add::<storage::v1::CSINode>();
        self.add::<storage::v1::CSIStorageCapacity>();
        self.add::<storage::v1::StorageClass>();
        self.add::<storage::v1::VolumeAttachment>();
        self.add::<storage::v1::VolumeAttributesClass>();
    }

    fn add_extension(&mut self) {
        use k8s_openapi::api::admissionregistration::v1 as admission;
        use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as extensions;
        self.add::<admission::MutatingWebhookConfiguration>();
        self.add::<admission::ValidatingAdmissionPolicy>();
        self.add::<admission::ValidatingAdmissionPolicyBinding>();
        self.add::<admission::ValidatingWebhookConfiguration>();
        self.add::<extensions::CustomResourceDefinition>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{ListKind, MapKind, Type};

    fn schema(group: &str, kind: &str) -> &'static Schema {
        Schemas::built_in().get(&Gvk::new(group, "v1", kind)).unwrap()
    }

    #[test]
    fn every_kind_has_a_schema_and_knows_its_place() {
        let schemas = Schemas::built_in();
        assert_eq!(schemas.kinds().len(), schemas.by_kind.len());
        let of = |kind: &str| schemas.kinds().iter().find(|k| k.kind == kind).unwrap();
        assert_eq!((of("Pod").plural, of("Pod").scope), ("pods", Scope::Namespace));
        assert_eq!((of("Node").plural, of("Node").scope), ("nodes", Scope::Cluster));
        assert_eq!(of("Scale").scope, Scope::Subresource);
    }

    #[test]
    fn lists_know_how_they_merge() {
        struct Case {
            group: &'static str,
            kind: &'static str,
            path: &'static [&'static str],
            list: Option<&'static [&'static str]>,
            merge_key: Option<&'static str>,
        }
        let pod = ["spec", "containers", "[]"];
        let at = |last: &'static str| -> &'static [&'static str] {
            Vec::leak(pod.into_iter().chain([last]).collect())
        };
        let cases = [
            Case {
                group: "",
                kind: "Pod",
                path: &["spec", "containers"],
                list: Some(&["name"]),
                merge_key: Some("name"),
            },
            Case {
                group: "",
                kind: "Pod",
                path: at("ports"),
                list: Some(&["containerPort", "protocol"]),
                merge_key: Some("containerPort"),
            },
            Case { group: "", kind: "Pod", path: at("args"), list: None, merge_key: None },
            Case {
                group: "apps",
                kind: "Deployment",
                path: &["spec", "template", "spec", "topologySpreadConstraints"],
                list: Some(&["topologyKey", "whenUnsatisfiable"]),
                merge_key: Some("topologyKey"),
            },
            Case {
                group: "batch",
                kind: "Job",
                path: &["status", "conditions"],
                list: None,
                merge_key: Some("type"),
            },
            Case {
                group: "",
                kind: "Service",
                path: &["spec", "ports"],
                list: Some(&["port", "protocol"]),
                merge_key: Some("port"),
            },
        ];
        for Case { group, kind, path, list, merge_key } in cases {
            let node = schema(group, kind).root().at(path).unwrap();
            let want: Option<Vec<&str>> = list.map(<[&str]>::to_vec);
            let got = match node.list_kind() {
                ListKind::Map { keys } => Some(keys.iter().map(AsRef::as_ref).collect()),
                ListKind::Atomic | ListKind::Set => None,
            };
            assert_eq!(got, want, "{kind} {path:?}");
            let key = node.patch().and_then(|patch| patch.merge_key.as_deref());
            assert_eq!(key, merge_key, "{kind} {path:?}");
        }
    }

    #[test]
    fn finalizers_are_a_set_and_selectors_are_atomic() {
        let root = schema("apps", "Deployment").root();
        let finalizers = root.at(&["metadata", "finalizers"]).unwrap();
        assert_eq!(finalizers.list_kind(), ListKind::Set);
        assert!(finalizers.patch().unwrap().merge);
        assert_eq!(root.at(&["spec", "selector"]).unwrap().map_kind(), MapKind::Atomic);
        assert_eq!(root.at(&["spec", "template"]).unwrap().map_kind(), MapKind::Granular);
        assert!(root.at(&["spec", "strategy"]).unwrap().patch().unwrap().retain_keys);
        let labels = root.at(&["metadata", "labels"]).unwrap();
        assert!(labels.is_map());
        assert_eq!(labels.values().unwrap().kind(), Type::String);
    }

    #[test]
    fn a_schema_may_contain_itself() {
        let root = schema("apiextensions.k8s.io", "CustomResourceDefinition").root();
        let schema = root.at(&["spec", "versions", "[]", "schema", "openAPIV3Schema"]).unwrap();
        let deep = schema.at(&["properties", "a", "properties", "b", "items", "type"]).unwrap();
        assert_eq!(deep.kind(), Type::String);
    }
}
