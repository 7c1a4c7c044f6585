//! What is configured, and what is wrong with it?

use api::config::{Key, Status};
use api::finding::Finding;
use serde::Serialize;

use super::World;

/// The page of the configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigPage {
    /// The answer in one sentence.
    pub headline: String,
    pub object: String,
    /// Without one, everything is built in.
    pub exists: bool,
    pub keys: Vec<KeyView>,
    pub findings: Vec<Finding>,
}

/// One key of the ConfigMap.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyView {
    pub name: &'static str,
    /// What the manager makes of it.
    pub status: &'static str,
    pub errors: usize,
    pub warnings: usize,
    /// What is in force in the whole cluster, leaf by leaf.
    pub settings: Vec<(String, serde_json::Value, String)>,
    /// As it was written.
    pub text: Option<String>,
}

impl World {
    pub fn config_page(&self) -> ConfigPage {
        let loaded = &self.config;
        let keys = Key::ALL.iter().map(|key| self.key_view(*key)).collect();
        ConfigPage {
            headline: headline(loaded.exists, &loaded.findings),
            object: loaded.object.clone(),
            exists: loaded.exists,
            keys,
            findings: loaded.findings.clone(),
        }
    }

    fn key_view(&self, key: Key) -> KeyView {
        let loaded = &self.config;
        let own = || {
            let is_own = |finding: &&Finding| finding.key.as_deref() == Some(key.name());
            loaded.findings.iter().filter(is_own)
        };
        let leaves = loaded.config.cluster(key).into_iter().flat_map(|layer| layer.leaves());
        KeyView {
            name: key.name(),
            status: match loaded.config.status(key) {
                Status::Loaded => "in force",
                Status::BuiltIn => "not set; built-in values hold",
                Status::Kept => "cannot be read; the last good text holds",
                Status::Fallback => "cannot be read; built-in values hold",
                Status::Unavailable => "cannot be read; nothing is computed from it",
            },
            errors: own().filter(|finding| finding.is_error()).count(),
            warnings: own().filter(|finding| !finding.is_error()).count(),
            settings: leaves
                .map(|(path, leaf)| (path.join("."), leaf.value.clone(), leaf.source.to_string()))
                .collect(),
            text: loaded.data.get(key.name()).cloned(),
        }
    }
}

fn headline(exists: bool, findings: &[Finding]) -> String {
    let errors = findings.iter().filter(|finding| finding.is_error()).count();
    let count = |count: usize, word: &str| match count {
        1 => format!("1 {word}"),
        _ => format!("{count} {word}s"),
    };
    match (exists, errors, findings.len() - errors) {
        (false, ..) => "Nothing is configured: built-in values hold everywhere".to_owned(),
        (true, 0, 0) => "The configuration is in force and nothing is wrong with it".to_owned(),
        (true, 0, warnings) => {
            format!("The configuration is in force, with {}", count(warnings, "warning"))
        }
        (true, errors, _) => {
            format!("Part of the configuration is refused: {}", count(errors, "error"))
        }
    }
}
