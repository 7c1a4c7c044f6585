//! `tidepool bench`: what does it cost, measured on this machine?

mod api;
mod webhook;

use clap::Subcommand;

use crate::Outcome;

/// Measure Tidepool on this machine
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Api(api::Arguments),
    Webhook(webhook::Arguments),
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        match self {
            Self::Api(arguments) => arguments.run(),
            Self::Webhook(arguments) => arguments.run(),
        }
    }
}
