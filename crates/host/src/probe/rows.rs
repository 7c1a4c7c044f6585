//! The requirements themselves.

mod control;
mod machine;
mod protection;

use super::{Facts, Met, Requirement};

/// Judges a host, in the order of the report.
pub fn requirements(facts: &Facts) -> Vec<Requirement> {
    let mut rows = machine::rows(facts);
    rows.extend(control::rows(facts));
    rows.extend(protection::cpu(facts));
    rows.extend(protection::memory(facts));
    rows.extend(protection::io(facts));
    rows.extend(machine::observation(facts));
    rows.extend(machine::rights(facts));
    rows.extend(machine::limits(facts));
    rows
}

fn met(is_met: bool) -> Met {
    if is_met { Met::Yes } else { Met::No }
}
