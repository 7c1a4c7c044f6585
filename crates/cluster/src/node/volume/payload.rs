//! Files that come from the API.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, KeyToPath, Pod, Volume, VolumeProjection};

use crate::node::downward::{self, Facts};
use crate::node::source::{SourceKey, Sources};

/// Files by relative path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Payload(pub(super) BTreeMap<String, PayloadFile>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PayloadFile {
    pub(super) content: Vec<u8>,
    pub(super) mode: u32,
}

const DEFAULT_MODE: i32 = 0o644;

struct Request<'a> {
    pod: &'a Pod,
    sources: &'a Sources,
    facts: &'a Facts,
    default_mode: i32,
}

impl Payload {
    /// The files of a volume; `None` for a volume that holds no such files.
    pub(super) fn of(
        volume: &Volume,
        pod: &Pod,
        sources: &Sources,
        facts: &Facts,
    ) -> Result<Option<Self>, String> {
        let request = |mode: Option<i32>| Request {
            pod,
            sources,
            facts,
            default_mode: mode.unwrap_or(DEFAULT_MODE),
        };
        let mut payload = Self::default();
        if let Some(map) = &volume.config_map {
            let key = SourceKey::ConfigMap(map.name.clone());
            let (items, optional) = (map.items.as_deref(), map.optional);
            payload.add_entries(&request(map.default_mode), &key, items, optional)?;
        } else if let Some(secret) = &volume.secret {
            let key = SourceKey::Secret(secret.secret_name.clone().unwrap_or_default());
            let (items, optional) = (secret.items.as_deref(), secret.optional);
            payload.add_entries(&request(secret.default_mode), &key, items, optional)?;
        } else if let Some(downward) = &volume.downward_api {
            let files = downward.items.as_deref().unwrap_or_default();
            payload.add_downward(&request(downward.default_mode), files)?;
        } else if let Some(projected) = &volume.projected {
            for source in projected.sources.iter().flatten() {
                payload.add_projection(&request(projected.default_mode), source)?;
            }
        } else {
            return Ok(None);
        }
        Ok(Some(payload))
    }

    fn add_projection(
        &mut self,
        request: &Request<'_>,
        source: &VolumeProjection,
    ) -> Result<(), String> {
        if let Some(map) = &source.config_map {
            let key = SourceKey::ConfigMap(map.name.clone());
            self.add_entries(request, &key, map.items.as_deref(), map.optional)?;
        }
        if let Some(secret) = &source.secret {
            let key = SourceKey::Secret(secret.name.clone());
            self.add_entries(request, &key, secret.items.as_deref(), secret.optional)?;
        }
        if let Some(downward) = &source.downward_api {
            self.add_downward(request, downward.items.as_deref().unwrap_or_default())?;
        }
        // Admission adds a token to every pod of some clusters. A pod that does not use it runs
        // without; one that does finds no file.
        if source.cluster_trust_bundle.is_some() || source.pod_certificate.is_some() {
            return Err(
                "clusterTrustBundle and podCertificate are not supported on this node".into()
            );
        }
        Ok(())
    }

    fn add_entries(
        &mut self,
        request: &Request<'_>,
        key: &SourceKey,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
    ) -> Result<(), String> {
        let optional = optional.unwrap_or(false);
        let Some(entries) = request.sources.get(key) else {
            return if optional { Ok(()) } else { Err(key.missing()) };
        };
        let Some(items) = items.filter(|items| !items.is_empty()) else {
            for (name, content) in entries {
                self.add(name, content.clone(), request.default_mode)?;
            }
            return Ok(());
        };
        for item in items {
            match entries.get(&item.key) {
                Some(content) => {
                    let mode = item.mode.unwrap_or(request.default_mode);
                    self.add(&item.path, content.clone(), mode)?;
                }
                None if optional => {}
                None => return Err(format!("references non-existent config key: {}", item.key)),
            }
        }
        Ok(())
    }

    fn add_downward(
        &mut self,
        request: &Request<'_>,
        files: &[DownwardAPIVolumeFile],
    ) -> Result<(), String> {
        for file in files {
            let content = match (&file.field_ref, &file.resource_field_ref) {
                (Some(field), _) => downward::field(request.pod, &field.field_path, request.facts)?,
                (None, Some(selector)) => {
                    downward::resource(request.pod, None, selector, request.facts)?
                }
                (None, None) => continue,
            };
            let mode = file.mode.unwrap_or(request.default_mode);
            self.add(&file.path, content.into_bytes(), mode)?;
        }
        Ok(())
    }

    fn add(&mut self, path: &str, content: Vec<u8>, mode: i32) -> Result<(), String> {
        let is_inside =
            Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        if path.is_empty() || !is_inside || path.starts_with("..") {
            return Err(format!("path {path:?} leads out of the volume"));
        }
        let mode = u32::try_from(mode).unwrap_or_default() & 0o777;
        self.0.insert(path.to_owned(), PayloadFile { content, mode });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::node::downward::facts;

    fn payload(volume: Value) -> Result<Vec<(String, String, u32)>, String> {
        let mut fields = json!({"name": "v"});
        fields.as_object_mut().unwrap().extend(volume.as_object().unwrap().clone());
        let volume: Volume = serde_json::from_value(fields).unwrap();
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "web"}})).unwrap();
        let entries = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
                .collect()
        };
        let sources = Sources::of([
            (SourceKey::ConfigMap("m".into()), entries(&[("a", "1"), ("b", "2")])),
            (SourceKey::Secret("s".into()), entries(&[("t", "3")])),
        ]);
        let payload = Payload::of(&volume, &pod, &sources, &facts())?.unwrap();
        let text = |content: Vec<u8>| String::from_utf8(content).unwrap();
        Ok(payload
            .0
            .into_iter()
            .map(|(path, file)| (path, text(file.content), file.mode))
            .collect())
    }

    fn files(files: &[(&str, &str, u32)]) -> Vec<(String, String, u32)> {
        files.iter().map(|(path, text, mode)| ((*path).into(), (*text).into(), *mode)).collect()
    }

    #[test]
    fn files_come_from_everywhere() {
        let cases = [
            (json!({"configMap": {"name": "m"}}), files(&[("a", "1", 0o644), ("b", "2", 0o644)])),
            (
                json!({"secret": {"secretName": "s", "defaultMode": 256}}),
                files(&[("t", "3", 0o400)]),
            ),
            (
                json!({"configMap": {"name": "m", "items": [{"key": "b", "path": "x/y", "mode": 384}]}}),
                files(&[("x/y", "2", 0o600)]),
            ),
            (json!({"configMap": {"name": "none", "optional": true}}), files(&[])),
            (
                json!({"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}}),
                files(&[("n", "web", 0o644)]),
            ),
            (
                json!({"projected": {"defaultMode": 288, "sources": [
                    {"configMap": {"name": "m", "items": [{"key": "a", "path": "one"}]}},
                    {"secret": {"name": "s"}},
                    {"serviceAccountToken": {"path": "token"}},
                ]}}),
                files(&[("one", "1", 0o440), ("t", "3", 0o440)]),
            ),
        ];
        for (volume, want) in cases {
            assert_eq!(payload(volume.clone()), Ok(want), "{volume}");
        }
    }

    #[test]
    fn what_is_missing_or_leads_out_is_refused() {
        let item =
            |path: &str| json!({"configMap": {"name": "m", "items": [{"key": "a", "path": path}]}});
        let cases = [
            (json!({"configMap": {"name": "none"}}), "configmap \"none\" not found"),
            (json!({"secret": {"secretName": "none"}}), "secret \"none\" not found"),
            (
                json!({"configMap": {"name": "m", "items": [{"key": "z", "path": "z"}]}}),
                "references non-existent config key: z",
            ),
            (item("../a"), "path \"../a\" leads out of the volume"),
            (item("a/../../b"), "path \"a/../../b\" leads out of the volume"),
            (item("/a"), "path \"/a\" leads out of the volume"),
            (item(""), "path \"\" leads out of the volume"),
            (item("..data"), "path \"..data\" leads out of the volume"),
        ];
        for (volume, want) in cases {
            assert_eq!(payload(volume), Err(want.to_owned()));
        }
    }
}
