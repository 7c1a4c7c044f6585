//! How does a case play an admission webhook?
//!
//! One TLS server on loopback serves all cases; each hook has a path of its own and answers every
//! review in the way its line says:
//!
//! | answer | meaning |
//! |---|---|
//! | `allow` | yes |
//! | `deny TEXT` | no, with this message |
//! | `refuse {..}` | no, with this status |
//! | `patch [..]` | yes, with these JSON patch operations |
//! | `warn TEXT` | yes, with a warning |
//! | `fail` | HTTP 500 |
//! | `garbage` | text that is no review |
//! | `hang` | no answer |

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::service_fn;

use super::pattern::yaml;
use crate::loopback::{Loopback, LoopbackError};

/// The webhooks of a run.
#[derive(Debug, Clone)]
pub struct Hooks {
    loopback: Arc<Loopback>,
    board: Board,
}

type Board = Arc<Mutex<BTreeMap<String, Hook>>>;

#[derive(Debug)]
struct Hook {
    answer: String,
    seen: VecDeque<Value>,
}

impl Hooks {
    /// Starts the server.
    pub async fn start() -> Result<Self, LoopbackError> {
        let board = Board::default();
        let handle = board.clone();
        let service = service_fn(move |request| answer(handle.clone(), request));
        Ok(Self { loopback: Arc::new(Loopback::start(service).await?), board })
    }

    /// Makes a hook answer in a way, from now on; returns its address.
    pub(super) fn set(&self, path: &str, answer: &str) -> String {
        let hook = Hook { answer: answer.to_owned(), seen: VecDeque::new() };
        self.board.lock().insert(path.to_owned(), hook);
        format!("https://127.0.0.1:{}{path}", self.loopback.port)
    }

    /// The authority that configurations must name.
    pub(super) fn authority(&self) -> String {
        STANDARD.encode(&self.loopback.authority)
    }

    /// The oldest review that nobody asked for yet.
    pub(super) fn next(&self, path: &str) -> Option<Value> {
        self.board.lock().get_mut(path)?.seen.pop_front()
    }

    /// Forgets what a hook has seen.
    pub(super) fn forget(&self, path: &str) {
        if let Some(hook) = self.board.lock().get_mut(path) {
            hook.seen.clear();
        }
    }
}

async fn answer(
    board: Board,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let uid = review["request"]["uid"].clone();
    let script = {
        let mut board = board.lock();
        board.get_mut(&path).map(|hook| {
            hook.seen.push_back(review);
            hook.answer.clone()
        })
    };
    let script = script.unwrap_or_else(|| "fail".to_owned());
    let (verb, rest) = script.split_once(' ').unwrap_or((script.as_str(), ""));
    let reply = |response: Value| {
        let mut response = response;
        response["uid"] = uid;
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
        });
        Bytes::from(review.to_string())
    };
    let bytes = match verb {
        "allow" => reply(json!({"allowed": true})),
        "deny" => reply(json!({"allowed": false, "status": {"message": rest}})),
        "refuse" => reply(json!({"allowed": false, "status": yaml(rest).unwrap_or_default()})),
        "warn" => reply(json!({"allowed": true, "warnings": [rest]})),
        "patch" => {
            let operations = yaml(rest).unwrap_or_default().to_string();
            let patch = STANDARD.encode(operations);
            reply(json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
        }
        "garbage" => Bytes::from_static(b"moo"),
        "hang" => std::future::pending().await,
        _ => {
            let mut refusal = Response::new(Full::new(Bytes::from_static(b"out of order")));
            *refusal.status_mut() = hyper::StatusCode::INTERNAL_SERVER_ERROR;
            return Ok(refusal);
        }
    };
    let mut response = Response::new(Full::new(bytes));
    response.headers_mut().insert(
        hyper::header::CONTENT_TYPE,
        hyper::header::HeaderValue::from_static("application/json"),
    );
    Ok(response)
}
