//! Which ConfigMaps and Secrets does a pod need, and what is in them?

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    ConfigMap, Container, EnvFromSource, EnvVarSource, PodSpec, Secret, Volume,
};
use kube::{Api, Client};

/// An object of the pod's namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SourceKey {
    ConfigMap(String),
    Secret(String),
}

/// The content of one object.
pub(crate) type Entries = BTreeMap<String, Vec<u8>>;

/// What was found in the API. A key without entries does not exist there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sources(BTreeMap<SourceKey, Entries>);

impl SourceKey {
    /// As kubelet puts it: `configmap "x" not found`.
    pub(crate) fn missing(&self) -> String {
        match self {
            Self::ConfigMap(name) => format!("configmap \"{name}\" not found"),
            Self::Secret(name) => format!("secret \"{name}\" not found"),
        }
    }
}

impl Sources {
    pub(crate) fn get(&self, key: &SourceKey) -> Option<&Entries> {
        self.0.get(key)
    }

    /// Asks the API for everything in `keys`.
    pub(crate) async fn fetch(
        client: &Client,
        namespace: &str,
        keys: BTreeSet<SourceKey>,
    ) -> Result<Self, kube::Error> {
        let mut found = BTreeMap::new();
        for key in keys {
            let entries = match &key {
                SourceKey::ConfigMap(name) => {
                    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
                    api.get_opt(name).await?.map(config_map_entries)
                }
                SourceKey::Secret(name) => {
                    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
                    api.get_opt(name).await?.map(secret_entries)
                }
            };
            if let Some(entries) = entries {
                found.insert(key, entries);
            }
        }
        Ok(Self(found))
    }

    #[cfg(test)]
    pub(crate) fn of(entries: impl IntoIterator<Item = (SourceKey, Entries)>) -> Self {
        Self(entries.into_iter().collect())
    }
}

fn config_map_entries(map: ConfigMap) -> Entries {
    let text = map.data.into_iter().flatten().map(|(key, text)| (key, text.into_bytes()));
    let binary = map.binary_data.into_iter().flatten().map(|(key, bytes)| (key, bytes.0));
    text.chain(binary).collect()
}

fn secret_entries(secret: Secret) -> Entries {
    secret.data.into_iter().flatten().map(|(key, bytes)| (key, bytes.0)).collect()
}

/// What the environment of a container refers to.
pub(crate) fn of_container(container: &Container) -> BTreeSet<SourceKey> {
    let whole = container.env_from.iter().flatten().filter_map(of_env_from);
    let single = container.env.iter().flatten();
    let single = single.filter_map(|var| var.value_from.as_ref().and_then(of_env_var));
    whole.chain(single).collect()
}

pub(crate) fn of_env_from(source: &EnvFromSource) -> Option<SourceKey> {
    let map = source.config_map_ref.as_ref().map(|map| SourceKey::ConfigMap(map.name.clone()));
    map.or_else(|| Some(SourceKey::Secret(source.secret_ref.as_ref()?.name.clone())))
}

fn of_env_var(source: &EnvVarSource) -> Option<SourceKey> {
    let map = source.config_map_key_ref.as_ref().map(|map| SourceKey::ConfigMap(map.name.clone()));
    map.or_else(|| Some(SourceKey::Secret(source.secret_key_ref.as_ref()?.name.clone())))
}

/// What the volumes of a pod refer to.
pub(crate) fn of_volumes(spec: &PodSpec) -> BTreeSet<SourceKey> {
    spec.volumes.iter().flatten().flat_map(of_volume).collect()
}

fn of_volume(volume: &Volume) -> Vec<SourceKey> {
    let mut keys = Vec::new();
    if let Some(map) = &volume.config_map {
        keys.push(SourceKey::ConfigMap(map.name.clone()));
    }
    if let Some(name) = volume.secret.as_ref().and_then(|secret| secret.secret_name.clone()) {
        keys.push(SourceKey::Secret(name));
    }
    let projected =
        volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
    for source in projected {
        if let Some(map) = &source.config_map {
            keys.push(SourceKey::ConfigMap(map.name.clone()));
        }
        if let Some(secret) = &source.secret {
            keys.push(SourceKey::Secret(secret.name.clone()));
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn everything_a_pod_names_is_found() {
        let spec: PodSpec = serde_json::from_value(json!({
            "containers": [{
                "name": "c",
                "envFrom": [{"configMapRef": {"name": "m1"}}, {"secretRef": {"name": "s1"}}],
                "env": [
                    {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m2", "key": "k"}}},
                    {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s2", "key": "k"}}},
                    {"name": "C", "value": "literal"},
                ],
            }],
            "volumes": [
                {"name": "v1", "configMap": {"name": "m3"}},
                {"name": "v2", "secret": {"secretName": "s3"}},
                {"name": "v3", "projected": {"sources": [
                    {"configMap": {"name": "m4"}}, {"secret": {"name": "s4"}}, {"downwardAPI": {}},
                ]}},
                {"name": "v4", "emptyDir": {}},
            ],
        }))
        .unwrap();
        let names = |keys: BTreeSet<SourceKey>| -> Vec<String> {
            keys.iter().map(SourceKey::missing).collect()
        };
        let of = |kind: &str, name: &str| format!("{kind} \"{name}\" not found");
        assert_eq!(
            names(of_container(&spec.containers[0])),
            [of("configmap", "m1"), of("configmap", "m2"), of("secret", "s1"), of("secret", "s2")]
        );
        assert_eq!(
            names(of_volumes(&spec)),
            [of("configmap", "m3"), of("configmap", "m4"), of("secret", "s3"), of("secret", "s4")]
        );
    }
}
