//! Who owns which field?
//!
//! The ledger itself is kept by [`objects::apply`]; this is where requests are turned into its terms.

use serde_json::Value;

use super::call::Call;
use super::query::WriteOptions;
use super::status::{Cause, Status};
use objects::apply::{self, ApplyError, Conflict, FieldSet, Writer};

/// The fields this request's path does not let through.
fn reset(call: &Call) -> FieldSet {
    match &call.served.schema {
        Some(schema) => {
            apply::reset_fields(schema.gvk(), call.subresource(), call.served.traits.status)
        }
        None => FieldSet::default(),
    }
}

/// Records the client as manager of the fields it sets or changes.
pub(super) fn track(call: &Call, options: &WriteOptions, old: Option<&Value>, new: &mut Value) {
    let Some(schema) = &call.served.schema else { return };
    let writer = Writer {
        manager: &options.field_manager,
        subresource: call.subresource(),
        reset: &reset(call),
        now: call.server.options().clock.now(),
    };
    apply::track_update(old, new, &writer, schema);
}

/// Server-side apply: what the object becomes.
pub(super) fn apply(
    call: &Call,
    options: &WriteOptions,
    live: Option<&Value>,
    intent: &Value,
) -> Result<Value, Status> {
    let Some(schema) = &call.served.schema else { return Err(Status::method_not_allowed()) };
    let writer = Writer {
        manager: &options.field_manager,
        subresource: call.subresource(),
        reset: &reset(call),
        now: call.server.options().clock.now(),
    };
    let force = options.force.unwrap_or(false);
    apply::apply(live, intent, &writer, force, schema).map_err(refusal)
}

fn refusal(error: ApplyError) -> Status {
    let message = error.to_string();
    match error {
        ApplyError::BadRequest(_) => Status::bad_request(message),
        ApplyError::Conflict(conflicts) => {
            let causes = conflicts
                .iter()
                .map(|Conflict { owner, field }| Cause {
                    reason: "FieldManagerConflict".into(),
                    message: format!("conflict with {owner}"),
                    field: field.to_string(),
                })
                .collect();
            Status::apply_conflict(message, causes)
        }
        ApplyError::Unfit(_) => {
            Status::new(axum::http::StatusCode::INTERNAL_SERVER_ERROR, "", message)
        }
    }
}
