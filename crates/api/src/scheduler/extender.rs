//! Extenders: services that have a say about pods, over HTTP.
//!
//! | verb | asked | answers |
//! |---|---|---|
//! | `filterVerb` | nodes that fit | those it accepts, and why not the others |
//! | `prioritizeVerb` | nodes that fit | a score from 0 to 10 for each |
//! | `preemptVerb` | nodes to clear, with victims | those it agrees to |
//! | `bindVerb` | a pod and its node | binds it, in the scheduler's place |

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::GoDuration;

use crate::finding::{Code, Finding};

/// One extender, as it is written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Extender {
    /// Where it is, as `http://host:port/prefix`; verbs follow after a slash.
    pub url_prefix: String,
    pub filter_verb: String,
    pub preempt_verb: String,
    pub prioritize_verb: String,
    /// What its scores count; needed with `prioritizeVerb`.
    pub weight: Option<i64>,
    pub bind_verb: String,
    #[serde(rename = "enableHTTPS")]
    pub enable_https: bool,
    pub tls_config: Option<TlsConfig>,
    /// How long it may take to answer; 5s when absent.
    pub http_timeout: Option<GoDuration>,
    /// It knows the nodes: names are enough.
    pub node_cache_capable: bool,
    /// Only pods that ask for one of these are its business; all pods when empty.
    pub managed_resources: Vec<ManagedResource>,
    /// Pods are scheduled without it when it cannot be asked.
    pub ignorable: bool,
}

/// An extended resource that an extender takes care of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ManagedResource {
    pub name: String,
    /// NodeResourcesFit does not count it.
    pub ignored_by_scheduler: bool,
}

/// How an extender is trusted, and how it trusts us. Data is base64 and wins over files.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct TlsConfig {
    pub insecure: bool,
    pub server_name: String,
    pub cert_file: String,
    pub key_file: String,
    pub ca_file: String,
    pub cert_data: String,
    pub key_data: String,
    pub ca_data: String,
}

/// Keys are nobody's business.
impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { insecure, server_name, cert_file, ca_file, .. } = self;
        f.debug_struct("TlsConfig")
            .field("insecure", insecure)
            .field("server_name", server_name)
            .field("cert_file", cert_file)
            .field("ca_file", ca_file)
            .finish_non_exhaustive()
    }
}

/// What is wrong with extenders, one by one and together.
pub(super) fn check(extenders: &[Extender], findings: &mut Vec<Finding>) {
    let mut managed = BTreeSet::new();
    for (index, extender) in extenders.iter().enumerate() {
        let path = |field: &str| format!("extenders[{index}].{field}");
        let mut say = |code, field: &str, value: &str, rule: &str, fix: &str| {
            findings.push(Finding::error(code, rule, fix).path(path(field)).value(value));
        };
        let url = &extender.url_prefix;
        let host = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        if !host.is_some_and(|host| !host.is_empty() && !host.starts_with('/')) {
            let rule = "must be an http or https address";
            say(Code::BadText, "urlPrefix", url, rule, "write it as http://host:port/prefix");
        }
        if !extender.prioritize_verb.is_empty() && extender.weight.unwrap_or(0) < 1 {
            let weight = extender.weight.unwrap_or(0).to_string();
            let rule = "must be above 0 where prioritizeVerb is set";
            say(Code::OutOfRange, "weight", &weight, rule, "use 1, or remove prioritizeVerb");
        }
        if extender.http_timeout.is_some_and(|own| own.to_std().is_none()) {
            let rule = "must not be negative";
            say(Code::OutOfRange, "httpTimeout", "negative", rule, "use 5s, the default");
        }
        for (at, resource) in extender.managed_resources.iter().enumerate() {
            let (place, name) = (format!("managedResources[{at}].name"), &resource.name);
            let is_extended = name.split_once('/').is_some_and(|(group, rest)| {
                !rest.is_empty() && !group.ends_with("kubernetes.io") && !group.is_empty()
            });
            if !is_extended {
                let rule = "must be an extended resource";
                say(Code::BadText, &place, name, rule, "write it as example.com/name");
            } else if !managed.insert(name) {
                let rule = "is managed twice";
                say(Code::ProfileShape, &place, name, rule, "keep one of the two");
            }
        }
    }
    let mut binders = extenders.iter().enumerate().filter(|(_, own)| !own.bind_verb.is_empty());
    if let (Some(_), Some((index, second))) = (binders.next(), binders.next()) {
        let rule = "only one extender can bind";
        findings.push(
            Finding::error(Code::ProfileShape, rule, "keep one bindVerb")
                .path(format!("extenders[{index}].bindVerb"))
                .value(second.bind_verb.as_str()),
        );
    }
}
