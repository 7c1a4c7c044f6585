//! Is the server alive and ready?

use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;

use super::query::Query;
use super::respond;

/// What is looked at; each can be asked for by itself below its parent path.
const CHECKS: [&str; 3] = ["ping", "log", "store"];

/// `/healthz`, `/livez`, `/readyz`, and one check below them.
pub(super) fn check(path: &str, query: &Query) -> Response {
    let text =
        |code, text: String| respond::bytes(code, "text/plain; charset=utf-8", Bytes::from(text));
    match path.split_once('/') {
        Some((_, check)) if CHECKS.contains(&check) => text(StatusCode::OK, "ok".to_owned()),
        Some(_) => text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
        None if query.get("verbose").is_some() => {
            let lines: String = CHECKS.iter().map(|check| format!("[+]{check} ok\n")).collect();
            text(StatusCode::OK, format!("{lines}{path} check passed\n"))
        }
        None => text(StatusCode::OK, "ok".to_owned()),
    }
}
