//! Which kinds does the cluster serve, and what do people call them?

use http::{Request, header};
use kube::Client;
use serde_json::Value;

/// Aggregated discovery: every kind in two answers.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    singular: String,
    short_names: Vec<String>,
    pub(crate) namespaced: bool,
}

#[derive(Debug)]
pub(crate) struct Kinds(Vec<Kind>);

impl Kinds {
    pub(crate) async fn discover(client: &Client) -> Result<Self, kube::Error> {
        let mut kinds = Vec::new();
        for path in ["/api", "/apis"] {
            let request = Request::get(path)
                .header(header::ACCEPT, AGGREGATED)
                .body(Vec::new())
                .map_err(kube::Error::HttpError)?;
            let answer: Value = client.request(request).await?;
            kinds.extend(read(&answer));
        }
        Ok(Self(kinds))
    }

    /// By plural, singular, kind or short name, with `.group` behind it if need be.
    pub(crate) fn by_name(&self, name: &str) -> Option<&Kind> {
        let name = name.to_lowercase();
        self.0.iter().find(|kind| {
            let plain = match name.split_once('.') {
                Some((plain, group)) if group == kind.group => plain,
                _ => &name,
            };
            kind.plural == plain
                || kind.singular == plain
                || kind.kind.to_lowercase() == plain
                || kind.short_names.iter().any(|short| short == plain)
        })
    }

    pub(crate) fn by_kind(&self, api_version: &str, kind: &str) -> Option<&Kind> {
        self.0.iter().find(|known| known.kind == kind && known.api_version() == api_version)
    }
}

impl Kind {
    fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The path that its collections are below.
    pub(crate) fn root(&self) -> String {
        match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        }
    }

    /// As kubectl names it: `deployment.apps`.
    pub(crate) fn display(&self) -> String {
        match self.group.as_str() {
            "" => self.singular.clone(),
            group => format!("{}.{group}", self.singular),
        }
    }
}

fn read(answer: &Value) -> Vec<Kind> {
    let items = |value: &Value, field: &str| value[field].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut kinds = Vec::new();
    for group in items(answer, "items") {
        for version in items(&group, "versions") {
            for resource in items(&version, "resources") {
                kinds.push(Kind {
                    group: text(&group["metadata"]["name"]),
                    version: text(&version["version"]),
                    kind: text(&resource["responseKind"]["kind"]),
                    plural: text(&resource["resource"]),
                    singular: text(&resource["singularResource"]),
                    short_names: items(&resource, "shortNames").iter().map(text).collect(),
                    namespaced: resource["scope"] == "Namespaced",
                });
            }
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kinds() -> Kinds {
        let resource = |resource: &str, singular: &str, kind: &str, short: &str, scope: &str| {
            json!({"resource": resource, "singularResource": singular, "scope": scope,
                "responseKind": {"kind": kind}, "shortNames": [short]})
        };
        let core = json!({"items": [{"metadata": {}, "versions": [{"version": "v1", "resources": [
            resource("pods", "pod", "Pod", "po", "Namespaced"),
            resource("nodes", "node", "Node", "no", "Cluster")]}]}]});
        let apps = json!({"items": [{"metadata": {"name": "apps"}, "versions": [
            {"version": "v1", "resources": [
                resource("deployments", "deployment", "Deployment", "deploy", "Namespaced")]}]}]});
        Kinds(read(&core).into_iter().chain(read(&apps)).collect())
    }

    #[test]
    fn people_call_a_kind_many_names() {
        let kinds = kinds();
        for name in ["pods", "pod", "Pod", "po", "PODS"] {
            assert_eq!(kinds.by_name(name).unwrap().plural, "pods", "{name}");
        }
        for name in ["deploy", "deployments.apps", "Deployment"] {
            assert_eq!(kinds.by_name(name).unwrap().root(), "/apis/apps/v1", "{name}");
        }
        for name in ["", "banana", "pods.apps", "deployments.batch"] {
            assert_eq!(kinds.by_name(name), None, "{name}");
        }
    }

    #[test]
    fn a_file_names_its_kind_exactly() {
        let kinds = kinds();
        assert_eq!(kinds.by_kind("apps/v1", "Deployment").unwrap().display(), "deployment.apps");
        assert!(!kinds.by_kind("v1", "Node").unwrap().namespaced);
        assert_eq!(kinds.by_kind("v1", "Deployment"), None);
    }
}
