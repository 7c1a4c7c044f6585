//! How is co-location turned off and on by a person?
//!
//! By an annotation of the Node, which its agent obeys. The console has no right to write it: it
//! sends the patch with the token of whoever presses the switch, so the API server decides who may.
//! The token comes in the `Authorization` header, is used for this one request and is neither kept
//! nor logged.
//!
//! A page of another origin cannot press it: the request needs a header of our own, which makes
//! browsers ask first, and we never agree; it needs a token that no browser sends by itself; and an
//! `Origin` that is not ours is refused.
//!
//! Pressing twice is harmless: a node that is off already is told so again and counted apart.

use api::metadata::node::NodeSwitch;
use api::protocol::node::SWITCH;
use axum::Json;
use axum::extract::State;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::config::AuthInfo;
use kube::{Api, Client};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::{info, warn};

use super::Shown;

/// Only scripts of our own origin can send it.
const OWN_HEADER: &str = "x-tidepool-console";
/// Nodes that are told at the same time.
const AT_ONCE: usize = 16;
/// Failures that are named.
const NAMED: usize = 20;

/// The way to the API server, without anyone's rights.
#[derive(Clone)]
pub struct Door(kube::Config);

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Door").field(&self.0.cluster_url).finish()
    }
}

impl Door {
    /// Forgets whose configuration it was.
    pub fn new(mut config: kube::Config) -> Self {
        config.auth_info = AuthInfo::default();
        Self(config)
    }

    fn open(&self, token: &str) -> Result<Client, Refusal> {
        let mut config = self.0.clone();
        config.auth_info = serde_json::from_value(json!({ "token": token }))
            .map_err(|_| Refusal::Token("the token cannot be used"))?;
        Client::try_from(config).map_err(|_| Refusal::Token("the token cannot be used"))
    }
}

/// What is wanted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Press {
    /// One node; all of them when it is absent.
    node: Option<String>,
    off: bool,
}

/// What came of it.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Pressed {
    off: bool,
    changed: usize,
    already: usize,
    failed: usize,
    /// The first of those that failed, and why.
    failures: Vec<Failure>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Failure {
    node: String,
    error: String,
}

/// Why nothing was done.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    NoSwitch,
    Foreign,
    Token(&'static str),
    Unknown,
    Api(StatusCode, String),
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, error) = match self {
            Self::NoSwitch => (StatusCode::NOT_FOUND, "this console has no switch".to_owned()),
            Self::Foreign => (
                StatusCode::FORBIDDEN,
                "the switch can be pressed from the console only".to_owned(),
            ),
            Self::Token(error) => (StatusCode::UNAUTHORIZED, error.to_owned()),
            Self::Unknown => (StatusCode::NOT_FOUND, "there is no such node".to_owned()),
            Self::Api(status, error) => (status, error),
        };
        (status, Json(json!({ "error": error }))).into_response()
    }
}

pub(super) async fn press(
    State(shown): State<Shown>,
    headers: HeaderMap,
    Json(wanted): Json<Press>,
) -> Response {
    match turn(&shown, &headers, wanted).await {
        Ok(pressed) => Json(pressed).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

async fn turn(shown: &Shown, headers: &HeaderMap, wanted: Press) -> Result<Pressed, Refusal> {
    let door = shown.door.as_ref().ok_or(Refusal::NoSwitch)?;
    if !headers.contains_key(OWN_HEADER) || !is_same_origin(headers) {
        return Err(Refusal::Foreign);
    }
    let api: Api<Node> = Api::all(door.open(token(headers)?)?);
    let mut nodes: Vec<(String, bool)> = shown
        .feed
        .published()
        .rows
        .iter()
        .map(|row| {
            let name = row.name.clone();
            let is_off = shown.feed.look(|world| world.is_off(&name));
            (name, is_off == wanted.off)
        })
        .collect();
    if let Some(node) = &wanted.node {
        nodes.retain(|(name, _)| name == node);
        if nodes.is_empty() {
            return Err(Refusal::Unknown);
        }
    }
    let mut pressed = Pressed { off: wanted.off, ..Pressed::default() };
    let mut nodes = nodes.into_iter();
    // The first answer tells whether the token is good; nobody else is asked when it is not.
    if let Some((name, is_already)) = nodes.next() {
        let result = tell(&api, &name, wanted.off).await;
        if let Err((status, error)) = &result
            && matches!(*status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
        {
            warn!(%status, "the off switch was pressed with a token that is not accepted");
            return Err(Refusal::Api(*status, error.clone()));
        }
        pressed.count(name, is_already, result);
    }
    let mut rest = futures::stream::iter(nodes.map(|(name, is_already)| {
        let api = &api;
        async move {
            let result = tell(api, &name, wanted.off).await;
            (name, is_already, result)
        }
    }))
    .buffer_unordered(AT_ONCE);
    while let Some((name, is_already, result)) = rest.next().await {
        pressed.count(name, is_already, result);
    }
    let Pressed { off, changed, already, failed, .. } = pressed;
    info!(off, changed, already, failed, "the off switch was pressed");
    Ok(pressed)
}

impl Pressed {
    fn count(&mut self, node: String, is_already: bool, result: Result<(), (StatusCode, String)>) {
        match result {
            Ok(()) if is_already => self.already += 1,
            Ok(()) => self.changed += 1,
            Err((_, error)) => {
                self.failed += 1;
                if self.failures.len() < NAMED {
                    self.failures.push(Failure { node, error });
                }
            }
        }
    }
}

/// Writes the annotation, or takes it away.
async fn tell(api: &Api<Node>, node: &str, off: bool) -> Result<(), (StatusCode, String)> {
    let value = if off { json!(NodeSwitch::Off) } else { Value::Null };
    let patch = json!({ "metadata": { "annotations": { (SWITCH.name): value } } });
    let result = api.patch_metadata(node, &PatchParams::default(), &Patch::Merge(&patch)).await;
    result.map(|_| ()).map_err(|error| match error {
        kube::Error::Api(status) => {
            let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::BAD_GATEWAY);
            (code, status.message.clone())
        }
        _ => (StatusCode::BAD_GATEWAY, "the API server cannot be reached".to_owned()),
    })
}

fn token(headers: &HeaderMap) -> Result<&str, Refusal> {
    let value = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = value.and_then(|value| value.strip_prefix("Bearer ")).map(str::trim);
    token.filter(|token| !token.is_empty()).ok_or(Refusal::Token("the switch needs a token"))
}

/// Browsers say where a page that sends something comes from.
fn is_same_origin(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return true };
    let (Ok(origin), Some(Ok(host))) =
        (origin.to_str(), headers.get(HOST).map(|host| host.to_str()))
    else {
        return false;
    };
    let name = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    name == Some(host)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(rows: &[(&'static str, &'static str)]) -> HeaderMap {
        let rows = rows
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
        rows.collect()
    }

    #[test]
    fn other_origins_are_told_apart() {
        for (name, rows, want) in [
            ("a program", &[("host", "localhost:1")][..], true),
            ("our page", &[("host", "localhost:1"), ("origin", "http://localhost:1")], true),
            ("another port", &[("host", "localhost:1"), ("origin", "http://localhost:2")], false),
            ("another site", &[("host", "localhost:1"), ("origin", "https://evil.example")], false),
            ("a sandbox", &[("host", "localhost:1"), ("origin", "null")], false),
        ] {
            assert_eq!(is_same_origin(&headers(rows)), want, "{name}");
        }
    }

    #[test]
    fn tokens_come_in_one_form() {
        assert_eq!(token(&headers(&[("authorization", "Bearer abc")])), Ok("abc"));
        for bad in ["Bearer ", "Bearer", "Basic abc", "abc", ""] {
            assert!(token(&headers(&[("authorization", bad)])).is_err(), "{bad:?}");
        }
        assert!(token(&HeaderMap::new()).is_err());
    }
}
