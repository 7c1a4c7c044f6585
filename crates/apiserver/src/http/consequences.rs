//! What follows from a write?
//!
//! A few kinds mean something to the server itself: a CustomResourceDefinition adds or removes
//! kinds, a namespace gets its service account. These steps run after the write is durable and in
//! the same request, so that whoever got the answer finds them done.

use serde_json::Value;

use super::call::Call;
use super::{bootstrap, definitions, meta};

/// After an object was created or changed.
pub(super) async fn of_write(call: &Call, object: &Value) {
    match (call.served.group.as_str(), call.served.plural.as_str()) {
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            definitions::settle(&call.server).await;
        }
        ("", "namespaces") if !meta::is_deleting(object) => {
            bootstrap::default_account(&call.server, meta::name(object)).await;
        }
        _ => {}
    }
}

/// After an object is gone.
pub(super) async fn of_removal(call: &Call) {
    if call.served.is("apiextensions.k8s.io", "customresourcedefinitions") {
        definitions::settle(&call.server).await;
    } else if call.served.traits.custom {
        definitions::after_instance_removal(call).await;
    }
}
