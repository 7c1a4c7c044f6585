//! The OpenAPI documents that clients ask for.
//!
//! kubectl reads them to explain fields, to learn which query parameters the server understands, and to find
//! merge keys. Version 3 is an index and one document per group and version; version 2 is one document for
//! everything. Built-in documents are made once per process, those of custom kinds once per [`OpenApi`];
//! all of them only when somebody asks.

mod document;
mod operations;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, LazyLock, OnceLock};

use serde_json::{Value, json};

use super::built_in::{self, Kind, Scope};
use super::object::{get, list, text};
use document::Dialect;

/// A finished document.
#[derive(Debug, Clone)]
pub struct Document {
    pub json: Arc<[u8]>,
    /// Changes with the content; part of the URL in the index, and usable as an entity tag.
    pub hash: String,
}

impl Document {
    fn new(value: &Value) -> Self {
        let json: Arc<[u8]> = value.to_string().into_bytes().into();
        let mut hasher = DefaultHasher::new();
        hasher.write(&json);
        let hash = format!("{:016X}", hasher.finish());
        Self { json, hash }
    }
}

/// A kind as the documents see it, built in or not.
#[derive(Debug, Clone)]
struct Served {
    group: String,
    version: String,
    kind: String,
    list_kind: String,
    plural: String,
    namespaced: bool,
    subresource_only: bool,
    has_status: bool,
    has_scale: bool,
    /// Name of the definition that describes it.
    definition: String,
}

impl Served {
    /// `api/v1` or `apis/apps/v1`.
    fn prefix(&self) -> String {
        if self.group.is_empty() {
            format!("api/{}", self.version)
        } else {
            format!("apis/{}/{}", self.group, self.version)
        }
    }

    fn built_in(
        kind: &Kind,
        definition: &str,
        definitions: &serde_json::Map<String, Value>,
    ) -> Self {
        let properties = definitions.get(definition).map(|one| get(one, "properties"));
        let scales = matches!(
            (kind.group, kind.kind),
            ("apps", "Deployment" | "ReplicaSet" | "StatefulSet") | ("", "ReplicationController")
        );
        Self {
            group: kind.group.to_owned(),
            version: kind.version.to_owned(),
            kind: kind.kind.to_owned(),
            list_kind: format!("{}List", kind.kind),
            plural: kind.plural.to_owned(),
            namespaced: kind.scope == Scope::Namespace,
            subresource_only: kind.scope == Scope::Subresource,
            has_status: properties.is_some_and(|properties| properties.get("status").is_some()),
            has_scale: scales,
            definition: definition.to_owned(),
        }
    }

    fn custom(spec: &Value, version: &Value) -> Self {
        let (group, names) = (text(spec, "group"), get(spec, "names"));
        let (version_name, kind) = (text(version, "name"), text(names, "kind"));
        let domain: Vec<&str> = group.rsplit('.').collect();
        let subresources = get(version, "subresources");
        Self {
            group: group.to_owned(),
            version: version_name.to_owned(),
            kind: kind.to_owned(),
            list_kind: text(names, "listKind").to_owned(),
            plural: text(names, "plural").to_owned(),
            namespaced: text(spec, "scope") == "Namespaced",
            subresource_only: false,
            has_status: subresources.get("status").is_some(),
            has_scale: subresources.get("scale").is_some(),
            definition: format!("{}.{version_name}.{kind}", domain.join(".")),
        }
    }
}

/// Built-in kinds by document path.
fn built_in_kinds() -> &'static BTreeMap<String, Vec<Served>> {
    static KINDS: LazyLock<BTreeMap<String, Vec<Served>>> = LazyLock::new(|| {
        let (kinds, definitions) = built_in::published();
        let mut by_prefix: BTreeMap<String, Vec<Served>> = BTreeMap::new();
        for (kind, definition) in &kinds {
            let served = Served::built_in(kind, definition, &definitions);
            by_prefix.entry(served.prefix()).or_default().push(served);
        }
        by_prefix
    });
    &KINDS
}

/// Built-in version 3 documents by path.
fn built_in_documents() -> &'static BTreeMap<String, Document> {
    static DOCUMENTS: LazyLock<BTreeMap<String, Document>> = LazyLock::new(|| {
        let (_, definitions) = built_in::published();
        built_in_kinds()
            .iter()
            .map(|(prefix, kinds)| {
                let value = document::version_3(kinds, definitions.clone());
                (prefix.clone(), Document::new(&value))
            })
            .collect()
    });
    &DOCUMENTS
}

/// All documents for one set of CustomResourceDefinitions. Make a new one when the set changes.
#[derive(Debug)]
pub struct OpenApi {
    /// Served versions of custom kinds, with their schemas, by document path.
    custom: BTreeMap<String, Vec<(Served, Value)>>,
    documents: OnceLock<BTreeMap<String, Document>>,
    index: OnceLock<Document>,
    version_2: OnceLock<Document>,
}

impl OpenApi {
    /// `definitions` are CustomResourceDefinition objects; versions that are not served are left out.
    pub fn new<'a>(definitions: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut custom: BTreeMap<String, Vec<(Served, Value)>> = BTreeMap::new();
        for definition in definitions {
            let spec = get(definition, "spec");
            for version in list(spec, "versions").iter().filter(|one| get(one, "served") == true) {
                let served = Served::custom(spec, version);
                let schema = get(get(version, "schema"), "openAPIV3Schema").clone();
                custom.entry(served.prefix()).or_default().push((served, schema));
            }
        }
        Self {
            custom,
            documents: OnceLock::new(),
            index: OnceLock::new(),
            version_2: OnceLock::new(),
        }
    }

    /// The index at `/openapi/v3`.
    pub fn index(&self) -> &Document {
        self.index.get_or_init(|| {
            let all = built_in_documents().iter().chain(self.documents());
            let paths: serde_json::Map<String, Value> = all
                .map(|(path, document)| {
                    let url = format!("/openapi/v3/{path}?hash={}", document.hash);
                    (path.clone(), json!({"serverRelativeURL": url}))
                })
                .collect();
            Document::new(&json!({"paths": paths}))
        })
    }

    /// The document at `/openapi/v3/{path}`, where `path` is `api/v1` or `apis/GROUP/VERSION`.
    pub fn version_3(&self, path: &str) -> Option<&Document> {
        built_in_documents().get(path).or_else(|| self.documents().get(path))
    }

    /// The document at `/openapi/v2`.
    pub fn version_2(&self) -> &Document {
        self.version_2.get_or_init(|| {
            let (_, mut definitions) = built_in::published();
            let mut kinds: Vec<Served> = built_in_kinds().values().flatten().cloned().collect();
            for (served, schema) in self.custom.values().flatten() {
                let schema = document::custom(served, schema, Dialect::V2);
                definitions.insert(served.definition.clone(), schema);
                kinds.push(served.clone());
            }
            Document::new(&document::version_2(&kinds, definitions))
        })
    }

    fn documents(&self) -> &BTreeMap<String, Document> {
        self.documents.get_or_init(|| {
            if self.custom.is_empty() {
                return BTreeMap::new();
            }
            let (_, published) = built_in::published();
            let document = |kinds: &Vec<(Served, Value)>| {
                let mut definitions = published.clone();
                for (served, schema) in kinds {
                    let schema = document::custom(served, schema, Dialect::V3);
                    definitions.insert(served.definition.clone(), schema);
                }
                let kinds: Vec<Served> = kinds.iter().map(|(served, _)| served.clone()).collect();
                Document::new(&document::version_3(&kinds, definitions))
            };
            self.custom.iter().map(|(prefix, kinds)| (prefix.clone(), document(kinds))).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition() -> Value {
        json!({"spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing", "listKind": "ThingList"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "description": "A thing.", "properties": {
                        "spec": {"type": "object", "nullable": true, "properties": {
                            "size": {"type": "integer", "description": "How large."}}}}}}},
                {"name": "v0", "served": false, "storage": false},
            ],
        }})
    }

    fn parsed(document: &Document) -> Value {
        serde_json::from_slice(&document.json).unwrap()
    }

    #[test]
    fn the_index_lists_every_group_and_version() {
        let definition = definition();
        let open_api = OpenApi::new([&definition]);
        let index = parsed(open_api.index());
        let paths: Vec<&String> = index["paths"].as_object().unwrap().keys().collect();
        for path in ["api/v1", "apis/apps/v1", "apis/example.com/v1"] {
            assert!(paths.iter().any(|known| *known == path), "{path}");
            let url = index["paths"][path]["serverRelativeURL"].as_str().unwrap();
            let hash = &open_api.version_3(path).unwrap().hash;
            assert_eq!(url, format!("/openapi/v3/{path}?hash={hash}"));
        }
        assert!(!paths.iter().any(|known| *known == "apis/example.com/v0"), "not served");
        assert!(open_api.version_3("apis/example.com/v0").is_none());
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let definition = definition();
        let open_api = OpenApi::new([&definition]);
        let mut documents: Vec<(String, Value)> = built_in_documents()
            .iter()
            .chain(open_api.documents())
            .map(|(path, document)| (path.clone(), parsed(document)))
            .collect();
        documents.push(("v2".to_owned(), parsed(open_api.version_2())));
        for (path, document) in documents {
            let text = document.to_string();
            for part in text.split("\"$ref\":\"#").skip(1) {
                let pointer = part.split('"').next().unwrap();
                assert!(document.pointer(pointer).is_some(), "{path}: {pointer}");
            }
        }
    }

    #[test]
    fn kinds_carry_what_kubectl_looks_for() {
        let open_api = OpenApi::new([]);
        let core = parsed(open_api.version_3("api/v1").unwrap());
        let pod = &core["components"]["schemas"]["io.k8s.api.core.v1.Pod"];
        assert_eq!(
            pod["x-kubernetes-group-version-kind"],
            json!([{"group": "", "version": "v1", "kind": "Pod"}])
        );
        let spec = &core["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"];
        assert_eq!(spec["containers"]["x-kubernetes-patch-merge-key"], "name");
        assert_eq!(spec["containers"]["x-kubernetes-list-type"], "map");
        assert_eq!(
            spec["affinity"]["allOf"],
            json!([{"$ref": "#/components/schemas/io.k8s.api.core.v1.Affinity"}])
        );
        let patch = &core["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
        let names: Vec<&str> =
            patch["parameters"].as_array().unwrap().iter().map(|one| text(one, "name")).collect();
        assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
        assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Pod");
        assert!(core["components"]["schemas"].get("io.k8s.api.apps.v1.Deployment").is_none());
    }

    #[test]
    fn custom_kinds_are_described_in_both_versions() {
        let definition = definition();
        let open_api = OpenApi::new([&definition]);
        let v3 = parsed(open_api.version_3("apis/example.com/v1").unwrap());
        let thing = &v3["components"]["schemas"]["com.example.v1.Thing"];
        insta::assert_yaml_snapshot!("openapi-custom-v3", thing);
        let paths: Vec<&String> = v3["paths"].as_object().unwrap().keys().collect();
        assert_eq!(
            paths,
            [
                "/apis/example.com/v1/namespaces/{namespace}/things",
                "/apis/example.com/v1/namespaces/{namespace}/things/{name}",
                "/apis/example.com/v1/namespaces/{namespace}/things/{name}/status",
                "/apis/example.com/v1/things",
            ]
        );
        let v2 = parsed(open_api.version_2());
        let thing = &v2["definitions"]["com.example.v1.Thing"];
        assert_eq!(thing["properties"]["spec"].get("nullable"), None);
        assert_eq!(
            text(&thing["properties"]["metadata"], "$ref"),
            "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
        );
        assert_eq!(
            v2["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"]["type"],
            "string"
        );
    }
}
