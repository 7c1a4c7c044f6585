//! `namespaces/NAME/finalize`: the only way to change `spec.finalizers`.
//!
//! Whoever empties a dying namespace takes its name off the list here; with the last one the
//! namespace is gone.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use crate::http::call::Call;
use crate::http::decode;
use crate::http::negotiate::{self, Shapes};
use crate::http::query::WriteOptions;
use crate::http::status::Status;
use crate::http::write::{Change, Part};
use crate::http::{meta, respond, write};

pub(super) async fn replace(call: &mut Call) -> Result<Response, Status> {
    let answer = negotiate::accept(&call.headers, call.is_pretty(), Shapes::One)?;
    let options = WriteOptions::from_query(&call.query, &call.headers, "UpdateOptions")?;
    let kind = negotiate::object_body(&call.headers, call.served.traits.custom)?;
    let mut body = decode::value(&call.body, kind, &call.served.kind)?;
    decode::check_kind(&mut body, &call.served)?;
    let outcome = write::modify(call, &options, Part::Other, &mut Finalizers { body }).await?;
    respond::one(call, answer, StatusCode::OK, &outcome.written)
}

struct Finalizers {
    body: Value,
}

impl Change for Finalizers {
    fn apply(&mut self, current: &Value, _call: &mut Call) -> Result<Value, Status> {
        let mut next = current.clone();
        let finalizers = self.body.pointer("/spec/finalizers").filter(|list| list.is_array());
        next["spec"] = json!({"finalizers": finalizers.unwrap_or(&json!([]))});
        let version = meta::resource_version(&self.body);
        if !version.is_empty() {
            meta::set(&mut next, "resourceVersion", version);
        }
        Ok(next)
    }
}
