//! The scanner of cold pages, which only kernels with kidled have: it has to be told its period.

use host::cold;
use qos::claim::Rank;
use qos::wish::{KernelFile, Wish};

use super::super::facts::Facts;
use super::super::why::Decision;

/// The scanner's period, in seconds; five minutes of idleness are sixty of these.
const SCAN_PERIOD: &str = "5";

pub fn decide(facts: &Facts<'_>) -> Decision {
    if !cold::is_supported(facts.tree.fs()) {
        return Decision::default();
    }
    let why = "cold pages are measured";
    let files = [(cold::SCAN_PERIOD, SCAN_PERIOD), (cold::USE_HIERARCHY, "1")];
    let wishes =
        files.map(|(path, text)| Wish::file(KernelFile::whole(path), Rank::POD, text, why));
    Decision { wishes: wishes.to_vec(), ..Decision::default() }
}
