//! PUT of a whole object.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;

use super::create::read_object;
use crate::http::call::Call;
use crate::http::negotiate::{self, Shapes};
use crate::http::query::WriteOptions;
use crate::http::status::Status;
use crate::http::write::{Change, Part};
use crate::http::{meta, respond, write};

/// Replaces an object, or the part of it a subresource stands for.
pub(in crate::http) async fn replace(call: &mut Call, part: Part) -> Result<Response, Status> {
    let answer = negotiate::accept(&call.headers, call.is_pretty(), Shapes::One)?;
    let options = WriteOptions::from_query(&call.query, &call.headers, "UpdateOptions")?;
    let kind = negotiate::object_body(&call.headers, call.served.traits.custom)?;
    let object = read_object(call, &options, kind)?;
    claim_name(call, &object)?;
    let mut change = Replacement { object, creates: part == Part::Main };
    let outcome = write::modify(call, &options, part, &mut change).await?;
    let code = if outcome.created { StatusCode::CREATED } else { StatusCode::OK };
    respond::one(call, answer, code, &outcome.written)
}

/// Checks that an object is the one the path names.
pub(in crate::http) fn claim_name(call: &Call, object: &Value) -> Result<(), Status> {
    let name = meta::name(object);
    if name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            call.name()
        )));
    }
    if name != call.name() {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.name()
        )));
    }
    let namespace = meta::namespace(object);
    if !namespace.is_empty() && namespace != call.namespace() {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

struct Replacement {
    object: Value,
    creates: bool,
}

impl Change for Replacement {
    fn apply(&mut self, _current: &Value, _call: &mut Call) -> Result<Value, Status> {
        Ok(self.object.clone())
    }

    fn create(&mut self, call: &mut Call) -> Option<Result<Value, Status>> {
        (self.creates && call.served.traits.create_on_update).then(|| Ok(self.object.clone()))
    }
}
