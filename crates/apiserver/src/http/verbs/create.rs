//! POST of a new object.

use axum::http::StatusCode;
use axum::response::Response;

use crate::http::call::Call;
use crate::http::decode::{self, Complaints};
use crate::http::negotiate::{self, BodyKind, Shapes};
use crate::http::query::WriteOptions;
use crate::http::status::Status;
use crate::http::{respond, write};

pub(super) async fn create(call: &mut Call) -> Result<Response, Status> {
    let answer = negotiate::accept(&call.headers, call.is_pretty(), Shapes::One)?;
    let options = WriteOptions::from_query(&call.query, &call.headers, "CreateOptions")?;
    let kind = negotiate::object_body(&call.headers, call.served.traits.custom)?;
    let object = read_object(call, &options, kind)?;
    let outcome = write::insert(call, &options, object, true).await?;
    respond::one(call, answer, StatusCode::CREATED, &outcome.written)
}

/// The body as an object of the called kind, in shape.
pub(super) fn read_object(
    call: &mut Call,
    options: &WriteOptions,
    kind: BodyKind,
) -> Result<serde_json::Value, Status> {
    let mut object = decode::value(&call.body, kind, &call.served.kind)?;
    let mut complaints = Complaints::about(&call.body, kind, options.field_validation);
    decode::check_kind(&mut object, &call.served)?;
    decode::shape(&mut object, &call.served, &mut complaints)?;
    complaints.settle(options.field_validation, &call.served, &mut call.warnings)?;
    Ok(object)
}
