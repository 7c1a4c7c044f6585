//! Who runs the rounds? One thread, which writes to the kernel itself whatever is written in no time.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tracing::warn;

use super::rounds::{Inputs, Rounds};
use super::switch::{self, Off};
use crate::clock::Clock;
use crate::health::Part;
use crate::node_state::SharedNodeState;
use crate::object::chain;
use crate::series::Metrics;
use crate::topology::SharedTopology;
use crate::worker::{End, Worker};

/// How long giving everything back may take at the end.
const CLEANUP: Duration = Duration::from_secs(4);

/// How often it is looked whether somebody turned acting off.
const LOOK: Duration = Duration::from_millis(200);

/// What the thread looks at.
#[derive(Debug)]
pub struct Watching {
    pub state: SharedNodeState,
    pub topology: SharedTopology,
    pub metrics: Metrics,
    pub clock: Clock,
    /// Where the switch of this machine is.
    pub dir: PathBuf,
    /// Gives everything back at the end.
    pub cleanup_on_exit: bool,
    pub part: Part,
}

/// Acts until it is stopped.
#[derive(Debug)]
pub struct ActThread(Worker);

impl ActThread {
    pub fn start(rounds: Rounds, watching: Watching) -> io::Result<Self> {
        Ok(Self(Worker::start("act", move |stop| run(rounds, &watching, stop))?))
    }

    /// Says when the thread has ended.
    pub(crate) fn end(&mut self) -> Option<End> {
        self.0.end()
    }

    /// Whether the thread is still there.
    pub fn is_running(&self) -> bool {
        self.0.is_running()
    }

    pub fn stop(self) {
        drop(self.0);
    }
}

fn run(mut rounds: Rounds, watching: &Watching, stop: &AtomicBool) {
    let mut off = switch::local(&watching.dir);
    let mut obeyed = None;
    let mut next_look = Duration::ZERO;
    while !stop.load(Ordering::Acquire) {
        let now = watching.clock.now();
        watching.part.beat(LOOK, Instant::now());
        if now >= next_look {
            next_look = now.saturating_add(LOOK);
            off = switch::local(&watching.dir);
        }
        let state = watching.state.load_full();
        let inputs = Inputs {
            off_by: off.as_ref().map(Off::by).or_else(|| switch::cluster(&state)),
            topology: watching.topology.load_full(),
            metrics: watching.metrics.clone(),
            state,
        };
        rounds.tick(now, Timestamp::now(), &inputs);
        // What is being written at this moment may still change something.
        if obeyed != off && !rounds.is_busy() {
            answer(&watching.dir, off.as_ref());
            obeyed.clone_from(&off);
        }
        watching.part.ready();
        thread::park_timeout(rounds.pause());
    }
    if watching.cleanup_on_exit {
        clean_up(&mut rounds, watching.clock);
    }
}

/// Tells whoever waits for the switch of this machine that it is obeyed.
fn answer(dir: &Path, off: Option<&Off>) {
    if let Some(Err(error)) = off.map(|off| switch::obey(dir, off)) {
        warn!(error = chain(&error), "cannot answer the switch of this machine");
    }
}

/// Gives everything back, as far as the kernel lets us in the time there is.
fn clean_up(rounds: &mut Rounds, clock: Clock) {
    let end = clock.now().saturating_add(CLEANUP);
    loop {
        rounds.stay_off(clock.now(), Timestamp::now(), "shutdown");
        if rounds.is_clean() {
            return;
        }
        if clock.now() >= end {
            warn!(
                "not everything could be restored; `tidepool off` tries again and says what is left"
            );
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
}
