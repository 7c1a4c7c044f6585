//! Threads of the agent, which end with it.

use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;
use tracing::error;

/// A thread that is told to end, and waited for, when this value goes, however that comes about. So
/// nobody writes to the kernel any more once the agent's lock is free for the next one.
#[derive(Debug)]
pub(crate) struct Worker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    end: Option<End>,
}

/// Resolves when a thread has ended by itself; one that was told to end says nothing.
pub(crate) type End = oneshot::Receiver<ThreadEnd>;

/// How a thread ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadEnd {
    pub name: &'static str,
    /// What it said when it panicked.
    pub panic: Option<String>,
}

impl fmt::Display for ThreadEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.panic {
            Some(message) => write!(f, "thread {} panicked: {message}", self.name),
            None => write!(f, "thread {} ended unexpectedly", self.name),
        }
    }
}

impl Worker {
    /// Starts `work`, which ends when what it is given is true. Where it waits, it parks.
    pub(crate) fn start(
        name: &'static str,
        work: impl FnOnce(&AtomicBool) + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let ending = stop.clone();
        let (ended, end) = oneshot::channel();
        let run = move || {
            // Nothing of the work is used after a panic.
            let panic = catch_unwind(AssertUnwindSafe(|| work(&ending))).err().map(message);
            if let Some(message) = &panic {
                error!(thread = name, message, "a thread of the agent panicked");
            }
            if panic.is_some() || !ending.load(Ordering::Acquire) {
                // Nobody may be interested.
                let _ = ended.send(ThreadEnd { name, panic });
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Self { stop, thread: Some(thread), end: Some(end) })
    }

    /// Whether the thread is still there.
    pub(crate) fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Tells the thread to end, without waiting for it.
    pub(crate) fn dismiss(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Says when the thread has ended by itself; for one who asks.
    pub(crate) fn end(&mut self) -> Option<End> {
        self.end.take()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.dismiss();
        let Some(thread) = self.thread.take() else { return };
        thread.thread().unpark();
        // A panic was caught and told where it happened.
        let _ = thread.join();
    }
}

/// What a panic said.
fn message(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_does_not_outlive_its_owner() {
        let ended = Arc::new(AtomicBool::new(false));
        let ends = ended.clone();
        let mut worker = Worker::start("test", move |stop| {
            while !stop.load(Ordering::Acquire) {
                thread::park();
            }
            ends.store(true, Ordering::Release);
        })
        .unwrap();
        let end = worker.end().unwrap();
        assert!(worker.is_running());
        drop(worker);
        assert!(ended.load(Ordering::Acquire));
        assert!(end.blocking_recv().is_err(), "it was told to");
    }

    #[test]
    fn one_that_ends_by_itself_says_so() {
        let mut worker = Worker::start("test", |_| {}).unwrap();
        let end = worker.end().unwrap().blocking_recv().unwrap();
        assert_eq!(end.to_string(), "thread test ended unexpectedly");
    }

    #[test]
    fn one_that_panics_takes_nobody_along_and_says_why() {
        let mut worker =
            Worker::start("test", |_| std::panic::resume_unwind(Box::new("why".to_owned())))
                .unwrap();
        let end = worker.end().unwrap().blocking_recv().unwrap();
        assert_eq!(end.to_string(), "thread test panicked: why");
        while worker.is_running() {
            thread::yield_now();
        }
    }
}
