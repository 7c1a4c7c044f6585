//! `tidepool bench`: what does it cost, measured on this machine?

mod agent;
mod api;

use clap::Subcommand;

use crate::Outcome;

/// Measure Tidepool on this machine
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Agent(agent::Arguments),
    Api(api::Arguments),
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        match self {
            Self::Agent(arguments) => arguments.run(),
            Self::Api(arguments) => arguments.run(),
        }
    }
}
