//! A reason as people read it: a sentence, the rule that had the last word, and the sum behind it.
//!
//! ```text
//! n1: best-effort may use 6 of 16 CPUs (bound by: threshold; suppress, for 12 min)
//!
//!    16.0  capacity
//!  > 10.4  allowed in total          cpuSuppressThresholdPercent = 65 (built-in)
//!  -  5.0  used above best-effort    3 pods
//!  =  5.4  left
//!  +  0.6  rounded up to whole CPUs
//!  =  6.0  granted
//! ```

use std::fmt::Write;

use api::decisions::StrategyDecision;
use api::why::{Sign, Sum, Term, Unit, Why};
use jiff::Timestamp;

/// A strategy's decision, with who decided and since when it holds.
pub(super) fn write_decision(text: &mut String, decided: &StrategyDecision, now: Timestamp) {
    let StrategyDecision { strategy, since, why, .. } = decided;
    let bound_by = format!("{}; {strategy}, for {}", why.bound_by, age(*since, now));
    write_bound_by(text, why, &bound_by);
}

pub(super) fn write(text: &mut String, why: &Why) {
    write_bound_by(text, why, &why.bound_by);
}

fn write_bound_by(text: &mut String, why: &Why, bound_by: &str) {
    let Why { about, headline, sum, .. } = why;
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{about}: {headline} (bound by: {bound_by})");
    if sum.is_empty() {
        return;
    }
    text.push('\n');
    let amounts: Vec<String> = sum.terms.iter().map(|term| amount(term, sum)).collect();
    let width = amounts.iter().map(String::len).max().unwrap_or_default();
    let labels = sum.terms.iter().map(|term| term.label.len()).max().unwrap_or_default();
    for (index, (term, amount)) in sum.terms.iter().zip(&amounts).enumerate() {
        let sign = match term.sign {
            Sign::Plus if index == 0 => ' ',
            Sign::Plus => '+',
            Sign::Minus => '-',
            Sign::Equals => '=',
            Sign::Then => '>',
            Sign::Beside => ' ',
        };
        let Term { label, source, .. } = term;
        let line = format!(" {sign} {amount:>width$}  {label:labels$}  {source}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

/// Cores with as many digits as the finest term of the sum needs, GiB with two.
fn amount(term: &Term, sum: &Sum) -> String {
    let is_exact = |to: i64| sum.terms.iter().all(|term| term.amount % to == 0);
    let digits = match (is_exact(100), is_exact(10)) {
        (true, _) => 1,
        (false, true) => 2,
        (false, false) => 3,
    };
    match term.unit {
        Unit::MilliCores => format!("{:.digits$}", term.amount as f64 / 1_000.0),
        Unit::Bytes => format!("{:.2} GiB", term.amount as f64 / (1_u64 << 30) as f64),
        Unit::Number => term.amount.to_string(),
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
    use api::why::Resource;
    use units::{Bytes, MilliCpu};

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
        let said = |sum| {
            let why = Why {
                about: "n1".to_owned(),
                resource: Resource::Cpu,
                headline: "h".to_owned(),
                bound_by: "b".to_owned(),
                sum,
            };
            let mut text = String::new();
            write(&mut text, &why);
            text
        };
        let cores = |amount| Sum::default().plus(MilliCpu(16_000), "a", "").minus(amount, "bc", "");
        let cases = [
            (cores(MilliCpu(500)), "\n   16.0  a\n -  0.5  bc\n"),
            (cores(MilliCpu(250)), "\n   16.00  a\n -  0.25  bc\n"),
            (cores(MilliCpu(333)), "\n   16.000  a\n -  0.333  bc\n"),
            (Sum::default().plus(Bytes(3 << 29), "a", ""), "\n   1.50 GiB  a\n"),
            (Sum::default(), ""),
        ];
        for (sum, want) in cases {
            assert_eq!(said(sum), format!("n1: h (bound by: b)\n{want}"));
        }
    }
}
