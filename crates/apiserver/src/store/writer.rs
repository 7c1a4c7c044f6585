//! Who may change the state, and when does a caller hear of it?
//!
//! One thread owns the state. It takes whatever writes are waiting as one
//! batch, carries them out in order on a copy, publishes the result and only
//! then answers, in the same order.

use std::{
    sync::Arc,
    thread::{self, JoinHandle},
};

use tokio::sync::{mpsc, oneshot};

use super::{
    body::Body,
    error::WriteError,
    key::Key,
    state::{Intent, State, Stored},
    watch::Shared,
};

/// Callers wait for a place when this many writes are queued.
const QUEUE: usize = 256;
const BATCH_WRITES: usize = 512;
const BATCH_BYTES: usize = 16 << 20;

#[derive(Debug)]
pub(super) struct Write {
    pub(super) key: Key,
    pub(super) intent: Intent,
    pub(super) body: Body,
    pub(super) answer: oneshot::Sender<Result<Stored, WriteError>>,
}

#[derive(Debug)]
enum Command {
    Write(Write),
    Shutdown,
}

/// The way to the writer; the last one to go waits until it has finished.
#[derive(Debug)]
pub(super) struct Writer {
    commands: Option<mpsc::Sender<Command>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn spawn(shared: Arc<Shared>) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || Loop { shared, commands: receiver }.run())?;
        Ok(Self { commands: Some(sender), thread: Some(thread) })
    }

    pub(super) async fn send(&self, write: Write) -> Result<(), WriteError> {
        let commands = self.commands.as_ref().ok_or(WriteError::Closed)?;
        commands.send(Command::Write(write)).await.map_err(|_| WriteError::Closed)
    }

    /// Finishes what is queued, then stops.
    pub(super) async fn shutdown(&self) {
        if let Some(commands) = &self.commands
            && commands.send(Command::Shutdown).await.is_ok()
        {
            commands.closed().await;
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            // A writer that panicked has closed its channel: callers know.
            let _ = thread.join();
        }
    }
}

struct Loop {
    shared: Arc<Shared>,
    commands: mpsc::Receiver<Command>,
}

impl Loop {
    fn run(mut self) {
        while let Some(first) = self.commands.blocking_recv() {
            let (batch, stop) = self.gather(first);
            self.carry_out(batch);
            if stop {
                break;
            }
        }
    }

    /// Takes what is waiting, up to the size of a batch.
    fn gather(&mut self, first: Command) -> (Vec<Write>, bool) {
        let mut batch = Vec::new();
        let mut bytes = 0_usize;
        let mut next = Some(first);
        while let Some(command) = next {
            let Command::Write(write) = command else { return (batch, true) };
            bytes = bytes.saturating_add(write.body.len());
            batch.push(write);
            if batch.len() >= BATCH_WRITES || bytes >= BATCH_BYTES {
                break;
            }
            next = self.commands.try_recv().ok();
        }
        (batch, false)
    }

    fn carry_out(&self, batch: Vec<Write>) {
        let mut state = State::clone(&self.shared.state());
        let mut changes = Vec::with_capacity(batch.len());
        let mut answers = Vec::with_capacity(batch.len());
        for Write { key, intent, body, answer } in batch {
            let outcome = state.apply(&key, intent, &body).map(|change| {
                let stored = change.event.object.clone();
                changes.push(change);
                stored
            });
            answers.push((answer, outcome));
        }
        self.shared.publish(state, changes);
        for (answer, outcome) in answers {
            // The caller may have gone away; its write stands.
            let _ = answer.send(outcome);
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.shared.close();
    }
}
