//! Which objects are refused with 422?
//!
//! The kind's schema knows; this turns what it finds into an answer.

use serde_json::Value;

use super::call::Call;
use super::kinds::Served;
use super::meta;
use super::status::{Cause, Status};

/// Checks a new object.
pub(super) fn create(call: &Call, object: &Value) -> Result<(), Status> {
    let Some(schema) = &call.served.schema else { return Ok(()) };
    refuse(&call.served, meta::name(object), schema.validate(object))
}

/// Checks the replacement of an object.
pub(super) fn update(call: &Call, new: &Value, old: &Value) -> Result<(), Status> {
    let Some(schema) = &call.served.schema else { return Ok(()) };
    refuse(&call.served, call.name(), schema.validate_update(new, old))
}

fn refuse(served: &Served, name: &str, found: Vec<objects::schema::Cause>) -> Result<(), Status> {
    if found.is_empty() {
        return Ok(());
    }
    let causes = found
        .into_iter()
        .map(|cause| Cause {
            reason: cause.reason.as_str().into(),
            message: cause.message,
            field: cause.field,
        })
        .collect();
    Err(Status::invalid(&served.group, &served.kind, name, causes))
}
