//! What a node lends, as people read it.

use std::fmt::Write;

use api::why::Unit;
use jiff::Timestamp;

use super::Explanation;
use super::why::{age, shows, write};

pub(super) fn text(explanation: &Explanation, now: Timestamp) -> String {
    let node = &explanation.node;
    let mut text = String::new();
    if let Some(reason) = &explanation.lends_nothing {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{node} lends nothing: {reason}\n");
        for (resource, shown) in &explanation.shown {
            let unit = if resource.ends_with("cpu") { Unit::MilliCores } else { Unit::Bytes };
            let _ = writeln!(text, "{resource:26}  {}", shows(*shown, unit));
        }
        if let Some(fix) = explanation.fix {
            let _ = writeln!(text, "\nfix: {fix}");
        }
        return text;
    }
    for answer in &explanation.answers {
        write(&mut text, answer);
        text.push('\n');
    }
    if let Some(measured) = explanation.measured {
        let ago = age(measured, now);
        let _ = writeln!(text, "The node was measured {ago} ago (NodeMetric {node}).");
    }
    text
}
