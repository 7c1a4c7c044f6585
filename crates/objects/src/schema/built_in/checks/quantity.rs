//! Amounts of resources: `resources.limits`, `resources.requests` and their kin.
//!
//! Three families of names behave differently. Native names (`cpu`, `memory`, everything below
//! `kubernetes.io/`, such as `kubernetes.io/batch-cpu`) may be requested below the limit and divided.
//! Extended names (`example.com/gpu`) are whole numbers and cannot be overcommitted: request and limit are
//! equal. Huge pages are native but cannot be overcommitted either.

use serde_json::{Value, json};
use units::{Quantity, Scale};

use crate::schema::cause::{Causes, Path};
use crate::schema::names;
use crate::schema::object::{entries, get};

/// Names without a domain that exist.
const STANDARD: [&str; 17] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "storage",
    "pods",
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
    "requests.cpu",
    "requests.memory",
    "limits.cpu",
    "limits.memory",
];

const CONTAINER: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

fn can_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

pub(super) fn parse(value: &Value) -> Option<Quantity> {
    value.as_str()?.parse().ok()
}

/// Checks the name of a resource of a container.
fn check_container_name(name: &str, path: &Path<'_>, causes: &mut Causes) {
    for finding in names::qualified_name(name) {
        causes.invalid_text(path, name, &finding);
    }
    if !name.contains('/') {
        if !STANDARD.contains(&name) && !is_huge_page(name) {
            let detail = "must be a standard resource type or fully qualified";
            causes.invalid_text(path, name, detail);
        }
        if !CONTAINER.contains(&name) && !is_huge_page(name) {
            causes.invalid_text(path, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        causes.invalid_text(path, name, "doesn't follow extended resource name standard");
    }
}

/// Checks that an amount is not negative, and whole where it must be.
pub(super) fn check_amount(name: &str, value: &Value, path: &Path<'_>, causes: &mut Causes) {
    let Some(amount) = parse(value) else { return };
    if amount.sign().is_lt() {
        causes.invalid(path, value, "must be greater than or equal to 0");
    }
    if is_extended(name) && amount.round_up(Scale::One) != amount {
        causes.invalid(path, value, "must be an integer");
    }
}

/// Checks `resources` of a container.
pub(super) fn check_resources(resources: &Value, path: &Path<'_>, causes: &mut Causes) {
    let (limits, requests) = (path.field("limits"), path.field("requests"));
    let mut huge_pages = false;
    let mut processing = false;
    for (field, at) in [("limits", &limits), ("requests", &requests)] {
        for (name, value) in entries(resources, field) {
            let at = at.key(name);
            check_container_name(name, &at, causes);
            check_amount(name, value, &at, causes);
            huge_pages |= is_huge_page(name);
            processing |= matches!(name.as_str(), "cpu" | "memory");
        }
    }
    for (name, value) in entries(resources, "requests") {
        let limit = get(get(resources, "limits"), name);
        match (parse(value), parse(limit)) {
            (Some(request), Some(bound)) if request != bound && !can_overcommit(name) => {
                let detail = format!("must be equal to {name} limit of {bound}");
                causes.invalid(&requests, &json!(request.to_string()), &detail);
            }
            (Some(request), Some(bound)) if request > bound => {
                let detail = format!("must be less than or equal to {name} limit of {bound}");
                causes.invalid(&requests, &json!(request.to_string()), &detail);
            }
            (Some(_), None) if !can_overcommit(name) => {
                causes.required(&limits, "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
    }
    if huge_pages && !processing {
        causes.forbidden(path, "HugePages require cpu or memory");
    }
}

/// Checks a map of amounts that is not tied to a container: capacity, quota, overhead.
pub(super) fn check_list(value: &Value, field: &str, path: &Path<'_>, causes: &mut Causes) {
    let at = path.field(field);
    for (name, amount) in entries(value, field) {
        let at = at.key(name);
        for finding in names::qualified_name(name) {
            causes.invalid_text(&at, name, &finding);
        }
        if !name.contains('/') && !is_known(name) {
            causes.invalid_text(&at, name, "must be a standard resource type or fully qualified");
        }
        check_amount(name, amount, &at, causes);
    }
}

/// Quotas also count objects (`count/pods`, `requests.example.com/gpu`).
fn is_known(name: &str) -> bool {
    let plain =
        name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")).unwrap_or(name);
    STANDARD.contains(&plain) || is_huge_page(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(resources: Value) -> Vec<String> {
        let mut causes = Causes::default();
        check_resources(&resources, &Path::ROOT.field("r"), &mut causes);
        causes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn requests_follow_the_rules_of_their_family() {
        let cases = [
            ("below the limit", json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}), vec![]),
            (
                "above the limit",
                json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
                vec![
                    r#"r.requests: Invalid value: "2": must be less than or equal to cpu limit of 1"#,
                ],
            ),
            (
                "names below kubernetes.io are native",
                json!({"requests": {"kubernetes.io/batch-cpu": "1500m"},
                    "limits": {"kubernetes.io/batch-cpu": "2"}}),
                vec![],
            ),
            (
                "extended and equal",
                json!({"requests": {"a.com/gpu": "1"}, "limits": {"a.com/gpu": "1"}}),
                vec![],
            ),
            (
                "extended and below",
                json!({"requests": {"a.com/gpu": "1"}, "limits": {"a.com/gpu": "2"}}),
                vec![r#"r.requests: Invalid value: "1": must be equal to a.com/gpu limit of 2"#],
            ),
            (
                "extended without limit",
                json!({"requests": {"a.com/gpu": "1"}}),
                vec![
                    "r.limits: Required value: Limit must be set for non overcommitable resources",
                ],
            ),
            (
                "extended and divided",
                json!({"limits": {"a.com/gpu": "500m"}}),
                vec![r#"r.limits[a.com/gpu]: Invalid value: "500m": must be an integer"#],
            ),
            (
                "negative",
                json!({"requests": {"memory": "-1"}}),
                vec![
                    r#"r.requests[memory]: Invalid value: "-1": must be greater than or equal to 0"#,
                ],
            ),
            (
                "unknown name",
                json!({"limits": {"cpus": "1"}}),
                vec![
                    r#"r.limits[cpus]: Invalid value: "cpus": must be a standard resource type or fully qualified"#,
                    r#"r.limits[cpus]: Invalid value: "cpus": must be a standard resource for containers"#,
                ],
            ),
            (
                "huge pages alone",
                json!({"limits": {"hugepages-2Mi": "2Mi"}, "requests": {"hugepages-2Mi": "2Mi"}}),
                vec!["r: Forbidden: HugePages require cpu or memory"],
            ),
        ];
        for (name, resources, want) in cases {
            assert_eq!(found(resources), want, "{name}");
        }
    }
}
