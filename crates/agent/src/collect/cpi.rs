//! How many cycles does an instruction of each container take?
//!
//! Counters need two descriptors for each CPU and container, so only a batch of containers is counted at
//! a time: as many as fit the budget. A batch is opened, left alone for the counting window, read and
//! closed; then it is the next batch's turn, and when all had theirs the rest of the interval is quiet. A
//! container that did not run has no ratio and gets no sample.

use std::time::Duration;

use groups::Controller;
use host::cgroup::Tree;
use host::perf::{self, CgroupCounters};
use host::{FileError, Reading};
use units::CpuSet;

use super::Trouble;
use super::pods::Pods;
use crate::collect::CollectSettings;
use crate::series::{Cpi, Metrics, Subject};

/// Descriptors that counters may take at a time.
const BUDGET: usize = 4096;

/// How often the state below moves on: once a counting window.
pub(super) fn step(settings: &CollectSettings) -> Duration {
    settings.cpi_window.min(settings.cpi_interval)
}

/// Counters that are running, and whose turn it is next.
#[derive(Debug, Default)]
pub(super) struct CpiCounters {
    running: Vec<(String, CgroupCounters)>,
    /// How many containers have had their turn.
    next: usize,
    is_unsupported: bool,
}

impl CpiCounters {
    /// Reads the batch that was counting and starts the next one.
    pub(super) fn tick(
        &mut self,
        tree: &Tree,
        pods: &mut Pods,
        cpus: &CpuSet,
        now: Duration,
        metrics: &Metrics,
    ) -> Result<(), Trouble> {
        if !self.is_unsupported && self.next == 0 && self.running.is_empty() {
            self.is_unsupported = perf::probe().is_err_and(|error| perf::is_unsupported(&error));
        }
        if self.is_unsupported || tree.fs().real_path("/".as_ref()).is_none() {
            return Err(Trouble::Unsupported);
        }
        for (id, counters) in self.running.drain(..) {
            if let Ok(counted) = counters.read()
                && counted.cycles > 0
            {
                let cpi =
                    Cpi { at: now, cycles: counted.cycles, instructions: counted.instructions };
                metrics.lock().set_cpi(Subject::Container(&id), cpi);
            }
        }
        self.start_batch(tree, pods, cpus)
    }

    fn start_batch(&mut self, tree: &Tree, pods: &mut Pods, cpus: &CpuSet) -> Result<(), Trouble> {
        let most = BUDGET / (CgroupCounters::DESCRIPTORS * cpus.len().max(1));
        let (mut at, mut result) = (0, Ok(()));
        let (running, next) = (&mut self.running, self.next);
        pods.visit(|subject, group| {
            let Subject::Container(id) = subject else { return };
            let is_turn = at >= next && running.len() < most.max(1);
            at += 1;
            let dir = tree.dir(Controller::PerfEvent, group.path());
            let real = dir.and_then(|dir| Some((tree.fs().real_path(&dir)?, dir)));
            let Some((real, dir)) = real.filter(|_| is_turn) else { return };
            match CgroupCounters::open(&real, cpus) {
                Ok(Reading::Value(counters)) => running.push((id.to_owned(), counters)),
                Ok(Reading::Gone) => {}
                Ok(Reading::Unsupported) => result = Err(Trouble::Unsupported),
                Err(source) => result = Err(FileError::Read { path: dir, source }.into()),
            }
        });
        self.next += self.running.len();
        if self.next >= at {
            self.next = 0;
        }
        result
    }
}
