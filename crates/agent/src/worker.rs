//! Threads of the agent, which end with it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use tracing::error;

/// A thread that is told to end, and waited for, when this value goes, however that comes about. So
/// nobody writes to the kernel any more once the agent's lock is free for the next one.
#[derive(Debug)]
pub(crate) struct Worker {
    name: &'static str,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts `work`, which ends when what it is given is true. Where it waits, it parks.
    pub(crate) fn start(
        name: &'static str,
        work: impl FnOnce(&AtomicBool) + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let ending = stop.clone();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || work(&ending))?;
        Ok(Self { name, stop, thread: Some(thread) })
    }

    /// Whether the thread is still there.
    pub(crate) fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return };
        thread.thread().unpark();
        if thread.join().is_err() {
            error!(thread = self.name, "a thread of the agent panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_does_not_outlive_its_owner() {
        let ended = Arc::new(AtomicBool::new(false));
        let ends = ended.clone();
        let worker = Worker::start("test", move |stop| {
            while !stop.load(Ordering::Acquire) {
                thread::park();
            }
            ends.store(true, Ordering::Release);
        })
        .unwrap();
        assert!(worker.is_running());
        drop(worker);
        assert!(ended.load(Ordering::Acquire));
    }

    #[test]
    fn one_that_panics_takes_nobody_along() {
        let worker = Worker::start("test", |_| std::panic::resume_unwind(Box::new(()))).unwrap();
        while worker.is_running() {
            thread::yield_now();
        }
    }
}
