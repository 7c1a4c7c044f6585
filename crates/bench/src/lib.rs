//! `tidepool bench`: what does it cost, measured on this machine?

mod agent;
mod api;
mod burn;
mod cluster;
mod interrupt;
mod manager;
mod process;
mod progress;
mod react;
mod report;
mod scheduler;
mod webhook;

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use clap::Subcommand;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

/// Measure Tidepool on this machine
#[derive(Debug, Subcommand)]
pub enum Command {
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
    /// Measures and prints; `false` when what was measured is not right.
    pub fn run(self) -> anyhow::Result<bool> {
        match self {
            Self::Agent(arguments) => arguments.run()?,
            Self::Api(arguments) => arguments.run()?,
            Self::Cluster(command) => command.run()?,
            Self::Manager(arguments) => arguments.run()?,
            Self::React(arguments) => arguments.run()?,
            Self::Scheduler(arguments) => return arguments.run(),
            Self::Burn(arguments) => arguments.run()?,
            Self::ApiServer(arguments) => arguments.run()?,
            Self::Webhook(arguments) => arguments.run()?,
        }
        Ok(true)
    }
}

/// A client that says its name.
async fn connect(kubeconfig: Option<&Path>, name: &'static str) -> anyhow::Result<Client> {
    let mut config = match kubeconfig {
        Some(path) => {
            let read = Kubeconfig::read_from(path)?;
            kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?
        }
        None => kube::Config::infer()
            .await
            .context("no cluster to measure; name one with --kubeconfig")?,
    };
    config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static(name)));
    Ok(Client::try_from(config)?)
}

/// The smallest of sorted times that so many of a thousand do not exceed.
pub fn percentile(sorted: &[Duration], per_mille: usize) -> Option<Duration> {
    let rank = sorted.len().saturating_mul(per_mille).div_ceil(1_000).max(1);
    sorted.get(rank - 1).copied()
}

/// Milliseconds at a percentile of times in any order; 0 without any.
fn percentile_ms(times: &[Duration], per_mille: usize) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    percentile(&sorted, per_mille).unwrap_or_default().as_secs_f64() * 1e3
}
