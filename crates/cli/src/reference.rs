//! `tidepool reference`: pages of `docs/reference`, for `cargo xtask docs`.

use clap::Subcommand;

use crate::{Outcome, output};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Every finding's code and meaning
    Findings,
    /// Every key and field of the ConfigMap with default and limits
    Configuration,
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        output::print(&match self {
            Self::Findings => api::finding::reference_page(),
            Self::Configuration => api::config::reference::page(),
        })?;
        Ok(Outcome::Done)
    }
}
