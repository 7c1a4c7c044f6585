//! What do the webhook configurations say?
//!
//! They are read from the store and kept as long as they do not change.

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::Hooks;
use super::condition::Condition;
use crate::http::meta;
use crate::http::select::Labels;
use crate::store::{Collection, Revision, Store};

/// What a failed call means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnFailure {
    Fail,
    Ignore,
}

/// Where a webhook listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Url(String),
    Service { namespace: String, name: String, port: u16, path: String },
}

/// One webhook.
#[derive(Debug)]
pub(super) struct Hook {
    pub(super) name: String,
    pub(super) mutating: bool,
    pub(super) place: Place,
    /// Certificates the webhook's own must be signed by, as PEM.
    pub(super) authority: Vec<u8>,
    pub(super) rules: Vec<Rule>,
    /// Other versions of a resource count as the resource itself.
    pub(super) equivalent: bool,
    pub(super) on_failure: OnFailure,
    pub(super) namespaces: Labels,
    pub(super) objects: Labels,
    pub(super) dry_run_safe: bool,
    pub(super) timeout_seconds: u64,
    pub(super) review_version: &'static str,
    pub(super) reinvoke: bool,
    pub(super) conditions: Vec<Condition>,
}

/// Which requests a webhook wants to see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) operations: Vec<String>,
    pub(super) groups: Vec<String>,
    pub(super) versions: Vec<String>,
    pub(super) resources: Vec<String>,
    pub(super) scope: String,
}

/// The configurations as last read.
#[derive(Debug)]
pub(in crate::http) struct Cache {
    mutating: Slot,
    validating: Slot,
}

/// Hooks and what they were read from: how many configurations, and the latest of them.
#[derive(Debug)]
struct Slot {
    collection: Collection,
    hooks: ArcSwap<(usize, Option<Revision>, Hooks)>,
}

impl Cache {
    pub(in crate::http) fn new() -> Self {
        let slot = |resource: &str| Slot {
            collection: Collection::new("admissionregistration.k8s.io", resource),
            hooks: ArcSwap::from_pointee((0, None, Hooks::default())),
        };
        Self {
            mutating: slot("mutatingwebhookconfigurations"),
            validating: slot("validatingwebhookconfigurations"),
        }
    }

    pub(super) fn mutating(&self, store: &Store) -> Hooks {
        self.mutating.read(store, true)
    }

    pub(super) fn validating(&self, store: &Store) -> Hooks {
        self.validating.read(store, false)
    }
}

impl Slot {
    fn read(&self, store: &Store, mutating: bool) -> Hooks {
        let snapshot = store.list(&self.collection, None);
        let state = (snapshot.len(), snapshot.iter().map(|stored| stored.revision).max());
        let known = self.hooks.load();
        if (known.0, known.1) == state {
            return known.2.clone();
        }
        let hooks: Vec<Hook> = snapshot
            .iter()
            .filter_map(|stored| serde_json::from_slice::<Value>(&stored.json).ok())
            .flat_map(|object| hooks_of(&object, mutating))
            .collect();
        let hooks = Hooks::new(hooks);
        self.hooks.store((state.0, state.1, hooks.clone()).into());
        hooks
    }
}

fn hooks_of(configuration: &Value, mutating: bool) -> Vec<Hook> {
    let list = configuration.get("webhooks").and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(|webhook| match hook(webhook, mutating) {
            Ok(hook) => Some(hook),
            Err(error) => {
                let name = meta::name(configuration);
                tracing::warn!(configuration = name, %error, "skipping an unreadable webhook");
                None
            }
        })
        .collect()
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn texts(value: &Value, field: &str) -> Vec<String> {
    let list = value.get(field).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn hook(webhook: &Value, mutating: bool) -> Result<Hook, String> {
    let selector = |field: &str| match webhook.get(field) {
        Some(selector) => Labels::from_object(selector).map_err(|error| error.to_string()),
        None => Ok(Labels::default()),
    };
    let versions = texts(webhook, "admissionReviewVersions");
    let review_version = versions
        .iter()
        .find_map(|version| match version.as_str() {
            "v1" => Some("v1"),
            "v1beta1" => Some("v1beta1"),
            _ => None,
        })
        .unwrap_or("v1");
    let conditions = webhook.get("matchConditions").and_then(Value::as_array);
    let conditions = conditions
        .into_iter()
        .flatten()
        .map(|condition| {
            Condition::compile(text(condition, "/name"), text(condition, "/expression"))
        })
        .collect::<Result<Vec<_>, String>>()?;
    let rules = webhook.get("rules").and_then(Value::as_array);
    Ok(Hook {
        name: text(webhook, "/name").to_owned(),
        mutating,
        place: place(webhook),
        authority: STANDARD.decode(text(webhook, "/clientConfig/caBundle")).unwrap_or_default(),
        rules: rules.into_iter().flatten().map(rule).collect(),
        equivalent: text(webhook, "/matchPolicy") != "Exact",
        on_failure: match text(webhook, "/failurePolicy") {
            "Ignore" => OnFailure::Ignore,
            _ => OnFailure::Fail,
        },
        namespaces: selector("namespaceSelector")?,
        objects: selector("objectSelector")?,
        dry_run_safe: matches!(text(webhook, "/sideEffects"), "None" | "NoneOnDryRun"),
        timeout_seconds: webhook
            .get("timeoutSeconds")
            .and_then(Value::as_u64)
            .filter(|seconds| (1..=30).contains(seconds))
            .unwrap_or(10),
        review_version,
        reinvoke: text(webhook, "/reinvocationPolicy") == "IfNeeded",
        conditions,
    })
}

fn place(webhook: &Value) -> Place {
    let url = text(webhook, "/clientConfig/url");
    if !url.is_empty() {
        return Place::Url(url.to_owned());
    }
    let port = webhook.pointer("/clientConfig/service/port").and_then(Value::as_u64);
    Place::Service {
        namespace: text(webhook, "/clientConfig/service/namespace").to_owned(),
        name: text(webhook, "/clientConfig/service/name").to_owned(),
        port: port.and_then(|port| u16::try_from(port).ok()).unwrap_or(443),
        path: text(webhook, "/clientConfig/service/path").to_owned(),
    }
}

fn rule(value: &Value) -> Rule {
    Rule {
        operations: texts(value, "operations"),
        groups: texts(value, "apiGroups"),
        versions: texts(value, "apiVersions"),
        resources: texts(value, "resources"),
        scope: match text(value, "/scope") {
            "" => "*".to_owned(),
            scope => scope.to_owned(),
        },
    }
}
