//! How much page cache has nobody touched for minutes?
//!
//! Only kernels with kidled know. The acting side has its scanner started; from then on each group has a file
//! with the ages of its pages. Memory without cold pages is the page-cache variant minus what is cold.

use groups::CgroupPath;
use host::Reading;
use host::cgroup::CgroupReader;
use host::cold::IdlePages;

use super::group::{Group, Pass};
use super::pods::bytes_f64;
use crate::series::{Measure, Metrics, Store, Subject};

/// Cold pages of the node and its groups.
#[derive(Debug, Default)]
pub(super) struct ColdMemory {
    root: Option<CgroupReader>,
}

impl ColdMemory {
    /// Samples the node: the root group's cold pages against all memory in use.
    pub(super) fn tick_node(&mut self, pass: &mut Pass<'_>, metrics: &Metrics, used: Option<f64>) {
        let reader = self.root.get_or_insert_with(|| pass.tree.reader(CgroupPath::root()));
        match reader.idle_pages(pass.buffer) {
            Ok(Reading::Value(pages)) if is_scanned(&pages) => {
                let cold = bytes_f64(pages.cold);
                record(&mut metrics.lock(), Subject::Node, pass, used, cold);
            }
            Ok(Reading::Gone) => self.root = None,
            Ok(Reading::Value(_) | Reading::Unsupported) | Err(_) => {}
        }
    }
}

/// Samples one group.
pub(super) fn sample(
    subject: Subject<'_>,
    group: &mut Group,
    pass: &mut Pass<'_>,
    metrics: &Metrics,
) {
    let Some(reader) = group.open_reader() else { return };
    let Ok(Reading::Value(pages)) = reader.idle_pages(pass.buffer) else { return };
    if !is_scanned(&pages) {
        return;
    }
    let Ok(Reading::Value(memory)) = reader.memory_stat(pass.buffer) else { return };
    let used = bytes_f64(memory.used_with_page_cache());
    record(&mut metrics.lock(), subject, pass, Some(used), bytes_f64(pages.cold));
}

/// Whether anybody started the scanner; before, no page is known to be cold.
fn is_scanned(pages: &IdlePages) -> bool {
    pages.scan_period_seconds > 0
}

fn record(store: &mut Store, subject: Subject<'_>, pass: &Pass<'_>, used: Option<f64>, cold: f64) {
    store.push(subject, Measure::ColdPages, pass.now, cold);
    if let Some(used) = used {
        store.push(subject, Measure::MemoryWithHotPages, pass.now, (used - cold).max(0.0));
    }
}
