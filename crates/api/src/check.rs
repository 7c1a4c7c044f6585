//! What is wrong with an object, apart from its JSON?
//!
//! Plain functions from values to findings, shared by the admission webhooks,
//! `tidepool config check` and whoever puts events on objects. An error means
//! that the object is refused or that the value is not in force, and the text
//! says what holds instead; a warning means accepted, but probably not meant.
//! What can only be seen while running (missing metrics, full nodes) is not here.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::finding::{Code, Finding};
use crate::metadata::{Key, Wire};

mod custom;
mod node;
mod pod;
mod profile;
mod quota;

pub use custom::{check_migration_job, check_quota_profile, check_reservation};
pub use node::check_node;
pub use pod::{check_pod, check_pod_admission, check_pod_annotations, check_pod_update};
pub use profile::{check_profile, probability};
pub use quota::{QuotaChange, check_elastic_quota, check_elastic_quota_delete, check_pod_quota};

/// Findings about one object.
struct Report {
    object: String,
    findings: Vec<Finding>,
}

impl Report {
    fn new(kind: &str, meta: &ObjectMeta) -> Self {
        let name = meta.name.as_deref().or(meta.generate_name.as_deref()).unwrap_or("(unnamed)");
        let object = match meta.namespace.as_deref() {
            Some(namespace) => format!("{kind} {namespace}/{name}"),
            None => format!("{kind} {name}"),
        };
        Self { object, findings: Vec::new() }
    }

    fn push(&mut self, finding: Finding) {
        self.findings.push(Finding { object: self.object.clone(), ..finding });
    }

    fn push_at<T>(&mut self, key: &Key<T>, finding: Finding) {
        self.push(Finding { key: Some(key.name.to_owned()), ..finding });
    }

    /// Adds findings about the value of a key. Errors get `code` and say what
    /// holds instead of the value.
    fn extend(&mut self, findings: Vec<Finding>, code: Code, instead: &str) {
        for finding in findings {
            if finding.is_error() {
                let rule = format!("{}; {instead}", finding.rule);
                self.push(Finding { code, rule, ..finding });
            } else {
                self.push(finding);
            }
        }
    }

    /// Reads a key and keeps what is wrong with it, as [`Report::extend`].
    fn read<T: Wire>(
        &mut self,
        key: &Key<T>,
        meta: &ObjectMeta,
        code: Code,
        instead: &str,
    ) -> Option<T> {
        let (value, findings) = key.read(meta);
        self.extend(findings, code, instead);
        value
    }
}

/// Names joined for a message; `nothing` when there are none.
fn join<T: fmt::Display>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}
