//! Who owns which field?

use serde_json::Value;

use super::call::Call;
use super::kinds::Served;
use super::query::WriteOptions;
use super::status::Status;

/// Records the client as manager of the fields it sets or changes.
pub(super) fn track(
    _served: &Served,
    _old: Option<&Value>,
    _new: &mut Value,
    _options: &WriteOptions,
    _call: &Call,
) -> Result<(), Status> {
    Ok(())
}
