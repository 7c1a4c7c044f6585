//! How does a controller run?
//!
//! Workers take keys from the controller's queue and let the controller bring each object forward.
//! A failed attempt is made again with growing pauses; so is one that panicked, because one object
//! that nobody thought of must not stop the others. A replica that does not lead gathers work and
//! waits. Workers stop in the middle of their work when told to: every step leaves the cluster in a
//! state from which the next start goes on.

use std::fmt::Display;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use jiff::Timestamp;
use prometheus::{IntCounterVec, IntGaugeVec};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use crate::clock::Clock;
use crate::elect::Leadership;
use crate::error::chain;
use crate::queue::{Next, Queue};
use crate::write::WriteError;

/// Pause before a broken part is started again.
const RESTART: Duration = Duration::from_secs(1);

/// Brings one object after the other forward.
pub trait Controller: Send {
    type Key: Clone + Ord + Hash + Display + Send + Sync + 'static;

    /// As in logs, metrics and flags.
    const NAME: &'static str;

    fn reconcile(
        &mut self,
        key: &Self::Key,
        now: Timestamp,
    ) -> impl Future<Output = Result<Next, WriteError>> + Send;
}

/// What all controllers of a process are driven with.
#[derive(Debug, Clone)]
pub struct Driver {
    pub clock: Clock,
    pub leadership: Leadership,
    pub counters: Option<Counters>,
}

/// What is counted of controllers.
#[derive(Debug, Clone)]
pub struct Counters {
    /// Attempts, by controller and how they ended.
    pub total: IntCounterVec,
    /// Keys that wait, by controller.
    pub depth: IntGaugeVec,
}

impl Driver {
    /// Runs a controller until told to stop, with one worker for each value of it.
    pub async fn run<C: Controller>(
        &self,
        workers: impl IntoIterator<Item = C>,
        queue: &Queue<C::Key>,
        stop: &CancellationToken,
    ) {
        let working = join_all(workers.into_iter().map(|worker| self.work(worker, queue)));
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            _ = working => {}
        }
    }

    async fn work<C: Controller>(&self, mut controller: C, queue: &Queue<C::Key>) {
        let mut leadership = self.leadership.clone();
        loop {
            leadership.until_held().await;
            let key = queue.next().await;
            if let Some(counters) = &self.counters {
                let depth = i64::try_from(queue.depth()).unwrap_or(i64::MAX);
                counters.depth.with_label_values(&[C::NAME]).set(depth);
            }
            let attempt = AssertUnwindSafe(controller.reconcile(&key, self.clock.now()));
            let ended = attempt.catch_unwind().await;
            let ended = ended.unwrap_or_else(|_| Err(WriteError::Broken(key.to_string())));
            if let Some(counters) = &self.counters {
                let word = if ended.is_ok() { "success" } else { "error" };
                counters.total.with_label_values(&[C::NAME, word]).inc();
            }
            let next = ended.unwrap_or_else(|error| {
                log(C::NAME, &key, &error);
                Next::Retry
            });
            queue.done(key, next);
        }
    }
}

fn log(controller: &str, object: &impl Display, error: &WriteError) {
    let reason = chain(error);
    if error.is_conflict() || error.is_missing() {
        debug!(controller, %object, error = reason, "decided on old facts; will decide again");
    } else {
        warn!(controller, %object, error = reason, "will try again");
    }
}

/// A part of a process, as a future of its own.
pub type Part = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs a part until told to stop; one that ends before is started again.
pub async fn supervise(
    name: &'static str,
    part: impl Fn(CancellationToken) -> Part,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        // Dropping the set ends the part with us.
        let mut running = JoinSet::new();
        running.spawn(part(stop.clone()));
        let result = running.join_next().await;
        if stop.is_cancelled() {
            return;
        }
        match result {
            Some(Err(error)) => error!(name, %error, "a part broke; starting it again"),
            _ => warn!(name, "a part ended; starting it again"),
        }
        tokio::select! {
            () = sleep(RESTART) => {}
            () = stop.cancelled() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use kube::core::Status;
    use parking_lot::Mutex;
    use tokio::time::Instant;

    use super::*;
    use crate::key::Key;

    const NOW: Timestamp = Timestamp::constant(1_900_000_000, 0);

    fn driver() -> Driver {
        let total = prometheus::Opts::new("total", "attempts");
        let depth = prometheus::Opts::new("depth", "keys that wait");
        let counters = Counters {
            total: IntCounterVec::new(total, &["controller", "result"]).unwrap(),
            depth: IntGaugeVec::new(depth, &["name"]).unwrap(),
        };
        let (clock, leadership) = (Clock::from_fn(|| NOW), Leadership::alone());
        Driver { clock, leadership, counters: Some(counters) }
    }

    /// Fails twice, asks to be called in ten seconds, then settles and stops everything.
    struct Script {
        calls: Arc<Mutex<Vec<u128>>>,
        start: Instant,
        done: CancellationToken,
    }

    impl Controller for Script {
        type Key = Key;

        const NAME: &'static str = "script";

        async fn reconcile(&mut self, key: &Key, _now: Timestamp) -> Result<Next, WriteError> {
            let number = {
                let mut calls = self.calls.lock();
                calls.push(self.start.elapsed().as_millis());
                calls.len()
            };
            match number {
                1 | 2 => {
                    let status = Status::failure("changed", "Conflict").boxed();
                    Err(WriteError::refused("patch", "Pod", key, kube::Error::Api(status)))
                }
                3 => Ok(Next::After(Duration::from_secs(10))),
                _ => {
                    self.done.cancel();
                    Ok(Next::Settled)
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_retried_and_wishes_kept() {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let done = CancellationToken::new();
        let queue = Queue::default();
        queue.add(Key::new("default", "a"));
        let script = Script { calls: calls.clone(), start: Instant::now(), done: done.clone() };
        driver().run([script], &queue, &done).await;
        assert_eq!(*calls.lock(), [0, 5, 15, 10_015]);
    }

    /// Breaks on keys called so.
    #[derive(Clone)]
    struct Fragile(Arc<Mutex<Vec<&'static str>>>);

    impl Controller for Fragile {
        type Key = &'static str;

        const NAME: &'static str = "fragile";

        async fn reconcile(
            &mut self,
            key: &&'static str,
            _: Timestamp,
        ) -> Result<Next, WriteError> {
            assert_ne!(*key, "odd", "nobody thought of this one");
            self.0.lock().push(key);
            Ok(Next::Settled)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_breaks_its_controller_is_counted_and_tried_again() {
        let (driver, fragile, queue) = (driver(), Fragile(Arc::default()), Queue::default());
        for name in ["odd", "even"] {
            queue.add(name);
        }
        let stop = CancellationToken::new();
        let twice = async {
            let totals = &driver.counters.as_ref().unwrap().total;
            while totals.with_label_values(&["fragile", "error"]).get() < 2 {
                sleep(Duration::from_millis(5)).await;
            }
            stop.cancel();
        };
        let workers = [fragile.clone(), fragile.clone()];
        tokio::join!(driver.run(workers, &queue, &stop), twice);
        assert_eq!(*fragile.0.lock(), ["even"]);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_does_not_lead_gathers_work_and_waits() {
        let (election, held) = tokio::sync::watch::channel(false);
        let driver = Driver { leadership: Leadership::follow(held), ..driver() };
        let (fragile, queue, stop) =
            (Fragile(Arc::default()), Queue::default(), CancellationToken::new());
        queue.add("a");
        let seen = fragile.0.clone();
        let leading = async {
            sleep(Duration::from_secs(60)).await;
            assert_eq!(*seen.lock(), [""; 0]);
            election.send_replace(true);
            sleep(Duration::from_secs(1)).await;
            stop.cancel();
        };
        tokio::join!(driver.run([fragile], &queue, &stop), leading);
        assert_eq!(*seen.lock(), ["a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_that_breaks_is_started_again() {
        let (starts, stop) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
        let part = {
            let starts = starts.clone();
            move |stop: CancellationToken| -> Part {
                let start = starts.fetch_add(1, Ordering::SeqCst);
                Box::pin(async move {
                    assert!(start > 1, "the first two starts fail");
                    stop.cancelled().await;
                })
            }
        };
        let running = tokio::spawn(supervise("part", part, stop.clone()));
        while starts.load(Ordering::SeqCst) < 3 {
            sleep(Duration::from_millis(100)).await;
        }
        stop.cancel();
        running.await.unwrap();
    }
}
