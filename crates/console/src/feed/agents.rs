//! How do decisions of agents come in?
//!
//! Agents serve them at `/decisions`. One after the other is asked, so many in a second that a
//! small cluster is asked every second and a large one in turn. An agent that does not answer has
//! no decisions to show; its node stays on all pages.

use std::time::Duration;

use api::protocol::endpoint::agent;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::Request;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::Feed;
use crate::model::decisions::AgentPage;

const DECISIONS: &str = "/decisions";
/// Between two rounds, and how many agents are asked in one.
const ROUND: Duration = Duration::from_secs(1);
const ASKED: usize = 32;
/// How long an agent may take, and how much it may say.
const PATIENCE: Duration = Duration::from_secs(2);
const LONGEST: usize = 4 << 20;

/// Where agents are.
#[derive(Debug, Clone, Default)]
pub enum Agents {
    /// Nobody is asked.
    #[default]
    Nowhere,
    /// This node's, here; others have none.
    One(AgentAt),
    /// Each at its node's address, at this port.
    AtNodes { port: u16 },
}

impl Agents {
    /// Each at its node's address, at the usual port.
    pub fn at_nodes() -> Self {
        Self::AtNodes { port: agent::PORT }
    }
}

/// An agent and its address, `host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentAt {
    pub node: String,
    pub address: String,
}

#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error("cannot connect to {address}")]
    Connect { address: String, source: std::io::Error },
    #[error("cannot speak to the agent")]
    Http(#[from] hyper::Error),
    #[error("the agent answers {0}")]
    Status(hyper::StatusCode),
    #[error("the answer cannot be read: {0}")]
    Body(String),
    #[error("the request cannot be made")]
    Request(#[from] hyper::http::Error),
    #[error("no answer in time")]
    Late,
}

pub(super) async fn follow(feed: Feed, agents: Agents, shutdown: CancellationToken) {
    let mut rounds = interval(ROUND);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = String::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = rounds.tick() => {}
        }
        let next = match &agents {
            Agents::Nowhere => return shutdown.cancelled().await,
            Agents::One(one) => vec![one.clone()],
            Agents::AtNodes { port } => next(&feed, &last, *port),
        };
        last = next.last().map(|one| one.node.clone()).unwrap_or_default();
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = ask_all(&feed, next) => {}
        }
    }
}

/// The nodes after `last`, around the end and back.
fn next(feed: &Feed, last: &str, port: u16) -> Vec<AgentAt> {
    feed.look(|world| {
        let known = |(node, address): (&str, Option<&str>)| {
            let address = address?;
            let host =
                if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
            Some(AgentAt { node: node.to_owned(), address: format!("{host}:{port}") })
        };
        let after = world.addresses().filter(|(node, _)| *node > last).filter_map(known);
        let mut next: Vec<AgentAt> = after.take(ASKED).collect();
        let room = ASKED - next.len();
        let before = world.addresses().filter(|(node, _)| *node <= last).filter_map(known);
        next.extend(before.take(room));
        next
    })
}

async fn ask_all(feed: &Feed, agents: Vec<AgentAt>) {
    let mut asked = JoinSet::new();
    for agent in agents {
        asked.spawn(async move {
            let answer = timeout(PATIENCE, ask(&agent.address)).await;
            (agent, answer.unwrap_or(Err(AskError::Late)))
        });
    }
    while let Some(Ok((agent, answer))) = asked.join_next().await {
        match answer {
            Ok(page) => {
                let is_new = feed.look(|world| world.agent(&agent.node) != Some(&page));
                if is_new {
                    feed.change(|world| world.put_agent(&agent.node, page));
                }
            }
            Err(error) => {
                debug!(node = agent.node, %error, "an agent tells nothing of its decisions");
                if feed.look(|world| world.agent(&agent.node).is_some()) {
                    feed.change(|world| world.remove_agent(&agent.node));
                }
            }
        }
    }
}

async fn ask(address: &str) -> Result<AgentPage, AskError> {
    let stream = TcpStream::connect(address)
        .await
        .map_err(|source| AskError::Connect { address: address.to_owned(), source })?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get(DECISIONS).header(HOST, address).body(Empty::<Bytes>::new())?;
    let answer = async {
        let response = sender.send_request(request).await?;
        if !response.status().is_success() {
            return Err(AskError::Status(response.status()));
        }
        let body = Limited::new(response.into_body(), LONGEST).collect().await;
        let body = body.map_err(|error| AskError::Body(error.to_string()))?.to_bytes();
        serde_json::from_slice(&body).map_err(|error| AskError::Body(error.to_string()))
    };
    tokio::select! {
        answer = answer => answer,
        ended = connection => match ended {
            Ok(()) => Err(AskError::Body("the agent hung up".to_owned())),
            Err(error) => Err(error.into()),
        },
    }
}
