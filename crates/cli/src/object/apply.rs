//! `tidepool apply`: make the cluster agree with files, by server-side apply.

use std::path::PathBuf;

use anyhow::{Context, bail};
use api::document;
use clap::Args;
use http::Method;
use serde_json::Value;

use super::{Cluster, Session};
use crate::input::Text;
use crate::{Outcome, output};

/// Create or change objects as files say
///
/// The server merges the files with what others have set (server-side apply).
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Files with objects, YAML or JSON; - reads standard input
    #[arg(short, long = "filename", required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Take over fields that somebody else has set differently
    #[arg(long)]
    force_conflicts: bool,
    /// Let the server check everything and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    cluster: Cluster,
}

const EXAMPLES: &str = "\
Examples:
  tidepool install crds | tidepool apply -f -
  tidepool apply -f deployment.yaml --dry-run";

const FIELD_MANAGER: &str = "tidepool";

impl Arguments {
    pub(crate) async fn run(self) -> anyhow::Result<Outcome> {
        let mut objects = Vec::new();
        for path in &self.files {
            let text = Text::read(path)?;
            let found = document::objects(&text.text).with_context(|| text.name.clone())?;
            objects.extend(found);
        }
        if objects.is_empty() {
            bail!("the files hold no objects");
        }
        let session = self.cluster.connect().await?;
        let mut outcome = Outcome::Done;
        for object in &objects {
            match self.apply(&session, object).await {
                Ok(line) => output::print(&(line + "\n"))?,
                Err(error) => {
                    outcome = Outcome::Findings;
                    eprintln!("tidepool: {}: {error:#}", document::object_name(object));
                }
            }
        }
        Ok(outcome)
    }

    async fn apply(&self, session: &Session, object: &Value) -> anyhow::Result<String> {
        let (kind, path) = session.locate(object)?;
        let before = session.ask(&path, "application/json").await;
        let query = format!(
            "{path}?fieldManager={FIELD_MANAGER}&force={}{}",
            self.force_conflicts,
            if self.dry_run { "&dryRun=All" } else { "" },
        );
        let body = serde_json::to_vec(object)?;
        let after =
            session.send(Method::PATCH, &query, "application/apply-patch+yaml", body).await?;
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        let done = match before {
            Err(_) => "created",
            Ok(before) if version(&before) == version(&after) => "unchanged",
            Ok(_) => "configured",
        };
        let name = after["metadata"]["name"].as_str().unwrap_or_default();
        let dry = if self.dry_run { " (dry run)" } else { "" };
        Ok(format!("{}/{name} {done}{dry}", kind.display()))
    }
}
