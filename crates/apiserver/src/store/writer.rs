//! Who may change the state, and when does a caller hear of it?
//!
//! One thread owns the state. It takes whatever writes are waiting as one
//! batch, carries them out in order on a copy, brings the batch to disk with one
//! sync, publishes the result and only then answers, in the same order. A batch
//! that the disk refuses has not happened.

use std::{
    io,
    sync::Arc,
    thread::{self, JoinHandle},
};

use tokio::sync::{mpsc, oneshot};

use super::{
    body::Body,
    disk::Disk,
    error::WriteError,
    key::Key,
    state::{Intent, State, Stored},
    watch::Shared,
};

/// Callers wait for a place when this many writes are queued.
const QUEUE: usize = 256;
pub(super) const BATCH_WRITES: usize = 512;
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
    /// What is handed over together goes into one batch.
    Write(Vec<Write>),
    Shutdown,
}

/// The way to the writer; the last one to go waits until it has finished.
#[derive(Debug)]
pub(super) struct Writer {
    commands: Option<mpsc::Sender<Command>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread; without a disk nothing outlives it.
    pub(super) fn spawn(shared: Arc<Shared>, disk: Option<Disk>) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || Loop { shared, disk, commands: receiver }.run())?;
        Ok(Self { commands: Some(sender), thread: Some(thread) })
    }

    pub(super) async fn send(&self, writes: Vec<Write>) -> Result<(), WriteError> {
        let commands = self.commands.as_ref().ok_or(WriteError::Closed)?;
        commands.send(Command::Write(writes)).await.map_err(|_| WriteError::Closed)
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
    /// Before the channel, whose end tells that everything is closed.
    disk: Option<Disk>,
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
            let Command::Write(writes) = command else { return (batch, true) };
            bytes = writes.iter().fold(bytes, |sum, write| sum.saturating_add(write.body.len()));
            batch.extend(writes);
            if batch.len() >= BATCH_WRITES || bytes >= BATCH_BYTES {
                break;
            }
            next = self.commands.try_recv().ok();
        }
        (batch, false)
    }

    fn carry_out(&mut self, batch: Vec<Write>) {
        let before = self.shared.state();
        let mut after = State::clone(&before);
        let mut changes = Vec::with_capacity(batch.len());
        let mut answers = Vec::with_capacity(batch.len());
        for Write { key, intent, body, answer } in batch {
            let outcome = after.apply(&key, intent, &body).map(|change| {
                let stored = change.event.object.clone();
                changes.push(change);
                stored
            });
            answers.push((answer, outcome));
        }
        let committed = match &mut self.disk {
            Some(disk) if !changes.is_empty() => disk.commit(&before, &after, &changes),
            _ => Ok(()),
        };
        if committed.is_ok() && !changes.is_empty() {
            self.shared.publish(after, changes);
        }
        for (answer, outcome) in answers {
            // What was refused may have been so because of a write that now failed.
            let outcome = committed.clone().map_err(WriteError::Storage).and(outcome);
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Collection, Limits, key::Revision};
    use super::*;

    #[test]
    fn what_is_handed_over_together_is_one_batch() {
        let limits = Limits::default();
        let shared = Arc::new(Shared::new(State::empty(), limits.clone()));
        let (sender, commands) = mpsc::channel(QUEUE);
        let mut writer = Loop { shared, disk: None, commands };
        let events = Collection::new("", "events");
        let mut outcomes = Vec::new();
        let mut write = |name: &str, intent| {
            let (answer, outcome) = oneshot::channel();
            outcomes.push(outcome);
            let body = Body::new(json!({}), limits.object_bytes).unwrap();
            Write { key: Key::new(&events, "default", name), intent, body, answer }
        };
        let some = (0..400).map(|number| write(&number.to_string(), Intent::Create)).collect();
        let more = vec![write("more", Intent::Create)];
        sender.try_send(Command::Write(more)).unwrap();
        let (batch, _) = writer.gather(Command::Write(some));
        assert_eq!(batch.len(), 401, "and what was waiting with it");
        writer.carry_out(batch);
        for outcome in &mut outcomes {
            assert!(outcome.try_recv().unwrap().is_ok());
        }
        assert_eq!(writer.shared.state().revision, Revision(402));
    }
}
