//! Do dashboards and alerts name metrics that exist, and has every alert its page?

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use api::protocol::metric::{Kind, Metric, agent, descheduler, manager, scheduler};
use serde_json::Value;

/// What every process tells of itself.
const PROCESS: [&str; 2] = ["process_cpu_seconds_total", "process_resident_memory_bytes"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn defined() -> Vec<Metric> {
    let tables: [&[Metric]; 6] = [
        agent::internal::ALL,
        agent::external::ALL,
        manager::ALL,
        scheduler::ALL,
        descheduler::ALL,
        console::metrics::ALL,
    ];
    tables.concat()
}

/// Words of an expression that look like metrics of ours or of a process.
fn names(expression: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':';
    let words = expression.split(|letter| !is_part(letter));
    let prefixes =
        ["koordlet_", "tidepool_", "tidepool:", "koord", "process_", "scheduler_", "descheduler_"];
    let is_metric = |word: &&str| prefixes.iter().any(|prefix| word.starts_with(prefix));
    words.filter(is_metric).map(str::to_owned).collect()
}

fn is_known(name: &str, recorded: &BTreeSet<String>) -> bool {
    let is_defined = defined().iter().any(|metric| {
        let parts: &[&str] = match metric.kind {
            Kind::Histogram(_) => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        parts.iter().any(|part| name == format!("{}{part}", metric.name))
    });
    is_defined || PROCESS.contains(&name) || recorded.contains(name)
}

/// Every text under this key, wherever it is.
fn texts<'v>(value: &'v Value, key: &str, found: &mut Vec<&'v str>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(text) if name == key => found.push(text),
                    _ => texts(member, key, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, key, found)),
        _ => {}
    }
}

/// The values of lines such as `- expr: VALUE` in the rules.
fn lines(text: &str, key: &str) -> Vec<String> {
    let start = format!("{key}: ");
    let lines = text.lines().map(|line| line.trim().trim_start_matches("- "));
    lines.filter_map(|line| line.strip_prefix(&start)).map(str::to_owned).collect()
}

#[test]
fn the_dashboard_shows_metrics_that_exist() {
    let file = root().join("deploy/dashboards/co-location.json");
    let board: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let mut expressions = Vec::new();
    texts(&board, "expr", &mut expressions);
    assert!(expressions.len() > 20, "{expressions:?}");
    for expression in expressions {
        let names = names(expression);
        assert!(!names.is_empty(), "{expression} names no metric of ours");
        for name in names {
            assert!(is_known(&name, &BTreeSet::new()), "{name} in {expression} does not exist");
        }
    }
    let mut ids: Vec<i64> = Vec::new();
    for panel in board["panels"].as_array().unwrap() {
        ids.push(panel["id"].as_i64().unwrap());
        let is_row = panel["type"] == "row";
        assert!(is_row || !panel["description"].as_str().unwrap().is_empty(), "{}", panel["title"]);
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "panels have ids of their own");
}

#[test]
fn alerts_watch_metrics_that_exist_and_have_runbooks() {
    let text = fs::read_to_string(root().join("deploy/alerts/tidepool.yaml")).unwrap();
    let recorded: BTreeSet<String> = lines(&text, "record").into_iter().collect();
    for expression in lines(&text, "expr") {
        let names = names(&expression);
        assert!(!names.is_empty(), "{expression}");
        for name in names {
            assert!(is_known(&name, &recorded), "{name} in {expression} does not exist");
        }
    }
    let (alerts, runbooks) = (lines(&text, "alert"), lines(&text, "runbook"));
    assert_eq!(alerts.len(), runbooks.len());
    assert_eq!(alerts.len(), lines(&text, "labels").len(), "every alert has a severity");
    for (alert, runbook) in alerts.iter().zip(runbooks) {
        assert_eq!(runbook, format!("docs/runbooks/{alert}.md"));
        let page = fs::read_to_string(root().join(&runbook)).expect(&runbook);
        assert!(page.starts_with(&format!("# {alert}\n")), "{runbook}");
        for part in ["## Look", "## Do"] {
            assert!(page.contains(part), "{runbook} has no {part}");
        }
    }
    let pages = fs::read_dir(root().join("docs/runbooks")).unwrap().count();
    assert_eq!(pages, alerts.len(), "a page without an alert");
}

#[test]
fn every_recorded_metric_says_what_it_is() {
    let text = fs::read_to_string(root().join("deploy/alerts/tidepool.yaml")).unwrap();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut recorded = Vec::new();
    for pair in lines.windows(2) {
        let [before, line] = pair else { continue };
        if let Some(name) = line.strip_prefix("- record: ") {
            assert!(before.starts_with("# ") && before.ends_with('.'), "{name} has no definition");
            recorded.push(name);
        }
    }
    assert!(recorded.contains(&"tidepool:fleet_cpu_utilization:day_avg"), "{recorded:?}");
    let guide = fs::read_to_string(root().join("docs/guides/console.md")).unwrap();
    for name in ["tidepool:fleet_cpu_utilization:day_avg", "tidepool_reclaimed_core_seconds_total"]
    {
        assert!(guide.contains(name), "{name} is not defined in the guide");
    }
}

#[test]
fn a_metric_that_does_not_exist_is_noticed() {
    assert!(is_known("koordlet_start_time", &BTreeSet::new()));
    assert!(!is_known("koordlet_start_times", &BTreeSet::new()));
    let names: Vec<String> =
        names("sum(rate(koordlet_x[5m])) / tidepool:y:z{a=\"b\"}").into_iter().collect();
    assert_eq!(names, ["koordlet_x", "tidepool:y:z"]);
}
