//! Events on pods: `Scheduled`, `FailedScheduling`, `Preempted`.
//!
//! The engine's task hands a note over and goes on; a few writers send them. The channel is
//! bounded and a note that does not fit is dropped: events explain and must not hold anything up.
//! For the same reason bindings go first: while some are on their way a note waits, but not for
//! longer than [`PATIENCE`]. It bears the time it was taken.
//! The same text about the same pod again raises the count of the event that is there.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time as WireTime};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use reconcile::elect::Leadership;
use sched::scheduler::PodRef;
use sched::verdict::truncate_note;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::Clock;

/// Notes that wait to be written.
const WAITING: usize = 32_768;
/// How long bindings go first.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long the last notes may take once we are told to stop.
const GRACE: Duration = Duration::from_secs(1);
const WRITERS: usize = 4;
/// Events whose count may still rise.
const REMEMBERED: usize = 8_192;

/// One thing to tell the owner of a pod.
#[derive(Debug, Clone)]
pub(super) struct Note {
    pub(super) about: PodRef,
    /// The profile that decided.
    pub(super) source: String,
    pub(super) is_warning: bool,
    pub(super) reason: &'static str,
    pub(super) action: &'static str,
    pub(super) text: String,
}

/// A note, when it was taken, and how long it may wait.
#[derive(Debug)]
struct Taken {
    note: Note,
    at: Timestamp,
    due: Instant,
}

/// Takes notes; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Notes {
    sender: mpsc::Sender<Taken>,
    is_busy: watch::Sender<bool>,
    clock: Clock,
}

impl Notes {
    pub(super) fn send(&self, note: Note) {
        let taken = Taken { note, at: self.clock.now(), due: Instant::now() + PATIENCE };
        if self.sender.try_send(taken).is_err() {
            debug!("dropped an event: too many are waiting");
        }
    }

    /// Says whether bindings are on their way.
    pub(super) fn set_busy(&self, is_busy: bool) {
        self.is_busy.send_if_modified(|was| std::mem::replace(was, is_busy) != is_busy);
    }
}

/// Starts the writers.
pub(super) fn start(
    client: &Client,
    leadership: &Leadership,
    clock: &Clock,
    stop: &CancellationToken,
    tasks: &mut JoinSet<()>,
) -> Notes {
    let (sender, receiver) = mpsc::channel(WAITING);
    let is_busy = watch::Sender::new(false);
    let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
    let memory = Arc::new(Mutex::new(Memory::default()));
    for _ in 0..WRITERS {
        let writer = Writer {
            client: client.clone(),
            leadership: leadership.clone(),
            is_busy: is_busy.subscribe(),
            memory: memory.clone(),
        };
        tasks.spawn(writer.run(receiver.clone(), stop.clone()));
    }
    Notes { sender, is_busy, clock: clock.clone() }
}

struct Writer {
    client: Client,
    leadership: Leadership,
    is_busy: watch::Receiver<bool>,
    memory: Arc<Mutex<Memory>>,
}

impl Writer {
    /// Writes until told to stop, and then what is left for a while.
    async fn run(
        mut self,
        notes: Arc<tokio::sync::Mutex<mpsc::Receiver<Taken>>>,
        stop: CancellationToken,
    ) {
        while let Some(taken) = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            taken = async { notes.lock().await.recv().await } => taken,
        } {
            tokio::select! {
                biased;
                _ = self.is_busy.wait_for(|is_busy| !is_busy) => {}
                () = stop.cancelled() => {}
                () = sleep_until(taken.due) => {}
            }
            self.write(taken).await;
        }
        let last = async {
            loop {
                let next = notes.lock().await.try_recv();
                let Ok(taken) = next else { return };
                self.write(taken).await;
            }
        };
        if timeout_at(Instant::now() + GRACE, last).await.is_err() {
            debug!("left events unwritten: there is no more time");
        }
    }

    async fn write(&self, Taken { note, at, .. }: Taken) {
        if !self.leadership.is_held() {
            return;
        }
        let write = self.memory.lock().judge(&note, at);
        if let Err(error) = self.send(&note, &write, at).await {
            debug!(reason = note.reason, %error, "cannot write an event");
            self.memory.lock().forget(&note);
        }
    }

    async fn send(&self, note: &Note, write: &Write, now: Timestamp) -> kube::Result<()> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &note.about.namespace);
        match write {
            Write::Create { name } => {
                events.create(&PostParams::default(), &event(note, name, now)).await?;
            }
            Write::Count { name, count } => {
                let patch = json!({"count": count, "lastTimestamp": WireTime(now)});
                events.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
            }
        }
        Ok(())
    }
}

fn event(note: &Note, name: &str, now: Timestamp) -> Event {
    let PodRef { namespace, name: pod, uid } = &note.about;
    Event {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(namespace.clone()),
            name: Some(pod.clone()),
            uid: Some(uid.to_string()),
            ..ObjectReference::default()
        },
        type_: Some(if note.is_warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(note.reason.to_owned()),
        action: Some(note.action.to_owned()),
        message: Some(truncate_note(&note.text)),
        count: Some(1),
        event_time: Some(MicroTime(now)),
        first_timestamp: Some(WireTime(now)),
        last_timestamp: Some(WireTime(now)),
        source: Some(EventSource { component: Some(note.source.clone()), host: None }),
        reporting_component: Some(note.source.clone()),
        reporting_instance: Some(note.source.clone()),
        ..Event::default()
    }
}

/// What to do with a note.
#[derive(Debug, PartialEq, Eq)]
enum Write {
    Create { name: String },
    Count { name: String, count: i32 },
}

/// Which events were written, by what they say. Forgets all when it grows too large: at worst an
/// event is created again where one could have been counted.
#[derive(Debug, Default)]
struct Memory {
    written: HashMap<u64, (String, i32)>,
    serial: u64,
}

impl Memory {
    fn judge(&mut self, note: &Note, now: Timestamp) -> Write {
        // A pod is bound or preempted once; only refusals repeat.
        let key = note.is_warning.then(|| fingerprint(note));
        if let Some((name, count)) = key.and_then(|key| self.written.get_mut(&key)) {
            *count = count.saturating_add(1);
            return Write::Count { name: name.clone(), count: *count };
        }
        self.serial = self.serial.wrapping_add(1);
        let stamp = u64::try_from(now.as_nanosecond()).unwrap_or_default();
        let name = format!("{}.{:x}", note.about.name, stamp.wrapping_add(self.serial));
        if let Some(key) = key {
            if self.written.len() >= REMEMBERED {
                self.written.clear();
            }
            self.written.insert(key, (name.clone(), 1));
        }
        Write::Create { name }
    }

    fn forget(&mut self, note: &Note) {
        self.written.remove(&fingerprint(note));
    }
}

fn fingerprint(note: &Note) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&note.about, note.reason, &note.text).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(text: &str) -> Note {
        Note {
            about: PodRef { namespace: "d".into(), name: "p".into(), uid: "u".into() },
            source: "s".into(),
            is_warning: true,
            reason: "FailedScheduling",
            action: "Scheduling",
            text: text.into(),
        }
    }

    #[test]
    fn the_same_text_is_counted_and_another_is_new() {
        let (mut memory, now) = (Memory::default(), Timestamp::UNIX_EPOCH);
        let Write::Create { name } = memory.judge(&note("full"), now) else { panic!("new") };
        assert_eq!(memory.judge(&note("full"), now), Write::Count { name: name.clone(), count: 2 });
        assert_eq!(memory.judge(&note("full"), now), Write::Count { name: name.clone(), count: 3 });
        let Write::Create { name: other } = memory.judge(&note("tainted"), now) else {
            panic!("another text");
        };
        assert_ne!(name, other);
        memory.forget(&note("full"));
        assert!(matches!(memory.judge(&note("full"), now), Write::Create { .. }));
    }

    #[test]
    fn a_pod_is_bound_once() {
        let mut memory = Memory::default();
        let bound = Note { is_warning: false, ..note("Successfully assigned d/p to n1") };
        memory.judge(&bound, Timestamp::UNIX_EPOCH);
        assert!(memory.written.is_empty(), "nothing to remember");
    }

    #[test]
    fn long_texts_are_cut() {
        let cut = event(&note(&"x".repeat(2_000)), "e", Timestamp::UNIX_EPOCH).message.unwrap();
        assert!(cut.len() <= 1_024 && cut.ends_with(" ..."), "{}", cut.len());
    }
}
