//! `tidepool bench cluster`: how do binders compare on one and the same API server?
//!
//! Small commands, of which `cargo xtask bench-cluster` makes the comparison:
//!
//! ```text
//! fill --nodes 1000            nodes that are ready and run nothing
//! drive --pods 5000 -- BINDER  starts a binder, gives it pods, measures, ends it
//! bind                         such a binder: it decides nothing
//! clear                        takes everything away again
//! ```
//!
//! A binder is whatever gives pods their nodes: kube-scheduler, `tidepool scheduler`, or `bind`.

mod drive;
pub(super) mod null;
pub(super) mod objects;
pub(super) mod sight;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use kube::Client;

use crate::connect;

/// Compare schedulers on a cluster of your choice
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    Fill(Fill),
    Drive(drive::Arguments),
    Bind(Bind),
    Clear(Clear),
}

#[derive(Debug, Clone, Args)]
struct Target {
    /// Where the cluster is [default: the pod's service account, then $KUBECONFIG and ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl Target {
    async fn connect(&self) -> anyhow::Result<Client> {
        connect(self.kubeconfig.as_deref(), "tidepool-bench").await
    }
}

/// Make nodes that are ready and run nothing
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  tidepool bench cluster fill --kubeconfig ~/.local/state/tidepool/kubeconfig --nodes 100
  tidepool bench cluster fill --nodes 5000")]
pub struct Fill {
    #[command(flatten)]
    target: Target,
    /// How many; what is there counts
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
}

/// Bind every waiting pod of the bench to the next node, until it is ended
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  tidepool bench cluster bind --kubeconfig ~/.local/state/tidepool/kubeconfig
  tidepool bench cluster drive -- tidepool bench cluster bind")]
pub struct Bind {
    #[command(flatten)]
    target: Target,
}

/// Take the bench's nodes and pods away
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  tidepool bench cluster clear
  tidepool bench cluster clear --kubeconfig ~/.local/state/tidepool/kubeconfig")]
pub struct Clear {
    #[command(flatten)]
    target: Target,
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            match self {
                Self::Fill(Fill { target, nodes }) => {
                    objects::make_nodes(&target.connect().await?, nodes).await
                }
                Self::Drive(arguments) => arguments.run().await,
                Self::Bind(Bind { target }) => null::bind_for_ever(target.connect().await?).await,
                Self::Clear(Clear { target }) => {
                    let client = target.connect().await?;
                    objects::remove_pods(&client).await?;
                    objects::remove_nodes(&client).await
                }
            }
        })?;
        Ok(())
    }
}
