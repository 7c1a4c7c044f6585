//! What may the best-effort tier use, what does it use, what did it ask for?
//!
//! ```text
//! real limit = min(smallest CPU set of the tier and of its containers, quota / period)
//! request    = batch CPU of pods labelled best-effort
//! ```

use std::time::Duration;

use groups::{CgroupPath, Limit};
use host::cgroup::CgroupReader;
use host::{FileError, Reading};
use stats::Rate;

use super::group::Pass;
use super::pods::Pods;
use crate::series::{Measure, Metrics, Subject};

/// The group of all best-effort pods.
#[derive(Debug)]
pub(super) struct BestEffort {
    path: CgroupPath,
    reader: Option<CgroupReader>,
    cpu: Rate,
}

/// What the tier's own group says.
struct Tier {
    usage: Duration,
    cpus: Option<usize>,
    /// Cores.
    quota: Option<f64>,
}

impl BestEffort {
    pub(super) fn new(path: &CgroupPath) -> Self {
        Self { path: path.clone(), reader: None, cpu: Rate::default() }
    }

    /// Samples the tier; a host without the group has nothing to say.
    pub(super) fn tick(
        &mut self,
        pass: &mut Pass<'_>,
        pods: &Pods,
        metrics: &Metrics,
    ) -> Result<(), FileError> {
        let reader = self.reader.get_or_insert_with(|| pass.tree.reader(self.path.clone()));
        let Some(tier) = read(reader, pass)? else {
            self.reader = None;
            self.cpu.reset();
            return Ok(());
        };
        let nanos = u64::try_from(tier.usage.as_nanos()).unwrap_or(u64::MAX);
        let delta = self.cpu.advance(nanos, pass.now, pass.rule);
        // Consumers compare usage with request and limit from the first moment on.
        let cpu = delta.map_or(0.0, |delta| delta.per_second() / 1e9);
        let fewest = [tier.cpus, pods.fewest_cpus(&self.path)].into_iter().flatten().min();
        let limit = [fewest.map(cores), tier.quota].into_iter().flatten().reduce(f64::min);
        let mut store = metrics.lock();
        store.push(Subject::BestEffort, Measure::Cpu, pass.now, cpu);
        let request = milli(pods.batch_request().0);
        store.push(Subject::BestEffort, Measure::Request, pass.now, request);
        if let Some(limit) = limit {
            store.push(Subject::BestEffort, Measure::RealLimit, pass.now, limit);
        }
        Ok(())
    }
}

fn read(reader: &mut CgroupReader, pass: &mut Pass<'_>) -> Result<Option<Tier>, FileError> {
    let Reading::Value(usage) = reader.cpu_usage(pass.buffer)? else { return Ok(None) };
    let cpus = reader.cpus(pass.buffer)?.value().map(|cpus| cpus.len()).filter(|len| *len > 0);
    let quota = match reader.cpu_max(pass.buffer)?.value().map(|max| max.cpus()) {
        Some(Limit::At(quota)) => Some(milli(quota.0)),
        Some(Limit::Max) | None => None,
    };
    Ok(Some(Tier { usage, cpus, quota }))
}

#[expect(clippy::cast_precision_loss, reason = "a node has few CPUs")]
fn cores(cpus: usize) -> f64 {
    cpus as f64
}

#[expect(clippy::cast_precision_loss, reason = "samples are kept in single precision")]
fn milli(milli: i64) -> f64 {
    milli as f64 / 1000.0
}
