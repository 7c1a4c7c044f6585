//! Label selectors.

use serde_json::{Value, json};

use super::named;
use crate::schema::cause::{Causes, Path};
use crate::schema::meta;
use crate::schema::names;
use crate::schema::object::{entries, get, list, text};

/// Checks the form of a selector.
pub(super) fn check(selector: &Value, path: &Path<'_>, causes: &mut Causes) {
    meta::labels(selector.get("matchLabels"), &path.field("matchLabels"), causes);
    let expressions = path.field("matchExpressions");
    for (index, requirement) in list(selector, "matchExpressions").iter().enumerate() {
        check_requirement(requirement, &expressions.index(index), causes);
    }
}

fn check_requirement(requirement: &Value, path: &Path<'_>, causes: &mut Causes) {
    let values = list(requirement, "values");
    match text(requirement, "operator") {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            causes.required(&path.field("values"), detail);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            causes.forbidden(&path.field("values"), detail);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            let detail = "not a valid selector operator";
            causes.invalid_text(&path.field("operator"), other, detail);
        }
    }
    let key = text(requirement, "key");
    named(&names::qualified_name(key), key, &path.field("key"), causes);
    let list = path.field("values");
    for (index, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        named(&names::label_value(value), value, &list.index(index), causes);
    }
}

/// A selector without any condition.
pub(super) fn is_empty(selector: &Value) -> bool {
    entries(selector, "matchLabels").next().is_none()
        && list(selector, "matchExpressions").is_empty()
}

/// Whether labels satisfy a selector.
pub(super) fn matches(selector: &Value, labels: &Value) -> bool {
    let equal = entries(selector, "matchLabels").all(|(key, value)| labels.get(key) == Some(value));
    let expressions = list(selector, "matchExpressions").iter().all(|requirement| {
        let value = labels.get(text(requirement, "key"));
        let listed = value.is_some_and(|value| list(requirement, "values").contains(value));
        match text(requirement, "operator") {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    });
    equal && expressions
}

/// Checks the selector of a workload against the labels of its template.
pub(super) fn check_template(spec: &Value, kind: &str, path: &Path<'_>, causes: &mut Causes) {
    let selector = get(spec, "selector");
    let at = path.field("selector");
    if selector.is_null() {
        causes.required(&at, "");
        return;
    }
    let before = causes.len();
    check(selector, &at, causes);
    if is_empty(selector) {
        causes.invalid(&at, selector, &format!("empty selector is invalid for {kind}"));
    } else if causes.len() == before {
        let labels = spec.pointer("/template/metadata/labels");
        let labels = labels.cloned().unwrap_or_else(|| json!({}));
        if !matches(selector, &labels) {
            let template = path.field("template");
            let metadata = template.field("metadata");
            let detail = "`selector` does not match template `labels`";
            causes.invalid(&metadata.field("labels"), &labels, detail);
        }
    }
}
