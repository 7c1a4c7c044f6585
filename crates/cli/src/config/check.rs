//! `tidepool config check`: everything that is wrong with a configuration, at once.

use std::path::{Path, PathBuf};

use anyhow::Context;
use api::config::{Key, Options};
use api::document;
use api::finding::Finding;
use clap::Args;
use serde::Serialize;

use crate::input::Text;
use crate::{Outcome, output};

/// Check ConfigMaps and objects for mistakes
///
/// Takes the ConfigMap slo-controller-config as YAML or JSON, or the bare JSON
/// of one of its keys. Nodes, pods and custom resources in the same files are
/// checked for their labels and annotations. Every finding is reported with its
/// place, the rule and the way out.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Files to check; - reads standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The key whose bare JSON the files hold; guessed from file name and fields if not given
    #[arg(long, value_name = "KEY", value_parser = parse_key)]
    key: Option<Key>,
    /// Report errors only
    #[arg(long, conflicts_with = "strict")]
    no_warnings: bool,
    /// End with 1 for warnings, too
    #[arg(long)]
    strict: bool,
    /// Demand a name of its own for each node entry
    #[arg(long)]
    node_strategy_name_need_check: bool,
    /// Print findings as JSON
    #[arg(short, long, value_name = "FORMAT", value_parser = ["json"])]
    output: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  tidepool config check slo-controller-config.yaml
  kubectl get cm -n koordinator-system slo-controller-config -o yaml | tidepool config check -
  tidepool config check --key system-config system.json -o json

Exit codes: 0 no errors, 1 errors (with --strict also warnings), 2 a file cannot be read.";

fn parse_key(name: &str) -> Result<Key, String> {
    Key::from_name(name).ok_or_else(|| {
        format!(
            "not a key of slo-controller-config; use one of {}",
            Key::ALL.map(Key::name).join(", ")
        )
    })
}

/// A finding and the line of the file it points at, where that is known.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Located {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_line: Option<usize>,
    #[serde(flatten)]
    finding: Finding,
}

#[derive(Debug, Serialize)]
struct Report {
    findings: Vec<Located>,
    errors: usize,
    warnings: usize,
}

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        let mut findings = Vec::new();
        let mut readable = true;
        for path in &self.files {
            match Text::read(path).and_then(|text| self.check(path, &text)) {
                Ok(found) => findings.extend(found),
                Err(error) => {
                    readable = false;
                    eprintln!("tidepool: {error:#}");
                }
            }
        }
        findings.retain(|located| located.finding.is_error() || !self.no_warnings);
        findings.sort_by_key(|located| located.finding.severity);
        let errors = findings.iter().filter(|located| located.finding.is_error()).count();
        let report = Report { warnings: findings.len() - errors, findings, errors };
        if !readable && report.findings.is_empty() {
            return Ok(Outcome::Failed);
        }
        match self.output {
            Some(_) => output::print_as(output::Format::Json, &report)?,
            None => output::print(&self.for_people(&report))?,
        }
        let is_in_order = report.errors == 0 && (report.warnings == 0 || !self.strict);
        Ok(if readable { Outcome::of(is_in_order) } else { Outcome::Failed })
    }

    fn check(&self, path: &Path, text: &Text) -> anyhow::Result<Vec<Located>> {
        let options = Options { names_required: self.node_strategy_name_need_check };
        let named = path.file_stem().and_then(|stem| Key::from_name(stem.to_str()?));
        let key = self.key.or(named);
        let found = document::check(&text.name, &text.text, key, options)
            .with_context(|| text.name.clone())?;
        let located = |found: document::Located| Located {
            file: text.name.clone(),
            file_line: found.line,
            finding: found.finding,
        };
        Ok(found.into_iter().map(located).collect())
    }

    fn for_people(&self, report: &Report) -> String {
        let mut text = String::new();
        for Located { file, file_line, finding } in &report.findings {
            text += &format!("{finding}\n");
            if let Some(line) = file_line {
                text += &format!("  at {file}:{line}\n");
            }
            text.push('\n');
        }
        let files = match self.files.as_slice() {
            [one] if one == Path::new("-") => "standard input".to_owned(),
            [one] => one.display().to_string(),
            many => format!("{} files", many.len()),
        };
        text + &match (report.errors, report.warnings) {
            (0, 0) => format!("{files}: no findings\n"),
            (errors, warnings) => {
                format!("{files}: {}, {}\n", count(errors, "error"), count(warnings, "warning"))
            }
        }
    }
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
