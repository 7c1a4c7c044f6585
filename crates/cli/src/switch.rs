//! `tidepool off` and `tidepool on`: take this machine's hands off the kernel, and put them back. With
//! `--cluster`, those of all machines.

mod cluster;

use std::path::PathBuf;
use std::sync::Arc;

use agent::act::switch::{Given, Off, turn_off, turn_on};
use anyhow::Context;
use clap::Args;
use host::cgroup::Tree;
use host::fs::{HostFs, Mounts, RealFs};

use self::cluster::Wanted;
use crate::object::{self, Cluster};
use crate::{Outcome, output, state};

/// Where `tidepool agent` keeps its ledger.
const AGENT_DIR: &str = "/var/lib/tidepool/agent";

#[derive(Debug, Args)]
struct Place {
    #[command(flatten)]
    cluster: Cluster,
    /// All nodes of the cluster instead of this machine
    #[arg(long = "cluster", conflicts_with = "agent_dir")]
    is_everywhere: bool,
    /// Directory of a `tidepool agent` [default: that of `tidepool up` where there is one, else
    /// /var/lib/tidepool/agent]
    #[arg(long, value_name = "DIR", conflicts_with = "state_dir")]
    agent_dir: Option<PathBuf>,
}

impl Place {
    /// The agent's directory.
    fn resolve(&self) -> anyhow::Result<PathBuf> {
        if let Some(dir) = &self.agent_dir {
            return Ok(dir.clone());
        }
        let state_dir = self.cluster.state_dir();
        let of_up = state::agent(&state_dir.resolve()?);
        let is_elsewhere = !of_up.exists() && std::path::Path::new(AGENT_DIR).exists();
        Ok(if is_elsewhere && !state_dir.is_named() { AGENT_DIR.into() } else { of_up })
    }
}

/// Take back everything that was changed on this machine, or on all of the cluster
///
/// Every kernel file gets the value that was found in it, within seconds, and every file is read to
/// be sure. Works with and without a running agent, and without an API server. The agent goes on
/// measuring and reporting, and changes nothing until `tidepool on`.
///
/// With --cluster every Node that there is now is annotated with tidepool.io/switch: off, which its
/// agent obeys; a machine that was turned off by hand stays off after `tidepool on --cluster`.
#[derive(Debug, Args)]
#[command(after_help = OFF_EXAMPLES)]
pub(crate) struct OffArguments {
    #[command(flatten)]
    place: Place,
    /// Why, for whoever finds the switch later
    #[arg(long, default_value = "")]
    reason: String,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Say what would be given back and change nothing
    #[arg(long)]
    dry_run: bool,
}

const OFF_EXAMPLES: &str = "\
Examples:
  tidepool off --reason 'latency incident'
  tidepool off --cluster --dry-run";

/// Let the agent of this machine act again, or all of the cluster
///
/// Takes up where `tidepool off` left, within a second of a running agent.
#[derive(Debug, Args)]
#[command(after_help = ON_EXAMPLES)]
pub(crate) struct OnArguments {
    #[command(flatten)]
    place: Place,
    /// Say what would be done and do nothing
    #[arg(long)]
    dry_run: bool,
}

const ON_EXAMPLES: &str = "\
Examples:
  tidepool on
  tidepool on --cluster";

impl OffArguments {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        if self.place.is_everywhere {
            let wanted = Wanted::Off { reason: self.reason };
            let turn = cluster::turn(&self.place.cluster, wanted, self.json, self.dry_run);
            return object::run(turn);
        }
        let dir = self.place.resolve()?;
        if self.dry_run {
            let held = agent::act::switch::held_places(&dir);
            let lines: String =
                held.iter().map(|place| format!("would give back {place}\n")).collect();
            output::print(&format!("{lines}would turn off acting in {}\n", dir.display()))?;
            return Ok(Outcome::Done);
        }
        let host: Arc<dyn HostFs> = Arc::new(RealFs::new(Mounts::host()));
        let tree = Tree::find(host).context("the control groups of this host cannot be read")?;
        let off = Off::new(self.reason);
        let given = turn_off(&dir, &tree, &dir.join("agent.lock"), &off)?;
        match self.json {
            true => output::print_as(output::Format::Json, &given)?,
            false => output::print(&text(&given))?,
        }
        let is_done = given.left.is_empty() && !given.is_unanswered;
        Ok(if is_done { Outcome::Done } else { Outcome::Findings })
    }
}

impl OnArguments {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        if self.place.is_everywhere {
            let turn = cluster::turn(&self.place.cluster, Wanted::On, false, self.dry_run);
            return object::run(turn);
        }
        let dir = self.place.resolve()?;
        if self.dry_run {
            output::print(&format!("would turn on acting in {}\n", dir.display()))?;
            return Ok(Outcome::Done);
        }
        let was_off = turn_on(&dir)?;
        output::print(if was_off { "on\n" } else { "on already\n" })?;
        Ok(Outcome::Done)
    }
}

fn text(given: &Given) -> String {
    let who = if given.by_agent { "the agent" } else { "tidepool, because no agent runs" };
    let mut text = match given.held {
        _ if given.is_unanswered => {
            "off is asked for, but the agent that runs here does not answer and may still act; \
             end it, and run `tidepool off` again\n"
                .to_owned()
        }
        0 => "off; nothing had been changed\n".to_owned(),
        held => format!("off; {held} kernel files were given back by {who}\n"),
    };
    for left in &given.left {
        text.push_str(&format!("  {} is {}, found was {}\n", left.place, left.now, left.found));
    }
    text
}
