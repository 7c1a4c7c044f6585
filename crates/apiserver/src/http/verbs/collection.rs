//! DELETE of everything a selector picks.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use crate::http::call::Call;
use crate::http::delete::{self, DeleteOptions};
use crate::http::negotiate::{self, Shapes};
use crate::http::query::ListOptions;
use crate::http::status::Status;
use crate::http::{list, respond};

pub(super) async fn delete(call: &mut Call) -> Result<Response, Status> {
    let answer = negotiate::accept(&call.headers, call.is_pretty(), Shapes::Plain)?;
    let options = DeleteOptions::from_call(call)?;
    let list_options = ListOptions::from_query(&call.query, false)?;
    let page = list::page(call, &list_options)?;
    let mut items: Vec<Value> = Vec::new();
    for stored in &page.items {
        match delete::object(call, &stored.key.name, &options).await {
            Ok((written, _)) => items.push(written.object(call)?),
            // Somebody else was faster: gone is gone.
            Err(status) if status.code == 404 => {}
            Err(status) => return Err(status),
        }
    }
    let list = json!({
        "kind": call.served.list_kind,
        "apiVersion": call.served.api_version(),
        "metadata": page.metadata(),
        "items": list::untyped(call, items),
    });
    respond::value(answer.encoding, StatusCode::OK, &list)
}
