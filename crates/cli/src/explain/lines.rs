//! A sum as people read one.

use std::fmt::Write;

use overcommit::explain::{Sign, Sum, Term, Unit};

use super::Explanation;

/// Width of the column that says what a line is.
const WHAT: usize = 22;

pub(super) fn text(explanation: &Explanation) -> String {
    let node = &explanation.node;
    let mut text = String::new();
    if let Some(reason) = &explanation.lends_nothing {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{node} lends nothing: {reason}\n");
        for (resource, shown) in &explanation.shown {
            let unit = if resource.ends_with("cpu") { Unit::MilliCores } else { Unit::Bytes };
            let unit_name = if shown.is_some() { name(unit) } else { "" };
            let line = format!("{resource:26}  {} {unit_name}", shows(*shown, unit));
            let _ = writeln!(text, "{}", line.trim_end());
        }
        return text;
    }
    for (index, sum) in explanation.resources.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        let shown = explanation.shown.get(sum.resource).copied().flatten();
        write_sum(&mut text, node, sum, shown);
    }
    text
}

fn write_sum(text: &mut String, node: &str, sum: &Sum, shown: Option<i64>) {
    let amount = |value| number(value, sum.unit);
    let lent = sum.lent.map_or("withheld".to_owned(), amount);
    let _ = writeln!(
        text,
        "{node}: {} is {lent} of {} {} (bound by: {})\n",
        sum.resource,
        amount(sum.capacity),
        name(sum.unit),
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
        let line = format!(" {sign} {value:>width$}  {what:WHAT$} {}", notes.join("; "));
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

fn shows(shown: Option<i64>, unit: Unit) -> String {
    shown.map_or("the node shows nothing".to_owned(), |shown| {
        format!("the node shows {}", number(shown, unit))
    })
}

fn name(unit: Unit) -> &'static str {
    match unit {
        Unit::MilliCores => "CPUs",
        Unit::Bytes => "GiB",
    }
}

/// Cores and GiB with one decimal; cores with as many as they need.
fn number(amount: i64, unit: Unit) -> String {
    match unit {
        Unit::MilliCores => {
            let text = format!("{:.3}", amount as f64 / 1_000.0);
            let short = text.trim_end_matches('0');
            if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
        }
        Unit::Bytes => format!("{:.1}", amount as f64 / (1_u64 << 30) as f64),
    }
}
