//! How is a collection listed?
//!
//! A list is a page of a snapshot. The continue token names the snapshot's revision and the last
//! object sent, so all pages of one list show the same moment, until that moment is no longer
//! remembered. Objects nobody needs to look into are sent as the bytes they are stored as.

mod token;
mod untyped;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream;
use serde::Serialize;
use serde_json::{Value, json};

use self::token::Token;
use super::call::Call;
use super::kinds::Storage;
use super::negotiate::{self, Answer, Shapes, View};
use super::query::{ListOptions, Match};
use super::select::Filter;
use super::server::object_of;
use super::status::Status;
use super::{convert, respond, table};
use crate::store::{Expired, Revision, Snapshot, Stored};

/// Answers are sent in pieces of about this many bytes.
const CHUNK: usize = 64 << 10;

/// One page of a list.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) items: Vec<Stored>,
    revision: Revision,
    next: Option<String>,
    remaining: Option<usize>,
}

/// `metav1.ListMeta`
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListMeta {
    resource_version: String,
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_item_count: Option<usize>,
}

impl Page {
    pub(super) fn metadata(&self) -> ListMeta {
        ListMeta {
            resource_version: self.revision.to_string(),
            next: self.next.clone(),
            remaining_item_count: self.remaining,
        }
    }
}

/// Reads a `resourceVersion` parameter; empty and `0` name no revision.
pub(super) fn revision(text: &str) -> Result<Option<Revision>, Status> {
    match text {
        "" | "0" => Ok(None),
        _ => text.parse().map(|number| Some(Revision(number))).map_err(|_| {
            Status::bad_request(format!(
                "invalid resource version: resourceVersion: Invalid value: {text:?}: \
                 strconv.ParseUint: parsing {text:?}: invalid syntax"
            ))
        }),
    }
}

pub(super) fn list(call: &Call) -> Result<Response, Status> {
    let answer = negotiate::accept(&call.headers, call.is_pretty(), Shapes::Many)?;
    let options = ListOptions::from_query(&call.query, false)?;
    let page = page(call, &options)?;
    if answer == Answer::default() && convert::is_verbatim(&call.served) {
        return verbatim(call, page);
    }
    let objects = page
        .items
        .iter()
        .map(|stored| object_of(stored, &call.served))
        .collect::<Result<Vec<Value>, Status>>()?;
    let list = match answer.view {
        View::Table(version) => table::of_list(call, &objects, version, &page.metadata())?,
        View::Metadata(version) => json!({
            "kind": "PartialObjectMetadataList",
            "apiVersion": format!("meta.k8s.io/{version}"),
            "metadata": page.metadata(),
            "items": objects
                .iter()
                .map(|object| respond::metadata_only(object, version))
                .collect::<Vec<Value>>(),
        }),
        View::Object | View::Discovery(_) => json!({
            "kind": call.served.list_kind,
            "apiVersion": call.served.api_version(),
            "metadata": page.metadata(),
            "items": untyped(call, objects),
        }),
    };
    respond::value(answer.encoding, StatusCode::OK, &list)
}

/// Takes from the items what the list says for all of them.
pub(super) fn untyped(call: &Call, mut objects: Vec<Value>) -> Vec<Value> {
    for fields in objects.iter_mut().filter_map(Value::as_object_mut) {
        if !call.served.traits.custom {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
    }
    objects
}

/// The filter of a list or watch, with the path's name as one more condition.
pub(super) fn filter(call: &Call, options: &ListOptions) -> Result<Filter, Status> {
    Filter::parse(&options.label_selector, &options.field_selector, &call.served.fields)
}

/// The objects that answer the options.
pub(super) fn page(call: &Call, options: &ListOptions) -> Result<Page, Status> {
    let Storage::Stored { .. } = &call.served.storage else {
        return Err(Status::method_not_allowed());
    };
    let filter = filter(call, options)?;
    let (snapshot, token) = start(call, options)?;
    let limit = options.limit.unwrap_or(usize::MAX);
    let candidates: Box<dyn Iterator<Item = Stored>> = match &token {
        Some(token) => Box::new(snapshot.after(&token.namespace, &token.name)),
        None => Box::new(snapshot.iter()),
    };
    let mut items = Vec::new();
    let mut more = false;
    for stored in candidates.filter(|stored| filter.matches(&stored.key, &stored.json)) {
        if items.len() == limit {
            more = true;
            break;
        }
        items.push(stored);
    }
    let last = items.last().filter(|_| more).map(|stored| stored.key.clone());
    let next = last.as_ref().map(|key| Token::after(snapshot.revision, key).to_string());
    let remaining = last
        .filter(|_| filter.is_empty())
        .map(|key| snapshot.count_after(&key.namespace, &key.name));
    Ok(Page { items, revision: snapshot.revision, next, remaining })
}

/// Finds the snapshot to list from, and the place in it to go on from.
fn start(call: &Call, options: &ListOptions) -> Result<(Snapshot, Option<Token>), Status> {
    let Storage::Stored { collection, .. } = &call.served.storage else {
        return Err(Status::method_not_allowed());
    };
    let store = call.server.store();
    let namespace = call.target.namespace.as_deref();
    let latest = || store.list(collection, namespace);
    if !options.next.is_empty() {
        if !matches!(options.resource_version.as_str(), "" | "0") {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let token: Token = options.next.parse()?;
        let Some(at) = token.revision else { return Ok((latest(), Some(token))) };
        return match store.snapshot_at(collection, at) {
            Ok(snapshot) => Ok((snapshot.within(namespace), Some(token))),
            Err(_) => Err(Status::expired_continue(Token { revision: None, ..token }.to_string())),
        };
    }
    let Some(asked) = revision(&options.resource_version)? else { return Ok((latest(), None)) };
    // A limit without a stated match means exactly that revision, for old clients.
    let exact = options.resource_version_match == Some(Match::Exact)
        || (options.resource_version_match.is_none() && options.limit.is_some());
    if exact {
        return match store.snapshot_at(collection, asked) {
            Ok(snapshot) => Ok((snapshot.within(namespace), None)),
            Err(Expired::Future { current }) => {
                Err(Status::too_large_resource_version(asked.0, current.0))
            }
            Err(Expired::Compacted { .. }) => {
                Err(Status::expired("The resourceVersion for the provided list is too old."))
            }
        };
    }
    let snapshot = latest();
    if asked > snapshot.revision {
        return Err(Status::too_large_resource_version(asked.0, snapshot.revision.0));
    }
    Ok((snapshot, None))
}

/// Sends stored bytes, joined as they leave.
fn verbatim(call: &Call, page: Page) -> Result<Response, Status> {
    let head = json!({"kind": call.served.list_kind, "apiVersion": call.served.api_version()});
    let metadata = serde_json::to_string(&page.metadata())
        .map_err(|error| Status::internal(error.to_string()))?;
    let mut start = BytesMut::from(head.to_string().trim_end_matches('}').as_bytes());
    start.put_slice(b",\"metadata\":");
    start.put_slice(metadata.as_bytes());
    start.put_slice(b",\"items\":[");
    // Custom resources name their kind wherever they are.
    let typed = call.served.traits.custom;
    let state = Some((start, page.items.into_iter(), true, call.served.clone()));
    let chunks = stream::unfold(state, move |state| async move {
        let (mut chunk, mut items, mut first, served) = state?;
        loop {
            let Some(stored) = items.next() else {
                chunk.put_slice(b"]}\n");
                return Some((Ok::<Bytes, std::convert::Infallible>(chunk.freeze()), None));
            };
            if !first {
                chunk.put_u8(b',');
            }
            first = false;
            if typed && !convert::fits(&served, &stored.json) {
                let object = object_of(&stored, &served).unwrap_or_default();
                chunk.put_slice(object.to_string().as_bytes());
            } else if typed {
                chunk.put_slice(&stored.json);
            } else {
                untyped::pieces(&stored.json).iter().for_each(|piece| chunk.put_slice(piece));
            }
            if chunk.len() >= CHUNK {
                let full = chunk.freeze();
                return Some((Ok(full), Some((BytesMut::new(), items, first, served))));
            }
        }
    });
    Ok(respond::body(StatusCode::OK, "application/json", Body::from_stream(chunks)))
}
