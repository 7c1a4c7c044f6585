//! OpenAPI documents: what `kubectl explain` and client-side checks read.
//!
//! The index names each document with its hash, so that clients keep what they have as long as it
//! is current.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use super::query::Query;
use super::respond;
use super::status::Status;
use objects::schema::openapi::{Document, OpenApi};

/// Which document is asked for.
pub(super) enum Ask<'a> {
    Version2,
    Index,
    /// `api/v1`, `apis/apps/v1`
    Version3(&'a str),
}

/// Answers with a document; `None` if there is no such.
pub(super) fn serve(
    documents: &OpenApi,
    ask: &Ask<'_>,
    headers: &HeaderMap,
    query: &Query,
) -> Result<Option<Response>, Status> {
    if !accepts_json(headers) {
        return Err(Status::not_acceptable(&["application/json"]));
    }
    let (document, path) = match ask {
        Ask::Version2 => (documents.version_2(), "/openapi/v2".to_owned()),
        Ask::Index => (documents.index(), "/openapi/v3".to_owned()),
        Ask::Version3(path) => match documents.version_3(path) {
            Some(document) => (document, format!("/openapi/v3/{path}")),
            None => return Ok(None),
        },
    };
    Ok(Some(answer(document, &path, headers, query.get("hash"))))
}

/// Only JSON is produced; old clients that read nothing but protobuf go without.
fn accepts_json(headers: &HeaderMap) -> bool {
    let Some(header) = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()) else {
        return true;
    };
    header.is_empty()
        || header.split(',').any(|clause| {
            let kind = clause.split(';').next().unwrap_or_default().trim();
            matches!(kind, "*/*" | "application/*" | "application/json")
        })
}

fn answer(document: &Document, path: &str, headers: &HeaderMap, hash: Option<&str>) -> Response {
    let tag = format!("\"{}\"", document.hash);
    if let Some(hash) = hash
        && hash != document.hash
    {
        let place = format!("{path}?hash={}", document.hash);
        return (StatusCode::MOVED_PERMANENTLY, [(header::LOCATION, place)]).into_response();
    }
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    if known == Some(tag.as_str()) {
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response();
    }
    let body = Bytes::from_owner(document.json.clone());
    let mut response = respond::bytes(StatusCode::OK, "application/json", body);
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    if hash.is_some() {
        let keep = HeaderValue::from_static("public, immutable");
        headers.insert(header::CACHE_CONTROL, keep);
    }
    response
}
