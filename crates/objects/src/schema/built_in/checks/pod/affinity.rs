//! Affinity to nodes and to other pods.

use serde_json::{Value, json};

use crate::schema::built_in::checks::{named, selector};
use crate::schema::cause::{Causes, Path};
use crate::schema::names;
use crate::schema::object::{get, has, int, list, text};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn check(affinity: &Value, path: &Path<'_>, causes: &mut Causes) {
    node_affinity(get(affinity, "nodeAffinity"), &path.field("nodeAffinity"), causes);
    for field in ["podAffinity", "podAntiAffinity"] {
        pod_affinity(get(affinity, field), &path.field(field), causes);
    }
}

fn node_affinity(affinity: &Value, path: &Path<'_>, causes: &mut Causes) {
    if has(affinity, REQUIRED) {
        let path = path.field(REQUIRED);
        let list_path = path.field("nodeSelectorTerms");
        let terms = list(get(affinity, REQUIRED), "nodeSelectorTerms");
        if terms.is_empty() {
            causes.required(&list_path, "must have at least one node selector term");
        }
        for (index, term) in terms.iter().enumerate() {
            node_term(term, &list_path.index(index), causes);
        }
    }
    let list_path = path.field(PREFERRED);
    for (index, preference) in list(affinity, PREFERRED).iter().enumerate() {
        let path = list_path.index(index);
        check_weight(preference, &path, causes);
        node_term(get(preference, "preference"), &path.field("preference"), causes);
    }
}

fn check_weight(preference: &Value, path: &Path<'_>, causes: &mut Causes) {
    let weight = int(preference, "weight").unwrap_or_default();
    if !(1..=100).contains(&weight) {
        causes.invalid(&path.field("weight"), &json!(weight), "must be in the range 1-100");
    }
}

fn node_term(term: &Value, path: &Path<'_>, causes: &mut Causes) {
    for field in ["matchExpressions", "matchFields"] {
        let list_path = path.field(field);
        for (index, requirement) in list(term, field).iter().enumerate() {
            node_requirement(
                requirement,
                field == "matchExpressions",
                &list_path.index(index),
                causes,
            );
        }
    }
}

fn node_requirement(requirement: &Value, by_label: bool, path: &Path<'_>, causes: &mut Causes) {
    let values = list(requirement, "values");
    let at = path.field("values");
    match text(requirement, "operator") {
        "In" | "NotIn" if values.is_empty() => {
            causes.required(&at, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            causes.forbidden(&at, detail);
        }
        "Gt" | "Lt" if values.len() != 1 => {
            causes.required(&at, "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => {
            let detail = "not a valid selector operator";
            causes.invalid_text(&path.field("operator"), other, detail);
        }
    }
    let key = text(requirement, "key");
    if by_label {
        named(&names::qualified_name(key), key, &path.field("key"), causes);
    } else if key != "metadata.name" {
        causes.invalid_text(&path.field("key"), key, "not a valid field selector key");
    }
}

fn pod_affinity(affinity: &Value, path: &Path<'_>, causes: &mut Causes) {
    let list_path = path.field(REQUIRED);
    for (index, term) in list(affinity, REQUIRED).iter().enumerate() {
        pod_term(term, &list_path.index(index), causes);
    }
    let list_path = path.field(PREFERRED);
    for (index, preference) in list(affinity, PREFERRED).iter().enumerate() {
        let path = list_path.index(index);
        check_weight(preference, &path, causes);
        pod_term(get(preference, "podAffinityTerm"), &path.field("podAffinityTerm"), causes);
    }
}

fn pod_term(term: &Value, path: &Path<'_>, causes: &mut Causes) {
    for field in ["labelSelector", "namespaceSelector"] {
        if has(term, field) {
            selector::check(get(term, field), &path.field(field), causes);
        }
    }
    let key = text(term, "topologyKey");
    if key.is_empty() {
        causes.required(&path.field("topologyKey"), "can not be empty");
    } else {
        named(&names::qualified_name(key), key, &path.field("topologyKey"), causes);
    }
}
