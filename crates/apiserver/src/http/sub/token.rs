//! `serviceaccounts/NAME/token`: a token for a service account.
//!
//! The token is opaque and lives in this server's memory; it proves who its holder is until it
//! expires, its account is deleted or the server stops. However long a token is asked for, it expires
//! within a day, and the answer says when.

use axum::http::StatusCode;
use axum::response::Response;
use jiff::SignedDuration;
use serde_json::{Map, Value, json};

use crate::http::call::Call;
use crate::http::negotiate::{self, Shapes};
use crate::http::server::object_of;
use crate::http::source::seconds;
use crate::http::status::{Cause, Status};
use crate::http::{decode, meta, respond};

const DEFAULT_SECONDS: i64 = 3600;
const LEAST_SECONDS: i64 = 600;
const MOST_SECONDS: i64 = 1 << 32;
/// Clients renew tokens long before.
const LONGEST_SECONDS: i64 = 24 * 3600;

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
    let mut spec = spec(&request)?;
    let lifetime = lifetime(&spec)?;

    let options = call.server.options();
    let now = options.clock.now();
    let expires = now.checked_add(SignedDuration::from_secs(lifetime)).unwrap_or(now);
    let token = options.ids.secret();
    if !call.query.all("dryRun").any(|value| value == "All") {
        let owner = (call.namespace(), call.name(), meta::uid(&account));
        call.server.tokens().issue(token.clone(), owner, expires, now);
    }
    spec.insert("expirationSeconds".to_owned(), json!(lifetime));
    if spec.get("audiences").and_then(Value::as_array).is_none() {
        spec.insert("audiences".to_owned(), json!(["https://kubernetes.default.svc"]));
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

fn spec(request: &Value) -> Result<Map<String, Value>, Status> {
    match request.get("spec") {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(spec)) => Ok(spec.clone()),
        Some(_) => Err(Status::bad_request("TokenRequest.spec must be an object")),
    }
}

fn lifetime(spec: &Map<String, Value>) -> Result<i64, Status> {
    let field = "spec.expirationSeconds";
    let value = match spec.get("expirationSeconds") {
        None | Some(Value::Null) => return Ok(DEFAULT_SECONDS),
        Some(value) => value,
    };
    let why = match value.as_i64() {
        Some(seconds) if seconds < LEAST_SECONDS => {
            "may not specify a duration less than 10 minutes"
        }
        Some(seconds) if seconds > MOST_SECONDS => {
            "may not specify a duration larger than 2^32 seconds"
        }
        Some(seconds) => return Ok(seconds.min(LONGEST_SECONDS)),
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
        let ask = |request: Value| spec(&request).and_then(|spec| lifetime(&spec));
        let seconds = |seconds: Value| ask(json!({"spec": {"expirationSeconds": seconds}}));
        assert_eq!(ask(json!({})).ok(), Some(3600));
        assert_eq!(seconds(json!(600)).ok(), Some(600));
        assert_eq!(seconds(json!(MOST_SECONDS)).ok(), Some(LONGEST_SECONDS));
        for wrong in [json!(599), json!(MOST_SECONDS + 1), json!("1h")] {
            assert_eq!(seconds(wrong).unwrap_err().code, 422);
        }
        assert_eq!(ask(json!({"spec": "x"})).unwrap_err().code, 400);
    }
}
