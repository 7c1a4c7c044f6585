//! `tidepool delete`: remove the objects that files name.

use std::path::PathBuf;

use anyhow::Context;
use api::document;
use clap::Args;
use http::Method;

use super::Cluster;
use crate::input::Text;
use crate::{Outcome, output};

/// Delete the objects that files name
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Files with objects, YAML or JSON; - reads standard input
    #[arg(short, long = "filename", required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Let the server check everything and delete nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    cluster: Cluster,
}

const EXAMPLES: &str = "\
Examples:
  tidepool delete -f deployment.yaml
  tidepool delete -f deployment.yaml --dry-run";

impl Arguments {
    pub(crate) async fn run(self) -> anyhow::Result<Outcome> {
        let mut objects = Vec::new();
        for path in &self.files {
            let text = Text::read(path)?;
            let found = document::objects(&text.text).with_context(|| text.name.clone())?;
            objects.extend(found);
        }
        let session = self.cluster.connect().await?;
        let mut outcome = Outcome::Done;
        for object in &objects {
            let (kind, path) = session.locate(object)?;
            let query = if self.dry_run { path + "?dryRun=All" } else { path };
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            match session.send(Method::DELETE, &query, "application/json", Vec::new()).await {
                Ok(_) => {
                    let dry = if self.dry_run { " (dry run)" } else { "" };
                    output::print(&format!("{}/{name} deleted{dry}\n", kind.display()))?;
                }
                Err(error) => {
                    outcome = Outcome::Findings;
                    eprintln!("tidepool: {}: {error:#}", document::object_name(object));
                }
            }
        }
        Ok(outcome)
    }
}
