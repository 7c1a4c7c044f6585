//! `tidepool install`: what a cluster needs before Tidepool can run there.

use clap::Subcommand;

use crate::{Outcome, output};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print the custom resource definitions as YAML for `kubectl apply`
    ///
    /// They have the names, groups and storage versions of an existing
    /// Koordinator install and can be applied over it; stored objects stay.
    #[command(after_help = EXAMPLES)]
    Crds,
}

const EXAMPLES: &str = "\
Examples:
  tidepool install crds | kubectl apply --server-side -f -
  tidepool install crds > crds.yaml";

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        match self {
            Self::Crds => output::print(&api::kind::yaml())?,
        }
        Ok(Outcome::Done)
    }
}
