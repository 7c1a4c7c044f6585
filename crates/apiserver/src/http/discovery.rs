//! How do clients find out what is served?
//!
//! Three generations of the same answer: lists of groups and resources, one document for
//! everything (aggregated discovery, with an ETag so that caches can ask cheaply), and the version.

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::kinds::{Group, Registry, Served, Version, api_version};
use super::negotiate::{self, Shapes, View};
use super::respond;
use super::status::Status;

/// The Kubernetes version this server behaves like.
pub(super) const GIT_VERSION: &str = concat!("v1.35.0+tidepool.", env!("CARGO_PKG_VERSION"));

pub(super) fn version() -> Value {
    json!({
        "major": "1",
        "minor": "35",
        "emulationMajor": "1",
        "emulationMinor": "35",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "34",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, architecture()),
    })
}

/// The machine's architecture in Go's words, which clients know.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// `/`: everything that can be asked for.
pub(super) fn paths(registry: &Registry) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".into(), "/apis".into(), "/apis/".into()];
    for group in registry.groups().iter().filter(|group| !group.name.is_empty()) {
        paths.push(format!("/apis/{}", group.name));
        for version in &group.versions {
            paths.push(format!("/apis/{}/{}", group.name, version.name));
        }
    }
    for path in
        ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
    {
        paths.push(path.to_owned());
    }
    json!({"paths": paths})
}

/// `/api` or `/apis`, old or aggregated.
pub(super) fn roots(
    registry: &Registry,
    headers: &HeaderMap,
    core: bool,
) -> Result<Response, Status> {
    let answer = negotiate::accept(headers, false, Shapes::Discovery)?;
    let View::Discovery(version) = answer.view else {
        let list = if core { core_versions(headers) } else { groups(registry) };
        return respond::value(answer.encoding, StatusCode::OK, &list);
    };
    let list = aggregated(registry, core, version);
    let mut hash = DefaultHasher::new();
    list.to_string().hash(&mut hash);
    let tag = format!("\"{:016X}\"", hash.finish());
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    if known == Some(tag.as_str()) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    let mut response = respond::value(answer.encoding, StatusCode::OK, &list)?;
    let kind = match version {
        "v2" => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        _ => "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    Ok(response)
}

fn core_versions(headers: &HeaderMap) -> Value {
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}],
    })
}

fn groups(registry: &Registry) -> Value {
    let groups: Vec<Value> = registry
        .groups()
        .iter()
        .filter(|group| !group.name.is_empty())
        .map(|each| group(each, false))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`, or one entry of the list of groups.
pub(super) fn group(group: &Group, alone: bool) -> Value {
    let version = |version: &Version| {
        json!({
            "groupVersion": api_version(&group.name, &version.name),
            "version": version.name,
        })
    };
    let mut object = json!({
        "name": group.name,
        "versions": group.versions.iter().map(version).collect::<Vec<Value>>(),
        "preferredVersion": group.versions.first().map(version),
    });
    if alone {
        object["kind"] = json!("APIGroup");
        object["apiVersion"] = json!("v1");
    }
    object
}

/// `/apis/GROUP/VERSION`
pub(super) fn resources(group: &str, version: &Version) -> Value {
    let resources: Vec<Value> =
        version.resources.values().flat_map(|served| resource(served)).collect();
    let mut list = json!({
        "kind": "APIResourceList",
        "groupVersion": api_version(group, &version.name),
        "resources": resources,
    });
    // The core group's list is older than the habit of naming a version.
    if !group.is_empty() {
        list["apiVersion"] = json!("v1");
    }
    list
}

fn resource(served: &Served) -> Vec<Value> {
    let mut main = json!({
        "name": served.plural,
        "singularName": served.singular,
        "namespaced": served.namespaced,
        "kind": served.kind,
        "verbs": served.verbs,
    });
    if !served.short_names.is_empty() {
        main["shortNames"] = json!(served.short_names);
    }
    if !served.categories.is_empty() {
        main["categories"] = json!(served.categories);
    }
    let mut list = vec![main];
    for sub in &served.subresources {
        let mut entry = json!({
            "name": format!("{}/{}", served.plural, sub.name),
            "singularName": "",
            "namespaced": served.namespaced,
            "kind": sub.action.kind().map_or(served.kind.as_str(), |(_, _, kind)| kind),
            "verbs": sub.verbs,
        });
        if let Some((group, version, _)) = sub.action.kind()
            && !group.is_empty()
        {
            entry["group"] = json!(group);
            entry["version"] = json!(version);
        }
        list.push(entry);
    }
    list
}

fn aggregated(registry: &Registry, core: bool, version: &str) -> Value {
    let items: Vec<Value> = registry
        .groups()
        .iter()
        .filter(|group| group.name.is_empty() == core)
        .map(|group| {
            let versions: Vec<Value> = group
                .versions
                .iter()
                .map(|version| {
                    json!({
                        "version": version.name,
                        "resources": version
                            .resources
                            .values()
                            .map(|served| aggregated_resource(served))
                            .collect::<Vec<Value>>(),
                        "freshness": "Current",
                    })
                })
                .collect();
            let metadata = match group.name.as_str() {
                "" => json!({"creationTimestamp": null}),
                name => json!({"name": name, "creationTimestamp": null}),
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": items,
    })
}

fn aggregated_resource(served: &Served) -> Value {
    let kind = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let own = kind(&served.group, &served.version, &served.kind);
    let mut object = json!({
        "resource": served.plural,
        "responseKind": own,
        "scope": if served.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": served.singular,
        "verbs": served.verbs,
    });
    if !served.short_names.is_empty() {
        object["shortNames"] = json!(served.short_names);
    }
    if !served.categories.is_empty() {
        object["categories"] = json!(served.categories);
    }
    if !served.subresources.is_empty() {
        object["subresources"] = served
            .subresources
            .iter()
            .map(|sub| {
                json!({
                    "subresource": sub.name,
                    "responseKind": match sub.action.kind() {
                        Some((group, version, name)) => kind(group, version, name),
                        None => own.clone(),
                    },
                    "verbs": sub.verbs,
                })
            })
            .collect();
    }
    object
}
