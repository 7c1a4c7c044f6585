//! `x-kubernetes-validations`: rules written in CEL.
//!
//! The walk along the object is ours (it knows how list elements of two revisions correspond); kube-cel
//! compiles a rule, turns JSON into CEL values with the help of the schema, and evaluates.
//!
//! Known gaps against kube-apiserver: no cost limits, no type check when the rule is compiled, and
//! `oldSelf` of a rule with `optionalOldSelf` is null instead of an empty optional on create.

use std::fmt;

use kube_cel::{CompiledSchema, ErrorKind, RootContext, Validator, compile_schema};
use serde_json::{Map, Value};

use super::MAX_DEPTH;
use super::cause::{Causes, Path, Reason};
use super::graph::Node;
use super::lists;

const KEYWORD: &str = "x-kubernetes-validations";

thread_local! {
    /// Building one registers all functions, which costs more than most evaluations.
    static VALIDATOR: Validator = Validator::new();
}

/// The rules of one schema node.
pub(super) struct Expressions {
    compiled: CompiledSchema,
}

impl fmt::Debug for Expressions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} expressions", self.compiled.validations.len())
    }
}

impl Expressions {
    /// The node's own rules; the rules of the nodes below are compiled with those nodes.
    pub(super) fn compile(schema: &Map<String, Value>) -> Option<Self> {
        let rules = schema.get(KEYWORD)?.as_array()?;
        if rules.is_empty() {
            return None;
        }
        let mut shape = Value::Object(schema.clone());
        strip(&mut shape, 0);
        if let Some(shape) = shape.as_object_mut() {
            shape.insert(KEYWORD.to_owned(), Value::Array(rules.clone()));
        }
        Some(Self { compiled: compile_schema(&shape) })
    }

    /// Per rule, whether it looks at the old value, or why it does not compile.
    pub(super) fn outcomes(&self) -> Vec<Result<bool, String>> {
        let rules = self.compiled.validations.iter();
        rules
            .map(|rule| match rule {
                Ok(rule) => Ok(rule.is_transition_rule),
                Err(error) => Err(error.to_string()),
            })
            .collect()
    }
}

/// Leaves only what the conversion of values needs. Combinators hold no rules and no structure.
fn strip(schema: &mut Value, depth: usize) {
    let Some(schema) = schema.as_object_mut() else { return };
    if depth > MAX_DEPTH {
        return;
    }
    for keyword in [KEYWORD, "default", "allOf", "anyOf", "oneOf", "not"] {
        schema.remove(keyword);
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(keyword) {
            strip(inner, depth + 1);
        }
    }
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(|property| strip(property, depth + 1));
    }
}

/// Evaluates all rules below `node`. With an old object, parts that did not change are not judged.
pub(super) fn check(node: Node<'_>, value: &Value, old: Option<&Value>, causes: &mut Causes) {
    if node.graph().has_expressions {
        walk(node, value, old, &Path::ROOT, 0, causes);
    }
}

fn walk(
    node: Node<'_>,
    value: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
    depth: usize,
    causes: &mut Causes,
) {
    if depth > MAX_DEPTH || old == Some(value) {
        return;
    }
    let rules = node.data().rules.as_ref();
    if let Some(expressions) = rules.and_then(|rules| rules.expressions.as_ref()) {
        evaluate(expressions, value, old, path, causes);
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(field) = node.field(name) {
                    let old = old.and_then(|old| old.get(name));
                    walk(field, value, old, &path.field(name), depth + 1, causes);
                }
            }
        }
        Value::Array(items) => {
            let Some(shape) = node.items() else { return };
            let correlate = lists::Correlation::new(node, old);
            for (index, item) in items.iter().enumerate() {
                walk(shape, item, correlate.old_of(item), &path.index(index), depth + 1, causes);
            }
        }
        _ => {}
    }
}

fn evaluate(
    expressions: &Expressions,
    value: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    let context = path.is_root().then(|| RootContext {
        api_version: text(value, "apiVersion"),
        api_group: String::new(),
        kind: text(value, "kind"),
    });
    let outcome = VALIDATOR.with(|validator| {
        let compiled = &expressions.compiled;
        validator.validate_compiled_with_context(compiled, value, old, context.as_ref())
    });
    let Err(errors) = outcome else { return };
    for error in errors.into_vec() {
        let steps: Vec<&str> =
            error.field_path.split('.').filter(|step| !step.is_empty()).collect();
        let message = match error.kind {
            ErrorKind::ValidationFailure => error.message,
            _ => format!("{} evaluating rule: {}", error.message, error.rule),
        };
        let reason = match error.reason.as_deref() {
            Some("FieldValueForbidden") => Reason::Forbidden,
            Some("FieldValueRequired") => Reason::Required,
            Some("FieldValueDuplicate") => Reason::Duplicate,
            _ => Reason::Invalid,
        };
        below(path, &steps, &mut |path| {
            if value.is_object() || value.is_array() {
                causes.invalid_hidden(path, reason, &message);
            } else {
                causes.with_reason(path, reason, value, &message);
            }
        });
    }
}

/// Calls `report` with the path `steps` below `path`; paths live on the stack, so this recurses.
fn below(path: &Path<'_>, steps: &[&str], report: &mut dyn FnMut(&Path<'_>)) {
    match steps.split_first() {
        Some((first, rest)) => below(&path.field(first), rest, report),
        None => report(path),
    }
}

fn text(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::schema::{Gvk, Schema};

    fn schema() -> Schema {
        let schema = json!({"type": "object", "properties": {"spec": {
            "type": "object",
            "x-kubernetes-validations": [
                {"rule": "self.min <= self.max", "message": "min must not exceed max"},
                {"rule": "!has(self.secret)", "reason": "FieldValueForbidden", "fieldPath": ".secret",
                 "message": "no secrets"},
            ],
            "properties": {
                "min": {"type": "integer"},
                "max": {"type": "integer", "x-kubernetes-validations": [
                    {"rule": "self >= oldSelf", "messageExpression": "'shrunk to ' + string(self)"}]},
                "secret": {"type": "string"},
                "items": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "properties": {
                        "name": {"type": "string"},
                        "size": {"type": "integer", "x-kubernetes-validations": [
                            {"rule": "self == oldSelf"}]},
                    }},
                },
            },
        }}});
        Schema::custom(Gvk::new("example.com", "v1", "Thing"), &schema).unwrap()
    }

    fn texts(causes: Vec<crate::schema::Cause>) -> Vec<String> {
        causes.iter().map(ToString::to_string).collect()
    }

    fn object(spec: serde_json::Value) -> serde_json::Value {
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec})
    }

    #[test]
    fn rules_accept_and_refuse() {
        let schema = schema();
        let good = object(json!({"min": 1, "max": 2}));
        assert_eq!(texts(schema.validate(&good)), [""; 0]);
        let bad = object(json!({"min": 3, "max": 2, "secret": "x"}));
        assert_eq!(
            texts(schema.validate(&bad)),
            ["spec: Invalid value: min must not exceed max", "spec.secret: Forbidden: no secrets"]
        );
    }

    #[test]
    fn transitions_follow_list_keys_and_scalars_show_their_value() {
        let schema = schema();
        let item = |name: &str, size: i64| json!({"name": name, "size": size});
        let old = object(json!({"min": 1, "max": 5, "items": [item("a", 1), item("b", 2)]}));
        let new = object(
            json!({"min": 1, "max": 5, "items": [item("b", 2), item("a", 1), item("c", 3)]}),
        );
        assert_eq!(texts(schema.validate_update(&new, &old)), [""; 0], "reordered and added");
        let new = object(json!({"min": 1, "max": 4, "items": [item("b", 3)]}));
        assert_eq!(
            texts(schema.validate_update(&new, &old)),
            [
                "spec.items[0].size: Invalid value: 3: failed rule: self == oldSelf",
                "spec.max: Invalid value: 4: shrunk to 4",
            ]
        );
    }

    proptest::proptest! {
        #[test]
        fn no_rule_breaks_the_compiler(rule in "[a-z0-9.()\\[\\]{}'\"!<>=&|?:+*/% -]{0,40}") {
            let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}],
                "properties": {"spec": {"type": "object"}}});
            if let Ok(schema) = Schema::custom(Gvk::new("example.com", "v1", "Thing"), &schema) {
                schema.validate(&object(json!({"a": 1})));
            }
        }
    }
}
