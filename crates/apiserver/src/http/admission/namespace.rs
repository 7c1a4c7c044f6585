//! May something be created in this namespace, and may this namespace go?

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Attributes, Operation};
use crate::http::call::Call;
use crate::http::status::{Cause, Status, Subject};

/// As much of a namespace as matters here.
#[derive(Deserialize)]
struct Namespace {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    deletion_timestamp: Option<IgnoredAny>,
}

/// Namespaces every cluster needs.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

pub(super) fn check(call: &Call, attributes: &Attributes) -> Result<(), Status> {
    if call.served.is("", "namespaces") {
        if attributes.operation == Operation::Delete && IMMORTAL.contains(&attributes.name.as_str())
        {
            return Err(Status::forbidden(
                call.served.subject(&attributes.name),
                "this namespace may not be deleted",
            ));
        }
        return Ok(());
    }
    if !call.served.namespaced || attributes.operation != Operation::Create || is_review(call) {
        return Ok(());
    }
    let name = attributes.namespace.as_str();
    let Some(namespace) = call.server.read::<Namespace>("", "namespaces", "", name) else {
        return Err(Status::not_found(Subject { group: "", resource: "namespaces", name }));
    };
    if namespace.metadata.deletion_timestamp.is_none() {
        return Ok(());
    }
    let refusal = Status::forbidden(
        call.served.subject(&attributes.name),
        format!("unable to create new content in namespace {name} because it is being terminated"),
    );
    Err(refusal.with_causes(vec![Cause {
        reason: "NamespaceTerminating".into(),
        message: format!("namespace {name} is being terminated"),
        field: "metadata.namespace".into(),
    }]))
}

/// Questions about access are answered in any namespace.
fn is_review(call: &Call) -> bool {
    call.served.group == "authorization.k8s.io"
}
