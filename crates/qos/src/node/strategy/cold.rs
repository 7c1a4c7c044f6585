//! The scanner of cold pages, which only kernels with kidled have: it has to be told its period.

use crate::claim::Rank;
use crate::wish::{KernelFile, Wish};

use super::Decision;
use crate::node::{Readings, State};

/// The scanner's files; a kernel without them has none.
const PERIOD_FILE: &str = "/sys/kernel/mm/kidled/scan_period_in_seconds";
const HIERARCHY_FILE: &str = "/sys/kernel/mm/kidled/use_hierarchy";

/// The scanner's period, in seconds; five minutes of idleness are sixty of these.
const SCAN_PERIOD: &str = "5";

pub(in crate::node) fn read(readings: &mut Readings) {
    readings.files.insert(PERIOD_FILE);
}

pub fn decide(state: &State) -> Decision {
    if !state.machine.files.contains_key(PERIOD_FILE) {
        return Decision::default();
    }
    let why = "cold pages are measured";
    let files = [(PERIOD_FILE, SCAN_PERIOD), (HIERARCHY_FILE, "1")];
    let wishes =
        files.map(|(path, text)| Wish::file(KernelFile::whole(path), Rank::POD, text, why));
    Decision { wishes: wishes.to_vec(), ..Decision::default() }
}
