//! One form for every explanation: a sentence, what had the last word, and the sum behind it.
//!
//! ```text
//! n1: best-effort may use 5.4 of 16 CPUs (bound by: threshold; suppress, for 12 min)
//!
//!    16.0  capacity
//!    10.4  allowed in total        cpuSuppressThresholdPercent = 65 (built-in)
//!  -  4.0  used above best-effort  3 pods
//!  =  5.4  granted
//! ```

use std::fmt::Write;

use agent::act::journal::Decided;
use agent::act::{NODE, Resource};
use jiff::Timestamp;
use overcommit::explain::{Sign, Sum, Unit};
use serde::Serialize;

/// One explanation, the same for people and programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    /// Name of the node, or `namespace/name` of a pod.
    pub(super) about: String,
    /// `cpu`, `memory`, `cache`, ... or the name of a lent resource.
    pub(super) resource: String,
    pub(super) headline: String,
    pub(super) bound_by: String,
    /// Who decided, and since when it holds; absent for what is computed anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) strategy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<Timestamp>,
    /// What amounts are counted in.
    pub(super) unit: Counted,
    pub(super) lines: Vec<Line>,
}

/// What amounts are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Counted {
    MilliCores,
    Bytes,
    /// Ways of a cache, percent, and the like: the label says what.
    Number,
}

/// One term of a sum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Line {
    pub(super) sign: Sign,
    /// Never negative where the sign says minus.
    pub(super) amount: i64,
    pub(super) label: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) note: String,
}

impl Answer {
    /// What an agent decided.
    pub(super) fn decided(node: &str, decided: &Decided) -> Self {
        let why = &decided.why;
        let last = why.lines.len().saturating_sub(1);
        let lines = why.lines.iter().enumerate().map(|(index, line)| Line {
            sign: match index {
                _ if line.amount < 0 => Sign::Minus,
                // A term that stands alone is no sum.
                _ if index == last && has_sum(&why.lines) => Sign::Equals,
                _ => Sign::Plus,
            },
            amount: line.amount.saturating_abs(),
            label: line.label.clone(),
            note: line.note.clone(),
        });
        Self {
            about: if why.about == NODE { node.to_owned() } else { why.about.clone() },
            resource: word(why.resource).to_owned(),
            headline: why.headline.clone(),
            bound_by: why.bound_by.clone(),
            strategy: Some(decided.strategy.clone()),
            since: Some(decided.since),
            unit: match why.resource {
                Resource::Cpu => Counted::MilliCores,
                Resource::Memory => Counted::Bytes,
                Resource::Cache | Resource::Io | Resource::Network => Counted::Number,
            },
            lines: lines.collect(),
        }
    }

    /// What a node lends; `shown` is what it says to the cluster.
    pub(super) fn lent(node: &str, sum: &Sum, shown: Option<i64>) -> Self {
        let amount = |value| sum.unit.show(value);
        let lent = sum.lent.map_or("withheld".to_owned(), amount);
        let (whole, unit) = (amount(sum.capacity), sum.unit.name());
        let last = sum.terms.len().saturating_sub(1);
        let lines = sum.terms.iter().enumerate().map(|(index, term)| {
            let mut notes: Vec<String> = Vec::new();
            notes.extend((!term.source.is_empty()).then(|| term.source.clone()));
            notes.extend((index == last && shown != sum.lent).then(|| shows(shown, sum.unit)));
            Line {
                sign: term.sign,
                amount: term.amount,
                label: term.what.to_owned(),
                note: notes.join("; "),
            }
        });
        Self {
            about: node.to_owned(),
            resource: sum.resource.to_owned(),
            headline: format!("{} is {lent} of {whole} {unit}", sum.resource),
            bound_by: sum.bound_by.to_owned(),
            strategy: None,
            since: None,
            unit: match sum.unit {
                Unit::MilliCores => Counted::MilliCores,
                Unit::Bytes => Counted::Bytes,
            },
            lines: lines.collect(),
        }
    }

    /// As people read it.
    pub(super) fn write(&self, text: &mut String, now: Timestamp) {
        let mut bounds = vec![format!("bound by: {}", self.bound_by)];
        if let Some((strategy, since)) = self.strategy.as_ref().zip(self.since) {
            bounds.push(format!("{strategy}, for {}", age(since, now)));
        }
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}: {} ({})", self.about, self.headline, bounds.join("; "));
        if self.lines.is_empty() {
            return;
        }
        text.push('\n');
        let amounts: Vec<String> = self.lines.iter().map(|line| self.amount(line.amount)).collect();
        let width = amounts.iter().map(String::len).max().unwrap_or_default();
        let labels = self.lines.iter().map(|line| line.label.len()).max().unwrap_or_default();
        for (index, (line, amount)) in self.lines.iter().zip(&amounts).enumerate() {
            let sign = match line.sign {
                // Terms of an agent's sum that are not taken off stand for themselves.
                Sign::Plus if index == 0 || self.strategy.is_some() => ' ',
                Sign::Plus => '+',
                Sign::Minus => '-',
                Sign::Equals => '=',
                Sign::Then => '>',
            };
            let Line { label, note, .. } = line;
            let line = format!(" {sign} {amount:>width$}  {label:labels$}  {note}");
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }

    /// Cores with one digit where that is exact for all terms, GiB with two.
    fn amount(&self, value: i64) -> String {
        let digits = match self.lines.iter().all(|line| line.amount % 100 == 0) {
            true => 1,
            false => 2,
        };
        match self.unit {
            Counted::MilliCores => format!("{:.digits$}", value as f64 / 1_000.0),
            Counted::Bytes => format!("{:.2} GiB", value as f64 / (1_u64 << 30) as f64),
            Counted::Number => value.to_string(),
        }
    }
}

fn has_sum(lines: &[agent::act::Line]) -> bool {
    lines.iter().any(|line| line.amount < 0)
}

fn word(resource: Resource) -> &'static str {
    match resource {
        Resource::Cpu => "cpu",
        Resource::Memory => "memory",
        Resource::Cache => "cache",
        Resource::Io => "io",
        Resource::Network => "network",
    }
}

/// What a node says to the cluster.
pub(super) fn shows(shown: Option<i64>, unit: Unit) -> String {
    shown.map_or("the node shows nothing".to_owned(), |shown| {
        format!("the node shows {} {}", unit.show(shown), unit.name())
    })
}

/// Whole seconds, minutes or hours.
pub(super) fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let at = |seconds: i64| Timestamp::from_second(1_000_000 + seconds).unwrap();
        let cases = [(-5, "0 s"), (0, "0 s"), (119, "119 s"), (120, "2 min"), (7_200, "2 h")];
        for (seconds, want) in cases {
            assert_eq!(age(at(0), at(seconds)), want);
        }
    }

    #[test]
    fn digits_are_the_same_in_a_column() {
        let line = |sign, amount, label: &str| Line {
            sign,
            amount,
            label: label.to_owned(),
            note: String::new(),
        };
        let mut answer = Answer {
            about: "n1".to_owned(),
            resource: "cpu".to_owned(),
            headline: "h".to_owned(),
            bound_by: "b".to_owned(),
            strategy: None,
            since: None,
            unit: Counted::MilliCores,
            lines: vec![line(Sign::Plus, 16_000, "a"), line(Sign::Minus, 250, "bc")],
        };
        let said = |answer: &Answer| {
            let mut text = String::new();
            answer.write(&mut text, Timestamp::UNIX_EPOCH);
            text
        };
        assert_eq!(said(&answer), "n1: h (bound by: b)\n\n   16.00  a\n -  0.25  bc\n");
        answer.unit = Counted::Bytes;
        answer.lines = vec![line(Sign::Plus, 3 << 29, "a")];
        assert_eq!(said(&answer), "n1: h (bound by: b)\n\n   1.50 GiB  a\n");
        answer.lines.clear();
        assert_eq!(said(&answer), "n1: h (bound by: b)\n");
    }
}
