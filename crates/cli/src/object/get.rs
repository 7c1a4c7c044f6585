//! `tidepool get`: the table that the server draws, or the objects themselves.

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::{Cluster, Session, encode};
use crate::output::Format;
use crate::{Outcome, output};

/// Show objects of the cluster
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The kind, such as pods, deploy or nodemetrics
    kind: String,
    /// One object; all of them if not given
    name: Option<String>,
    /// Look in this namespace
    #[arg(short, long)]
    namespace: Option<String>,
    /// Look in all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Only objects with these labels
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// Print the objects themselves, or more columns
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Output>,
    #[command(flatten)]
    cluster: Cluster,
}

const EXAMPLES: &str = "\
Examples:
  tidepool get namespaces
  tidepool get configmaps -A -o json";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Json,
    Yaml,
    Wide,
}

impl Arguments {
    pub(crate) async fn run(self) -> anyhow::Result<Outcome> {
        let session = self.cluster.connect().await?;
        let path = self.path(&session)?;
        let format = match self.output {
            Some(Output::Json) => Some(Format::Json),
            Some(Output::Yaml) => Some(Format::Yaml),
            Some(Output::Wide) | None => None,
        };
        let accept = match format {
            Some(_) => "application/json",
            None => "application/json;as=Table;v=v1;g=meta.k8s.io",
        };
        let answer = session.ask(&path, accept).await?;
        match format {
            Some(format) => output::print_as(format, &answer)?,
            None => output::print(&self.table(&answer, &session))?,
        }
        Ok(Outcome::Done)
    }

    fn path(&self, session: &Session) -> anyhow::Result<String> {
        let kind = session
            .kinds
            .by_name(&self.kind)
            .with_context(|| format!("the cluster does not know {:?}", self.kind))?;
        let namespace = self.namespace.as_deref().unwrap_or(&session.namespace);
        let namespace = (!self.all_namespaces).then_some(namespace);
        let mut path = session.path(kind, namespace, self.name.as_deref());
        if let Some(selector) = &self.selector {
            path += &format!("?labelSelector={}", encode(selector));
        }
        Ok(path)
    }

    fn table(&self, answer: &Value, session: &Session) -> String {
        let columns = answer["columnDefinitions"].as_array().map_or(&[][..], Vec::as_slice);
        let wide = self.output == Some(Output::Wide);
        let shown: Vec<usize> = (0..columns.len())
            .filter(|&at| wide || columns[at]["priority"].as_i64().unwrap_or(0) == 0)
            .collect();
        let rows = answer["rows"].as_array().map_or(&[][..], Vec::as_slice);
        if rows.is_empty() {
            return match self.all_namespaces {
                true => "No resources found\n".to_owned(),
                false => format!("No resources found in {} namespace.\n", session.namespace),
            };
        }
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let mut header: Vec<String> =
            shown.iter().map(|&at| text(&columns[at]["name"]).to_uppercase()).collect();
        let mut lines: Vec<Vec<String>> = rows
            .iter()
            .map(|row| shown.iter().map(|&at| text(&row["cells"][at])).collect())
            .collect();
        if self.all_namespaces {
            header.insert(0, "NAMESPACE".to_owned());
            for (line, row) in lines.iter_mut().zip(rows) {
                line.insert(0, text(&row["object"]["metadata"]["namespace"]));
            }
        }
        output::lines(&header, &lines)
    }
}
