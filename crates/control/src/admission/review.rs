//! AdmissionReview: what is asked, and how is the answer spelled?
//!
//! Versions v1 and v1beta1 have the same fields; each is answered in kind. What
//! cannot be read gets no AdmissionReview back but an HTTP status, because
//! without a request there is no uid to answer to.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Admitted, Denied, Verdict};

const VERSIONS: [&str; 2] = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"];

/// What is being done to the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// The part of a request that handlers look at.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub uid: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub namespace: String,
    pub operation: Operation,
    #[serde(default)]
    pub user_info: User,
    /// Null on DELETE.
    #[serde(default)]
    pub object: Value,
    /// Null on CREATE.
    #[serde(default)]
    pub old_object: Value,
    #[serde(default)]
    pub dry_run: Option<bool>,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub struct User {
    #[serde(default)]
    pub username: String,
}

impl Request {
    /// A new object, as whoever sends it would have it.
    pub fn create(namespace: &str, object: Value) -> Self {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        Self {
            uid: String::new(),
            name,
            namespace: namespace.to_owned(),
            operation: Operation::Create,
            user_info: User::default(),
            object,
            old_object: Value::Null,
            dry_run: None,
        }
    }

    pub fn is_dry_run(&self) -> bool {
        self.dry_run == Some(true)
    }
}

/// A request and the version it was asked in.
#[derive(Debug, Clone)]
pub struct Review {
    api_version: String,
    pub request: Request,
}

/// Why a body is no review.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    #[error("the body is not an AdmissionReview")]
    Shape(#[from] serde_json::Error),
    #[error("{found:?} is not a kind of review that is answered here; send AdmissionReview of {}", VERSIONS.join(" or "))]
    Version { found: String },
    #[error("the review has no request")]
    NoRequest,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    request: Option<Request>,
}

impl Review {
    pub fn parse(body: &[u8]) -> Result<Self, ReviewError> {
        let Envelope { api_version, kind, request } = serde_json::from_slice(body)?;
        if kind != "AdmissionReview" || !VERSIONS.contains(&api_version.as_str()) {
            return Err(ReviewError::Version { found: format!("{api_version} {kind}") });
        }
        let request = request.ok_or(ReviewError::NoRequest)?;
        Ok(Self { api_version, request })
    }

    /// The answer, with the patch already encoded by `base64`.
    pub fn answer(&self, verdict: &Verdict, base64: impl Fn(&[u8]) -> String) -> Value {
        let uid = &self.request.uid;
        let response = match verdict {
            Ok(Admitted { patch, warnings }) => {
                let mut response = json!({ "uid": uid, "allowed": true });
                if !patch.is_empty() {
                    response["patchType"] = json!("JSONPatch");
                    response["patch"] = json!(base64(json!(patch).to_string().as_bytes()));
                }
                if !warnings.is_empty() {
                    response["warnings"] = json!(warnings);
                }
                response
            }
            Err(Denied { code, message }) => json!({
                "uid": uid,
                "allowed": false,
                "status": { "status": "Failure", "code": code, "message": message, "reason": reason(*code) },
            }),
        };
        json!({ "apiVersion": self.api_version, "kind": "AdmissionReview", "response": response })
    }
}

fn reason(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        403 => "Forbidden",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review(version: &str) -> Vec<u8> {
        json!({
            "apiVersion": format!("admission.k8s.io/{version}"), "kind": "AdmissionReview",
            "request": { "uid": "u1", "operation": "CREATE", "object": {"a": 1}, "dryRun": true },
        })
        .to_string()
        .into_bytes()
    }

    #[test]
    fn each_version_is_answered_in_kind() {
        for version in ["v1", "v1beta1"] {
            let review = Review::parse(&review(version)).unwrap();
            assert!(review.request.is_dry_run());
            let patch = Admitted::edits(&json!({}), &json!({"x": 1}), vec!["look".into()]);
            let answer =
                review.answer(&Ok(patch), |bytes| String::from_utf8(bytes.to_vec()).unwrap());
            assert_eq!(
                answer,
                json!({
                    "apiVersion": format!("admission.k8s.io/{version}"), "kind": "AdmissionReview",
                    "response": {
                        "uid": "u1", "allowed": true, "patchType": "JSONPatch",
                        "patch": r#"[{"op":"add","path":"/x","value":1}]"#, "warnings": ["look"],
                    },
                })
            );
            let denied = review.answer(&Err(Denied::rule("no")), |_| String::new());
            assert_eq!(denied["response"]["status"]["message"], "no");
            assert_eq!(denied["response"]["status"]["code"], 400);
        }
    }

    #[test]
    fn an_untouched_object_gets_no_patch() {
        let review = Review::parse(&review("v1")).unwrap();
        let answer = review.answer(&Ok(Admitted::default()), |_| String::new());
        assert_eq!(answer["response"], json!({ "uid": "u1", "allowed": true }));
    }

    #[test]
    fn what_is_no_review_is_said_so() {
        let cases: [(&[u8], &str); 7] = [
            (b"", "not an AdmissionReview"),
            (b"[]", "not an AdmissionReview"),
            (b"\xff\xfe", "not an AdmissionReview"),
            (br#"{"kind":"Pod","apiVersion":"v1"}"#, "not a kind of review"),
            (br#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v2"}"#, "not a kind"),
            (br#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}"#, "no request"),
            (
                br#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","operation":"EAT"}}"#,
                "not an AdmissionReview",
            ),
        ];
        for (body, want) in cases {
            let error = Review::parse(body).expect_err(want).to_string();
            assert!(error.contains(want), "{error}");
        }
    }
}
