//! What does a CustomResourceDefinition add?
//!
//! A [`Definition`] is the part of the object that serving needs. Several versions share one
//! collection; without a conversion webhook they differ in `apiVersion` only, so reading in
//! another version is a rename.

use std::sync::Arc;

use serde_json::Value;

use super::{
    ALL_VERBS, Action, Columns, Conversion, READ_WRITE, Served, Storage, Subresource, Traits,
    api_version, version_priority,
};
use crate::http::select::SelectableFields;
use crate::store::Collection;
use objects::schema::Schema;
use objects::schema::crd::CrdError;

/// A definition ready to be served.
#[derive(Debug, Clone)]
pub struct Definition {
    /// `plural.group`
    pub name: String,
    pub uid: String,
    pub terminating: bool,
    served: Vec<Served>,
}

/// A column of a custom resource's table.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    pub name: String,
    pub kind: String,
    pub format: String,
    pub description: String,
    pub priority: i64,
    pub json_path: String,
}

/// Where a resource keeps what `Scale` shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScalePaths {
    pub spec_replicas: Vec<String>,
    pub status_replicas: Vec<String>,
    /// Text of the label selector; built-in workloads keep an object in `spec.selector` instead.
    pub selector: Option<Vec<String>>,
}

/// Why a definition cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    #[error("{field} is missing")]
    Missing { field: &'static str },
    #[error(transparent)]
    Schema(#[from] CrdError),
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn texts(value: &Value, path: &str) -> Vec<String> {
    let list = value.pointer(path).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn list<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    value.pointer(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// `.spec.replicas` as steps.
pub(super) fn steps(path: &str) -> Vec<String> {
    path.trim_start_matches('.').split('.').map(str::to_owned).collect()
}

impl Definition {
    pub fn from_object(object: &Value) -> Result<Self, DefinitionError> {
        let versions = list(object, "/spec/versions");
        let storage = versions
            .iter()
            .find(|version| version.get("storage").and_then(Value::as_bool) == Some(true))
            .map(|version| text(version, "/name"))
            .ok_or(DefinitionError::Missing { field: "a storage version" })?;
        for (field, path) in [
            ("spec.group", "/spec/group"),
            ("spec.names.plural", "/spec/names/plural"),
            ("spec.names.kind", "/spec/names/kind"),
        ] {
            if text(object, path).is_empty() {
                return Err(DefinitionError::Missing { field });
            }
        }
        let terminating = object.pointer("/metadata/deletionTimestamp").is_some();
        let served = versions
            .iter()
            .filter(|version| version.get("served").and_then(Value::as_bool) == Some(true))
            .map(|version| serve(object, version, storage))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            name: text(object, "/metadata/name").to_owned(),
            uid: text(object, "/metadata/uid").to_owned(),
            terminating,
            served,
        })
    }

    pub fn served(&self) -> impl Iterator<Item = Served> + '_ {
        self.served.iter().cloned().map(|mut served| {
            served.traits.terminating = self.terminating;
            served
        })
    }
}

fn serve(object: &Value, version: &Value, storage: &str) -> Result<Served, DefinitionError> {
    let group = text(object, "/spec/group");
    let kind = text(object, "/spec/names/kind");
    let plural = text(object, "/spec/names/plural");
    let name = text(version, "/name");
    let schema = Schema::from_crd_version(object, name)?;
    let or = |path: &str, other: String| match text(object, path) {
        "" => other,
        given => given.to_owned(),
    };
    let subresources = subresources(version);
    Ok(Served {
        group: group.to_owned(),
        version: name.to_owned(),
        kind: kind.to_owned(),
        list_kind: or("/spec/names/listKind", format!("{kind}List")),
        plural: plural.to_owned(),
        singular: or("/spec/names/singular", kind.to_ascii_lowercase()),
        short_names: texts(object, "/spec/names/shortNames"),
        categories: texts(object, "/spec/names/categories"),
        namespaced: text(object, "/spec/scope") == "Namespaced",
        verbs: ALL_VERBS,
        storage: Storage::Stored {
            collection: Collection::new(group, plural),
            api_version: api_version(group, storage),
            view: Conversion::Rename,
        },
        schema: Some(schema),
        columns: Columns::Custom(columns(version)),
        fields: SelectableFields::from_json_paths(
            list(version, "/selectableFields").iter().map(|field| text(field, "/jsonPath")),
        ),
        traits: Traits {
            custom: true,
            status: subresources.iter().any(|sub| sub.action == Action::Status),
            generation: true,
            ..Traits::default()
        },
        deprecation: deprecation(object, version),
        subresources,
    })
}

fn subresources(version: &Value) -> Vec<Subresource> {
    let mut list = Vec::new();
    if version.pointer("/subresources/status").is_some() {
        list.push(Subresource { name: "status", verbs: READ_WRITE, action: Action::Status });
    }
    if let Some(scale) = version.pointer("/subresources/scale") {
        let selector = text(scale, "/labelSelectorPath");
        let paths = ScalePaths {
            spec_replicas: steps(text(scale, "/specReplicasPath")),
            status_replicas: steps(text(scale, "/statusReplicasPath")),
            selector: Some(if selector.is_empty() { Vec::new() } else { steps(selector) }),
        };
        list.push(Subresource { name: "scale", verbs: READ_WRITE, action: Action::Scale(paths) });
    }
    list
}

fn columns(version: &Value) -> Arc<[Column]> {
    let column = |value: &Value| Column {
        name: text(value, "/name").to_owned(),
        kind: text(value, "/type").to_owned(),
        format: text(value, "/format").to_owned(),
        description: text(value, "/description").to_owned(),
        priority: value.get("priority").and_then(Value::as_i64).unwrap_or(0),
        json_path: text(value, "/jsonPath").to_owned(),
    };
    match list(version, "/additionalPrinterColumns") {
        [] => Arc::new([Column {
            name: "Age".into(),
            kind: "date".into(),
            format: String::new(),
            description: "CreationTimestamp is a timestamp representing the server time when this \
                          object was created."
                .into(),
            priority: 0,
            json_path: ".metadata.creationTimestamp".into(),
        }]),
        columns => columns.iter().map(column).collect(),
    }
}

fn deprecation(object: &Value, version: &Value) -> Option<String> {
    if version.get("deprecated").and_then(Value::as_bool) != Some(true) {
        return None;
    }
    let own = text(version, "/deprecationWarning");
    if !own.is_empty() {
        return Some(own.to_owned());
    }
    let api = api_version(text(object, "/spec/group"), text(version, "/name"));
    let kind = text(object, "/spec/names/kind");
    let newer = list(object, "/spec/versions")
        .iter()
        .filter(|other| other.get("served").and_then(Value::as_bool) == Some(true))
        .filter(|other| other.get("deprecated").and_then(Value::as_bool) != Some(true))
        .map(|other| text(other, "/name"))
        .max_by_key(|name| version_priority(name));
    Some(match newer {
        Some(name) => {
            let better = api_version(text(object, "/spec/group"), name);
            format!("{api} {kind} is deprecated; use {better} {kind}")
        }
        None => format!("{api} {kind} is deprecated"),
    })
}
