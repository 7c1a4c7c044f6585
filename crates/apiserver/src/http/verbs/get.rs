//! GET of one object.

use axum::http::StatusCode;
use axum::response::Response;

use crate::http::call::Call;
use crate::http::list::revision;
use crate::http::negotiate::{self, Shapes};
use crate::http::respond::{self, Written};
use crate::http::status::Status;

pub(super) fn one(call: &Call) -> Result<Response, Status> {
    let answer = negotiate::accept(&call.headers, call.is_pretty(), Shapes::One)?;
    let current = call.server.store().revision();
    if let Some(asked) = revision(call.query.get("resourceVersion").unwrap_or_default())?
        && asked > current
    {
        return Err(Status::too_large_resource_version(asked.0, current.0));
    }
    let stored =
        call.server.store().get(&call.key()?).ok_or_else(|| Status::not_found(call.subject()))?;
    respond::one(call, answer, StatusCode::OK, &Written::Stored(stored))
}
