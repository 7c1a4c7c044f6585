//! `tidepool doctor`: what this kernel and host offer, and what their lacks cost.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use host::fs::{FakeFs, HostFs, Mounts, RealFs};
use host::probe::{Area, Facts, Live, Met, Need, Requirement, Tier, requirements};
use serde_json::{Value, json};

use crate::Outcome;
use crate::output::{self, Format};

/// Check what this host offers and what is missing
///
/// Every requirement is met (✓), missing and required (✗), or missing or not
/// known without stopping anything (!), with what its absence costs and how to
/// mend it. Nothing is changed. The exit code is 1 when something required is
/// missing.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Print for programs
    #[arg(short, long, value_enum)]
    output: Option<Format>,

    /// The host is mounted below /host-* as in the DaemonSet
    #[arg(long)]
    in_container: bool,

    /// Look at a recorded host instead of this one
    #[arg(long, hide = true, value_name = "FILE", conflicts_with = "in_container")]
    host_file: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  tidepool doctor
  tidepool doctor -o json";

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        let (fs, live) = self.host()?;
        let facts = Facts::gather(&fs, live);
        let rows = requirements(&facts);
        match self.output {
            Some(format) => output::print_as(format, &report(&facts, &rows))?,
            None => output::print(&render(&facts, &rows))?,
        }
        let is_fatal = rows.iter().any(Requirement::is_fatal);
        Ok(if is_fatal { Outcome::Findings } else { Outcome::Done })
    }

    fn host(&self) -> anyhow::Result<(Arc<dyn HostFs>, Live)> {
        let Some(file) = &self.host_file else {
            let mounts = if self.in_container { Mounts::container() } else { Mounts::host() };
            return Ok((Arc::new(RealFs::new(mounts)), Live::ask()));
        };
        let name = || format!("cannot read the host in {}", file.display());
        let text = fs::read_to_string(file).with_context(name)?;
        let fake = FakeFs::from_fixture(&text).with_context(name)?;
        let live = Live::recorded(&fake);
        Ok((Arc::new(fake), live))
    }
}

fn mark(row: &Requirement) -> &'static str {
    match (row.met, row.need) {
        (Met::Yes, _) => "✓",
        (Met::No, Need::Required) => "✗",
        (Met::No | Met::Unknown, _) => "!",
    }
}

fn render(facts: &Facts, rows: &[Requirement]) -> String {
    let mut text = String::new();
    let mut area: Option<Area> = None;
    for row in rows {
        if area != Some(row.area) {
            let gap = if area.is_some() { "\n" } else { "" };
            let title = row.area.title();
            let line = "-".repeat(title.chars().count());
            let _ = writeln!(text, "{gap}{title}\n{line}");
            area = Some(row.area);
        }
        let _ = writeln!(text, "{} {}: {}", mark(row), row.name, row.found);
        if row.met != Met::Yes {
            let _ = writeln!(text, "    {}: {}", row.need.name(), row.consequence);
            let _ = writeln!(text, "    fix: {}", row.fix);
        }
    }
    let tier = Tier::of(facts);
    let _ = writeln!(text, "\nprotection of online work\n-------------------------");
    let _ = writeln!(text, "mode {}, {}", tier.mode(), tier.what());
    let _ = writeln!(text, "    cost: {}", tier.cost());
    for mode in Tier::also_possible(facts) {
        let _ = writeln!(text, "    also possible: {mode}");
    }
    let _ = writeln!(text, "\n{}", verdict(rows));
    text
}

fn verdict(rows: &[Requirement]) -> String {
    let missing = |need| {
        let is_missing = |row: &&Requirement| row.need == need && row.met == Met::No;
        rows.iter().filter(is_missing).count()
    };
    let unknown = rows.iter().filter(|row| row.met == Met::Unknown).count();
    let start = match missing(Need::Required) {
        0 => "Tidepool can run here".to_owned(),
        required => format!("Tidepool cannot run here: {required} required missing"),
    };
    let (recommended, optional) = (missing(Need::Recommended), missing(Need::Optional));
    format!(
        "{start}; {recommended} recommended and {optional} optional missing, {unknown} not known"
    )
}

fn report(facts: &Facts, rows: &[Requirement]) -> Value {
    let tier = Tier::of(facts);
    let rows: Vec<Value> = rows.iter().map(requirement).collect();
    json!({
        "kernel": facts.release,
        "protection": {
            "mode": tier.mode(),
            "what": tier.what(),
            "cost": tier.cost(),
            "alsoPossible": Tier::also_possible(facts),
        },
        "requirements": rows,
    })
}

fn requirement(row: &Requirement) -> Value {
    let mut value = json!({
        "area": row.area.title(),
        "name": row.name,
        "need": row.need.name(),
        "status": row.met.name(),
        "found": row.found,
    });
    if row.met != Met::Yes
        && let Some(fields) = value.as_object_mut()
    {
        fields.insert("consequence".to_owned(), row.consequence.into());
        fields.insert("fix".to_owned(), row.fix.into());
    }
    value
}
