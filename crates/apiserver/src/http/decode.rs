//! How does a request body become an object?
//!
//! ```text
//! bytes ── JSON or YAML ──> value ── right kind? ── right types? ──> unknown fields ──> defaults
//! ```
//!
//! Unknown and doubled fields are dropped, and depending on `fieldValidation` ignored, reported
//! as warnings or refused.

use serde_json::Value;

use super::kinds::Served;
use super::meta;
use super::negotiate::BodyKind;
use super::protobuf;
use super::query::FieldValidation;
use super::status::Status;
use crate::schema::duplicate_fields;

/// Reads a body as one value. Nesting beyond the parser's limit is an error like any other.
pub(super) fn value(body: &[u8], kind: BodyKind) -> Result<Value, Status> {
    let broken = |error: String| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type Object): {error} ({})",
            excerpt(body)
        ))
    };
    match kind {
        BodyKind::Yaml | BodyKind::Apply => {
            let text = std::str::from_utf8(body).map_err(|error| broken(error.to_string()))?;
            // Most apply bodies are JSON already, which is far cheaper to read as such.
            if let Ok(value) = serde_json::from_slice(body) {
                return Ok(value);
            }
            serde_saphyr::from_str(text).map_err(|error| broken(error.to_string()))
        }
        BodyKind::Protobuf => protobuf::decode(body).map_err(|error| {
            Status::bad_request(format!("the object provided is unrecognized: {error}"))
        }),
        _ => serde_json::from_slice(body).map_err(|error| broken(error.to_string())),
    }
}

/// The first bytes of a body, as hexadecimal like Kubernetes shows them.
fn excerpt(body: &[u8]) -> String {
    let shown: String = body.iter().take(24).map(|byte| format!("{byte:02x}")).collect();
    match body.len() {
        0..=24 => shown,
        _ => format!("{shown} ..."),
    }
}

/// The fields a strict client would want to hear about.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    unknown: Vec<String>,
    doubled: Vec<String>,
}

impl Complaints {
    /// Looks for doubled fields in a JSON body; of YAML the parser refuses them itself.
    pub(super) fn about(body: &[u8], kind: BodyKind, validation: FieldValidation) -> Self {
        let doubled = match (kind, validation) {
            (BodyKind::Yaml | BodyKind::Protobuf, _) | (_, FieldValidation::Ignore) => Vec::new(),
            _ => duplicate_fields(body),
        };
        Self { unknown: Vec::new(), doubled }
    }

    /// Warns or refuses, as the client asked.
    pub(super) fn settle(
        self,
        validation: FieldValidation,
        served: &Served,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        match (validation, &served.schema) {
            (FieldValidation::Ignore, _) | (_, None) => {}
            (FieldValidation::Warn, _) => {
                warnings.extend(self.doubled.iter().map(|f| format!("duplicate field \"{f}\"")));
                warnings.extend(self.unknown.iter().map(|f| format!("unknown field \"{f}\"")));
            }
            (FieldValidation::Strict, Some(schema)) => {
                if let Some(error) = schema.strict_error(&self.unknown, &self.doubled) {
                    return Err(Status::bad_request(error));
                }
            }
        }
        Ok(())
    }
}

/// Checks that an object is of the kind the path serves; absent type facts are filled in.
pub(super) fn check_kind(object: &mut Value, served: &Served) -> Result<(), Status> {
    meta::check_shape(object)?;
    let wanted = served.api_version();
    let (api_version, kind) = (meta::api_version(object), meta::kind(object));
    if !api_version.is_empty() && api_version != wanted {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version \
             ({wanted})"
        )));
    }
    if !kind.is_empty() && kind != served.kind {
        return Err(Status::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {}: converting ({kind}) to ({}): \
             unknown conversion",
            served.version, served.kind, served.kind
        )));
    }
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".into(), wanted.into());
        fields.insert("kind".into(), served.kind.as_str().into());
    }
    Ok(())
}

/// Brings an object into the kind's shape: types checked, unknown fields dropped, defaults set.
pub(super) fn shape(
    object: &mut Value,
    served: &Served,
    complaints: &mut Complaints,
) -> Result<(), Status> {
    let Some(schema) = &served.schema else { return Ok(()) };
    if let Some(error) = schema.type_error(object) {
        return Err(Status::bad_request(error));
    }
    complaints.unknown.extend(schema.prune(object));
    schema.default(object);
    Ok(())
}
