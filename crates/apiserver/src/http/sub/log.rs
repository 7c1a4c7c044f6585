//! `pods/NAME/log`: what a container has written.
//!
//! The server checks the question; the node that ran the container answers it through a
//! [`LogSource`].

use std::fmt::Debug;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::http::call::Call;
use crate::http::query::Query;
use crate::http::server::object_of;
use crate::http::status::{Cause, Status};
use crate::http::{meta, respond};

/// Pieces of a log, as they come.
pub type LogStream = BoxStream<'static, std::io::Result<Bytes>>;

/// Whoever keeps the output of containers.
pub trait LogSource: Debug + Send + Sync {
    fn open(&self, request: LogRequest) -> BoxFuture<'static, Result<LogStream, LogError>>;
}

/// Which part of which container's output is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRequest {
    pub namespace: String,
    pub pod: String,
    pub uid: String,
    pub node: String,
    pub container: String,
    /// Go on until the container ends.
    pub follow: bool,
    /// Of the container before the last restart.
    pub previous: bool,
    pub timestamps: bool,
    /// Only lines written after this moment.
    pub since: Option<Timestamp>,
    pub tail_lines: Option<u64>,
    pub limit_bytes: Option<u64>,
}

/// Why there is no log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// Nobody here ran that container.
    #[error("{0}")]
    NotFound(String),
    /// There is nothing yet, or no longer.
    #[error("{0}")]
    BadRequest(String),
    #[error("{0}")]
    Internal(String),
}

pub(super) async fn read(call: &Call) -> Result<Response, Status> {
    let stored = call.server.store().get(&call.key()?);
    let stored = stored.ok_or_else(|| Status::not_found(call.subject()))?;
    let pod = object_of(&stored, &call.served)?;
    let now = call.server.options().clock.now();
    let request = request(&call.query, &pod, now)?;
    let plain = |body: Body| respond::body(StatusCode::OK, "text/plain", body);
    if request.node.is_empty() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let Some(source) = call.server.log_source() else {
        return Err(Status::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            format!("no node of this server keeps the log of pod {:?}", request.pod),
        ));
    };
    match source.open(request).await {
        Ok(stream) => Ok(plain(Body::from_stream(stream))),
        Err(LogError::NotFound(why)) => Err(Status::new(StatusCode::NOT_FOUND, "NotFound", why)),
        Err(LogError::BadRequest(why)) => Err(Status::bad_request(why)),
        Err(LogError::Internal(why)) => Err(Status::internal(why)),
    }
}

fn request(query: &Query, pod: &Value, now: Timestamp) -> Result<LogRequest, Status> {
    let name = meta::name(pod);
    let mut causes = Vec::new();
    let mut count = |field: &'static str, least: i64| -> Result<Option<u64>, Status> {
        let Some(value) = query.integer(field)? else { return Ok(None) };
        if value < least {
            let why = match least {
                0 => "must be greater than or equal to 0".to_owned(),
                _ => format!("must be greater than {}", least - 1),
            };
            causes.push(Cause::invalid(field, &json!(value), why));
        }
        Ok(u64::try_from(value).ok())
    };
    let tail_lines = count("tailLines", 0)?;
    let limit_bytes = count("limitBytes", 1)?;
    let since_seconds = count("sinceSeconds", 1)?;
    let since_time = query.get("sinceTime").filter(|text| !text.is_empty());
    if since_seconds.is_some() && since_time.is_some() {
        let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        causes.push(Cause::forbidden("[]", why));
    }
    if !causes.is_empty() {
        return Err(Status::invalid("", "PodLogOptions", name, causes));
    }
    let since = match (since_seconds, since_time) {
        (Some(seconds), _) => {
            let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
            now.checked_sub(jiff::SignedDuration::from_secs(seconds)).ok()
        }
        (None, Some(text)) => Some(text.parse().map_err(|_| {
            Status::bad_request(format!("sinceTime {text:?} is not an RFC 3339 timestamp"))
        })?),
        (None, None) => None,
    };
    let text = |path: &str| pod.pointer(path).and_then(Value::as_str).unwrap_or_default();
    Ok(LogRequest {
        namespace: meta::namespace(pod).to_owned(),
        pod: name.to_owned(),
        uid: meta::uid(pod).to_owned(),
        node: text("/spec/nodeName").to_owned(),
        container: container(query.get("container").unwrap_or_default(), pod)?,
        follow: query.flag("follow").unwrap_or(false),
        previous: query.flag("previous").unwrap_or(false),
        timestamps: query.flag("timestamps").unwrap_or(false),
        since,
        tail_lines,
        limit_bytes,
    })
}

fn container(asked: &str, pod: &Value) -> Result<String, Status> {
    let names = |field: &str| -> Vec<&str> {
        let list = pod.pointer(&format!("/spec/{field}")).and_then(Value::as_array);
        let list = list.into_iter().flatten();
        list.filter_map(|container| container.get("name").and_then(Value::as_str)).collect()
    };
    let main = names("containers");
    let pod_name = meta::name(pod);
    if asked.is_empty() {
        return match main.as_slice() {
            [only] => Ok((*only).to_owned()),
            [] => Err(Status::bad_request(format!(
                "a container name must be specified for pod {pod_name}"
            ))),
            many => Err(Status::bad_request(format!(
                "a container name must be specified for pod {pod_name}, choose one of: [{}]",
                many.join(" ")
            ))),
        };
    }
    let known = main.contains(&asked)
        || names("initContainers").contains(&asked)
        || names("ephemeralContainers").contains(&asked);
    if known {
        return Ok(asked.to_owned());
    }
    Err(Status::bad_request(format!("container {asked} is not valid for pod {pod_name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(text: &str) -> Result<LogRequest, (u16, String)> {
        let pod = json!({
            "metadata": {"name": "p", "namespace": "n"},
            "spec": {"nodeName": "n1", "containers": [{"name": "a"}], "initContainers": [{"name": "i"}]},
        });
        let now = Timestamp::from_second(1000).unwrap();
        request(&Query::parse(text), &pod, now).map_err(|status| (status.code, status.message))
    }

    #[test]
    fn parameters_are_read_and_checked() {
        let got = ask("follow=true&tailLines=5&sinceSeconds=10&timestamps=1").unwrap();
        assert_eq!((got.container.as_str(), got.follow, got.tail_lines), ("a", true, Some(5)));
        assert_eq!(got.since, Timestamp::from_second(990).ok());
        assert_eq!(ask("container=i").unwrap().container, "i");
        assert_eq!(ask("container=x"), Err((400, "container x is not valid for pod p".into())));
        for (text, code) in [
            ("tailLines=-1", 422),
            ("limitBytes=0", 422),
            ("sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", 422),
            ("sinceTime=yesterday", 400),
            ("tailLines=x", 400),
        ] {
            assert_eq!(ask(text).unwrap_err().0, code, "{text}");
        }
    }
}
