//! How busy is the node right now, twenty times a second?
//!
//! A second is too long to wait when online load jumps. This sampler reads two files each time: CPU time
//! of the node and of the best-effort tier. It keeps the last seconds and nothing else; what it costs is
//! in `tidepool bench agent`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use host::cgroup::{CgroupPath, CgroupReader};
use host::fs::HostFs;
use host::proc::{NodeReader, Stat};
use host::{FileError, Reading};
use parking_lot::Mutex;
use stats::{Rate, RateRule};

use super::group::Pass;

/// How many samples are kept: five seconds at twenty a second.
const KEPT: usize = 100;

/// What was used between two fast samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FastSample {
    pub at: Duration,
    /// Cores of the whole node. The kernel counts in ticks, so a single sample is coarse.
    pub node: f64,
    /// Cores of the best-effort tier; `None` on a host without one.
    pub best_effort: Option<f64>,
}

/// The last fast samples: written by the kernel thread, read by strategies.
#[derive(Debug, Clone, Default)]
pub struct Fast {
    samples: Arc<Mutex<VecDeque<FastSample>>>,
}

impl Fast {
    pub fn latest(&self) -> Option<FastSample> {
        self.samples.lock().back().copied()
    }

    /// Mean cores of the node over the samples of the last `window`, which evens out ticks.
    pub fn node_average(&self, now: Duration, window: Duration) -> Option<f64> {
        let samples = self.samples.lock();
        let recent = samples.iter().rev().take_while(|sample| sample.at + window > now);
        let (count, sum) =
            recent.fold((0_u32, 0.0), |(count, sum), sample| (count + 1, sum + sample.node));
        (count > 0).then(|| sum / f64::from(count))
    }

    fn push(&self, sample: FastSample) {
        let mut samples = self.samples.lock();
        if samples.len() == KEPT {
            samples.pop_front();
        }
        samples.push_back(sample);
    }
}

/// Takes fast samples.
#[derive(Debug)]
pub(super) struct FastSampler {
    node: NodeReader,
    stat: Stat,
    tick: f64,
    total: Rate,
    tier_path: CgroupPath,
    tier: Option<CgroupReader>,
    tier_cpu: Rate,
    /// When to look for the tier again.
    retry_at: Duration,
    rule: RateRule,
    fast: Fast,
}

impl FastSampler {
    pub(super) fn new(fs: Arc<dyn HostFs>, tier: &str, interval: Duration, fast: Fast) -> Self {
        Self {
            node: NodeReader::new(fs),
            stat: Stat::default(),
            tick: NodeReader::tick().as_secs_f64(),
            total: Rate::default(),
            tier_path: CgroupPath::new(tier),
            tier: None,
            tier_cpu: Rate::default(),
            retry_at: Duration::ZERO,
            // A full tick of all collectors may come between two fast samples.
            rule: RateRule::every(interval * 4),
            fast,
        }
    }

    pub(super) fn tick(&mut self, pass: &mut Pass<'_>) -> Result<(), FileError> {
        self.node.stat(pass.buffer, &mut self.stat)?;
        let node = self.total.advance(self.stat.total.busy(), pass.now, self.rule);
        let best_effort = self.tick_tier(pass)?;
        if let Some(node) = node {
            let node = node.per_second() * self.tick;
            self.fast.push(FastSample { at: pass.now, node, best_effort });
        }
        Ok(())
    }

    fn tick_tier(&mut self, pass: &mut Pass<'_>) -> Result<Option<f64>, FileError> {
        if self.tier.is_none() && pass.now < self.retry_at {
            return Ok(None);
        }
        let tier = self.tier.get_or_insert_with(|| pass.tree.reader(self.tier_path.clone()));
        let Reading::Value(usage) = tier.cpu_usage(pass.buffer)? else {
            self.tier = None;
            self.tier_cpu.reset();
            self.retry_at = pass.now + Duration::from_secs(1);
            return Ok(None);
        };
        let nanos = u64::try_from(usage.as_nanos()).unwrap_or(u64::MAX);
        let delta = self.tier_cpu.advance(nanos, pass.now, self.rule);
        Ok(delta.map(|delta| delta.per_second() / 1e9))
    }
}
