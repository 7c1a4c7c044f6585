//! `tidepool install`: what a cluster needs for Tidepool to run there.
//!
//! Nothing is changed here: what is printed is for `kubectl apply`. The chart is the only description
//! of an installation, so Helm makes the same objects of the same values.

use std::path::PathBuf;

use anyhow::Context;
use chart::values::{self, Reading};
use chart::{Chart, Release, manifest};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::input::Text;
use crate::{Outcome, output};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print the custom resource definitions as YAML for `kubectl apply`
    ///
    /// They have the names, groups and storage versions of an existing
    /// Koordinator install and can be applied over it; stored objects stay.
    #[command(after_help = CRD_EXAMPLES)]
    Crds,
    Manifests(Manifests),
}

const CRD_EXAMPLES: &str = "\
Examples:
  tidepool install crds | kubectl apply --server-side -f -
  tidepool install crds > crds.yaml";

/// Print everything that Tidepool consists of in a cluster as YAML for `kubectl apply`
///
/// The objects are those of `helm template` with the same values. Over an existing install use
/// `--set configMaps.managed=false`, or its configuration is replaced by the default.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Manifests {
    /// Values file, of this chart or of Koordinator's; later ones win
    #[arg(short = 'f', long = "values", value_name = "FILE")]
    values: Vec<PathBuf>,
    /// A single value, as path.to.it=VALUE
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// The same, taken as text even if it looks like a number
    #[arg(long, value_name = "PATH=VALUE")]
    set_string: Vec<String>,
    /// Namespace to install into, as --set installation.namespace
    #[arg(short, long)]
    namespace: Option<String>,
    /// Name of the installation, for its labels
    #[arg(long, default_value = chart::NAME)]
    release: String,
}

const EXAMPLES: &str = "\
Examples:
  tidepool install manifests | kubectl apply --server-side -f -
  tidepool install manifests -f values.yaml --set manager.replicas=3 > tidepool.yaml";

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        match self {
            Self::Crds => output::print(&api::kind::yaml())?,
            Self::Manifests(manifests) => output::print(&manifests.render()?)?,
        }
        Ok(Outcome::Done)
    }
}

impl Manifests {
    fn render(&self) -> anyhow::Result<String> {
        let chart = Chart::embedded()?;
        let values = self.values()?;
        for (path, nearest) in values::unknown(chart.defaults(), &values) {
            let hint = nearest.map(|nearest| format!("; did you mean {nearest}?"));
            eprintln!("warning: {path} is no value of the chart{}", hint.unwrap_or_default());
        }
        let release = Release { name: self.release.clone(), ..Release::default() };
        Ok(manifest::print(&chart.render(&values, &release)?))
    }

    fn values(&self) -> anyhow::Result<Value> {
        let mut values = json!({});
        for file in &self.values {
            let Text { name, text } = Text::read(file)?;
            let read: Value = serde_saphyr::from_str(&text)
                .with_context(|| format!("cannot read values from {name}"))?;
            match read {
                // A file without a word sets nothing.
                Value::Null => {}
                Value::Object(_) => values = values::layered(&values, &read),
                _ => anyhow::bail!("{name}: values are a map"),
            }
        }
        let texts =
            self.set_string.iter().map(|argument| (argument, Reading::Text, "--set-string"));
        let typed = self.set.iter().map(|argument| (argument, Reading::Typed, "--set"));
        for (argument, reading, flag) in typed.chain(texts) {
            values::set(&mut values, argument, reading).context(flag)?;
        }
        if let Some(namespace) = &self.namespace {
            let named = json!({ "installation": { "namespace": namespace } });
            values = values::layered(&values, &named);
        }
        Ok(values)
    }
}
