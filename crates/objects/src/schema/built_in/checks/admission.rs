//! Webhook configurations.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{maybe_one_of, named, selector};
use crate::schema::cause::{Causes, Path};
use crate::schema::names;
use crate::schema::object::{get, has, int, list, text};

pub(super) fn webhooks(new: &Value, mutating: bool, causes: &mut Causes) {
    let list_path = Path::ROOT.field("webhooks");
    let mut seen = BTreeSet::new();
    for (index, webhook) in list(new, "webhooks").iter().enumerate() {
        let path = list_path.index(index);
        check_name(webhook, &path, causes);
        check_rules(webhook, &path, causes);
        check_policies(webhook, mutating, &path, causes);
        check_client(get(webhook, "clientConfig"), &path.field("clientConfig"), causes);
        for field in ["namespaceSelector", "objectSelector"] {
            if has(webhook, field) {
                selector::check(get(webhook, field), &path.field(field), causes);
            }
        }
        let name = text(webhook, "name");
        if !name.is_empty() && !seen.insert(name) {
            causes.duplicate(&path.field("name"), &json!(name));
        }
    }
}

fn check_name(webhook: &Value, path: &Path<'_>, causes: &mut Causes) {
    let (name, path) = (text(webhook, "name"), path.field("name"));
    if name.is_empty() {
        causes.required(&path, "");
        return;
    }
    named(&names::dns_subdomain(name), name, &path, causes);
    if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        causes.invalid_text(&path, name, detail);
    }
}

fn check_rules(webhook: &Value, path: &Path<'_>, causes: &mut Causes) {
    const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    let list_path = path.field("rules");
    for (index, rule) in list(webhook, "rules").iter().enumerate() {
        let path = list_path.index(index);
        for field in ["operations", "apiGroups", "apiVersions", "resources"] {
            let values = list(rule, field);
            let at = path.field(field);
            if values.is_empty() {
                causes.required(&at, "");
            }
            if values.len() > 1 && values.contains(&json!("*")) {
                let detail = if field == "operations" {
                    "if '*' is present, must not specify other operations"
                } else if field == "apiGroups" {
                    "if '*' is present, must not specify other API groups"
                } else if field == "apiVersions" {
                    "if '*' is present, must not specify other API versions"
                } else {
                    "if '*' is present, must not specify other resources"
                };
                causes.invalid(&at, get(rule, field), detail);
            }
        }
        let operations = path.field("operations");
        for (index, operation) in list(rule, "operations").iter().enumerate() {
            if !OPERATIONS.contains(&operation.as_str().unwrap_or_default()) {
                causes.not_supported(&operations.index(index), operation, &OPERATIONS);
            }
        }
        maybe_one_of(rule, "scope", &["*", "Cluster", "Namespaced"], &path, causes);
    }
}

fn check_policies(webhook: &Value, mutating: bool, path: &Path<'_>, causes: &mut Causes) {
    let versions = list(webhook, "admissionReviewVersions");
    let at = path.field("admissionReviewVersions");
    if versions.is_empty() {
        causes.required(&at, "must specify one of v1, v1beta1");
    } else if !versions.iter().any(|version| *version == "v1" || *version == "v1beta1") {
        let detail = "must include at least one of v1, v1beta1";
        causes.invalid(&at, get(webhook, "admissionReviewVersions"), detail);
    }
    maybe_one_of(webhook, "failurePolicy", &["Fail", "Ignore"], path, causes);
    maybe_one_of(webhook, "matchPolicy", &["Equivalent", "Exact"], path, causes);
    if mutating {
        maybe_one_of(webhook, "reinvocationPolicy", &["IfNeeded", "Never"], path, causes);
    }
    let at = path.field("sideEffects");
    match text(webhook, "sideEffects") {
        "" => causes.required(&at, "must specify one of None, NoneOnDryRun"),
        "None" | "NoneOnDryRun" => {}
        other => causes.not_supported(&at, &json!(other), &["None", "NoneOnDryRun"]),
    }
    if let Some(seconds) =
        int(webhook, "timeoutSeconds").filter(|seconds| !(1..=30).contains(seconds))
    {
        let detail = "the timeout value must be between 1 and 30 seconds";
        causes.invalid(&path.field("timeoutSeconds"), &json!(seconds), detail);
    }
}

fn check_client(config: &Value, path: &Path<'_>, causes: &mut Causes) {
    match (has(config, "url"), has(config, "service")) {
        (true, true) | (false, false) => {
            causes.required(path, "exactly one of url or service is required");
        }
        (true, false) => check_url(text(config, "url"), &path.field("url"), causes),
        (false, true) => {
            let (service, path) = (get(config, "service"), path.field("service"));
            for field in ["name", "namespace"] {
                if text(service, field).is_empty() {
                    causes.required(&path.field(field), &format!("service {field} is required"));
                }
            }
            if let Some(port) = int(service, "port").filter(|port| !(1..=65_535).contains(port)) {
                let detail = "port is not valid: must be between 1 and 65535, inclusive";
                causes.invalid(&path.field("port"), &json!(port), detail);
            }
        }
    }
}

fn check_url(url: &str, path: &Path<'_>, causes: &mut Causes) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{FORM}");
        causes.invalid_text(path, scheme, &detail);
    }
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.is_empty() {
        causes.invalid_text(path, "", &format!("host must be specified{FORM}"));
    }
    for (mark, detail) in [
        ('@', "user information is not permitted in the URL"),
        ('#', "fragments are not permitted in the URL"),
        ('?', "query parameters are not permitted in the URL"),
    ] {
        if let Some((_, extra)) = rest.split_once(mark) {
            causes.invalid_text(path, extra, detail);
        }
    }
}
