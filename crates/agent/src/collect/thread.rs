//! Who runs the collectors? One thread, because the kernel's files are read synchronously.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use host::cgroup::Tree;
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::debug;

use super::{Collector, Meter};
use crate::clock::Clock;
use crate::collect::CollectSettings;
use crate::node_state::SharedNodeState;
use crate::series::{Metrics, Store};
use crate::worker::{End, Worker};

/// How many ticks are remembered.
const REMEMBERED: usize = 3600;

/// How long the last ticks of the usage collectors took.
#[derive(Debug, Clone, Default)]
pub struct Ticks(Arc<Mutex<VecDeque<u32>>>);

impl Ticks {
    fn note(&self, took: Duration) {
        let mut ticks = self.0.lock();
        if ticks.len() == REMEMBERED {
            ticks.pop_front();
        }
        ticks.push_back(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
    }

    /// The time below which 99 of 100 ticks stay; `None` before the first.
    pub fn p99(&self) -> Option<Duration> {
        let mut micros: Vec<u32> = self.0.lock().iter().copied().collect();
        micros.sort_unstable();
        let last = micros.len().checked_sub(1)?;
        let at = (last * 99).div_ceil(100);
        micros.get(at).map(|micros| Duration::from_micros(u64::from(*micros)))
    }
}

/// Collects until it is stopped.
#[derive(Debug)]
pub struct CollectThread {
    worker: Worker,
    ticks: Ticks,
    wakes: Meter,
}

impl CollectThread {
    /// Starts collecting what `state` says, at once.
    pub fn start(
        settings: CollectSettings,
        tree: Tree,
        state: SharedNodeState,
        clock: Clock,
    ) -> io::Result<(Self, Metrics)> {
        let metrics = Metrics::new(Store::new(settings.usage_interval, settings.max_points));
        let thread = Self::start_into(metrics.clone(), settings, tree, state, clock)?;
        Ok((thread, metrics))
    }

    /// Starts collecting into metrics that may hold samples already.
    pub fn start_into(
        metrics: Metrics,
        settings: CollectSettings,
        tree: Tree,
        state: SharedNodeState,
        clock: Clock,
    ) -> io::Result<Self> {
        raise_descriptor_limit();
        let collector = Collector::new(tree, settings, metrics);
        let (ticks, wakes) = (Ticks::default(), Meter::default());
        let run = Run { ticks: ticks.clone(), wakes: wakes.clone() };
        let worker = Worker::start("collect", move |stop| run.run(collector, &state, clock, stop))?;
        Ok(Self { worker, ticks, wakes })
    }

    pub fn ticks(&self) -> &Ticks {
        &self.ticks
    }

    /// How often the thread went to sleep.
    pub fn wakes(&self) -> u64 {
        self.wakes.count()
    }

    /// Says when the thread has ended.
    pub(crate) fn end(&mut self) -> Option<End> {
        self.worker.end()
    }

    /// Whether the thread is still there.
    pub fn is_running(&self) -> bool {
        self.worker.is_running()
    }

    pub fn stop(self) {
        drop(self.worker);
    }
}

struct Run {
    ticks: Ticks,
    wakes: Meter,
}

impl Run {
    fn run(
        self,
        mut collector: Collector,
        state: &SharedNodeState,
        clock: Clock,
        stop: &AtomicBool,
    ) {
        collector.start_at(clock.now());
        while !stop.load(Ordering::Acquire) {
            let now = clock.now();
            match collector.next_due() {
                Some(due) if due > now => {
                    self.wakes.add(1);
                    thread::park_timeout(due - now);
                    continue;
                }
                Some(_) => {}
                None => {
                    thread::park();
                    continue;
                }
            }
            if collector.tick(now, &state.load_full()) {
                self.ticks.note(clock.now() - now);
            }
        }
    }
}

/// Lets this process hold as many open files as it is allowed to: each control group keeps a few.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        debug!(%error, "cannot raise the limit of open files");
    }
}
