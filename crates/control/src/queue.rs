//! Which node comes next, and when is a failed one tried again?
//!
//! A node is in the queue at most once and with one worker at a time; what happens to it meanwhile
//! brings it back once that worker is done. So the queue is bounded by the number of nodes, and
//! adding never waits. A node that failed waits twice as long each time, from ten milliseconds up
//! to half a minute; success starts it over.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::caches::NodeName;

const FIRST_RETRY: Duration = Duration::from_millis(10);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// When a node wants to be looked at again, if nothing happens to it before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Settled,
    After(Duration),
    /// It failed.
    Retry,
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<NodeName>,
    /// What is in `ready`.
    queued: HashSet<NodeName>,
    /// What workers hold.
    busy: HashSet<NodeName>,
    /// What must come back once its worker is done.
    again: HashSet<NodeName>,
    later: BTreeSet<(Instant, NodeName)>,
    due: HashMap<NodeName, Instant>,
    failures: HashMap<NodeName, u32>,
}

impl Queue {
    pub(crate) fn add(&self, name: NodeName) {
        self.state.lock().push(name);
        self.wake.notify_one();
    }

    /// Nodes that wait for a worker.
    pub(crate) fn depth(&self) -> usize {
        self.state.lock().ready.len()
    }

    /// Does no worker hold a node?
    pub(crate) fn is_at_rest(&self) -> bool {
        self.state.lock().busy.is_empty()
    }

    /// Does no worker hold a node, nor any node wait for one?
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state.lock();
        state.busy.is_empty() && state.ready.is_empty()
    }

    /// The next node, as soon as there is one; the caller says [`Queue::done`] afterwards.
    pub(crate) async fn next(&self) -> NodeName {
        loop {
            let due = {
                let mut state = self.state.lock();
                state.promote(Instant::now());
                if let Some(name) = state.ready.pop_front() {
                    state.queued.remove(&name);
                    state.busy.insert(name.clone());
                    let is_more = !state.ready.is_empty() || !state.later.is_empty();
                    drop(state);
                    if is_more {
                        self.wake.notify_one();
                    }
                    return name;
                }
                state.later.first().map(|(at, _)| *at)
            };
            match due {
                Some(at) => tokio::select! {
                    () = self.wake.notified() => {}
                    () = sleep_until(at) => {}
                },
                None => self.wake.notified().await,
            }
        }
    }

    pub(crate) fn done(&self, name: NodeName, next: Next) {
        let mut state = self.state.lock();
        state.busy.remove(&name);
        let is_wanted = state.again.remove(&name);
        let delay = match next {
            Next::Settled => None,
            Next::After(delay) => Some(delay),
            Next::Retry => Some(waiting_time(state.failed(&name))),
        };
        if next != Next::Retry {
            state.failures.remove(&name);
        }
        // A failure keeps its distance even when more happened meanwhile: it would fail again.
        if is_wanted && next != Next::Retry {
            state.push(name);
        } else if let Some(delay) = delay {
            state.push_at(name, Instant::now() + delay);
        }
        drop(state);
        self.wake.notify_one();
    }
}

impl State {
    fn push(&mut self, name: NodeName) {
        if self.busy.contains(&name) {
            self.again.insert(name);
        } else if self.queued.insert(name.clone()) {
            self.ready.push_back(name);
        }
    }

    /// The earliest of several such wishes counts.
    fn push_at(&mut self, name: NodeName, at: Instant) {
        match self.due.get(&name).copied() {
            Some(earlier) if earlier <= at => return,
            Some(later) => {
                self.later.remove(&(later, name.clone()));
            }
            None => {}
        }
        self.due.insert(name.clone(), at);
        self.later.insert((at, name));
    }

    fn promote(&mut self, now: Instant) {
        while let Some((at, _)) = self.later.first()
            && *at <= now
        {
            let Some((_, name)) = self.later.pop_first() else { return };
            self.due.remove(&name);
            self.push(name);
        }
    }

    fn failed(&mut self, name: &NodeName) -> u32 {
        let failures = self.failures.entry(name.clone()).or_default();
        *failures = failures.saturating_add(1);
        *failures
    }
}

fn waiting_time(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    LAST_RETRY.min(FIRST_RETRY * 2u32.saturating_pow(doublings))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> NodeName {
        text.into()
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_is_queued_once_and_with_one_worker() {
        let queue = Queue::default();
        for node in ["a", "b", "a"] {
            queue.add(name(node));
        }
        assert_eq!(queue.depth(), 2);
        let a = queue.next().await;
        queue.add(a.clone());
        assert_eq!(queue.next().await, name("b"), "a is with a worker");
        assert_eq!(queue.depth(), 0);
        queue.done(a.clone(), Next::Settled);
        assert_eq!(queue.next().await, a, "it came back");
    }

    #[tokio::test(start_paused = true)]
    async fn failures_wait_longer_until_one_success() {
        let queue = Queue::default();
        queue.add(name("a"));
        let mut waits = Vec::new();
        for next in [Next::Retry, Next::Retry, Next::Retry, Next::After(Duration::from_secs(3))] {
            let a = queue.next().await;
            let start = Instant::now();
            queue.done(a, next);
            let a = queue.next().await;
            waits.push(start.elapsed().as_millis());
            queue.add(a.clone());
            queue.done(a, Next::Settled);
        }
        assert_eq!(waits, [10, 10, 10, 3_000], "each success starts over");
        let mut waits = Vec::new();
        let mut a = queue.next().await;
        for _ in 0..3 {
            let start = Instant::now();
            queue.done(a, Next::Retry);
            a = queue.next().await;
            waits.push(start.elapsed().as_millis());
        }
        assert_eq!(waits, [10, 20, 40]);
    }

    #[test]
    fn waiting_has_an_end() {
        assert_eq!(waiting_time(1), FIRST_RETRY);
        assert_eq!(waiting_time(u32::MAX), LAST_RETRY);
    }
}
