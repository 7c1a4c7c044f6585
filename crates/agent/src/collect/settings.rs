//! How this process collects.

use std::time::Duration;

use api::protocol::gate::{AgentGate, Gates};
use groups::CgroupPath;

/// How this process collects: flags and gates, fixed at start.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectSettings {
    /// `--collect-res-used-interval`.
    pub usage_interval: Duration,
    /// `--collect-sys-metric-outdated-interval`: older inputs do not make a system sample.
    pub system_outdated: Duration,
    /// `--collect-node-cpu-info-interval`.
    pub node_info_interval: Duration,
    /// `--collect-node-storage-info-interval`.
    pub storage_interval: Duration,
    /// `--cpi-collector-interval`.
    pub cpi_interval: Duration,
    /// `--collect-cpi-timewindow`.
    pub cpi_window: Duration,
    /// `--psi-collector-interval`.
    pub psi_interval: Duration,
    /// `--coldpage-collector-interval`.
    pub cold_page_interval: Duration,
    /// `--resctrl-collector-interval`.
    pub resctrl_interval: Duration,
    /// `--enable-pagecache-collector`.
    pub page_cache: bool,
    /// `--enable-resctrl-collector`; the gate must be on too.
    pub resctrl: bool,
    pub gates: Gates<AgentGate>,
    /// The best-effort tier.
    pub best_effort_cgroup: CgroupPath,
    /// Most points that all series may hold together.
    pub max_points: usize,
}

impl Default for CollectSettings {
    fn default() -> Self {
        Self {
            usage_interval: Duration::from_secs(1),
            system_outdated: Duration::from_secs(10),
            node_info_interval: Duration::from_secs(60),
            storage_interval: Duration::from_secs(1),
            cpi_interval: Duration::from_secs(60),
            cpi_window: Duration::from_secs(10),
            psi_interval: Duration::from_secs(10),
            cold_page_interval: Duration::from_secs(5),
            resctrl_interval: Duration::from_secs(10),
            page_cache: false,
            resctrl: false,
            gates: Gates::default(),
            best_effort_cgroup: CgroupPath::new("kubepods/besteffort"),
            max_points: 4_000_000,
        }
    }
}
