//! `tidepool top`: the cluster on one screen of a terminal.
//!
//! The data is the console's ([`console::Feed`]); the screen is a state, messages and a view.
//! Without a terminal, or with `-o json`, it prints once and ends.

mod screen;
mod text;
mod view;

use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::Context;
use api::protocol::name::NAMESPACE;
use clap::{Args, ValueEnum};
use console::Feed;
use console::feed::{Agents, Settings};
use console::model::node::{NodePage, PodRow};
use console::model::overview::Overview;
use console::model::row::NodeRow;
use jiff::Timestamp;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use self::screen::{Flow, Screen, Tab};
use self::view::Palette;
use crate::object::Cluster;
use crate::{Outcome, output, state};

/// Show nodes, pods and CPUs of a cluster, live
///
/// Keys: 1 nodes, 2 pods, 3 or Enter the CPUs of the chosen node, / to search, Esc back, ? help,
/// q to quit. Prints once when the output is not a terminal.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// What to show first
    #[arg(value_enum, default_value_t = What::Nodes)]
    what: What,
    /// The node whose CPUs are shown
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Print once, for programs
    #[arg(short, long, value_enum)]
    output: Option<output::Format>,
    /// Print once, for people
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    cluster: Cluster,
}

const EXAMPLES: &str = "\
Examples:
  tidepool top
  tidepool top pods -o json";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    Nodes,
    Pods,
    /// Who owns each CPU of one node
    Cpus,
}

/// How long the first view may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a key is waited for before looking for news.
const LOOK: Duration = Duration::from_millis(200);

/// Everything that is shown, at one moment.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Snapshot {
    pub(crate) at: Timestamp,
    pub(crate) overview: Overview,
    pub(crate) nodes: Vec<NodeRow>,
    pub(crate) pods: Vec<PodRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<NodePage>,
}

impl Snapshot {
    fn take(feed: &Feed, node: Option<&str>) -> Self {
        let published = feed.published();
        let (pods, node) = feed.look(|world| {
            let node = node.and_then(|node| world.node_page(node, published.at));
            (world.pod_rows(), node)
        });
        Self {
            at: published.at,
            overview: published.overview.as_ref().clone(),
            nodes: published.rows.as_ref().clone(),
            pods,
            node,
        }
    }
}

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let session = runtime.block_on(self.cluster.connect())?;
        let (feed, shutdown) = (Feed::default(), CancellationToken::new());
        let settings = Settings {
            config_namespace: NAMESPACE.to_owned(),
            agents: self.agents()?,
            ledger: None,
        };
        let client = session.client().clone();
        let following = runtime.spawn(feed.clone().run(client, settings, shutdown.clone()));
        runtime.block_on(feed.until_listed(PATIENCE));
        runtime.block_on(feed.until_heard(PATIENCE));
        feed.publish(Timestamp::now());
        let result = self.show(&feed);
        shutdown.cancel();
        let _ = runtime.block_on(following);
        result
    }

    /// The agent of `tidepool up` says where it is; others are reached through the API server.
    fn agents(&self) -> anyhow::Result<Agents> {
        let Some(dir) = self.cluster.own()? else { return Ok(Agents::through()) };
        let address = std::fs::read_to_string(state::agent_address(&state::agent(&dir))).ok();
        Ok(address.map_or(Agents::Nowhere, |address| Agents::At(address.trim().to_owned())))
    }

    fn show(&self, feed: &Feed) -> anyhow::Result<Outcome> {
        let node =
            self.node.clone().or_else(|| feed.published().rows.first().map(|row| row.name.clone()));
        let node = node.filter(|_| self.what == What::Cpus || self.output.is_some());
        let snapshot = Snapshot::take(feed, node.as_deref());
        if let Some(name) = self.node.as_deref().filter(|_| snapshot.node.is_none()) {
            anyhow::ensure!(node.is_none(), "there is no node {name}");
        }
        if let Some(format) = self.output {
            output::print_as(format, &snapshot)?;
            return Ok(Outcome::Done);
        }
        let tab = match self.what {
            What::Nodes => Tab::Nodes,
            What::Pods => Tab::Pods,
            What::Cpus => Tab::Cpus,
        };
        let screen = Screen::new(snapshot, tab);
        if self.once || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            output::print(&text::page(&screen))?;
            return Ok(Outcome::Done);
        }
        live(feed, screen)
    }
}

/// Draws until somebody leaves.
fn live(feed: &Feed, mut screen: Screen) -> anyhow::Result<Outcome> {
    let palette = Palette::of(std::env::var_os("NO_COLOR").as_deref());
    let mut terminal = ratatui::try_init().context("the terminal cannot be used")?;
    let mut run = || -> anyhow::Result<()> {
        let mut shown = feed.published().version;
        loop {
            terminal.draw(|frame| view::draw(&screen, palette, frame))?;
            if event::poll(LOOK)?
                && let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
                && screen.key(key.code, key.modifiers) == Flow::Leave
            {
                return Ok(());
            }
            let version = feed.published().version;
            if version != shown || screen.wants_another_node() {
                shown = version;
                let node = screen.node().map(str::to_owned);
                screen.take(Snapshot::take(feed, node.as_deref()));
            }
        }
    };
    let result = run();
    // A terminal that is gone needs no repair.
    let _ = ratatui::try_restore();
    result.map(|()| Outcome::Done)
}

#[cfg(test)]
mod tests;
