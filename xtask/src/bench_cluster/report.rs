//! What do people and programs get to see of the rounds?

use serde_json::{Map, Value, json};

/// Reports of all rounds, by who was measured, in the order of the first turns.
#[derive(Debug, Default)]
pub(crate) struct Results {
    rows: Vec<([&'static str; 2], Vec<Value>)>,
}

/// The binder that the others on its server are compared with.
pub(crate) const YARDSTICK: &str = "null";

impl Results {
    /// How much of the yardstick's speed a binder reaches on the same server.
    fn ratio(&self, [server, binder]: [&str; 2]) -> Option<f64> {
        let median = |wanted: [&str; 2]| {
            let (_, reports) = self.rows.iter().find(|(who, _)| *who == wanted)?;
            Some(Spread::of(reports, "/pods_per_s")?.median)
        };
        Some(median([server, binder])? / median([server, YARDSTICK])?)
    }

    pub(crate) fn add(&mut self, who: [&'static str; 2], report: Value) {
        match self.rows.iter_mut().find(|(known, _)| *known == who) {
            Some((_, reports)) => reports.push(report),
            None => self.rows.push((who, vec![report])),
        }
    }
}

/// A figure: where it is in a report, its key, its title, and how many decimals people want.
pub(crate) struct Figure(&'static str, &'static str, &'static str, usize);

/// CPU is in seconds for a thousand pods.
pub(crate) const BINDERS: &[Figure] = &[
    Figure("/pods_per_s", "pods_per_s", "PODS/S", 0),
    Figure("/binder_cpu_s", "binder_cpu_s", "BINDER CPU", 2),
    Figure("/server_cpu_s", "server_cpu_s", "SERVER CPU", 2),
    Figure("/binder_mib", "binder_mib", "BINDER MIB", 0),
    Figure("/server_mib", "server_mib", "SERVER MIB", 0),
    Figure("/steady/p50_ms", "p50_ms", "P50 MS", 1),
    Figure("/steady/p99_ms", "p99_ms", "P99 MS", 1),
    Figure("/created_per_s", "created_per_s", "CREATED/S", 0),
    Figure("/start_s", "start_s", "START S", 1),
    Figure("/quiet_s", "quiet_s", "QUIET S", 1),
];

pub(crate) const SERVERS: &[Figure] = &[
    Figure("/pods_per_s", "pods_per_s", "LIVES/S", 0),
    Figure("/create/p99_ms", "create_p99_ms", "CREATE P99 MS", 1),
    Figure("/bind/p99_ms", "bind_p99_ms", "BIND P99 MS", 1),
    Figure("/watch_events_per_s", "watch_events_per_s", "EVENTS/S", 0),
    Figure("/rss_mib", "rss_mib", "MIB", 0),
];

/// The extremes, and what is in the middle.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    min: f64,
    median: f64,
    max: f64,
}

impl Spread {
    /// `None` where nothing was measured.
    fn of(reports: &[Value], pointer: &str) -> Option<Self> {
        let mut found: Vec<f64> =
            reports.iter().filter_map(|report| report.pointer(pointer)?.as_f64()).collect();
        found.sort_by(f64::total_cmp);
        let (min, max) = (*found.first()?, *found.last()?);
        Some(Self { min, median: *found.get(found.len() / 2)?, max })
    }
}

/// One object for each row.
pub(crate) fn json(results: &Results, figures: &[Figure]) -> Value {
    let rows = results.rows.iter().map(|([server, binder], reports)| {
        let mut row = Map::new();
        row.insert("server".to_owned(), json!(server));
        if !binder.is_empty() {
            row.insert("binder".to_owned(), json!(binder));
        }
        for Figure(pointer, key, ..) in figures {
            let spread = Spread::of(reports, pointer);
            let spread = spread.map(
                |Spread { min, median, max }| json!({"min": min, "median": median, "max": max}),
            );
            row.insert((*key).to_owned(), json!(spread));
        }
        if let Some(ratio) = results.ratio([server, binder]) {
            row.insert("ratio".to_owned(), json!(ratio));
        }
        Value::Object(row)
    });
    rows.collect()
}

/// Each cell is the median, and the extremes in brackets when they differ from it.
pub(crate) fn table(results: &Results, figures: &[Figure]) -> String {
    let mut lines = vec![vec!["SERVER".to_owned(), "BINDER".to_owned()]];
    if let Some(line) = lines.first_mut() {
        line.push("OF NULL".to_owned());
        line.extend(figures.iter().map(|Figure(_, _, title, _)| (*title).to_owned()));
    }
    for (who, reports) in &results.rows {
        let mut line: Vec<String> = who.iter().map(|name| (*name).to_owned()).collect();
        line.push(results.ratio(*who).map_or_else(String::new, |ratio| format!("{ratio:.2}")));
        for Figure(pointer, _, _, decimals) in figures {
            line.push(match Spread::of(reports, pointer) {
                None => "-".to_owned(),
                Some(Spread { min, median, max }) => {
                    format!("{median:.decimals$} [{min:.decimals$} {max:.decimals$}]")
                }
            });
        }
        lines.push(line);
    }
    // A column that says nothing about anybody is left out.
    let columns = lines.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|at| {
            let cells = || lines.iter().filter_map(|line| line.get(at));
            match cells().skip(1).all(String::is_empty) {
                true => 0,
                false => cells().map(|cell| cell.chars().count()).max().unwrap_or_default(),
            }
        })
        .collect();
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).filter(|(_, width)| **width > 0);
        let cells: Vec<String> = cells.map(|(cell, width)| format!("{cell:<width$}")).collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// What was compared.
pub(crate) fn headline(versions: &Value) -> String {
    let names = versions.as_array().into_iter().flatten().filter_map(Value::as_str);
    format!(
        "{}; tidepool {}\nmedian [minimum maximum]; CPU in seconds for 1,000 pods\n",
        names.collect::<Vec<_>>().join(", "),
        env!("CARGO_PKG_VERSION"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds() -> Results {
        let mut results = Results::default();
        for rate in [30.0, 10.0, 20.0] {
            let steady = json!({"p50_ms": rate / 10.0});
            results.add(["kube-apiserver", "null"], json!({"pods_per_s": rate, "steady": steady}));
            results.add(["embedded", "null"], json!({"pods_per_s": 7.0, "steady": null}));
            results.add(["embedded", "half"], json!({"pods_per_s": 3.5, "steady": null}));
        }
        results
    }

    const FIGURES: &[Figure] = &[
        Figure("/pods_per_s", "pods_per_s", "PODS/S", 0),
        Figure("/steady/p50_ms", "p50_ms", "P50 MS", 1),
    ];

    #[test]
    fn people_see_the_median_between_the_extremes() {
        let want = "\
SERVER          BINDER  OF NULL  PODS/S      P50 MS
kube-apiserver  null    1.00     20 [10 30]  2.0 [1.0 3.0]
embedded        null    1.00     7 [7 7]     -
embedded        half    0.50     4 [4 4]     -
";
        assert_eq!(table(&rounds(), FIGURES), want);
    }

    #[test]
    fn a_column_without_words_is_left_out() {
        let mut results = Results::default();
        results.add(["embedded", ""], json!({"pods_per_s": 1}));
        assert_eq!(table(&results, &FIGURES[..1]), "SERVER    PODS/S\nembedded  1 [1 1]\n");
    }

    #[test]
    fn programs_see_the_same() {
        let json = json(&rounds(), FIGURES);
        assert_eq!(json[0]["pods_per_s"], json!({"min": 10.0, "median": 20.0, "max": 30.0}));
        assert_eq!(json[1]["binder"], "null");
        assert_eq!(json[1]["p50_ms"], Value::Null);
        assert_eq!(json[2]["ratio"], 0.5);
    }
}
