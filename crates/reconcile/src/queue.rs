//! Which key comes next, and when is a failed one tried again?
//!
//! A key is in the queue at most once and with one worker at a time; what happens to its object
//! meanwhile brings the key back once that worker is done. So the queue is bounded by the number of
//! objects there are, and adding never waits. A key that failed waits twice as long each time;
//! success starts it over.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::clock::until;

/// When the object wants to be looked at again, if nothing happens to it before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Settled,
    After(Duration),
    /// The attempt failed.
    Retry,
}

impl Next {
    /// At this time, or only when something happens.
    pub fn at(time: Option<Timestamp>, now: Timestamp) -> Self {
        // A little late rather than a little early: times of objects are whole seconds.
        time.map_or(Next::Settled, |time| {
            Next::After(until(time, now).max(Duration::from_millis(10)))
        })
    }
}

/// How long a key that failed waits: doubled with every failure, between these two.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    pub first: Duration,
    pub last: Duration,
}

impl Backoff {
    fn after(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(20);
        self.last.min(self.first.saturating_mul(2u32.saturating_pow(doublings)))
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(5), last: Duration::from_secs(60) }
    }
}

/// Keys that want attention; cheap to clone.
pub struct Queue<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    backoff: Backoff,
    state: Mutex<State<T>>,
    wake: Notify,
}

struct State<T> {
    ready: VecDeque<T>,
    /// What is in `ready`.
    queued: HashSet<T>,
    /// What workers hold.
    busy: HashSet<T>,
    /// What must come back once its worker is done.
    again: HashSet<T>,
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

impl<T> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state.lock();
        let (ready, busy) = (state.ready.len(), state.busy.len());
        f.debug_struct("Queue").field("ready", &ready).field("busy", &busy).finish_non_exhaustive()
    }
}

impl<T: Clone + Ord + Hash> Default for Queue<T> {
    fn default() -> Self {
        Self::new(Backoff::default())
    }
}

impl<T: Clone + Ord + Hash> Queue<T> {
    pub fn new(backoff: Backoff) -> Self {
        let state = State {
            ready: VecDeque::new(),
            queued: HashSet::new(),
            busy: HashSet::new(),
            again: HashSet::new(),
            later: BTreeSet::new(),
            due: HashMap::new(),
            failures: HashMap::new(),
        };
        let shared = Shared { backoff, state: Mutex::new(state), wake: Notify::new() };
        Self { shared: Arc::new(shared) }
    }

    pub fn add(&self, key: T) {
        self.shared.state.lock().push(key);
        self.shared.wake.notify_one();
    }

    /// Adds the key once the time has passed; the earliest of several such wishes counts.
    pub fn add_after(&self, key: T, delay: Duration) {
        self.shared.state.lock().push_at(key, Instant::now() + delay);
        self.shared.wake.notify_one();
    }

    /// Keys that wait for a worker.
    pub fn depth(&self) -> usize {
        self.shared.state.lock().ready.len()
    }

    /// Does no worker hold a key?
    pub fn is_at_rest(&self) -> bool {
        self.shared.state.lock().busy.is_empty()
    }

    /// Does no worker hold a key, nor any key wait for one?
    pub fn is_idle(&self) -> bool {
        let state = self.shared.state.lock();
        state.busy.is_empty() && state.ready.is_empty()
    }

    /// The next key, as soon as there is one; the caller says [`Queue::done`] afterwards.
    pub async fn next(&self) -> T {
        loop {
            let due = {
                let mut state = self.shared.state.lock();
                state.promote(Instant::now());
                if let Some(key) = state.pop() {
                    let is_more = !state.ready.is_empty() || !state.later.is_empty();
                    drop(state);
                    if is_more {
                        self.shared.wake.notify_one();
                    }
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

    /// The worker is done with the key.
    pub fn done(&self, key: T, next: Next) {
        let mut state = self.shared.state.lock();
        state.busy.remove(&key);
        let is_wanted = state.again.remove(&key);
        let delay = match next {
            Next::Settled => None,
            Next::After(delay) => Some(delay),
            Next::Retry => Some(self.shared.backoff.after(state.failed(&key))),
        };
        if next != Next::Retry {
            state.failures.remove(&key);
        }
        // A failure keeps its distance even when more happened meanwhile: it would fail again.
        if is_wanted && next != Next::Retry {
            state.push(key);
        } else if let Some(delay) = delay {
            state.push_at(key, Instant::now() + delay);
        }
        drop(state);
        self.shared.wake.notify_one();
    }
}

impl<T: Clone + Ord + Hash> State<T> {
    fn push(&mut self, key: T) {
        if self.busy.contains(&key) {
            self.again.insert(key);
        } else if self.queued.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    fn pop(&mut self) -> Option<T> {
        let key = self.ready.pop_front()?;
        self.queued.remove(&key);
        self.busy.insert(key.clone());
        Some(key)
    }

    fn push_at(&mut self, key: T, at: Instant) {
        match self.due.get(&key).copied() {
            Some(earlier) if earlier <= at => return,
            Some(later) => {
                self.later.remove(&(later, key.clone()));
            }
            None => {}
        }
        self.due.insert(key.clone(), at);
        self.later.insert((at, key));
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

    fn failed(&mut self, key: &T) -> u32 {
        let failures = self.failures.entry(key.clone()).or_default();
        *failures = failures.saturating_add(1);
        *failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_is_queued_once_in_order_and_with_one_worker() {
        let queue = Queue::default();
        for key in ["a", "b", "a"] {
            queue.add(key);
        }
        assert_eq!(queue.depth(), 2);
        assert_eq!(queue.next().await, "a");
        queue.add("a");
        assert_eq!(queue.next().await, "b", "a is with a worker");
        assert_eq!(queue.depth(), 0);
        queue.done("a", Next::Settled);
        assert_eq!(queue.next().await, "a", "it came back");
        assert!(!queue.is_at_rest() && !queue.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_wish_counts() {
        let queue = Queue::default();
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
        let queue = Queue::default();
        queue.add("a");
        let mut waits = Vec::new();
        let mut key = queue.next().await;
        for next in [Next::Retry, Next::Retry, Next::Retry, Next::After(Duration::from_secs(3))] {
            let start = Instant::now();
            queue.done(key, next);
            key = queue.next().await;
            waits.push(start.elapsed().as_millis());
        }
        let start = Instant::now();
        queue.done(key, Next::Retry);
        queue.next().await;
        waits.push(start.elapsed().as_millis());
        assert_eq!(waits, [5, 10, 20, 3_000, 5], "success starts over");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_keeps_its_distance_from_what_happened_meanwhile() {
        let queue = Queue::new(Backoff { first: Duration::from_secs(1), ..Backoff::default() });
        queue.add("a");
        let (key, start) = (queue.next().await, Instant::now());
        queue.add("a");
        queue.done(key, Next::Retry);
        queue.next().await;
        assert_eq!(start.elapsed().as_secs(), 1);
    }

    #[test]
    fn waiting_has_an_end() {
        let backoff = Backoff::default();
        assert_eq!(backoff.after(1), backoff.first);
        assert_eq!(backoff.after(14), Duration::from_millis(5 << 13));
        assert_eq!(backoff.after(15), backoff.last);
        assert_eq!(backoff.after(u32::MAX), backoff.last);
    }

    #[test]
    fn a_time_in_the_past_means_soon() {
        let now = Timestamp::constant(1_900_000_000, 0);
        assert_eq!(Next::at(Some(Timestamp::MIN), now), Next::After(Duration::from_millis(10)));
        assert_eq!(Next::at(None, now), Next::Settled);
    }
}
