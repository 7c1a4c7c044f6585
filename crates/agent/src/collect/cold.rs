//! How much page cache has nobody touched for minutes?
//!
//! Only kernels with kidled know. The scanner is told its period once; from then on each group has a file
//! with the ages of its pages. Memory without cold pages is the page-cache variant minus what is cold.

use groups::CgroupPath;
use host::cgroup::CgroupReader;
use host::fs::HostFs;
use host::{Reading, cold};
use tracing::warn;

use super::group::{Group, Pass};
use super::pods::bytes_f64;
use crate::series::{Measure, Metrics, Store, Subject};

/// The scanner's period, in seconds; five minutes of idleness are sixty of these.
const SCAN_PERIOD: &str = "5";

/// Cold pages of the node and its groups.
#[derive(Debug, Default)]
pub(super) struct ColdMemory {
    root: Option<CgroupReader>,
    is_started: bool,
}

impl ColdMemory {
    /// Whether this kernel finds cold pages; starts its scanner if so.
    pub(super) fn start(&mut self, fs: &dyn HostFs) -> bool {
        if !self.is_started && cold::is_supported(fs) {
            self.is_started = true;
            for (file, value) in [("scan_period_in_seconds", SCAN_PERIOD), ("use_hierarchy", "1")] {
                let path = std::path::Path::new("/sys/kernel/mm/kidled").join(file);
                if let Err(error) = fs.write(&path, value) {
                    warn!(path = %path.display(), value, %error, "cannot set up the scanner of cold pages");
                    self.is_started = false;
                }
            }
        }
        self.is_started
    }

    /// Samples the node: the root group's cold pages against all memory in use.
    pub(super) fn tick_node(&mut self, pass: &mut Pass<'_>, metrics: &Metrics, used: Option<f64>) {
        let reader = self.root.get_or_insert_with(|| pass.tree.reader(CgroupPath::root()));
        match reader.idle_pages(pass.buffer) {
            Ok(Reading::Value(pages)) => {
                let cold = bytes_f64(pages.cold);
                record(&mut metrics.lock(), Subject::Node, pass, used, cold);
            }
            Ok(Reading::Gone) => self.root = None,
            Ok(Reading::Unsupported) | Err(_) => {}
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
    let Ok(Reading::Value(memory)) = reader.memory_stat(pass.buffer) else { return };
    let used = bytes_f64(memory.used_with_page_cache());
    record(&mut metrics.lock(), subject, pass, Some(used), bytes_f64(pages.cold));
}

fn record(store: &mut Store, subject: Subject<'_>, pass: &Pass<'_>, used: Option<f64>, cold: f64) {
    store.push(subject, Measure::ColdPages, pass.now, cold);
    if let Some(used) = used {
        store.push(subject, Measure::MemoryWithHotPages, pass.now, (used - cold).max(0.0));
    }
}
