//! How was it before?
//!
//! Everything is kept in memory and bounded. All nodes together share a fixed number of samples:
//! one machine looks back for hours, each of ten thousand for some minutes.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde::Serialize;
use units::MilliCpu;

use super::row::Classes;

/// Samples of all nodes together: about 16 MB.
const SAMPLES: usize = 200_000;
/// No node keeps fewer than this, or more.
const FEWEST: usize = 20;
const MOST: usize = 1_440;
/// Changes of the best-effort limit that one node keeps.
const LIMITS: usize = 512;
/// Changes of the limit that are smaller are not kept, in milli-cores.
const LEAST_CHANGE: i64 = 50;

/// How many samples one of this many nodes may keep.
pub fn share(nodes: usize) -> usize {
    (SAMPLES / nodes.max(1)).clamp(FEWEST, MOST)
}

/// Usage of one node at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    pub at: Timestamp,
    pub used: Classes,
}

/// What best-effort work was allowed from a moment on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Limit {
    pub at: Timestamp,
    pub milli_cpu: MilliCpu,
}

/// The past of one node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeHistory {
    samples: VecDeque<Sample>,
    limits: VecDeque<Limit>,
}

impl NodeHistory {
    /// Adds a sample; one that is not newer than the last is known already.
    pub fn sample(&mut self, sample: Sample, share: usize) {
        if self.samples.back().is_some_and(|last| last.at >= sample.at) {
            return;
        }
        self.samples.push_back(sample);
        while self.samples.len() > share.max(1) {
            self.samples.pop_front();
        }
    }

    /// Notes a limit when it differs from the last one by enough to be seen.
    pub fn limit(&mut self, limit: Limit) {
        let last = self.limits.back();
        let is_same = |last: &Limit| (last.milli_cpu.0 - limit.milli_cpu.0).abs() < LEAST_CHANGE;
        if last.is_some_and(|last| last.at >= limit.at || is_same(last)) {
            return;
        }
        self.limits.push_back(limit);
        if self.limits.len() > LIMITS {
            self.limits.pop_front();
        }
    }

    pub fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter()
    }

    pub fn limits(&self) -> impl Iterator<Item = &Limit> {
        self.limits.iter()
    }
}

/// The whole cluster at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetSample {
    pub at: Timestamp,
    pub capacity: MilliCpu,
    pub used: MilliCpu,
    pub best_effort: MilliCpu,
}

/// The past of the whole cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FleetHistory(VecDeque<FleetSample>);

impl FleetHistory {
    /// Between two samples.
    const STEP_SECONDS: i64 = 10;

    /// Adds a sample unless the last one is too young.
    pub fn sample(&mut self, sample: FleetSample) {
        let is_due = self.0.back().is_none_or(|last| {
            sample.at.as_second().saturating_sub(last.at.as_second()) >= Self::STEP_SECONDS
        });
        if !is_due {
            return;
        }
        self.0.push_back(sample);
        if self.0.len() > MOST {
            self.0.pop_front();
        }
    }

    pub fn samples(&self) -> impl Iterator<Item = &FleetSample> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn many_nodes_share_the_samples_of_few() {
        for (nodes, want) in [(0, MOST), (1, MOST), (1_000, 200), (10_000, 20), (100_000, 20)] {
            assert_eq!(share(nodes), want, "{nodes}");
        }
    }

    #[test]
    fn a_node_forgets_the_oldest_and_counts_nothing_twice() {
        let mut history = NodeHistory::default();
        for second in [1, 2, 2, 1, 3, 4] {
            history.sample(Sample { at: at(second), used: Classes::default() }, 3);
        }
        let kept: Vec<i64> = history.samples().map(|sample| sample.at.as_second()).collect();
        assert_eq!(kept, [2, 3, 4]);
    }

    #[test]
    fn limits_are_kept_when_they_change() {
        let mut history = NodeHistory::default();
        for (second, milli) in [(1, 500), (2, 500), (3, 400), (3, 300), (4, 500)] {
            history.limit(Limit { at: at(second), milli_cpu: MilliCpu(milli) });
        }
        let kept: Vec<i64> = history.limits().map(|limit| limit.at.as_second()).collect();
        assert_eq!(kept, [1, 3, 4]);
    }

    #[test]
    fn the_fleet_is_sampled_every_ten_seconds() {
        let mut history = FleetHistory::default();
        for second in 0..25 {
            history.sample(FleetSample {
                at: at(second),
                capacity: MilliCpu(1),
                used: MilliCpu(1),
                best_effort: MilliCpu(0),
            });
        }
        assert_eq!(history.samples().count(), 3);
    }
}
