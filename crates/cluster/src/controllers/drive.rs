//! How does a controller run?
//!
//! One task takes keys from the controller's queue, one after the other, and lets the controller
//! bring that object forward. Whatever goes wrong is tried again with growing pauses. The task
//! stops in the middle of its work when told to: every step leaves the cluster in a state from
//! which the next start goes on.

use std::{fmt::Display, hash::Hash, time::Duration};

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{
    clock::{Clock, until},
    queue::Queue,
    writer::SyncError,
};

/// When the object wants to be looked at again, if nothing happens to it before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Settled,
    After(Duration),
}

impl Next {
    /// At this time, or only when something happens.
    pub(crate) fn at(time: Option<Timestamp>, now: Timestamp) -> Self {
        // A little late rather than a little early: times of objects are whole seconds.
        time.map_or(Next::Settled, |time| {
            Next::After(until(time, now).max(Duration::from_millis(10)))
        })
    }
}

/// Brings one object after the other forward.
pub(crate) trait Controller: Send + 'static {
    type Key: Clone + Ord + Hash + Display + Send + Sync + 'static;

    const NAME: &'static str;

    fn reconcile(
        &mut self,
        key: &Self::Key,
        now: Timestamp,
    ) -> impl Future<Output = Result<Next, SyncError>> + Send;
}

/// Runs the controller until told to stop.
pub(crate) async fn drive<C: Controller>(
    mut controller: C,
    queue: Queue<C::Key>,
    clock: Clock,
    shutdown: CancellationToken,
) {
    let work = async {
        loop {
            let key = queue.next().await;
            let result = controller.reconcile(&key, clock.now()).await;
            settle(C::NAME, &queue, key, result);
        }
    };
    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        () = work => {}
    }
}

fn settle<T>(name: &str, queue: &Queue<T>, key: T, result: Result<Next, SyncError>)
where
    T: Clone + Ord + Hash + Display,
{
    match result {
        Ok(next) => {
            queue.forgive(&key);
            if let Next::After(delay) = next {
                queue.add_after(key, delay);
            }
        }
        Err(error) => {
            if error.is_conflict() || error.is_missing() {
                debug!(controller = name, object = %key, %error, "decided on old facts; will decide again");
            } else {
                let cause = error.message();
                warn!(controller = name, object = %key, %error, cause, "will try again");
            }
            queue.retry(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::core::Status;
    use parking_lot::Mutex;
    use tokio::time::Instant;

    use super::*;
    use crate::controllers::{fixture::NOW, key::Key};

    /// Fails twice, asks to be called in ten seconds, then settles and stops everything.
    struct Script {
        calls: Arc<Mutex<Vec<u128>>>,
        start: Instant,
        done: CancellationToken,
    }

    impl Controller for Script {
        type Key = Key;

        const NAME: &'static str = "script";

        async fn reconcile(&mut self, key: &Key, _now: Timestamp) -> Result<Next, SyncError> {
            let number = {
                let mut calls = self.calls.lock();
                calls.push(self.start.elapsed().as_millis());
                calls.len()
            };
            match number {
                1 | 2 => {
                    let status = Status::failure("changed", "Conflict").boxed();
                    Err(SyncError::new("patch", "Pod", key, kube::Error::Api(status)))
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
        let queue = Queue::new();
        queue.add(Key::new("default", "a"));
        let script = Script { calls: calls.clone(), start: Instant::now(), done: done.clone() };
        drive(script, queue, Clock::from_fn(|| NOW), done).await;
        assert_eq!(*calls.lock(), [0, 5, 15, 10_015]);
    }

    #[test]
    fn a_time_in_the_past_means_soon() {
        let past = Some(Timestamp::MIN);
        assert_eq!(Next::at(past, NOW), Next::After(Duration::from_millis(10)));
        assert_eq!(Next::at(None, NOW), Next::Settled);
    }
}
