//! Keywords a definition may not use, or not like this.

use serde_json::{Value, json};

use super::structural::properties;
use crate::schema::cause::{Causes, Path};
use crate::schema::object::{flag, get, list, text};
use crate::schema::{MAX_DEPTH, cel};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const LIST_TYPE: &str = "x-kubernetes-list-type";
const MAP_KEYS: &str = "x-kubernetes-list-map-keys";
const MAP_TYPE: &str = "x-kubernetes-map-type";
const RULES: &str = "x-kubernetes-validations";

/// What the nodes above allow.
#[derive(Clone, Copy)]
struct Context<'a> {
    /// The root's `apiVersion`, `kind` or `metadata`, in which nothing may have a default.
    top_level: Option<&'a str>,
    /// Below this path two revisions of an object cannot be matched, so rules have no `oldSelf`.
    uncorrelatable: Option<&'a Path<'a>>,
}

/// Checks keywords; expression rules are compiled only when `compile` is set and nothing else is wrong.
pub(super) fn check(schema: &Value, compile: bool, path: &Path<'_>) -> Causes {
    let mut causes = Causes::default();
    let context = Context { top_level: None, uncorrelatable: None };
    node(schema, context, path, 0, &mut causes);
    if compile && causes.is_empty() {
        expressions(schema, context, path, 0, &mut causes);
    }
    causes
}

fn node(schema: &Value, context: Context<'_>, path: &Path<'_>, depth: usize, causes: &mut Causes) {
    if depth > MAX_DEPTH {
        return;
    }
    unsupported(schema, context, path, causes);
    each_inner(schema, context, path, depth, &mut |inner, context, path| {
        node(inner, context, path, depth + 1, causes);
    });
    for keyword in ["allOf", "oneOf", "anyOf"] {
        let at = path.field(keyword);
        for (index, inner) in list(schema, keyword).iter().enumerate() {
            node(inner, context, &at.index(index), depth + 1, causes);
        }
    }
    if let Some(inner) = schema.get("not") {
        node(inner, context, &path.field("not"), depth + 1, causes);
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let at = path.field("x-kubernetes-preserve-unknown-fields");
        causes.invalid(&at, &json!(false), "must be true or undefined");
    }
    map_type(schema, path, causes);
    list_type(schema, path, causes);
    rules(schema, path, causes);
}

/// Calls `visit` with the schemas of properties, map values and list elements.
fn each_inner(
    schema: &Value,
    context: Context<'_>,
    path: &Path<'_>,
    depth: usize,
    visit: &mut dyn FnMut(&Value, Context<'_>, &Path<'_>),
) {
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        visit(values, context, &path.field("additionalProperties"));
    }
    let fields = path.field("properties");
    let atomic = text(schema, MAP_TYPE) == "atomic";
    for (name, property) in properties(schema).into_iter().flatten() {
        let own = matches!(name.as_str(), "metadata" | "kind" | "apiVersion") && depth == 0;
        let context = Context {
            top_level: if own { Some(name.as_str()) } else { context.top_level },
            uncorrelatable: context.uncorrelatable.or(atomic.then_some(path)),
        };
        visit(property, context, &fields.key(name));
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        let matched = text(schema, LIST_TYPE) == "map";
        let uncorrelatable = context.uncorrelatable.or((!matched).then_some(path));
        visit(items, Context { uncorrelatable, ..context }, &path.field("items"));
    }
}

fn unsupported(schema: &Value, context: Context<'_>, path: &Path<'_>, causes: &mut Causes) {
    let kind = text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        causes.not_supported(&path.field("type"), &json!(kind), &TYPES);
    }
    if let Some(field) = context.top_level
        && schema.get("default").is_some()
    {
        let detail = format!("must not be set in top-level {field}");
        causes.forbidden(&path.field("default"), &detail);
    }
    for keyword in
        ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"]
    {
        if schema.get(keyword).is_some() {
            causes.forbidden(&path.field(keyword), &format!("{keyword} is not supported"));
        }
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        causes.forbidden(&path.field("type"), detail);
    }
    if schema.get("items").is_some_and(Value::is_array) {
        let detail = "items must be a schema object and not an array";
        causes.forbidden(&path.field("items"), detail);
    }
    if flag(schema, "uniqueItems") {
        let detail =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        causes.forbidden(&path.field("uniqueItems"), detail);
    }
    let additional = get(schema, "additionalProperties");
    let has_fields = properties(schema).is_some_and(|properties| !properties.is_empty());
    let at = path.field("additionalProperties");
    if has_fields && !additional.is_null() && additional != &Value::Bool(true) {
        causes.forbidden(&at, "additionalProperties and properties are mutual exclusive");
    } else if additional == &Value::Bool(false) {
        causes.forbidden(&at, "additionalProperties cannot be set to false");
    }
}

/// Refuses a `type` that does not go with an extension.
fn wrong_type(schema: &Value, detail: &str, path: &Path<'_>, causes: &mut Causes) {
    match text(schema, "type") {
        "" => causes.required(&path.field("type"), detail),
        kind => causes.invalid_text(&path.field("type"), kind, detail),
    }
}

fn map_type(schema: &Value, path: &Path<'_>, causes: &mut Causes) {
    let Some(map_type) = schema.get(MAP_TYPE) else { return };
    if text(schema, "type") != "object" {
        wrong_type(schema, "must be object if x-kubernetes-map-type is specified", path, causes);
    }
    let supported = ["atomic", "granular"];
    if !supported.contains(&map_type.as_str().unwrap_or_default()) {
        causes.not_supported(&path.field(MAP_TYPE), map_type, &supported);
    }
}

fn list_type(schema: &Value, path: &Path<'_>, causes: &mut Causes) {
    let keys = list(schema, MAP_KEYS);
    let list_type = text(schema, LIST_TYPE);
    let at = path.field(LIST_TYPE);
    if schema.get(LIST_TYPE).is_none() {
        if !keys.is_empty() {
            causes.required(&at, "must be map if x-kubernetes-list-map-keys is non-empty");
        }
        return;
    }
    if text(schema, "type") != "array" {
        wrong_type(schema, "must be array if x-kubernetes-list-type is specified", path, causes);
    } else if list_type == "set" {
        set_items(get(schema, "items"), &path.field("items"), causes);
    }
    let supported = ["atomic", "set", "map"];
    if !supported.contains(&list_type) {
        causes.not_supported(&at, get(schema, LIST_TYPE), &supported);
    }
    if !keys.is_empty() && list_type != "map" {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        causes.invalid_text(&at, list_type, detail);
    }
    if list_type == "map" {
        map_items(schema, keys, path, causes);
    }
    if matches!(list_type, "map" | "set") && flag(get(schema, "items"), "nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        causes.forbidden(&path.field("items").field("nullable"), &detail);
    }
}

fn set_items(items: &Value, path: &Path<'_>, causes: &mut Causes) {
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    match text(items, "type") {
        "array" if !matches!(text(items, LIST_TYPE), "" | "atomic") => {
            causes.invalid(&path.field(LIST_TYPE), get(items, LIST_TYPE), detail);
        }
        "object" if text(items, MAP_TYPE) != "atomic" => {
            causes.invalid(&path.field(MAP_TYPE), get(items, LIST_TYPE), detail);
        }
        _ => {}
    }
}

fn map_items(schema: &Value, keys: &[Value], path: &Path<'_>, causes: &mut Causes) {
    let keys_path = path.field(MAP_KEYS);
    if keys.is_empty() {
        causes.required(&keys_path, "must not be empty if x-kubernetes-list-type is map");
    }
    let (items, items_path) = (get(schema, "items"), path.field("items"));
    if items.is_null() {
        causes.required(&items_path, "must have a schema if x-kubernetes-list-type is map");
        return;
    }
    let kind = text(items, "type");
    if kind != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        causes.invalid_text(&items_path.field("type"), kind, detail);
        return;
    }
    let all = get(schema, MAP_KEYS);
    let mut seen = std::collections::BTreeSet::new();
    for key in keys {
        let name = key.as_str().unwrap_or_default();
        match properties(items).and_then(|properties| properties.get(name)) {
            Some(property) => map_key(items, name, property, &items_path, causes),
            None => {
                let detail = "entries must all be names of item properties";
                causes.invalid(&keys_path, all, detail);
            }
        }
        if !seen.insert(name) {
            causes.invalid(&keys_path, all, "must not contain duplicate entries");
        }
    }
}

fn map_key(items: &Value, name: &str, property: &Value, path: &Path<'_>, causes: &mut Causes) {
    let fields = path.field("properties");
    let at = fields.key(name);
    if matches!(text(property, "type"), "array" | "object") {
        let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
        // The reference prints the type of the element here, not that of the key.
        causes.invalid_text(&at.field("type"), text(items, "type"), detail);
    }
    if property.get("default").is_none() && !list(items, "required").contains(&json!(name)) {
        let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a \
                      required property";
        causes.required(&at.field("default"), detail);
    }
    if flag(property, "nullable") {
        let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
        causes.forbidden(&at.field("nullable"), detail);
    }
}

/// Checks what a rule says beside its expression.
fn rules(schema: &Value, path: &Path<'_>, causes: &mut Causes) {
    const REASONS: [&str; 4] =
        ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
    let breaks = |text: &str| text.trim().contains(['\n', '\r']);
    let rules_path = path.field(RULES);
    for (index, rule) in list(schema, RULES).iter().enumerate() {
        let at = rules_path.index(index);
        let (expression, message) = (text(rule, "rule"), text(rule, "message"));
        if expression.trim().is_empty() {
            causes.required(&at.field("rule"), "rule is not specified");
        } else if !message.is_empty() && message.trim().is_empty() {
            let detail = "message must be non-empty if specified";
            causes.invalid_text(&at.field("message"), message, detail);
        } else if breaks(message) {
            let detail = "message must not contain line breaks";
            causes.invalid_text(&at.field("message"), message, detail);
        } else if breaks(expression) && message.is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            causes.required(&at.field("message"), detail);
        }
        if let Some(reason) = rule.get("reason")
            && !REASONS.contains(&reason.as_str().unwrap_or_default())
        {
            causes.not_supported(&at.field("reason"), reason, &REASONS);
        }
    }
}

fn expressions(
    schema: &Value,
    context: Context<'_>,
    path: &Path<'_>,
    depth: usize,
    causes: &mut Causes,
) {
    if depth > MAX_DEPTH {
        return;
    }
    each_inner(schema, context, path, depth, &mut |inner, context, path| {
        expressions(inner, context, path, depth + 1, causes);
    });
    let Some(compiled) = schema.as_object().and_then(cel::Expressions::compile) else { return };
    let rules_path = path.field(RULES);
    let rules = list(schema, RULES);
    for (index, (outcome, rule)) in compiled.outcomes().into_iter().zip(rules).enumerate() {
        let at = rules_path.index(index);
        let expression = text(rule, "rule");
        match (outcome, context.uncorrelatable) {
            (Err(error), _) => {
                let detail = format!("compilation failed: {error}");
                causes.invalid_text(&at.field("rule"), expression, &detail);
            }
            (Ok(true), Some(outer)) => {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {outer}"
                );
                causes.invalid_text(&at.field("rule"), expression, &detail);
            }
            (Ok(false), _) if rule.get("optionalOldSelf").is_some() => {
                let detail = "may not be set if oldSelf is not used in rule";
                let given = get(rule, "optionalOldSelf");
                causes.invalid(&at.field("optionalOldSelf"), given, detail);
            }
            _ => {}
        }
    }
}
