//! Does a webhook want to see this request?

use std::sync::Arc;

use serde_json::Value;

use super::config::{Hook, Rule};
use super::matches_operation;
use crate::http::admission::Attributes;
use crate::http::call::Call;
use crate::http::kinds::{Conversion, Served, Storage};
use crate::http::meta;
use crate::http::select::labels_match;

/// The resource as the webhook knows it: the one that was asked for, or another version of it.
#[derive(Debug, Clone)]
pub(super) struct Fit {
    pub(super) served: Arc<Served>,
    same: bool,
}

impl Fit {
    /// An object of the requested version in the webhook's version.
    pub(super) fn to_webhook(&self, object: &Value) -> Value {
        let mut object = object.clone();
        if !self.same
            && let Some(fields) = object.as_object_mut()
        {
            fields.insert("apiVersion".into(), self.served.api_version().into());
        }
        object
    }

    /// The way back.
    pub(super) fn to_request(&self, object: &mut Value, requested: &Served) {
        if !self.same
            && let Some(fields) = object.as_object_mut()
        {
            fields.insert("apiVersion".into(), requested.api_version().into());
        }
    }
}

/// Finds the first rule that wants the request, in its own version or in an equivalent one.
pub(super) fn fit(call: &Call, attributes: &Attributes, hook: &Hook) -> Option<Fit> {
    let wants = |served: &Served| {
        hook.rules.iter().any(|rule| {
            matches_operation(&rule.operations, attributes.operation)
                && matches(rule, served, &attributes.subresource)
        })
    };
    if wants(&call.served) {
        return Some(Fit { served: call.served.clone(), same: true });
    }
    if !hook.equivalent {
        return None;
    }
    let registry = call.server.registry();
    registry
        .resources()
        .find(|other| is_equivalent(other, &call.served) && wants(other))
        .map(|other| Fit { served: other.clone(), same: false })
}

fn is_equivalent(a: &Served, b: &Served) -> bool {
    match (&a.storage, &b.storage) {
        (
            Storage::Stored { collection: a, view: Conversion::Rename, .. },
            Storage::Stored { collection: b, view: Conversion::Rename, .. },
        ) => a == b,
        _ => false,
    }
}

fn matches(rule: &Rule, served: &Served, subresource: &str) -> bool {
    let any = |list: &[String], word: &str| list.iter().any(|one| one == "*" || one == word);
    let scope = match rule.scope.as_str() {
        "Cluster" => !served.namespaced,
        "Namespaced" => served.namespaced,
        _ => true,
    };
    scope
        && any(&rule.groups, &served.group)
        && any(&rule.versions, &served.version)
        && rule.resources.iter().any(|pattern| resource(pattern, &served.plural, subresource))
}

/// `pods`, `pods/status`, `pods/*`, `*`, `*/status`, `*/*`
fn resource(pattern: &str, plural: &str, subresource: &str) -> bool {
    let (wanted, below) = match pattern.split_once('/') {
        Some((wanted, below)) => (wanted, Some(below)),
        None => (pattern, None),
    };
    let fits_below = match below {
        None => subresource.is_empty(),
        Some("*") => true,
        Some(below) => below == subresource,
    };
    (wanted == "*" || wanted == plural) && fits_below
}

/// Whether both selectors pick the request.
pub(super) fn selects(
    call: &Call,
    attributes: &Attributes,
    hook: &Hook,
    object: Option<&Value>,
    old: Option<&Value>,
) -> bool {
    let by_object = hook.objects.is_empty()
        || [object, old].into_iter().flatten().any(|one| labels_match(&hook.objects, one));
    by_object && selects_namespace(call, attributes, hook, object, old)
}

fn selects_namespace(
    call: &Call,
    attributes: &Attributes,
    hook: &Hook,
    object: Option<&Value>,
    old: Option<&Value>,
) -> bool {
    if hook.namespaces.is_empty() {
        return true;
    }
    if call.served.is("", "namespaces") {
        // A namespace is judged by its own labels.
        return object.or(old).is_some_and(|namespace| labels_match(&hook.namespaces, namespace));
    }
    if !call.served.namespaced {
        return true;
    }
    match call.server.read::<Value>("", "namespaces", "", &attributes.namespace) {
        Some(namespace) => labels_match(&hook.namespaces, &namespace),
        None => {
            let mut bare = Value::Null;
            meta::metadata_mut(&mut bare);
            labels_match(&hook.namespaces, &bare)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::kinds::Registry;

    #[test]
    fn patterns_cover_resources_and_subresources() {
        let cases = [
            ("pods", "pods", "", true),
            ("pods", "pods", "status", false),
            ("pods/status", "pods", "status", true),
            ("pods/status", "pods", "", false),
            ("pods/*", "pods", "binding", true),
            ("pods/*", "pods", "", true),
            ("*", "nodes", "", true),
            ("*", "nodes", "status", false),
            ("*/status", "nodes", "status", true),
            ("*/*", "nodes", "status", true),
            ("nodes", "pods", "", false),
        ];
        for (pattern, plural, subresource, want) in cases {
            assert_eq!(
                resource(pattern, plural, subresource),
                want,
                "{pattern} {plural}/{subresource}"
            );
        }
    }

    #[test]
    fn rules_look_at_group_version_and_scope() {
        let registry = Registry::built_in();
        let deployments = registry.preferred("apps", "deployments").unwrap();
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect();
        let rule = Rule {
            groups: words(&["apps"]),
            versions: words(&["v1"]),
            resources: words(&["deployments"]),
            scope: "*".into(),
            ..Rule::default()
        };
        assert!(matches(&rule, deployments, ""));
        for wrong in [
            Rule { groups: words(&[""]), ..rule.clone() },
            Rule { versions: words(&["v2"]), ..rule.clone() },
            Rule { resources: words(&["pods"]), ..rule.clone() },
            Rule { scope: "Cluster".into(), ..rule.clone() },
        ] {
            assert!(!matches(&wrong, deployments, ""), "{wrong:?}");
        }
    }
}
