//! What lies below an object's own path?

mod binding;
mod eviction;
mod finalize;
mod log;
mod review;
mod scale;
mod token;

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

pub use self::log::{LogError, LogRequest, LogSource, LogStream};
pub(super) use self::review::answer as review;
use super::call::Call;
use super::kinds::Action;
use super::negotiate::{self, Shapes};
use super::respond::{self, Written};
use super::status::Status;
use super::verbs::{patch, update};
use super::write::Part;

/// Answers a request on a subresource.
pub(super) async fn serve(call: &mut Call) -> Result<Response, Status> {
    let found = call.served.subresource(call.subresource()).cloned();
    let Some(sub) = found else { return Err(Status::unknown_resource()) };
    let verb = match call.method.as_str() {
        "GET" => "get",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        _ => "",
    };
    if !sub.verbs.contains(&verb) {
        return Err(Status::method_not_allowed());
    }
    match (&sub.action, verb) {
        (Action::Status, "get") => main_object(call),
        (Action::Status, "update") => update::replace(call, Part::Status).await,
        (Action::Status, _) => patch::patch(call, Part::Status).await,
        (Action::Scale(paths), _) => scale::serve(call, paths, verb).await,
        (Action::Binding, _) => binding::bind_named(call).await,
        (Action::Eviction, _) => eviction::evict(call).await,
        (Action::Log, _) => log::read(call).await,
        (Action::Token, _) => token::issue(call),
        (Action::Finalize, _) => finalize::replace(call).await,
        (Action::Stream(_), _) => Err(Status::not_implemented(format!(
            "this server does not stream into containers: {} is not available",
            sub.name
        ))),
    }
}

/// POST to `bindings`, the old way to bind a pod.
pub(super) async fn bind(call: &mut Call) -> Result<Response, Status> {
    binding::bind(call).await
}

fn main_object(call: &Call) -> Result<Response, Status> {
    let answer = negotiate::accept(&call.headers, call.is_pretty(), Shapes::One)?;
    let stored = call.server.store().get(&call.key()?);
    let stored = stored.ok_or_else(|| Status::not_found(call.subject()))?;
    respond::one(call, answer, StatusCode::OK, &Written::Stored(stored))
}

/// The answer of an action that has no object to show.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Done {
    kind: &'static str,
    api_version: &'static str,
    metadata: serde_json::Map<String, serde_json::Value>,
    status: &'static str,
    code: u16,
}

fn done(call: &Call) -> Result<Response, Status> {
    let answer = negotiate::accept(&call.headers, call.is_pretty(), Shapes::Plain)?;
    let done = Done {
        kind: "Status",
        api_version: "v1",
        metadata: serde_json::Map::new(),
        status: "Success",
        code: 201,
    };
    respond::value(answer.encoding, StatusCode::CREATED, &done)
}
