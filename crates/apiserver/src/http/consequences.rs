//! What follows from a write?
//!
//! A few kinds mean something to the server itself: a CustomResourceDefinition adds or removes
//! kinds, a namespace gets its service account. These steps run after the write is durable and in
//! the same request, so that whoever got the answer finds them done.

use serde_json::Value;

use super::call::Call;
use super::{bootstrap, definitions, meta};

/// What is left to do once an object is stored.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Consequence {
    Nothing,
    Definitions,
    Account { namespace: String },
}

impl Consequence {
    /// Of creating or changing this object.
    pub(super) fn of_write(call: &Call, object: &Value) -> Self {
        match (call.served.group.as_str(), call.served.plural.as_str()) {
            ("apiextensions.k8s.io", "customresourcedefinitions") => Self::Definitions,
            ("", "namespaces") if !meta::is_deleting(object) => {
                Self::Account { namespace: meta::name(object).to_owned() }
            }
            _ => Self::Nothing,
        }
    }

    pub(super) async fn settle(self, call: &Call) {
        match self {
            Self::Nothing => {}
            Self::Definitions => definitions::settle(&call.server).await,
            Self::Account { namespace } => {
                bootstrap::default_account(&call.server, &namespace).await;
            }
        }
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
