//! What pages show, as JSON.
//!
//! Every answer has the version and the time of the view, and what could not be had.

use api::finding::Finding;
use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Shown;
use crate::feed::Kind;
use crate::model::benefit::Benefit;
use crate::model::decisions::{Entry, Filter};
use crate::model::row::{NodeRow, Sort, State as NodeState};
use crate::model::world::Keeping;
use crate::model::{PodFacts, PodKey};

/// Rows of a table that are sent at once.
const PAGE: usize = 100;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<T> {
    version: u64,
    at: Timestamp,
    /// Kinds that could not be listed yet.
    missing: Vec<Kind>,
    /// Whether there is a switch to press.
    has_switch: bool,
    data: T,
}

fn answer<T: Serialize>(shown: &Shown, data: T) -> Response {
    let published = shown.feed.published();
    Json(Envelope {
        version: published.version,
        at: published.at,
        missing: published.missing.clone(),
        has_switch: shown.door.is_some(),
        data,
    })
    .into_response()
}

fn absent(what: &str) -> Response {
    (StatusCode::NOT_FOUND, Json(json!({ "error": format!("there is no {what}") }))).into_response()
}

pub(super) async fn overview(State(shown): State<Shown>) -> Response {
    let published = shown.feed.published();
    answer(&shown, published.overview.as_ref())
}

/// Which part of a table is wanted.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Part {
    sort: Sort,
    state: Option<NodeState>,
    /// Anywhere in the name.
    text: String,
    class: String,
    page: usize,
}

/// A part of a table.
#[derive(Debug, Serialize)]
struct Table<'t, T> {
    /// Rows that fit the question, on all pages.
    total: usize,
    /// Rows without any question.
    all: usize,
    page: usize,
    pages: usize,
    rows: &'t [T],
}

fn part<T>(rows: &[T], all: usize, page: usize) -> Table<'_, T> {
    let pages = rows.len().div_ceil(PAGE).max(1);
    let page = page.min(pages - 1);
    let start = page.saturating_mul(PAGE);
    let end = start.saturating_add(PAGE).min(rows.len());
    let rows_of_page = rows.get(start..end).unwrap_or_default();
    Table { total: rows.len(), all, page, pages, rows: rows_of_page }
}

pub(super) async fn nodes(State(shown): State<Shown>, Query(wanted): Query<Part>) -> Response {
    let published = shown.feed.published();
    let mut rows: Vec<&NodeRow> = published
        .rows
        .iter()
        .filter(|row| wanted.state.is_none_or(|state| state == row.state))
        .filter(|row| row.name.contains(wanted.text.trim()))
        .collect();
    rows.sort_by(|a, b| wanted.sort.compare(a, b));
    answer(&shown, part(&rows, published.rows.len(), wanted.page))
}

pub(super) async fn node(State(shown): State<Shown>, Path(name): Path<String>) -> Response {
    match shown.feed.look(|world| world.node_page(&name, Timestamp::now())) {
        Some(page) => answer(&shown, page),
        None => absent("such node"),
    }
}

pub(super) async fn pods(State(shown): State<Shown>, Query(wanted): Query<Part>) -> Response {
    let text = wanted.text.trim();
    let admits = |key: &PodKey, pod: &PodFacts| {
        let has_text = [&key.namespace, &key.name, &pod.node].iter().any(|one| one.contains(text));
        let has_path = text.contains('/') && key.to_string().contains(text);
        let has_class = wanted.class.is_empty() || pod.qos.to_string() == wanted.class;
        has_class && (has_text || has_path)
    };
    let start = wanted.page.saturating_mul(PAGE);
    let (all, (total, rows)) = shown.feed.look(|world| {
        let part = start..start.saturating_add(PAGE);
        (world.pods_by_class().values().sum(), world.busiest_pods(admits, part))
    });
    let pages = total.div_ceil(PAGE).max(1);
    answer(&shown, Table { total, all, page: wanted.page.min(pages - 1), pages, rows: &rows })
}

pub(super) async fn pod(
    State(shown): State<Shown>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    let key = PodKey { namespace, name };
    match shown.feed.look(|world| world.pod_page(&key, Timestamp::now())) {
        Some(page) => answer(&shown, page),
        None => absent("such pod"),
    }
}

pub(super) async fn decisions(
    State(shown): State<Shown>,
    Query(filter): Query<Filter>,
) -> Response {
    let (entries, strategies, agents) = shown.feed.look(|world| {
        let entries: Vec<Entry> = world.log().find(&filter).take(2 * PAGE).cloned().collect();
        let mut strategies: Vec<String> =
            world.log().entries().map(|entry| entry.decided.strategy.clone()).collect();
        strategies.sort();
        strategies.dedup();
        let agents = world.node_names().filter(|name| world.agent(name).is_some()).count();
        (entries, strategies, agents)
    });
    answer(&shown, json!({ "entries": entries, "strategies": strategies, "agents": agents }))
}

/// A moment of the past; now when it is absent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Moment {
    at: Option<Timestamp>,
}

pub(super) async fn replay(
    State(shown): State<Shown>,
    Path(name): Path<String>,
    Query(moment): Query<Moment>,
) -> Response {
    match shown.feed.look(|world| world.replay(&name, moment.at, Timestamp::now())) {
        Some(replay) => answer(&shown, replay),
        None => absent("such node"),
    }
}

pub(super) async fn config(State(shown): State<Shown>) -> Response {
    let page = shown.feed.look(|world| world.config_page());
    answer(&shown, page)
}

/// What sharing brought, and whether that is remembered.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct BenefitPage {
    #[serde(flatten)]
    benefit: Benefit,
    is_kept: bool,
    finding: Option<Finding>,
}

pub(super) async fn benefit(State(shown): State<Shown>) -> Response {
    let batch = shown.feed.published().overview.batch;
    let page = shown.feed.look(|world| {
        let Keeping { is_kept, finding } = world.keeping().clone();
        let benefit = world.ledger().benefit(batch.lent, batch.used);
        BenefitPage { benefit, is_kept, finding }
    });
    answer(&shown, page)
}

pub(super) async fn metrics(State(shown): State<Shown>) -> Response {
    match crate::metrics::text(&shown.feed) {
        Ok(text) => ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}
