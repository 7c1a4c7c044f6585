//! What does `kubectl get` show?
//!
//! The server renders the columns: each kind has a row of definitions and a function that fills
//! the cells of one object. Custom resources bring both as JSON paths.

mod age;
mod built_in;
mod path;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::call::Call;
use super::kinds::{Column, Columns, Served};
use super::query::Query;
use super::respond;
use super::status::Status;

/// How much of each object accompanies its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Included {
    Nothing,
    Metadata,
    Object,
}

impl Included {
    pub(super) fn from_query(query: &Query) -> Self {
        match query.get("includeObject") {
            Some("None") => Self::Nothing,
            Some("Object") => Self::Object,
            _ => Self::Metadata,
        }
    }
}

fn check_policy(query: &Query) -> Result<(), Status> {
    match query.get("includeObject") {
        None | Some("" | "None" | "Object" | "Metadata") => Ok(()),
        Some(other) => Err(Status::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: \
             must be 'Metadata', 'Object', 'None', or empty"
        ))),
    }
}

/// The table of one object.
pub(super) fn of_object(call: &Call, object: &Value, version: &str) -> Result<Value, Status> {
    let metadata = match super::meta::resource_version(object) {
        "" => json!({}),
        revision => json!({"resourceVersion": revision}),
    };
    of_list(call, std::slice::from_ref(object), version, &metadata)
}

/// The table of a list.
pub(super) fn of_list(
    call: &Call,
    objects: &[Value],
    version: &str,
    metadata: &impl Serialize,
) -> Result<Value, Status> {
    check_policy(&call.query)?;
    let include = Included::from_query(&call.query);
    let rows = rows(&call.served, objects, include, call.server.options().clock.now());
    Ok(assemble(version, Some(definitions(&call.served)), rows, metadata))
}

/// Puts a table together.
pub(super) fn assemble(
    version: &str,
    columns: Option<Value>,
    rows: Vec<Value>,
    metadata: &impl Serialize,
) -> Value {
    json!({
        "kind": "Table",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": rows,
    })
}

const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating \
     resources, although some resources may allow a client to request the generation of an \
     appropriate name automatically.";

/// The columns of a kind.
pub(super) fn definitions(served: &Served) -> Value {
    match &served.columns {
        Columns::BuiltIn => built_in::of(&served.group, &served.plural)
            .columns
            .iter()
            .map(|column| {
                json!({
                    "name": column.name,
                    "type": column.kind,
                    "format": if column.name == "Name" { "name" } else { "" },
                    "description": if column.name == "Name" { NAME_DESCRIPTION } else { "" },
                    "priority": column.priority,
                })
            })
            .collect(),
        Columns::Custom(columns) => std::iter::once(json!({
            "name": "Name",
            "type": "string",
            "format": "name",
            "description": NAME_DESCRIPTION,
            "priority": 0,
        }))
        .chain(columns.iter().map(|column| {
            json!({
                "name": column.name,
                "type": column.kind,
                "format": column.format,
                "description": column.description,
                "priority": column.priority,
            })
        }))
        .collect(),
    }
}

/// One row an object.
pub(super) fn rows(
    served: &Served,
    objects: &[Value],
    include: Included,
    now: Timestamp,
) -> Vec<Value> {
    objects.iter().map(|object| row(served, object, include, now)).collect()
}

fn row(served: &Served, object: &Value, include: Included, now: Timestamp) -> Value {
    let cells: Vec<Value> = match &served.columns {
        Columns::BuiltIn => (built_in::of(&served.group, &served.plural).cells)(object, now),
        Columns::Custom(columns) => std::iter::once(json!(super::meta::name(object)))
            .chain(columns.iter().map(|column| custom_cell(column, object, now)))
            .collect(),
    };
    let mut row = json!({"cells": cells});
    match include {
        Included::Nothing => row["object"] = Value::Null,
        Included::Metadata => row["object"] = respond::metadata_only(object, "v1"),
        Included::Object => row["object"] = object.clone(),
    }
    if served.is("", "pods")
        && let Some(condition) = built_in::completed(object)
    {
        row["conditions"] = json!([condition]);
    }
    row
}

/// Text of the wrong type is shown as text, so that a wrong definition hides nothing.
fn custom_cell(column: &Column, object: &Value, now: Timestamp) -> Value {
    let Some(found) = path::first(&column.json_path, object) else { return Value::Null };
    match (column.kind.as_str(), found) {
        ("date", Value::String(text)) => json!(age::since(text, now)),
        ("integer", Value::Number(number)) => match number.as_i64() {
            Some(integer) => json!(integer),
            None => json!(number),
        },
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => found.clone(),
        ("string", Value::String(text)) => json!(text),
        (_, Value::Null) => Value::Null,
        ("string", other) => json!(other.to_string()),
        _ => Value::Null,
    }
}
