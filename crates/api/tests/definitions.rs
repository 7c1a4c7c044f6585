//! Are the CustomResourceDefinitions we print the ones that were reviewed?
//!
//! One file for each kind under `fixtures/wire/crd/`. After an intended change run the tests with
//! `UPDATE_FIXTURES=1` and read the difference.

#![expect(clippy::disallowed_methods, reason = "tests read files and settings")]
#![expect(clippy::unwrap_used, reason = "without its fixtures a test has to stop")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use kube::ResourceExt;
use serde_json::Value;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/wire/crd")
}

fn stored() -> BTreeMap<String, String> {
    let entries = fs::read_dir(directory()).unwrap();
    entries
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, String::from_utf8(fs::read(&path).unwrap()).unwrap())
        })
        .collect()
}

fn rendered() -> BTreeMap<String, String> {
    let names = api::kind::definitions().into_iter().map(|definition| definition.name_any());
    let yaml = api::kind::yaml();
    let documents: Vec<&str> = yaml.split("---\n").collect();
    assert_eq!(documents.len(), names.len());
    names.zip(documents).map(|(name, document)| (name, document.to_owned())).collect()
}

#[test]
fn definitions_are_the_reviewed_ones() {
    let rendered = rendered();
    if env::var_os("UPDATE_FIXTURES").is_some() {
        for (name, text) in &rendered {
            fs::write(directory().join(format!("{name}.yaml")), text).unwrap();
        }
    }
    let stored = stored();
    let names = |map: &BTreeMap<String, String>| map.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&stored), names(&rendered));
    for (name, text) in &rendered {
        assert_eq!(stored[name], *text, "{name}");
    }
}

/// The rules of a structural schema that a slip in a type could break; the API server refuses a
/// definition that breaks one.
#[test]
fn every_node_of_a_schema_has_one_type_and_only_known_keywords() {
    fn check(node: &Value, path: &str) {
        let node = node.as_object().unwrap();
        for keyword in node.keys() {
            assert!(KEYWORDS.contains(&keyword.as_str()), "{path}: {keyword}");
        }
        let int_or_string = node.contains_key("x-kubernetes-int-or-string");
        assert_ne!(node.get("type").is_some_and(Value::is_string), int_or_string, "{path}");
        assert!(
            !(node.contains_key("properties") && node.contains_key("additionalProperties")),
            "{path}"
        );
        for (name, child) in node.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            check(child, &format!("{path}.{name}"));
        }
        for keyword in ["items", "additionalProperties"] {
            node.get(keyword).into_iter().for_each(|child| check(child, &format!("{path}[]")));
        }
    }
    for definition in api::kind::definitions() {
        for version in &definition.spec.versions {
            let schema = &version.schema.as_ref().unwrap().open_api_v3_schema;
            let schema = serde_json::to_value(schema).unwrap();
            check(&schema, &format!("{} {}", definition.name_any(), version.name));
        }
    }
}

const KEYWORDS: &[&str] = &[
    "additionalProperties",
    "default",
    "description",
    "enum",
    "format",
    "items",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "nullable",
    "pattern",
    "properties",
    "required",
    "type",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
];
