//! Objects in files instead of in a cluster: as `kubectl get -o yaml` saves them, lists taken apart.

use std::path::PathBuf;

use anyhow::{Context, bail};
use api::document::{self, object_name};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::input::Text;

/// Every object of some files, in their order.
#[derive(Debug, Clone, Default)]
pub(crate) struct SavedObjects(Vec<Value>);

impl SavedObjects {
    pub(crate) fn read(files: &[PathBuf]) -> anyhow::Result<Self> {
        let mut objects = Vec::new();
        for file in files {
            let text = Text::read(file)?;
            objects.extend(document::objects(&text.text).with_context(|| text.name.clone())?);
        }
        Ok(Self(objects))
    }

    #[cfg(test)]
    pub(crate) fn of(objects: Vec<Value>) -> Self {
        Self(objects)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Value> {
        self.0.iter()
    }

    /// Every object of a kind.
    pub(crate) fn all<K: DeserializeOwned>(&self, kind: &str) -> anyhow::Result<Vec<K>> {
        let of_kind = self.0.iter().filter(|object| object["kind"] == kind);
        of_kind.map(read).collect()
    }

    /// The object of a kind with this name; an object that names no namespace is in any.
    pub(crate) fn value(&self, kind: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.0.iter().find(|object| {
            let metadata = &object["metadata"];
            let is_there = metadata["namespace"].as_str().is_none_or(|own| own == namespace);
            object["kind"] == kind && metadata["name"] == name && is_there
        })
    }

    pub(crate) fn find<K: DeserializeOwned>(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<Option<K>> {
        self.value(kind, namespace, name).map(read).transpose()
    }

    /// The texts of a ConfigMap; `None` when the files hold none of that name.
    pub(crate) fn config_map(
        &self,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<Option<ConfigMap>> {
        let found: Vec<ConfigMap> = self.all("ConfigMap")?;
        let mut found = found.into_iter().filter(|map| {
            map.name_any() == name && map.namespace().is_none_or(|own| own == namespace)
        });
        match (found.next(), found.next()) {
            (one, None) => Ok(one),
            (_, Some(_)) => bail!("the files hold ConfigMap {namespace}/{name} twice; keep one"),
        }
    }
}

fn read<K: DeserializeOwned>(object: &Value) -> anyhow::Result<K> {
    K::deserialize(object).with_context(|| format!("cannot read {}", object_name(object)))
}
