//! How do decisions of agents come in?
//!
//! Agents serve them at `/decisions`. One after the other is asked, so many in a second that a
//! small cluster is asked every second and a large one in turn. An agent that does not answer has
//! no decisions to show; its node stays on all pages. Those who reach no node let the API server ask.

use std::time::Duration;

use api::decisions::Page;
use api::protocol::endpoint::agent::{self, DECISIONS};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::Request;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use kube::Client;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::Feed;

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
    /// One, at this address; it says whose it is. Other nodes have none.
    At(String),
    /// Each at its node's address, at this port.
    AtNodes { port: u16 },
    /// Each at this port of its node, through the API server.
    Through { port: u16 },
}

impl Agents {
    /// Each at its node's address, at the usual port.
    pub fn at_nodes() -> Self {
        Self::AtNodes { port: agent::PORT }
    }

    /// Each at the usual port of its node, through the API server: for those who reach no node.
    pub fn through() -> Self {
        Self::Through { port: agent::PORT }
    }
}

/// An agent that is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    /// `None` before it said so.
    node: Option<String>,
    place: Place,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// `host:port`.
    Address(String),
    /// A path of the API server.
    Path(String),
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
    #[error("the API server does not pass the question on")]
    Api(#[from] kube::Error),
    #[error("no answer in time")]
    Late,
}

pub(super) async fn follow(
    feed: Feed,
    client: Client,
    agents: Agents,
    shutdown: CancellationToken,
) {
    let mut rounds = interval(ROUND);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = None;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = rounds.tick() => {}
        }
        let next = match &agents {
            Agents::Nowhere => {
                feed.set_heard();
                return shutdown.cancelled().await;
            }
            Agents::At(address) => {
                vec![Asked { node: last, place: Place::Address(address.clone()) }]
            }
            Agents::AtNodes { port } => next(&feed, last.as_deref(), |node, address| {
                Some(Asked { node: Some(node.to_owned()), place: beside(address?, *port) })
            }),
            Agents::Through { port } => next(&feed, last.as_deref(), |node, _| behind(node, *port)),
        };
        last = next.last().and_then(|one| one.node.clone());
        tokio::select! {
            () = shutdown.cancelled() => return,
            heard = ask_all(&feed, &client, next) => last = last.or(heard),
        }
        feed.set_heard();
    }
}

fn beside(address: &str, port: u16) -> Place {
    Place::Address(match address.contains(':') {
        true => format!("[{address}]:{port}"),
        false => format!("{address}:{port}"),
    })
}

/// `None` for a name that has no place in a path.
fn behind(node: &str, port: u16) -> Option<Asked> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    let path = format!("/api/v1/nodes/{node}:{port}/proxy{DECISIONS}");
    let asked = Asked { node: Some(node.to_owned()), place: Place::Path(path) };
    node.bytes().all(is_plain).then_some(asked)
}

/// The nodes after `last`, around the end and back.
fn next(
    feed: &Feed,
    last: Option<&str>,
    known: impl Fn(&str, Option<&str>) -> Option<Asked>,
) -> Vec<Asked> {
    feed.look(|world| {
        let is_after = |node: &str| last.is_none_or(|last| node > last);
        let known = |(node, address): (&str, Option<&str>)| known(node, address);
        let after = world.addresses().filter(|(node, _)| is_after(node)).filter_map(&known);
        let mut next: Vec<Asked> = after.take(ASKED).collect();
        let room = ASKED - next.len();
        let before = world.addresses().filter(|(node, _)| !is_after(node)).filter_map(&known);
        next.extend(before.take(room));
        next
    })
}

/// Asks agents at the same time; the last node that answered.
async fn ask_all(feed: &Feed, client: &Client, agents: Vec<Asked>) -> Option<String> {
    let mut asked = JoinSet::new();
    for agent in agents {
        let client = client.clone();
        asked.spawn(async move {
            let answer = timeout(PATIENCE, async {
                match &agent.place {
                    Place::Address(address) => ask(address).await,
                    Place::Path(path) => pass_on(&client, path).await,
                }
            });
            let answer = answer.await.unwrap_or(Err(AskError::Late));
            (agent.node, answer)
        });
    }
    let mut heard = None;
    while let Some(Ok((node, answer))) = asked.join_next().await {
        match answer {
            Ok(page) => {
                let node = node.unwrap_or_else(|| page.node.clone());
                let is_new = feed.look(|world| world.agent(&node) != Some(&page));
                if is_new {
                    feed.change(|world| world.put_agent(&node, page));
                }
                heard = Some(node);
            }
            Err(error) => {
                debug!(node, %error, "an agent tells nothing of its decisions");
                if let Some(node) = node
                    && feed.look(|world| world.agent(&node).is_some())
                {
                    feed.change(|world| world.remove_agent(&node));
                }
            }
        }
    }
    heard
}

/// The API server asks for us.
async fn pass_on(client: &Client, path: &str) -> Result<Page, AskError> {
    let text = client.request_text(Request::get(path).body(Vec::new())?).await?;
    serde_json::from_str(&text).map_err(|error| AskError::Body(error.to_string()))
}

async fn ask(address: &str) -> Result<Page, AskError> {
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
