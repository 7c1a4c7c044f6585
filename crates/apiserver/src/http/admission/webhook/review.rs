//! The question to a webhook and its answer: `AdmissionReview`.

use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::rule::Fit;
use crate::http::admission::{Attributes, Operation};
use crate::http::call::Call;
use crate::http::status::Status;

/// The question.
pub(super) fn request(
    call: &Call,
    attributes: &Attributes,
    fit: &Fit,
    uid: &str,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Value {
    let kind = |served: &crate::http::kinds::Served| {
        let sub = served.subresource(&attributes.subresource);
        match sub.and_then(|sub| sub.action.kind()) {
            Some((group, version, kind)) => {
                json!({"group": group, "version": version, "kind": kind})
            }
            None => json!({"group": served.group, "version": served.version, "kind": served.kind}),
        }
    };
    let resource = |served: &crate::http::kinds::Served| json!({"group": served.group, "version": served.version, "resource": served.plural});
    let mut request = json!({
        "uid": uid,
        "kind": kind(&fit.served),
        "resource": resource(&fit.served),
        "requestKind": kind(&call.served),
        "requestResource": resource(&call.served),
        "operation": attributes.operation.as_str(),
        "userInfo": call.user.to_value(),
        "object": object,
        "oldObject": old,
        "dryRun": attributes.dry_run,
        "options": options(call, attributes),
    });
    for (field, value) in [
        ("name", &attributes.name),
        ("namespace", &attributes.namespace),
        ("subResource", &attributes.subresource),
        ("requestSubResource", &attributes.subresource),
    ] {
        if !value.is_empty() {
            request[field] = json!(value);
        }
    }
    request
}

fn options(call: &Call, attributes: &Attributes) -> Value {
    let kind = match attributes.operation {
        Operation::Create => "CreateOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete => "DeleteOptions",
    };
    let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    if attributes.dry_run {
        options["dryRun"] = json!(["All"]);
    }
    for field in ["fieldManager", "fieldValidation"] {
        if let Some(value) = call.query.get(field).filter(|_| kind != "DeleteOptions") {
            options[field] = json!(value);
        }
    }
    options
}

pub(super) fn envelope(version: &str, request: Value) -> Value {
    json!({
        "kind": "AdmissionReview",
        "apiVersion": format!("admission.k8s.io/{version}"),
        "request": request,
    })
}

/// What a webhook said.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Verdict {
    allowed: bool,
    status: Value,
    pub(super) patch: Option<Vec<u8>>,
    pub(super) warnings: Vec<String>,
}

impl Verdict {
    /// The refusal, if it is one.
    pub(super) fn denial(&self, webhook: &str) -> Option<Status> {
        if self.allowed {
            return None;
        }
        let text = |field: &str| self.status.get(field).and_then(Value::as_str).unwrap_or_default();
        let denied = format!("admission webhook {webhook:?} denied the request");
        let message = match (text("message"), text("reason")) {
            ("", "") => format!("{denied} without explanation"),
            ("", why) | (why, _) => format!("{denied}: {why}"),
        };
        let code = self.status.get("code").and_then(Value::as_u64);
        let code = code
            .and_then(|code| u16::try_from(code).ok())
            .and_then(|code| StatusCode::from_u16(code).ok())
            .filter(|code| code.is_client_error() || code.is_server_error())
            .unwrap_or(StatusCode::BAD_REQUEST);
        let mut status = Status::new(code, text("reason").to_owned(), message);
        status.details = self
            .status
            .get("details")
            .and_then(|details| serde_json::from_value(details.clone()).ok());
        Some(status)
    }
}

/// Longest warning that is passed on, in characters.
const MAX_WARNING: usize = 256;

/// Reads the answer.
pub(super) fn read(
    body: &[u8],
    version: &str,
    uid: &str,
    mutating: bool,
) -> Result<Verdict, String> {
    let review: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let text = |path: &str| review.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let response = review
        .get("response")
        .filter(|response| response.is_object())
        .ok_or("webhook response was absent")?;
    if version == "v1" {
        if text("/response/uid") != uid {
            return Err(format!("expected response.uid={uid:?}, got {:?}", text("/response/uid")));
        }
        if text("/apiVersion") != "admission.k8s.io/v1" || text("/kind") != "AdmissionReview" {
            return Err(format!(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {}, \
                 Kind={}",
                text("/apiVersion"),
                text("/kind")
            ));
        }
    }
    let patch = patch_of(response, version, mutating)?;
    let warnings = response.get("warnings").and_then(Value::as_array);
    Ok(Verdict {
        allowed: response.get("allowed").and_then(Value::as_bool) == Some(true),
        status: response.get("status").cloned().unwrap_or(Value::Null),
        patch,
        warnings: warnings
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(|warning| warning.chars().take(MAX_WARNING).collect())
            .collect(),
    })
}

fn patch_of(response: &Value, version: &str, mutating: bool) -> Result<Option<Vec<u8>>, String> {
    let text = |field: &str| response.get(field).and_then(Value::as_str).unwrap_or_default();
    let (patch, kind) = (text("patch"), text("patchType"));
    if !mutating {
        return match (patch, kind) {
            ("", "") => Ok(None),
            ("", _) => Err("validating webhook may not return response.patchType".to_owned()),
            _ => Err("validating webhook may not return response.patch".to_owned()),
        };
    }
    match (patch, kind) {
        ("", "") => return Ok(None),
        ("", _) if version == "v1" => {
            return Err("webhook returned response.patchType but not response.patch".to_owned());
        }
        (_, "") if version == "v1" => {
            return Err("webhook returned response.patch but not response.patchType".to_owned());
        }
        (_, "" | "JSONPatch") => {}
        (_, other) => {
            return Err(format!("webhook returned invalid response.patchType of {other:?}"));
        }
    }
    let bytes = STANDARD.decode(patch).map_err(|error| error.to_string())?;
    Ok(Some(bytes).filter(|bytes| !bytes.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(response: Value) -> Vec<u8> {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
        });
        review.to_string().into_bytes()
    }

    #[test]
    fn answers_are_read_strictly() {
        let patch = STANDARD.encode("[]");
        let good = answer(json!({
            "uid": "u", "allowed": true, "patchType": "JSONPatch", "patch": patch, "warnings": ["w"],
        }));
        let verdict = read(&good, "v1", "u", true).unwrap();
        assert_eq!((verdict.patch.as_deref(), verdict.warnings.len()), (Some(&b"[]"[..]), 1));
        assert!(verdict.denial("w").is_none());
        let wrong = [
            ("no response", answer(Value::Null), true),
            ("another uid", answer(json!({"uid": "x", "allowed": true})), true),
            ("patch without type", answer(json!({"uid": "u", "patch": patch})), true),
            ("type without patch", answer(json!({"uid": "u", "patchType": "JSONPatch"})), true),
            (
                "unknown type",
                answer(json!({"uid": "u", "patch": patch, "patchType": "Merge"})),
                true,
            ),
            (
                "a validating webhook that patches",
                answer(json!({"uid": "u", "patch": patch, "patchType": "JSONPatch"})),
                false,
            ),
            ("not JSON", b"oops".to_vec(), true),
        ];
        for (name, body, mutating) in wrong {
            assert!(read(&body, "v1", "u", mutating).is_err(), "{name}");
        }
    }

    #[test]
    fn refusals_carry_the_webhooks_words() {
        let denial = |status: Value| {
            let body = answer(json!({"uid": "u", "allowed": false, "status": status}));
            let status = read(&body, "v1", "u", true).unwrap().denial("w.example.com").unwrap();
            (status.code, status.reason.to_string(), status.message)
        };
        let denied = "admission webhook \"w.example.com\" denied the request";
        assert_eq!(
            denial(Value::Null),
            (400, String::new(), format!("{denied} without explanation"))
        );
        assert_eq!(
            denial(json!({"code": 403, "reason": "Forbidden", "message": "no"})),
            (403, "Forbidden".into(), format!("{denied}: no"))
        );
        assert_eq!(
            denial(json!({"code": 200, "reason": "Bad"})),
            (400, "Bad".into(), format!("{denied}: Bad"))
        );
    }
}
