//! A server in this process and the ways to talk to it.

use apiserver::http::{ApiServer, Options, router};
use apiserver::store::{Limits, Store};
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use serde_json::Value;
use tower::ServiceExt;

pub(crate) struct Rig {
    pub(crate) client: Client,
    pub(crate) server: ApiServer,
    router: Router,
}

/// An answer to a raw request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// Code, reason and message of a failure.
    pub(crate) fn failure(&self) -> (u16, String, String) {
        let status = self.json();
        let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
        assert_eq!(status["kind"], "Status", "{status}");
        assert_eq!(status["code"], self.code.as_u16(), "{status}");
        (self.code.as_u16(), text("reason"), text("message"))
    }
}

pub(crate) async fn rig() -> Rig {
    rig_with(Options::default(), Limits::default()).await
}

pub(crate) async fn rig_with(options: Options, limits: Limits) -> Rig {
    let store = Store::in_memory(limits).expect("a writer thread can be started");
    rig_over(ApiServer::start(store, options).await)
}

pub(crate) fn rig_over(server: ApiServer) -> Rig {
    let router = router(server.clone());
    Rig { client: Client::new(router.clone(), "default"), server, router }
}

impl Rig {
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.expect("routers do not fail");
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.expect("the body ends").to_bytes();
        Answer {
            code: parts.status,
            headers: parts.headers,
            text: String::from_utf8(bytes.to_vec()).expect("answers are text"),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn get_as(&self, path: &str, accept: &str) -> Answer {
        let request = Request::get(path).header("accept", accept);
        self.send(request.body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Request::delete(path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        let request = Request::post(path).header("content-type", "application/json");
        self.send(request.body(Body::from(body.to_string())).unwrap()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        let request = Request::put(path).header("content-type", "application/json");
        self.send(request.body(Body::from(body.to_string())).unwrap()).await
    }
}
