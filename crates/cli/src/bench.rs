//! `tidepool bench`: what does it cost, measured on this machine?

mod agent;
mod api;
mod burn;
mod cluster;
mod manager;
mod process;
mod progress;
mod react;
mod scheduler;
mod webhook;

use std::time::Duration;

use clap::Subcommand;

use crate::Outcome;

/// Measure Tidepool on this machine
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Agent(agent::Arguments),
    Api(api::Arguments),
    #[command(subcommand)]
    Cluster(cluster::Command),
    Manager(manager::Arguments),
    React(react::Arguments),
    Scheduler(scheduler::Arguments),
    #[command(hide = true)]
    Burn(burn::Arguments),
    /// The server that `bench api` measures, as a process of its own
    #[command(hide = true)]
    ApiServer(api::server::Arguments),
    Webhook(webhook::Arguments),
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        match self {
            Self::Agent(arguments) => arguments.run(),
            Self::Api(arguments) => arguments.run(),
            Self::Cluster(command) => command.run(),
            Self::Manager(arguments) => arguments.run(),
            Self::React(arguments) => arguments.run(),
            Self::Scheduler(arguments) => arguments.run(),
            Self::Burn(arguments) => arguments.run(),
            Self::ApiServer(arguments) => arguments.run(),
            Self::Webhook(arguments) => arguments.run(),
        }
    }
}

/// The smallest of sorted times that so many of a thousand do not exceed.
pub(crate) fn percentile(sorted: &[Duration], per_mille: usize) -> Option<Duration> {
    let rank = sorted.len().saturating_mul(per_mille).div_ceil(1_000).max(1);
    sorted.get(rank - 1).copied()
}

/// Milliseconds at a percentile of times in any order; 0 without any.
fn percentile_ms(times: &[Duration], per_mille: usize) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    percentile(&sorted, per_mille).unwrap_or_default().as_secs_f64() * 1e3
}
