//! What does the agent serve? Metrics, health and the audit log, on one port.

use std::time::Instant;

use api::protocol::endpoint::agent::{
    DECISIONS, EVENTS, EXTERNAL_METRICS, INTERNAL_METRICS, METRICS,
};
use api::protocol::metric::Endpoint;
use axum::Router;
use axum::extract::{Query, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use reconcile::listen::{self, Limits};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::act::Journal;
use crate::audit::{Audit, PageError, Record};
use crate::exposition::Exposition;
use crate::health::Health;

const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4";

/// What the endpoints show.
#[derive(Debug, Clone)]
pub struct Shown {
    pub metrics: Exposition,
    pub health: Health,
    /// `None` serves no `/events`.
    pub audit: Option<Audit>,
    /// What was decided, and why.
    pub journal: Journal,
}

/// Serves until shutdown.
pub async fn serve(listener: TcpListener, shown: Shown, shutdown: CancellationToken) {
    listen::serve_router(listener, None, router(shown), Limits::of_pages(), shutdown).await;
}

fn router(shown: Shown) -> Router {
    let metrics = |endpoint: Option<Endpoint>| {
        get(move |State(shown): State<Shown>| async move {
            ([(CONTENT_TYPE, PROMETHEUS_TEXT)], shown.metrics.text(endpoint))
        })
    };
    Router::new()
        .route(METRICS, metrics(None))
        .route(INTERNAL_METRICS, metrics(Some(Endpoint::Internal)))
        .route(EXTERNAL_METRICS, metrics(Some(Endpoint::External)))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route(EVENTS, get(events))
        .route(DECISIONS, get(decisions))
        .with_state(shown)
}

async fn healthz(State(shown): State<Shown>) -> (StatusCode, String) {
    let stuck = shown.health.stuck(Instant::now());
    if stuck.is_empty() {
        return (StatusCode::OK, "ok\n".to_owned());
    }
    let lines = stuck.iter().map(|(name, age)| format!("{name} stuck for {} s\n", age.as_secs()));
    (StatusCode::INTERNAL_SERVER_ERROR, lines.collect())
}

async fn readyz(State(shown): State<Shown>) -> (StatusCode, String) {
    let is_ready = shown.health.lacking().is_empty();
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, shown.health.report())
}

async fn decisions(State(shown): State<Shown>) -> Response {
    let body = serde_json::to_string(&shown.journal.page()).unwrap_or_default();
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventsQuery {
    size: Option<String>,
    page_token: Option<String>,
}

/// The reference's spelling.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct EventsPage<'p> {
    #[serde(skip_serializing_if = "Option::is_none")]
    next_page_token: Option<&'p str>,
    events: Vec<&'p Record>,
}

async fn events(
    State(shown): State<Shown>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Response {
    let Some(audit) = &shown.audit else {
        let text = "switched off; turn on with --feature-gates=AuditEvents=true,AuditEventsHTTPHandler=true\n";
        return (StatusCode::NOT_FOUND, text).into_response();
    };
    let size = match query.size.as_deref().map(str::parse) {
        None => None,
        Some(Ok(size)) if size > 0 => Some(size),
        Some(_) => {
            return (StatusCode::BAD_REQUEST, "size must be a whole number above 0\n")
                .into_response();
        }
    };
    let token = query.page_token.as_deref().filter(|token| !token.is_empty());
    let page = match audit.page(token, size, Instant::now()) {
        Ok(page) => page,
        Err(error) => {
            let status = match error {
                PageError::TooLarge { .. } => StatusCode::BAD_REQUEST,
                PageError::UnknownToken => StatusCode::CONFLICT,
            };
            return (status, format!("{error}\n")).into_response();
        }
    };
    let wants_json = headers.get(ACCEPT).is_some_and(|accept| accept == "application/json");
    if wants_json {
        let page = EventsPage {
            next_page_token: page.next.as_deref(),
            events: page.records.iter().map(AsRef::as_ref).collect(),
        };
        let body = serde_json::to_string(&page).unwrap_or_default();
        return ([(CONTENT_TYPE, "application/json")], body).into_response();
    }
    let lines =
        page.records.iter().filter_map(|record| serde_json::to_string(record.as_ref()).ok());
    let body: String = lines.map(|line| line + "\n").collect();
    match page.next {
        Some(token) => ([("Next-Page-Token", token)], body).into_response(),
        None => body.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt;
    use jiff::Timestamp;
    use tower::ServiceExt;

    use super::*;

    fn shown() -> Shown {
        let audit = Audit::new(crate::audit::Settings::default());
        for reason in ["a", "b", "c"] {
            audit.record(Record::node(Timestamp::UNIX_EPOCH, 1, reason, ""));
        }
        Shown {
            metrics: Exposition::new("n1"),
            health: Health::default(),
            audit: Some(audit),
            journal: Journal::new("n1"),
        }
    }

    async fn ask(shown: &Shown, path: &str, accept: &str) -> (StatusCode, HeaderMap, String) {
        let request = Request::get(path).header(ACCEPT, accept).body(Body::empty()).unwrap();
        let response = router(shown.clone()).oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (parts.status, parts.headers, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn readiness_and_health_are_different_questions() {
        let shown = shown();
        let part = shown.health.part("pods");
        part.lacks("kubelet: timeout");
        let (status, _, text) = ask(&shown, "/readyz", "*/*").await;
        assert_eq!(
            (status, text.as_str()),
            (StatusCode::SERVICE_UNAVAILABLE, "[-]pods kubelet: timeout\n")
        );
        assert_eq!(ask(&shown, "/healthz", "*/*").await.0, StatusCode::OK);
        part.ready();
        assert_eq!(ask(&shown, "/readyz", "*/*").await.0, StatusCode::OK);
    }

    #[tokio::test]
    async fn events_are_served_as_lines_and_as_json() {
        let shown = shown();
        let (status, headers, text) = ask(&shown, "/events?size=2", "*/*").await;
        assert_eq!((status, text.lines().count()), (StatusCode::OK, 2));
        let token = headers["next-page-token"].to_str().unwrap().to_owned();
        let (_, headers, text) =
            ask(&shown, &format!("/events?size=2&pageToken={token}"), "*/*").await;
        assert_eq!((text.lines().count(), headers.contains_key("next-page-token")), (1, false));

        let (_, _, json) = ask(&shown, "/events?size=2", "application/json").await;
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["Events"][0]["reason"], "c");
        assert!(json["NextPageToken"].is_string());
    }

    #[tokio::test]
    async fn decisions_are_served_with_their_reasons() {
        let shown = shown();
        let why = crate::act::Why {
            about: crate::act::NODE.to_owned(),
            resource: crate::act::Resource::Cpu,
            headline: "best-effort may use 5.4 of 16 CPUs".to_owned(),
            bound_by: "threshold".to_owned(),
            sum: crate::act::Sum::default().plus(units::MilliCpu(16_000), "capacity", ""),
        };
        shown.journal.decided("suppress", vec![why], Timestamp::UNIX_EPOCH);
        let (status, _, text) = ask(&shown, DECISIONS, "*/*").await;
        assert_eq!(status, StatusCode::OK);
        let page: api::decisions::Page = serde_json::from_str(&text).unwrap();
        assert_eq!(page, shown.journal.page());
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["decisions"][0]["boundBy"], "threshold");
        assert_eq!(json["decisions"][0]["lines"][0]["amount"], 16_000);
    }

    #[tokio::test]
    async fn bad_questions_are_refused() {
        let shown = shown();
        let cases = [
            ("/events?size=2049", StatusCode::BAD_REQUEST),
            ("/events?size=some", StatusCode::BAD_REQUEST),
            ("/events?size=0", StatusCode::BAD_REQUEST),
            ("/events?pageToken=nonsense", StatusCode::CONFLICT),
            ("/nothing", StatusCode::NOT_FOUND),
        ];
        for (path, want) in cases {
            assert_eq!(ask(&shown, path, "*/*").await.0, want, "{path}");
        }
        let silent = Shown { audit: None, ..shown };
        assert_eq!(ask(&silent, "/events", "*/*").await.0, StatusCode::NOT_FOUND);
    }

    #[tokio::test]
    async fn metrics_are_served_at_three_places() {
        let shown = shown();
        for path in [METRICS, INTERNAL_METRICS, EXTERNAL_METRICS] {
            let (status, headers, _) = ask(&shown, path, "*/*").await;
            assert_eq!(
                (status, headers[CONTENT_TYPE].to_str().unwrap()),
                (StatusCode::OK, PROMETHEUS_TEXT),
                "{path}"
            );
        }
    }
}
