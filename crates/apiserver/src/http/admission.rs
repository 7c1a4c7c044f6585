//! Who else has a say before an object is written?
//!
//! Built-in rules come first (namespaces, priorities, tolerations), then mutating webhooks; after
//! the server has validated the result, validating webhooks see the object as it will be stored.

mod namespace;
mod pod;
mod webhook;

use serde_json::{Value, json};

pub(super) use self::webhook::{Cache, Caller};
pub use self::webhook::{EndpointResolver, ServiceResolver};
use super::call::Call;
use super::status::Status;

/// What is being done to the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// The request as admission sees it.
#[derive(Debug, Clone)]
pub(super) struct Attributes {
    pub(super) operation: Operation,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) subresource: String,
    pub(super) dry_run: bool,
}

impl Attributes {
    pub(super) fn new(call: &Call, operation: Operation, dry_run: bool) -> Self {
        Self {
            operation,
            namespace: call.namespace().to_owned(),
            name: String::new(),
            subresource: call.subresource().to_owned(),
            dry_run,
        }
    }
}

/// Lets built-in rules and webhooks change the object.
pub(super) async fn mutate(
    call: &mut Call,
    attributes: &Attributes,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    built_in(call, attributes, object)?;
    let mut changing = Some(std::mem::take(object));
    let changed = webhook::mutate(call, attributes, &mut changing, old).await;
    *object = changing.unwrap_or_default();
    if changed? {
        // Webhooks may have asked for what the built-in rules complete.
        built_in(call, attributes, object)?;
    }
    Ok(())
}

fn built_in(call: &Call, attributes: &Attributes, object: &mut Value) -> Result<(), Status> {
    namespace::check(call, attributes)?;
    if call.served.is("", "pods") && attributes.subresource.is_empty() {
        pod::admit(call, attributes, object)?;
    }
    if call.served.is("", "nodes") && attributes.operation == Operation::Create {
        taint_new_node(object);
    }
    Ok(())
}

/// A new node gets no pods until somebody has seen that it is ready.
fn taint_new_node(node: &mut Value) {
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let Some(fields) = node.as_object_mut() else { return };
    let spec = fields.entry("spec").or_insert_with(|| json!({}));
    let Some(spec) = spec.as_object_mut() else { return };
    let taints = spec.entry("taints").or_insert_with(|| json!([]));
    if let Some(taints) = taints.as_array_mut() {
        let same = |one: &Value| {
            one.get("key") == taint.get("key") && one.get("effect") == taint.get("effect")
        };
        if !taints.iter().any(same) {
            taints.push(taint);
        }
    }
}

/// Rules on deletion; there is no new object to change.
pub(super) async fn mutate_delete(
    call: &mut Call,
    attributes: &Attributes,
    old: &Value,
) -> Result<(), Status> {
    namespace::check(call, attributes)?;
    webhook::mutate(call, attributes, &mut None, Some(old)).await.map(|_| ())
}

/// Lets webhooks refuse the write.
pub(super) async fn validate(
    call: &mut Call,
    attributes: &Attributes,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<(), Status> {
    webhook::validate(call, attributes, object, old).await
}
