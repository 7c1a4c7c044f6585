//! `tidepool config`: is this configuration right, and what does a node get from it?

mod check;
mod show;

use clap::Subcommand;

use crate::{Outcome, object};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Check(check::Arguments),
    Show(show::Arguments),
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        match self {
            Self::Check(arguments) => arguments.run(),
            Self::Show(arguments) => object::run(arguments.run()),
        }
    }
}
