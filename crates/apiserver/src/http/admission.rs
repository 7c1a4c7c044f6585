//! Who else has a say before an object is written?
//!
//! Built-in rules come first (namespaces, priorities, tolerations), then mutating webhooks; after
//! the server has validated the result, validating webhooks see the object as it will be stored.

mod namespace;
mod pod;

use serde_json::Value;

use super::call::Call;
use super::status::Status;

/// What is being done to the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
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
    _old: Option<&Value>,
) -> Result<(), Status> {
    namespace::check(call, attributes)?;
    if call.served.is("", "pods") && attributes.subresource.is_empty() {
        pod::admit(call, attributes, object)?;
    }
    Ok(())
}

/// Built-in rules on deletion; there is no new object to change.
pub(super) async fn mutate_delete(
    call: &mut Call,
    attributes: &Attributes,
    _old: &Value,
) -> Result<(), Status> {
    namespace::check(call, attributes)
}

/// Lets webhooks refuse the write.
pub(super) async fn validate(
    _call: &mut Call,
    _attributes: &Attributes,
    _object: Option<&Value>,
    _old: Option<&Value>,
) -> Result<(), Status> {
    Ok(())
}
