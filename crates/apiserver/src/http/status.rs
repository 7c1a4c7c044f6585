//! How does the server say no?
//!
//! Every refusal is a `metav1.Status` object whose reason, details and wording client libraries
//! and people match on, so each constructor here produces the sentence kube-apiserver (v1.35)
//! uses for the same situation.

use std::borrow::Cow;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A failure on its way to the client.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Status {
    pub(super) message: String,
    pub(super) reason: Cow<'static, str>,
    pub(super) details: Option<Box<Details>>,
    pub(super) code: u16,
    /// Where an expired list can go on.
    next: String,
}

/// The same as it is written.
#[derive(Serialize)]
struct Wire<'a> {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    metadata: ListMeta<'a>,
    status: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a Details>,
    code: u16,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
struct ListMeta<'a> {
    #[serde(rename = "continue", skip_serializing_if = "str::is_empty")]
    next: &'a str,
}

/// What the failure is about.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The resource (`pods`), or for invalid objects the kind (`Pod`).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
}

/// One reason of several.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Cause {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: Cow<'static, str>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

impl Cause {
    /// A value that is present but not acceptable; `value` is shown as Go's field errors show it.
    pub(super) fn invalid(field: impl Into<String>, value: &Value, why: impl AsRef<str>) -> Self {
        Self {
            reason: "FieldValueInvalid".into(),
            message: format!("Invalid value: {value}: {}", why.as_ref()),
            field: field.into(),
        }
    }

    pub(super) fn required(field: impl Into<String>, why: impl AsRef<str>) -> Self {
        let why = why.as_ref();
        let message = match why {
            "" => "Required value".to_owned(),
            _ => format!("Required value: {why}"),
        };
        Self { reason: "FieldValueRequired".into(), message, field: field.into() }
    }

    pub(super) fn forbidden(field: impl Into<String>, why: impl AsRef<str>) -> Self {
        Self {
            reason: "FieldValueForbidden".into(),
            message: format!("Forbidden: {}", why.as_ref()),
            field: field.into(),
        }
    }

    pub(super) fn unsupported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let list: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
        Self {
            reason: "FieldValueNotSupported".into(),
            message: format!("Unsupported value: {value}: supported values: {}", list.join(", ")),
            field: field.into(),
        }
    }

    fn sentence(&self) -> String {
        match self.field.as_str() {
            "" => self.message.clone(),
            field => format!("{field}: {}", self.message),
        }
    }
}

/// A resource as error messages name it: `pods`, `deployments.apps`.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    pub group: &'a str,
    pub resource: &'a str,
    pub name: &'a str,
}

impl Subject<'_> {
    fn details(&self) -> Details {
        Details {
            name: self.name.to_owned(),
            group: self.group.to_owned(),
            kind: self.resource.to_owned(),
            ..Details::default()
        }
    }
}

impl std::fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        qualified(f, self.resource, self.group)?;
        write!(f, " {:?}", self.name)
    }
}

fn qualified(f: &mut std::fmt::Formatter<'_>, what: &str, group: &str) -> std::fmt::Result {
    match group {
        "" => f.write_str(what),
        _ => write!(f, "{what}.{group}"),
    }
}

impl Status {
    pub(super) fn new(
        code: StatusCode,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            message: message.into(),
            reason: reason.into(),
            details: None,
            code: code.as_u16(),
            next: String::new(),
        }
    }

    fn about(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub(super) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    pub(super) fn not_found(subject: Subject<'_>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", format!("{subject} not found"))
            .about(subject.details())
    }

    /// The path names nothing this server serves.
    pub(super) fn unknown_resource() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            "the server could not find the requested resource",
        )
        .about(Details::default())
    }

    pub(super) fn already_exists(subject: Subject<'_>) -> Self {
        Self::new(StatusCode::CONFLICT, "AlreadyExists", format!("{subject} already exists"))
            .about(subject.details())
    }

    pub(super) fn conflict(subject: Subject<'_>, why: impl AsRef<str>) -> Self {
        let message = format!("Operation cannot be fulfilled on {subject}: {}", why.as_ref());
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(subject.details())
    }

    /// The object changed between the client's read and its write.
    pub(super) fn modified(subject: Subject<'_>) -> Self {
        Self::conflict(
            subject,
            "the object has been modified; please apply your changes to the latest version and \
             try again",
        )
    }

    /// Server-side apply found fields of other managers in its way.
    pub(super) fn apply_conflict(message: impl Into<String>, causes: Vec<Cause>) -> Self {
        Self::new(StatusCode::CONFLICT, "Conflict", message)
            .about(Details { causes, ..Details::default() })
    }

    pub(super) fn forbidden(subject: Subject<'_>, why: impl AsRef<str>) -> Self {
        let mut text = String::new();
        match subject.name {
            "" => {
                text.push_str(subject.resource);
                if !subject.group.is_empty() {
                    text.push('.');
                    text.push_str(subject.group);
                }
            }
            _ => text = subject.to_string(),
        }
        let message = format!("{text} is forbidden: {}", why.as_ref());
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).about(subject.details())
    }

    pub(super) fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let dotted = match group {
            "" => kind.to_owned(),
            _ => format!("{kind}.{group}"),
        };
        let mut sentences: Vec<String> = causes.iter().map(Cause::sentence).collect();
        let mut seen = std::collections::BTreeSet::new();
        sentences.retain(|sentence| seen.insert(sentence.clone()));
        let list = match sentences.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{dotted} {name:?} is invalid: {list}");
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).about(Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes,
            ..Details::default()
        })
    }

    pub(super) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .about(Details::default())
    }

    /// No clause of `Accept` names a form this server writes.
    pub(super) fn no_such_form() -> Self {
        Self::new(
            StatusCode::NOT_ACCEPTABLE,
            "NotAcceptable",
            "406: Not Acceptable\n\nAvailable representations: application/json, \
             application/yaml, application/vnd.kubernetes.protobuf, \
             application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch",
        )
        .about(Details::default())
    }

    /// A patch in none of the dialects.
    pub(super) fn no_such_patch() -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            "415: Unsupported Media Type",
        )
        .about(Details::default())
    }

    pub(super) fn not_acceptable(accepted: &[&str]) -> Self {
        let message =
            format!("only the following media types are accepted: {}", accepted.join(", "));
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    pub(super) fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    pub(super) fn too_large(limit: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {limit}"),
        )
    }

    /// History from that point on is no longer kept.
    pub(super) fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// The same, with a token from which the list can go on, inconsistently.
    pub(super) fn expired_continue(next: String) -> Self {
        let mut status = Self::expired(
            "The provided continue parameter is too old to display a consistent list result. You \
             can start a new list without the continue parameter, or use the continue token in \
             this response to retrieve the remainder of the results. Continuing with the provided \
             token results in an inconsistent list - objects that were created, modified, or \
             deleted between the time the first chunk was returned and now may show up in the \
             list.",
        );
        status.next = next;
        status
    }

    /// The client asks for a state this server has not reached.
    pub(super) fn too_large_resource_version(asked: u64, current: u64) -> Self {
        Self::new(
            StatusCode::GATEWAY_TIMEOUT,
            "Timeout",
            format!("Timeout: Too large resource version: {asked}, current: {current}"),
        )
        .about(Details {
            causes: vec![Cause {
                reason: "ResourceVersionTooLarge".into(),
                message: "Too large resource version".into(),
                field: String::new(),
            }],
            retry_after_seconds: Some(1),
            ..Details::default()
        })
    }

    pub(super) fn too_many_requests(message: impl Into<String>, retry_after: Option<u32>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message)
            .about(Details { retry_after_seconds: retry_after, ..Details::default() })
    }

    pub(super) fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            format!("Internal error occurred: {message}"),
        )
        .about(Details {
            causes: vec![Cause { message, ..Cause::default() }],
            ..Details::default()
        })
    }

    pub(super) fn not_implemented(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message)
    }

    pub(super) fn with_causes(mut self, causes: Vec<Cause>) -> Self {
        self.details.get_or_insert_default().causes = causes;
        self
    }

    /// The object as JSON, for `ERROR` watch events.
    pub(super) fn to_json(&self) -> Vec<u8> {
        let wire = Wire {
            kind: "Status",
            api_version: "v1",
            metadata: ListMeta { next: &self.next },
            status: "Failure",
            message: &self.message,
            reason: &self.reason,
            details: self.details.as_deref(),
            code: self.code,
        };
        serde_json::to_vec(&wire).expect("a status holds only strings and numbers")
    }
}

impl IntoResponse for Status {
    fn into_response(self) -> Response {
        let mut body = self.to_json();
        body.push(b'\n');
        let mut response = Response::new(Body::from(body));
        *response.status_mut() =
            StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        if let Some(seconds) = self.details.and_then(|details| details.retry_after_seconds)
            && seconds > 0
        {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// The successful answer of a delete whose object is gone at once.
#[derive(Debug, Serialize)]
pub(super) struct Deleted<'a> {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    metadata: ListMeta<'a>,
    status: &'static str,
    details: DeletedDetails<'a>,
}

#[derive(Debug, Serialize)]
struct DeletedDetails<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    kind: &'a str,
    uid: &'a str,
}

impl<'a> Deleted<'a> {
    pub(super) fn new(subject: Subject<'a>, uid: &'a str) -> Self {
        Self {
            kind: "Status",
            api_version: "v1",
            metadata: ListMeta::default(),
            status: "Success",
            details: DeletedDetails {
                name: subject.name,
                group: subject.group,
                kind: subject.resource,
                uid,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_those_of_kubernetes() {
        let pod = Subject { group: "", resource: "pods", name: "web" };
        let deployment = Subject { group: "apps", resource: "deployments", name: "web" };
        let cases = [
            ("core kinds have no suffix", Status::not_found(pod), "pods \"web\" not found"),
            (
                "others carry their group",
                Status::not_found(deployment),
                "deployments.apps \"web\" not found",
            ),
            (
                "one cause stands alone",
                Status::invalid("", "Pod", "web", vec![Cause::required("spec.containers", "")]),
                "Pod \"web\" is invalid: spec.containers: Required value",
            ),
            (
                "several causes are a list",
                Status::invalid(
                    "apps",
                    "Deployment",
                    "web",
                    vec![
                        Cause::required("spec.selector", ""),
                        Cause::invalid("spec.replicas", &serde_json::json!(-1), "must be positive"),
                    ],
                ),
                "Deployment.apps \"web\" is invalid: [spec.selector: Required value, \
                 spec.replicas: Invalid value: -1: must be positive]",
            ),
            (
                "a nameless subject is the resource alone",
                Status::forbidden(Subject { name: "", ..pod }, "no"),
                "pods is forbidden: no",
            ),
        ];
        for (name, status, want) in cases {
            assert_eq!(status.message, want, "{name}");
        }
    }

    #[test]
    fn fields_stand_in_the_order_of_the_wire() {
        let status = Status::not_found(Subject { group: "", resource: "pods", name: "web" });
        assert_eq!(
            String::from_utf8(status.to_json()).unwrap(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"web\" not found","reason":"NotFound","details":{"name":"web","kind":"pods"},"code":404}"#
        );
    }
}
