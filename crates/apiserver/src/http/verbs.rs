//! Which code answers which method on which path?

mod collection;
mod create;
mod get;
pub(super) mod patch;
pub(super) mod update;

use axum::http::Method;
use axum::response::Response;

use super::call::Call;
use super::kinds::Storage;
use super::status::Status;
use super::write::Part;
use super::{delete, list, sub, watch};
use crate::http::query::ListOptions;

/// What a request does, in the words of discovery and of access rules.
pub(super) fn verb(call: &Call) -> &'static str {
    let named = call.target.name.is_some();
    match call.method.as_str() {
        "GET" if is_watch(call) => "watch",
        "GET" if named => "get",
        "GET" => "list",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" if named => "delete",
        "DELETE" => "deletecollection",
        _ => "",
    }
}

pub(super) fn is_watch(call: &Call) -> bool {
    matches!(call.method, Method::GET)
        && call.target.subresource.is_none()
        && (call.target.watch
            || (call.target.name.is_none() && call.query.flag("watch").unwrap_or(false)))
}

/// Answers a request on a resource or one of its objects.
pub(super) async fn serve(call: &mut Call) -> Result<Response, Status> {
    let verb = verb(call);
    check_scope(call, verb)?;
    if call.target.subresource.is_some() {
        return sub::serve(call).await;
    }
    if !call.served.allows(verb) {
        return Err(Status::method_not_allowed());
    }
    match verb {
        "get" => get::one(call),
        "list" => list::list(call),
        "watch" => {
            let options = ListOptions::from_query(&call.query, true)?;
            watch::watch(call, &options)
        }
        "create" if call.served.is("", "bindings") => sub::bind(call).await,
        "create" if matches!(call.served.storage, Storage::Virtual) => sub::review(call),
        "create" => create::create(call).await,
        "update" => update::replace(call, Part::Main).await,
        "patch" => patch::patch(call, Part::Main).await,
        "delete" => delete::one(call).await,
        "deletecollection" => collection::delete(call).await,
        _ => Err(Status::method_not_allowed()),
    }
}

/// Refuses combinations of path and method that Kubernetes does not route.
fn check_scope(call: &Call, verb: &str) -> Result<(), Status> {
    let (namespaced, named) = (call.target.namespace.is_some(), call.target.name.is_some());
    if namespaced && !call.served.namespaced {
        return Err(Status::unknown_resource());
    }
    if call.served.namespaced && !namespaced {
        if named {
            return Err(Status::unknown_resource());
        }
        if !matches!(verb, "list" | "watch") {
            return Err(Status::method_not_allowed());
        }
    }
    match (verb, named) {
        ("create", true) if call.target.subresource.is_none() => Err(Status::method_not_allowed()),
        ("update" | "patch", false) => Err(Status::method_not_allowed()),
        _ => Ok(()),
    }
}
