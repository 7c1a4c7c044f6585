//! Paths: what can be done with each kind, and with which parameters.
//!
//! kubectl looks here for two things: which kind a URL belongs to, and whether writing understands
//! `fieldValidation` and `dryRun`.

use serde_json::{Map, Value, json};

use super::Served;
use super::document::{Dialect, gvk, list_name};

/// Parameters of writing requests.
const WRITE: [(&str, &str); 3] = [
    ("dryRun", "When present, nothing is stored; the answer is what would have been."),
    ("fieldManager", "Name of the actor that owns the fields of this request."),
    ("fieldValidation", "What to do about unknown and repeated fields: Ignore, Warn or Strict."),
];

const LIST: [(&str, &str); 8] = [
    ("allowWatchBookmarks", "Send bookmarks with the current version while nothing happens."),
    ("continue", "Token of the page to continue from."),
    ("fieldSelector", "Restricts the list by fields."),
    ("labelSelector", "Restricts the list by labels."),
    ("limit", "Longest page to return."),
    ("resourceVersion", "Version the answer must at least have."),
    ("sendInitialEvents", "Start a watch with the objects that exist."),
    ("watch", "Stream changes instead of returning a list."),
];

/// All paths of some kinds.
pub(super) fn paths(kinds: &[Served], dialect: Dialect) -> Map<String, Value> {
    let mut paths = Map::new();
    for kind in kinds.iter().filter(|kind| !kind.subresource_only) {
        let base = format!("/{}", kind.prefix());
        let plural = &kind.plural;
        let collection = if kind.namespaced {
            paths.insert(format!("{base}/{plural}"), across(kind, dialect));
            format!("{base}/namespaces/{{namespace}}/{plural}")
        } else {
            format!("{base}/{plural}")
        };
        let item = format!("{collection}/{{name}}");
        paths.insert(collection, collection_item(kind, dialect));
        if is_question(kind) {
            continue;
        }
        if kind.has_status {
            paths.insert(format!("{item}/status"), one(kind, false, dialect));
        }
        if kind.has_scale {
            paths.insert(format!("{item}/scale"), one(kind, false, dialect));
        }
        paths.insert(item, one(kind, true, dialect));
    }
    paths
}

/// Reviews and bindings are posted and not stored.
fn is_question(kind: &Served) -> bool {
    kind.group.starts_with("auth") && kind.kind.ends_with("Review") || kind.kind == "Binding"
}

fn across(kind: &Served, dialect: Dialect) -> Value {
    json!({"get": operation(kind, "list", &list_name(kind), &LIST, dialect)})
}

fn collection_item(kind: &Served, dialect: Dialect) -> Value {
    let mut item = Map::new();
    if !is_question(kind) {
        item.insert("get".to_owned(), operation(kind, "list", &list_name(kind), &LIST, dialect));
        let delete = operation(kind, "deletecollection", &kind.definition, &WRITE, dialect);
        item.insert("delete".to_owned(), delete);
    }
    item.insert("post".to_owned(), operation(kind, "post", &kind.definition, &WRITE, dialect));
    with_parameters(item, kind.namespaced, false, dialect)
}

fn one(kind: &Served, can_delete: bool, dialect: Dialect) -> Value {
    let mut item = Map::new();
    let name = &kind.definition;
    item.insert("get".to_owned(), operation(kind, "get", name, &[], dialect));
    item.insert("put".to_owned(), operation(kind, "put", name, &WRITE, dialect));
    let force = ("force", "Take fields over from other actors (apply only).");
    let patch: Vec<(&str, &str)> = WRITE.into_iter().chain([force]).collect();
    item.insert("patch".to_owned(), operation(kind, "patch", name, &patch, dialect));
    if can_delete {
        item.insert("delete".to_owned(), operation(kind, "delete", name, &WRITE, dialect));
    }
    with_parameters(item, kind.namespaced, true, dialect)
}

fn with_parameters(
    mut item: Map<String, Value>,
    namespaced: bool,
    named: bool,
    dialect: Dialect,
) -> Value {
    let mut parameters = Vec::new();
    for (name, description, given) in [
        ("name", "Name of the object.", named),
        ("namespace", "Namespace of the object.", namespaced),
    ] {
        if given {
            let mut parameter = parameter(name, description, "path", dialect);
            parameter["required"] = json!(true);
            parameters.push(parameter);
        }
    }
    item.insert("parameters".to_owned(), Value::from(parameters));
    item.into()
}

fn parameter(name: &str, description: &str, place: &str, dialect: Dialect) -> Value {
    let mut parameter = json!({"name": name, "in": place, "description": description});
    let kind = match name {
        "limit" => "integer",
        "watch" | "force" | "allowWatchBookmarks" | "sendInitialEvents" => "boolean",
        _ => "string",
    };
    match dialect {
        Dialect::V2 => parameter["type"] = json!(kind),
        Dialect::V3 => parameter["schema"] = json!({"type": kind}),
    }
    parameter
}

fn operation(
    kind: &Served,
    action: &str,
    answer: &str,
    parameters: &[(&str, &str)],
    dialect: Dialect,
) -> Value {
    let schema = json!({"$ref": format!("{}{answer}", dialect.base())});
    let parameters: Vec<Value> = parameters
        .iter()
        .map(|(name, description)| parameter(name, description, "query", dialect))
        .collect();
    let ok = match dialect {
        Dialect::V2 => json!({"description": "OK", "schema": schema}),
        Dialect::V3 => {
            json!({"description": "OK", "content": {"application/json": {"schema": schema}}})
        }
    };
    let mut operation = json!({
        "description": format!("{action} {}", kind.plural),
        "operationId": format!("{action}{}{}", kind.version, kind.kind),
        "parameters": parameters,
        "responses": {"200": ok},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": gvk(kind, &kind.kind),
    });
    if action == "patch" && dialect == Dialect::V2 {
        operation["consumes"] = json!([
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
            "application/apply-patch+yaml",
        ]);
    }
    operation
}
