//! `tidepool off` and `tidepool on`: take this machine's hands off the kernel, and put them back. With
//! `--cluster`, those of all machines.

mod cluster;

use std::path::PathBuf;
use std::sync::Arc;

use agent::act::switch::{Off, Restoration, turn_off, turn_on};
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
struct Scope {
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

impl Scope {
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
    scope: Scope,
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
    scope: Scope,
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
        if self.scope.is_everywhere {
            let wanted = Wanted::Off { reason: self.reason };
            let turn = cluster::turn(&self.scope.cluster, wanted, self.json, self.dry_run);
            return object::run(turn);
        }
        let dir = self.scope.resolve()?;
        if self.dry_run {
            let held = agent::act::switch::held_places(&dir)?;
            let lines: String =
                held.iter().map(|place| format!("would give back {place}\n")).collect();
            output::print(&format!("{lines}would turn off acting in {}\n", dir.display()))?;
            return Ok(Outcome::Done);
        }
        let host: Arc<dyn HostFs> = Arc::new(RealFs::new(Mounts::host()));
        let tree = Tree::find(host).context("the control groups of this host cannot be read")?;
        let off = Off::new(self.reason);
        let restoration = turn_off(&dir, &tree, &dir.join("agent.lock"), &off)?;
        match self.json {
            true => output::print_as(output::Format::Json, &restoration)?,
            false => output::print(&text(&restoration))?,
        }
        let is_done = restoration.left.is_empty() && !restoration.is_unanswered;
        Ok(if is_done { Outcome::Done } else { Outcome::Findings })
    }
}

impl OnArguments {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        if self.scope.is_everywhere {
            let turn = cluster::turn(&self.scope.cluster, Wanted::On, false, self.dry_run);
            return object::run(turn);
        }
        let dir = self.scope.resolve()?;
        if self.dry_run {
            output::print(&format!("would turn on acting in {}\n", dir.display()))?;
            return Ok(Outcome::Done);
        }
        let was_off = turn_on(&dir)?;
        output::print(if was_off { "on\n" } else { "on already\n" })?;
        Ok(Outcome::Done)
    }
}

fn text(restoration: &Restoration) -> String {
    let Restoration { held, left, by_agent, is_unanswered } = restoration;
    let who = if *by_agent { "the agent" } else { "tidepool, because no agent runs" };
    let restored = held.saturating_sub(left.len());
    let mut text = match (restored, left.len()) {
        _ if *is_unanswered => {
            "off is asked for, but the agent that runs here does not answer and may still act; \
             end it, and run `tidepool off` again\n"
                .to_owned()
        }
        (0, 0) => "off; nothing had been changed\n".to_owned(),
        (_, 0) => format!("off; {restored} kernel files were given back by {who}\n"),
        (_, left) => {
            format!("off; {restored} kernel files were given back by {who}, {left} are left:\n")
        }
    };
    for left in left {
        text.push_str(&format!("  {} is {}, found was {}\n", left.place, left.now, left.found));
    }
    text
}

#[cfg(test)]
mod tests {
    use agent::act::switch::Leftover;

    use super::*;

    #[test]
    fn what_is_left_is_counted_and_named() {
        let leftover = Leftover {
            place: "qdisc:eth0".to_owned(),
            found: "absent".to_owned(),
            now: "htb".to_owned(),
        };
        let nothing =
            Restoration { held: 0, left: Vec::new(), by_agent: false, is_unanswered: false };
        let all = Restoration { held: 3, by_agent: true, ..nothing.clone() };
        let some = Restoration { held: 3, left: vec![leftover], ..nothing.clone() };
        let cases = [
            (nothing, "off; nothing had been changed\n"),
            (all, "off; 3 kernel files were given back by the agent\n"),
            (
                some,
                "off; 2 kernel files were given back by tidepool, because no agent runs, 1 are left:\n  \
                 qdisc:eth0 is htb, found was absent\n",
            ),
        ];
        for (restoration, want) in cases {
            assert_eq!(text(&restoration), want);
        }
    }
}
