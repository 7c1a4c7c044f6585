//! May I? Who am I?
//!
//! Questions that `kubectl auth` and components ask. Whoever got past authentication may do
//! everything, so most answers are yes.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use crate::http::auth::user_of;
use crate::http::call::Call;
use crate::http::negotiate::{self, Shapes};
use crate::http::status::Status;
use crate::http::{decode, respond};

/// POST of a review.
pub(in crate::http) fn answer(call: &Call) -> Result<Response, Status> {
    let answer = negotiate::accept(&call.headers, call.is_pretty(), Shapes::Plain)?;
    let kind = negotiate::object_body(&call.headers, call.served.traits.custom)?;
    let mut review = match call.body.is_empty() {
        true => json!({}),
        false => decode::value(&call.body, kind, &call.served.kind)?,
    };
    decode::check_kind(&mut review, &call.served)?;
    review["status"] = match call.served.kind.as_str() {
        "SelfSubjectRulesReview" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        "SelfSubjectReview" => json!({"userInfo": call.user.to_value()}),
        "TokenReview" => token_status(call, &review),
        _ => json!({"allowed": true}),
    };
    respond::value(answer.encoding, StatusCode::CREATED, &review)
}

fn token_status(call: &Call, review: &Value) -> Value {
    let token = review.pointer("/spec/token").and_then(Value::as_str).unwrap_or_default();
    match user_of(&call.server, token) {
        Some(user) => json!({"authenticated": true, "user": user.to_value()}),
        None => json!({"user": {}, "error": "invalid bearer token"}),
    }
}
