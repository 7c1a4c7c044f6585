//! How does `kubectl logs` reach the node that ran the container?
//!
//! Server and node are one process here, so the server's question becomes a call.

use apiserver::http::{LogError, LogRequest, LogSource, LogStream};
use cluster::node::{self, LogOptions, Logs, StreamChoice};
use futures_util::future::BoxFuture;

/// Answers for the containers of one node.
#[derive(Debug)]
pub(super) struct NodeLogs {
    pub(super) node: String,
    pub(super) logs: Logs,
}

impl LogSource for NodeLogs {
    fn open(&self, request: LogRequest) -> BoxFuture<'static, Result<LogStream, LogError>> {
        let opened = self.find(&request);
        Box::pin(async move { opened })
    }
}

impl NodeLogs {
    fn find(&self, request: &LogRequest) -> Result<LogStream, LogError> {
        let LogRequest { pod, container, .. } = request;
        if request.node != self.node {
            let words = format!("pod {pod:?} is on node {:?}, which keeps no logs", request.node);
            return Err(LogError::NotFound(words));
        }
        let options = LogOptions {
            follow: request.follow,
            previous: request.previous,
            tail_lines: request.tail_lines,
            since: request.since,
            timestamps: request.timestamps,
            limit_bytes: request.limit_bytes,
            streams: StreamChoice::All,
        };
        self.logs.open(&request.uid, container, options).map_err(|error| {
            LogError::BadRequest(match error {
                node::LogError::NotStarted { .. } => {
                    format!("container {container:?} in pod {pod:?} is waiting to start")
                }
                node::LogError::NoPrevious { .. } => {
                    format!("previous terminated container {container:?} in pod {pod:?} not found")
                }
            })
        })
    }
}
