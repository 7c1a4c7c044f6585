//! How does a request body become an object?
//!
//! ```text
//! bytes ── JSON or YAML ──> value ── right kind? ── right types? ──> unknown fields ──> defaults
//! ```
//!
//! Unknown and doubled fields are dropped, and depending on `fieldValidation` ignored, reported
//! as warnings or refused.

use serde_json::{Value, json};

use super::kinds::Served;
use super::meta;
use super::negotiate::BodyKind;
use super::protobuf;
use super::query::FieldValidation;
use super::status::{Cause, Status};
use objects::schema::built_in::Schemas;
use objects::schema::{Gvk, duplicate_fields};

/// Reads a body as an object; `wanted` is the kind that errors name. Nesting beyond the parser's
/// limit is an error like any other.
pub(super) fn value(body: &[u8], kind: BodyKind, wanted: &str) -> Result<Value, Status> {
    let broken = |error: String| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {wanted}): couldn't get \
             version/kind; json parse error: {error} ({})",
            excerpt(body)
        ))
    };
    let value = match kind {
        BodyKind::Yaml => yaml(body).map_err(broken)?,
        BodyKind::Protobuf => protobuf::decode(body).map_err(|error| {
            Status::bad_request(format!("the object provided is unrecognized: {error}"))
        })?,
        _ => serde_json::from_slice(body).map_err(|error| broken(in_go(&error)))?,
    };
    let found = match &value {
        Value::Object(_) | Value::Null => return Ok(value),
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
    };
    Err(broken(format!(
        "json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string \
         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
    )))
}

/// Reads the body of a patch that is not a list of operations.
pub(super) fn patch(body: &[u8], kind: BodyKind) -> Result<Value, Status> {
    if kind == BodyKind::Apply {
        return yaml(body)
            .map_err(|error| Status::bad_request(format!("error decoding YAML: {error}")));
    }
    serde_json::from_slice(body)
        .map_err(|error| Status::bad_request(format!("error decoding patch: {}", in_go(&error))))
}

fn yaml(body: &[u8]) -> Result<Value, String> {
    // Most apply bodies are JSON already, which is far cheaper to read as such.
    if let Ok(value) = serde_json::from_slice(body) {
        return Ok(value);
    }
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

/// The commonest syntax error in the words clients know.
fn in_go(error: &serde_json::Error) -> String {
    if error.is_eof() { "unexpected end of JSON input".to_owned() } else { error.to_string() }
}

/// The first bytes of a body: as text if it looks like an object, otherwise as hexadecimal.
fn excerpt(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let start = body.get(..SHOWN).unwrap_or(body);
    let shown = match body.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(start).into_owned(),
        Some(_) => start.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if body.len() > SHOWN { format!("{shown} ...") } else { shown }
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
    let wanted = served.api_version();
    let (api_version, kind) = (meta::api_version(object), meta::kind(object));
    // Custom resources have no structure to fall back on: they must say what they are.
    if served.traits.custom && kind.is_empty() {
        let shown = object.to_string();
        let start: String = shown.chars().take(30).collect();
        let rest = if start.len() < shown.len() { " ..." } else { "" };
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing \
             in '{shown}' ({start}{rest})",
            served.kind
        )));
    }
    let differs = (!api_version.is_empty() && api_version != wanted)
        || (!kind.is_empty() && kind != served.kind);
    if differs {
        let given = if kind.is_empty() { &served.kind } else { kind };
        let version = if api_version.is_empty() { &wanted } else { api_version };
        return Err(other_kind(object, version, given, served));
    }
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".into(), wanted.into());
        fields.insert("kind".into(), served.kind.as_str().into());
    }
    if let Some(error) = served.schema.as_ref().and_then(|schema| schema.type_error(object)) {
        return Err(Status::bad_request(error));
    }
    meta::check_shape(object)
}

fn other_kind(object: &Value, api_version: &str, kind: &str, served: &Served) -> Status {
    if served.traits.custom && api_version == served.api_version() {
        let cause = Cause::invalid("kind", &json!(kind), format!("must be {}", served.kind));
        return Status::invalid(&served.group, kind, meta::name(object), vec![cause]);
    }
    if served.traits.custom {
        return Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version \
             ({})",
            served.api_version()
        ));
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let known = Schemas::built_in().get(&Gvk::new(group, version, kind)).is_some();
    let why = if known {
        let package = match served.group.split('.').next() {
            None | Some("") => "core",
            Some(first) => first,
        };
        format!("converting ({version}.{kind}) to ({package}.{}): unknown conversion", served.kind)
    } else {
        unregistered(api_version, kind)
    };
    Status::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {}: {why}",
        served.kind
    ))
}

/// What clients are told about kinds nobody knows.
pub(super) fn unregistered(api_version: &str, kind: &str) -> String {
    format!(
        "no kind {kind:?} is registered for version {api_version:?} in scheme \
         \"pkg/runtime/scheme.go:111\""
    )
}

/// Brings an object into the kind's shape: types checked, unknown fields dropped, defaults set.
pub(super) fn shape(
    object: &mut Value,
    served: &Served,
    complaints: &mut Complaints,
) -> Result<(), Status> {
    let Some(schema) = &served.schema else { return Ok(()) };
    complaints.unknown.extend(schema.prune(object));
    schema.default(object);
    Ok(())
}
