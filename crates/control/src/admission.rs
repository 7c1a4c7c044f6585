//! May an object be written, and what must be changed about it first?
//!
//! Every webhook is a function of values: the request, and what this replica
//! knows of the cluster. It answers with edits, with warnings, or with a
//! denial that says what to do. No function here reads a clock, rolls a die or
//! calls the API server; whoever serves them does.
//!
//! | file | object | asked |
//! |---|---|---|
//! | [`pod`] | Pod | what must be changed at creation? |
//! | [`validate`] | Pod | may it be created, may it be changed? |
//! | [`profile`] | Pod, Reservation | which profiles match, and what do they set? |
//! | [`reservation`] | Reservation | what must be changed at creation? |
//! | [`node`] | Node | what may it advertise; do two node entries claim it? |
//! | [`config_map`] | ConfigMap | is the configuration usable? |
//! | [`quota`] | ElasticQuota | does it fit into its tree? |
//! | [`charge`] | Pod | is there room left in its quota? |
//! | [`binding`] | Binding | may this user place pods? |
//! | [`review`] | AdmissionReview | what is asked, and how is the answer spelled? |
//! | [`answer`] | any | which function answers, and what do all of them together? |
//!
//! Edits are made on the object as it was sent, and the patch is what differs,
//! so fields that this program has never heard of survive.

pub mod answer;
pub mod binding;
pub mod charge;
pub mod config_map;
mod device;
mod merge;
pub mod node;
pub mod pod;
pub mod profile;
pub mod quota;
pub mod reservation;
pub mod review;
pub mod validate;

use api::finding::Finding;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A request that is admitted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Admitted {
    /// What to change about the object; empty leaves it as it is.
    pub patch: json_patch::Patch,
    /// Shown to whoever asked.
    pub warnings: Vec<String>,
}

impl Admitted {
    pub fn with_warnings(warnings: Vec<String>) -> Self {
        Self { warnings, ..Self::default() }
    }

    /// The edits that lead from one object to the other.
    pub fn edits(before: &Value, after: &Value, warnings: Vec<String>) -> Self {
        Self { patch: json_patch::diff(before, after), warnings }
    }
}

/// A request that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Denied {
    /// HTTP status: 400 for a rule that is broken, 403 for a forbidden user,
    /// 500 when this program cannot do its part.
    pub code: u16,
    pub message: String,
}

impl Denied {
    /// The object breaks a rule.
    pub fn rule(message: impl Into<String>) -> Self {
        Self { code: 400, message: message.into() }
    }

    /// The user may not do this.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self { code: 403, message: message.into() }
    }

    /// What should have been done to the object cannot be done.
    pub fn impossible(message: impl Into<String>) -> Self {
        Self { code: 500, message: message.into() }
    }
}

pub type Verdict = Result<Admitted, Denied>;

/// The object in its own type; a shape that no API server would send is refused.
fn decode<T: DeserializeOwned>(kind: &str, object: &Value) -> Result<T, Denied> {
    T::deserialize(object).map_err(|error| Denied::rule(format!("cannot read the {kind}: {error}")))
}

/// The map at a path, made where it is missing. `None` when something else stands in the way.
fn map_at<'v>(object: &'v mut Value, path: &[&str]) -> Option<&'v mut Map<String, Value>> {
    let mut at = object;
    for name in path {
        if at.is_null() {
            *at = Value::Object(Map::new());
        }
        at = at.as_object_mut()?.entry(*name).or_insert(Value::Null);
    }
    if at.is_null() {
        *at = Value::Object(Map::new());
    }
    at.as_object_mut()
}

/// One finding on one line: where, what, why, and the way out.
fn sentence(finding: &Finding) -> String {
    let place = match (&finding.key, &finding.path) {
        (Some(key), Some(path)) => format!("{key}: {path}"),
        (Some(place), None) | (None, Some(place)) => place.clone(),
        (None, None) => finding.object.clone(),
    };
    let value = finding.value.as_ref().map_or(String::new(), |value| format!(" = {value}"));
    format!("{place}{value}: {} ({}; fix: {})", finding.rule, finding.code, finding.fix)
}

/// Refuses when there is an error among the findings, with all of them.
fn refuse_errors(findings: &[Finding]) -> Result<(), Denied> {
    let errors: Vec<String> = findings.iter().filter(|f| f.is_error()).map(sentence).collect();
    if errors.is_empty() { Ok(()) } else { Err(Denied::rule(errors.join("; "))) }
}

/// What is worth saying although the request is admitted.
fn warnings(findings: &[Finding]) -> Vec<String> {
    findings.iter().filter(|finding| !finding.is_error()).map(sentence).collect()
}
