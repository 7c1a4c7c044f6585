//! The console of `tidepool up`: its port, its view and its pages.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use api::protocol::name::NAMESPACE;
use console::feed::{Agents, Settings};
use console::{Console, Door, Feed};
use futures_util::{FutureExt, TryFutureExt};
use kube::{Client, Config};
use tokio::net::TcpListener;

use super::components::Components;

/// The usual port; the next one after the API's.
pub(super) const PORT: u16 = 6481;

/// A port that is ours.
pub(super) struct Bound {
    listener: TcpListener,
    pub(super) url: String,
}

impl Bound {
    pub(super) async fn new(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).await.with_context(|| {
            format!(
                "the console cannot listen on {address}: is another program using the port? \
                 choose one with --console-port"
            )
        })?;
        let url = format!("http://{}", listener.local_addr()?);
        Ok(Self { listener, url })
    }

    /// Follows the cluster and serves it. `config` leads to the API; its rights are not used by
    /// the switch. `agent` is its address, `ledger` the file that outlives the process.
    pub(super) fn start(
        self,
        client: Client,
        config: Config,
        agent: Option<SocketAddr>,
        ledger: Option<PathBuf>,
        components: &mut Components,
    ) {
        let feed = Feed::default();
        let settings = Settings {
            config_namespace: NAMESPACE.to_owned(),
            agents: agent.map_or(Agents::Nowhere, |agent| Agents::At(agent.to_string())),
            ledger,
        };
        let view = feed.clone();
        components.start("console's view", |token| view.run(client, settings, token).map(Ok));
        let console = Console { feed, door: Some(Door::new(config)) };
        components.start("console", |token| console.serve(self.listener, token).err_into());
    }
}
