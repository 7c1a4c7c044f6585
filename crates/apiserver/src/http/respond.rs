//! How does an object become an answer?
//!
//! Stored bytes go out as they are whenever version, shape and encoding allow it; everything else
//! is built from the parsed object.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};

use super::call::Call;
use super::convert;
use super::negotiate::{Answer, Encoding, View};
use super::server::object_of;
use super::status::Status;
use super::table;
use crate::store::Stored;

/// An object after a write: in the store, or only as it would be there.
#[derive(Debug, Clone)]
pub(super) enum Written {
    Stored(Stored),
    /// A dry run's result, or the last words of a removed object, in the served version.
    Dry(Value),
}

impl Written {
    pub(super) fn object(&self, call: &Call) -> Result<Value, Status> {
        match self {
            Self::Stored(stored) => object_of(stored, &call.served),
            Self::Dry(object) => Ok(object.clone()),
        }
    }
}

/// Answers with one object of the called resource.
pub(super) fn one(
    call: &Call,
    answer: Answer,
    code: StatusCode,
    written: &Written,
) -> Result<Response, Status> {
    if let Written::Stored(stored) = written
        && answer == Answer::default()
        && convert::is_verbatim(&call.served)
        && convert::fits(&call.served, &stored.json)
    {
        return Ok(bytes(code, "application/json", Bytes::from_owner(stored.json.clone())));
    }
    let object = written.object(call)?;
    match answer.view {
        View::Table(version) => {
            let table = table::of_object(call, &object, version)?;
            value(answer.encoding, code, &table)
        }
        View::Metadata(version) => value(answer.encoding, code, &metadata_only(&object, version)),
        View::Object | View::Discovery(_) => value(answer.encoding, code, &object),
    }
}

/// The object reduced to its metadata.
pub(super) fn metadata_only(object: &Value, version: &str) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

/// Answers with any value.
pub(super) fn value(
    encoding: Encoding,
    code: StatusCode,
    value: &impl Serialize,
) -> Result<Response, Status> {
    let unreadable = |error: String| Status::internal(format!("cannot encode: {error}"));
    let (kind, mut text) = match encoding {
        Encoding::Json => (
            "application/json",
            serde_json::to_vec(value).map_err(|error| unreadable(error.to_string()))?,
        ),
        Encoding::PrettyJson => (
            "application/json",
            serde_json::to_vec_pretty(value).map_err(|error| unreadable(error.to_string()))?,
        ),
        Encoding::Yaml => (
            "application/yaml",
            serde_saphyr::to_string(value)
                .map_err(|error| unreadable(error.to_string()))?
                .into_bytes(),
        ),
    };
    if text.last() != Some(&b'\n') {
        text.push(b'\n');
    }
    Ok(bytes(code, kind, text.into()))
}

pub(super) fn bytes(code: StatusCode, kind: &'static str, text: Bytes) -> Response {
    body(code, kind, Body::from(text))
}

pub(super) fn body(code: StatusCode, kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Adds a `Warning` header for each sentence.
pub(super) fn add_warnings(headers: &mut HeaderMap, warnings: &[String]) {
    let mut seen = std::collections::BTreeSet::new();
    for warning in warnings {
        let clean: String = warning.chars().filter(|c| !c.is_control()).collect();
        let quoted = clean.replace('\\', "\\\\").replace('"', "\\\"");
        if seen.insert(clean)
            && let Ok(header) = HeaderValue::from_str(&format!("299 - \"{quoted}\""))
        {
            headers.append(header::WARNING, header);
        }
    }
}
