//! Which object comes next, and when is a failed one tried again?
//!
//! A key is in the queue at most once, however often it is added. A key that failed waits twice
//! as long each time, from five milliseconds up to one minute; success starts it over. The queue
//! is bounded by the number of objects there are, so adding never waits.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    hash::Hash,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

const FIRST_RETRY: Duration = Duration::from_millis(5);
const LAST_RETRY: Duration = Duration::from_secs(60);

/// Keys that want attention, for one worker.
pub(crate) struct Queue<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    wake: Notify,
}

struct State<T> {
    ready: VecDeque<T>,
    /// What is in `ready`.
    queued: HashSet<T>,
    later: BTreeSet<(Instant, T)>,
    /// When each key in `later` is due.
    due: HashMap<T, Instant>,
    failures: HashMap<T, u32>,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<T: Clone + Ord + Hash> Queue<T> {
    pub(crate) fn new() -> Self {
        let state = State {
            ready: VecDeque::new(),
            queued: HashSet::new(),
            later: BTreeSet::new(),
            due: HashMap::new(),
            failures: HashMap::new(),
        };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), wake: Notify::new() }) }
    }

    pub(crate) fn add(&self, key: T) {
        self.shared.state.lock().push(key);
        self.shared.wake.notify_one();
    }

    /// Adds the key once the time has passed; the earliest of several such wishes counts.
    pub(crate) fn add_after(&self, key: T, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        {
            let mut state = self.shared.state.lock();
            let at = Instant::now() + delay;
            match state.due.get(&key).copied() {
                Some(earlier) if earlier <= at => return,
                Some(later) => {
                    state.later.remove(&(later, key.clone()));
                }
                None => {}
            }
            state.due.insert(key.clone(), at);
            state.later.insert((at, key));
        }
        self.shared.wake.notify_one();
    }

    /// Adds a key that failed after its next, longer, waiting time.
    pub(crate) fn retry(&self, key: T) {
        let failures = {
            let mut state = self.shared.state.lock();
            let failures = state.failures.entry(key.clone()).or_default();
            *failures = failures.saturating_add(1);
            *failures
        };
        self.add_after(key, waiting_time(failures));
    }

    /// The key succeeded: its next failure is the first one again.
    pub(crate) fn forgive(&self, key: &T) {
        self.shared.state.lock().failures.remove(key);
    }

    /// The next key, as soon as there is one.
    pub(crate) async fn next(&self) -> T {
        loop {
            let due = {
                let mut state = self.shared.state.lock();
                state.promote(Instant::now());
                if let Some(key) = state.pop() {
                    return key;
                }
                state.later.first().map(|(at, _)| *at)
            };
            match due {
                Some(at) => tokio::select! {
                    () = self.shared.wake.notified() => {}
                    () = sleep_until(at) => {}
                },
                None => self.shared.wake.notified().await,
            }
        }
    }
}

impl<T: Clone + Ord + Hash> State<T> {
    fn push(&mut self, key: T) {
        if self.queued.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    fn pop(&mut self) -> Option<T> {
        let key = self.ready.pop_front()?;
        self.queued.remove(&key);
        Some(key)
    }

    fn promote(&mut self, now: Instant) {
        while let Some((at, _)) = self.later.first()
            && *at <= now
        {
            let Some((_, key)) = self.later.pop_first() else { return };
            self.due.remove(&key);
            self.push(key);
        }
    }
}

fn waiting_time(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(20);
    LAST_RETRY.min(FIRST_RETRY * 2u32.saturating_pow(doublings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_is_queued_once_and_in_order() {
        let queue = Queue::new();
        for key in ["a", "b", "a"] {
            queue.add(key);
        }
        assert_eq!((queue.next().await, queue.next().await), ("a", "b"));
        queue.add("c");
        assert_eq!(queue.next().await, "c");
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_wish_counts() {
        let queue = Queue::new();
        let start = Instant::now();
        queue.add_after("a", Duration::from_secs(10));
        queue.add_after("a", Duration::from_secs(3));
        queue.add_after("a", Duration::from_secs(7));
        queue.add_after("b", Duration::from_secs(5));
        assert_eq!(queue.next().await, "a");
        assert_eq!(start.elapsed().as_secs(), 3);
        assert_eq!(queue.next().await, "b");
        assert_eq!(start.elapsed().as_secs(), 5);
        queue.add("end");
        assert_eq!(queue.next().await, "end", "nothing of a is left over");
    }

    #[tokio::test(start_paused = true)]
    async fn failures_wait_longer_until_one_success() {
        let queue = Queue::new();
        let mut waits = Vec::new();
        for _ in 0..3 {
            let start = Instant::now();
            queue.retry("a");
            queue.next().await;
            waits.push(start.elapsed().as_millis());
        }
        queue.forgive(&"a");
        let start = Instant::now();
        queue.retry("a");
        queue.next().await;
        waits.push(start.elapsed().as_millis());
        assert_eq!(waits, [5, 10, 20, 5]);
    }

    #[test]
    fn waiting_has_an_end() {
        assert_eq!(waiting_time(1), FIRST_RETRY);
        assert_eq!(waiting_time(14), Duration::from_millis(5 << 13));
        assert_eq!(waiting_time(15), LAST_RETRY);
        assert_eq!(waiting_time(u32::MAX), LAST_RETRY);
    }
}
