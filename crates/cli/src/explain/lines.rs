//! A sum as people read one.

use std::fmt::Write;

use overcommit::explain::{Sign, Sum, Term, Unit};

use super::Explanation;

pub(super) fn text(explanation: &Explanation) -> String {
    let node = &explanation.node;
    let mut text = String::new();
    if let Some(reason) = &explanation.lends_nothing {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{node} lends nothing: {reason}\n");
        for (resource, shown) in &explanation.shown {
            let unit = if resource.ends_with("cpu") { Unit::MilliCores } else { Unit::Bytes };
            let unit_name = if shown.is_some() { unit.name() } else { "" };
            let line = format!("{resource:26}  {} {unit_name}", shows(*shown, unit));
            let _ = writeln!(text, "{}", line.trim_end());
        }
        if let Some(fix) = explanation.fix {
            let _ = writeln!(text, "\nfix: {fix}");
        }
        return text;
    }
    let terms = explanation.resources.iter().flat_map(|sum| &sum.terms);
    let column = terms.map(|term| term.what.len()).max().unwrap_or_default();
    for sum in &explanation.resources {
        let shown = explanation.shown.get(sum.resource).copied().flatten();
        write_sum(&mut text, node, sum, shown, column);
        text.push('\n');
    }
    if let Some(seconds) = explanation.measured_seconds_ago {
        let _ = writeln!(text, "The node was measured {seconds}s ago (NodeMetric {node}).");
    }
    text
}

/// `column` is the width of what a line is.
fn write_sum(text: &mut String, node: &str, sum: &Sum, shown: Option<i64>, column: usize) {
    let amount = |value| sum.unit.show(value);
    let lent = sum.lent.map_or("withheld".to_owned(), amount);
    let _ = writeln!(
        text,
        "{node}: {} is {lent} of {} {} (bound by: {})\n",
        sum.resource,
        amount(sum.capacity),
        sum.unit.name(),
        sum.bound_by
    );
    let width = sum.terms.iter().map(|term| amount(term.amount).len()).max().unwrap_or_default();
    for (index, term) in sum.terms.iter().enumerate() {
        let Term { sign, amount: value, what, source } = term;
        let sign = match sign {
            Sign::Plus if index > 0 => '+',
            Sign::Plus => ' ',
            Sign::Minus => '-',
            Sign::Equals => '=',
            Sign::Then => '>',
        };
        let is_last = index + 1 == sum.terms.len();
        let mut notes = Vec::new();
        notes.extend((!source.is_empty()).then(|| source.clone()));
        notes.extend((is_last && shown != sum.lent).then(|| shows(shown, sum.unit)));
        let value = amount(*value);
        let line = format!(" {sign} {value:>width$}  {what:column$} {}", notes.join("; "));
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

fn shows(shown: Option<i64>, unit: Unit) -> String {
    shown.map_or("the node shows nothing".to_owned(), |shown| {
        format!("the node shows {}", unit.show(shown))
    })
}
