//! `tidepool bench`: what does it cost, measured on this machine?

mod agent;
mod api;
mod burn;
mod manager;
mod progress;
mod react;
mod scheduler;
mod webhook;

use clap::Subcommand;

use crate::Outcome;

/// Measure Tidepool on this machine
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Agent(agent::Arguments),
    Api(api::Arguments),
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
            Self::Manager(arguments) => arguments.run(),
            Self::React(arguments) => arguments.run(),
            Self::Scheduler(arguments) => arguments.run(),
            Self::Burn(arguments) => arguments.run(),
            Self::ApiServer(arguments) => arguments.run(),
            Self::Webhook(arguments) => arguments.run(),
        }
    }
}
