//! What does a person see while a measurement runs?

use std::io::{IsTerminal, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;

/// A line on stderr that counts up; nothing where stderr is not a terminal.
#[derive(Debug)]
pub(super) struct Progress {
    done: Arc<AtomicUsize>,
    line: Option<JoinHandle<()>>,
}

const PERIOD: Duration = Duration::from_millis(250);
/// Back to the start of the line, which is then emptied.
const ERASE: &str = "\r\x1b[K";

impl Progress {
    pub(super) fn start(what: &'static str, total: usize) -> Self {
        let done = Arc::new(AtomicUsize::new(0));
        let counted = done.clone();
        let line = stderr().is_terminal().then(|| {
            tokio::spawn(async move {
                loop {
                    eprint!("{ERASE}{what}: {} of {total}", counted.load(Ordering::Relaxed));
                    tokio::time::sleep(PERIOD).await;
                }
            })
        });
        Self { done, line }
    }

    /// Counts work that is done, from any task.
    pub(super) fn counter(&self) -> Arc<AtomicUsize> {
        self.done.clone()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(line) = &self.line {
            line.abort();
            eprint!("{ERASE}");
        }
    }
}
