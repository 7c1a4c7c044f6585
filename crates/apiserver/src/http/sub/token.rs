//! `serviceaccounts/NAME/token`: a token for a service account.
//!
//! The token is opaque and lives in this server's memory; it proves who its holder is until it
//! expires or the server stops.

use axum::http::StatusCode;
use axum::response::Response;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::http::call::Call;
use crate::http::negotiate::{self, Shapes};
use crate::http::server::object_of;
use crate::http::source::seconds;
use crate::http::status::{Cause, Status};
use crate::http::{decode, meta, respond};

const DEFAULT_SECONDS: i64 = 3600;
const LEAST_SECONDS: i64 = 600;
const MOST_SECONDS: i64 = 1 << 32;

pub(super) fn issue(call: &Call) -> Result<Response, Status> {
    let answer = negotiate::accept(&call.headers, call.is_pretty(), Shapes::Plain)?;
    let kind = negotiate::object_body(&call.headers, call.served.traits.custom)?;
    let request = match call.body.is_empty() {
        true => json!({}),
        false => decode::value(&call.body, kind, "TokenRequest")?,
    };
    let stored = call.server.store().get(&call.key()?);
    let stored = stored.ok_or_else(|| Status::not_found(call.subject()))?;
    let account = object_of(&stored, &call.served)?;
    let lifetime = lifetime(&request)?;

    let options = call.server.options();
    let now = options.clock.now();
    let expires = now.checked_add(SignedDuration::from_secs(lifetime)).unwrap_or(now);
    let token = options.ids.secret();
    if !call.query.all("dryRun").any(|value| value == "All") {
        let owner = (call.namespace(), call.name(), meta::uid(&account));
        call.server.tokens().issue(token.clone(), owner, expires, now);
    }
    let mut spec = request.get("spec").cloned().unwrap_or_else(|| json!({}));
    spec["expirationSeconds"] = json!(lifetime);
    if spec.get("audiences").and_then(Value::as_array).is_none() {
        spec["audiences"] = json!(["https://kubernetes.default.svc"]);
    }
    let object = json!({
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": call.name(),
            "namespace": call.namespace(),
            "creationTimestamp": seconds(now),
        },
        "spec": spec,
        "status": {"token": token, "expirationTimestamp": seconds(expires)},
    });
    respond::value(answer.encoding, StatusCode::CREATED, &object)
}

fn lifetime(request: &Value) -> Result<i64, Status> {
    let field = "spec.expirationSeconds";
    let Some(value) = request.pointer("/spec/expirationSeconds") else {
        return Ok(DEFAULT_SECONDS);
    };
    let why = match value.as_i64() {
        Some(seconds) if seconds < LEAST_SECONDS => {
            "may not specify a duration less than 10 minutes"
        }
        Some(seconds) if seconds > MOST_SECONDS => {
            "may not specify a duration larger than 2^32 seconds"
        }
        Some(seconds) => return Ok(seconds),
        None => "must be a number of seconds",
    };
    let causes = vec![Cause::invalid(field, value, why)];
    Err(Status::invalid("authentication.k8s.io", "TokenRequest", "", causes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_bounded() {
        let ask = |seconds: Value| lifetime(&json!({"spec": {"expirationSeconds": seconds}}));
        assert_eq!(lifetime(&json!({})).ok(), Some(3600));
        assert_eq!(ask(json!(600)).ok(), Some(600));
        for wrong in [json!(599), json!(MOST_SECONDS + 1), json!("1h")] {
            assert_eq!(ask(wrong).unwrap_err().code, 422);
        }
    }
}
