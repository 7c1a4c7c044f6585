//! Which objects are these, and in which order are they created?
//!
//! The order is Helm's: what others need comes first, webhooks come last, so that nobody is sent to a
//! webhook before there is somebody to answer.

use serde_json::Value;

use crate::{ChartError, NAME};

/// One object, as text and as value.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The template that it comes from.
    pub source: String,
    pub text: String,
    pub object: Value,
}

/// Kinds in the order in which they are created; those not named come last.
const ORDER: &[&str] = &[
    "PriorityClass",
    "Namespace",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "DaemonSet",
    "Deployment",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

impl Manifest {
    pub fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap_or_default()
    }

    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Empty for what has none.
    pub fn namespace(&self) -> &str {
        self.object["metadata"]["namespace"].as_str().unwrap_or_default()
    }

    pub(crate) fn rank(&self) -> usize {
        ORDER.iter().position(|kind| *kind == self.kind()).unwrap_or(ORDER.len())
    }
}

/// All manifests as one stream of YAML documents.
pub fn print(manifests: &[Manifest]) -> String {
    let document = |manifest: &Manifest| {
        format!("---\n# Source: {NAME}/{}\n{}\n", manifest.source, manifest.text)
    };
    manifests.iter().map(document).collect()
}

/// The documents of a rendered template that say something.
pub(crate) fn split(path: &str, text: &str) -> Result<Vec<Manifest>, ChartError> {
    let mut parts = vec![String::new()];
    for line in text.lines() {
        if line.trim_end() == "---" {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push_str(line);
            part.push('\n');
        }
    }
    let mut manifests = Vec::new();
    for part in parts {
        let text = part.trim_matches('\n').trim_end().to_owned();
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            continue;
        }
        let object: Value = serde_saphyr::from_str(&text).map_err(|error| ChartError::File {
            file: path.to_owned(),
            what: format!("what it prints is not YAML: {error}\n{text}"),
        })?;
        manifests.push(Manifest { source: path.to_owned(), text, object });
    }
    Ok(manifests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_without_words_are_left_out() {
        let text = "\n---\n# only a remark\n---\nkind: A\nmetadata:\n  name: a\n---\n\n";
        let found = split("templates/a.yaml", text).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].kind(), found[0].name(), found[0].namespace()), ("A", "a", ""));
        assert_eq!(
            print(&found),
            "---\n# Source: tidepool/templates/a.yaml\nkind: A\nmetadata:\n  name: a\n"
        );
    }

    #[test]
    fn what_is_no_yaml_is_an_error_of_its_template() {
        let error = split("templates/a.yaml", "a: b: c\n").unwrap_err().to_string();
        assert!(error.starts_with("templates/a.yaml: what it prints is not YAML"), "{error}");
    }

    #[test]
    fn whoever_answers_is_there_before_anybody_asks() {
        let rank = |kind: &str| {
            let object = serde_json::json!({ "kind": kind });
            Manifest { source: String::new(), text: String::new(), object }.rank()
        };
        assert!(rank("Namespace") < rank("ConfigMap"));
        assert!(rank("Deployment") < rank("MutatingWebhookConfiguration"));
        assert!(rank("ValidatingWebhookConfiguration") < rank("ServiceMonitor"));
    }
}
