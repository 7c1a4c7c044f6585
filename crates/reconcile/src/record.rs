//! What happened, for the owner of an object to read?
//!
//! Whoever has something to tell hands a [`Note`] over and goes on; a task writes it as an Event.
//! The channel is bounded and a note that does not fit is dropped: events explain and must never
//! hold anything up. The same text about the same object again raises the count of the event that
//! is there. Where it is asked for, one object may cause 25 events and then one more every five
//! minutes, as in Kubernetes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::api::events::v1::Event as NewEvent;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::clock::{Clock, stamp};
use crate::elect::Leadership;
use crate::write::PATIENCE;

/// Events whose count may still rise.
const REMEMBERED: usize = 8_192;
const BURST: i64 = 25;
const SECONDS_A_TOKEN: i64 = 300;
/// How long notes wait while the recorder's owner is busy.
const DEFERENCE: Duration = Duration::from_secs(1);
/// How long the last notes may take once we are told to stop.
const GRACE: Duration = Duration::from_secs(1);

/// One thing to tell.
#[derive(Debug, Clone)]
pub struct Note {
    pub about: ObjectReference,
    /// Who tells it.
    pub component: Cow<'static, str>,
    pub is_warning: bool,
    pub reason: Cow<'static, str>,
    /// What was being done; a note with an action also bears its time to the microsecond.
    pub action: Option<Cow<'static, str>>,
    pub text: String,
    /// The same may be told again, and is counted then.
    pub repeats: bool,
}

/// In which of its two forms an event is written. Roles name them apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// `v1`
    Core,
    /// `events.k8s.io/v1`, as told by this instance of the component.
    Events { instance: Option<String> },
}

/// How notes become events.
#[derive(Clone)]
pub struct Recording {
    pub client: Client,
    /// Only the leader tells.
    pub leadership: Leadership,
    pub clock: Clock,
    pub form: Form,
    /// Notes that may wait to be written.
    pub waiting: usize,
    /// Requests under way at once.
    pub writers: usize,
    /// One object may not cause more than a burst of events.
    pub is_limited: bool,
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").field("form", &self.form).finish_non_exhaustive()
    }
}

impl Recording {
    pub fn new(client: Client, leadership: Leadership, clock: Clock, form: Form) -> Self {
        Self { client, leadership, clock, form, waiting: 1_024, writers: 1, is_limited: false }
    }

    /// A handle, and the task that writes until told to stop.
    pub fn start(
        self,
        component: &'static str,
        stop: CancellationToken,
    ) -> (Recorder, impl Future<Output = ()> + Send + use<>) {
        let (sender, notes) = mpsc::channel(self.waiting);
        let is_busy = watch::Sender::new(false);
        let notes = Arc::new(tokio::sync::Mutex::new(notes));
        let memory = Memory { is_limited: self.is_limited, ..Memory::default() };
        let memory = Arc::new(Mutex::new(memory));
        let writers: Vec<_> = (0..self.writers)
            .map(|_| Writer {
                client: self.client.clone(),
                leadership: self.leadership.clone(),
                form: self.form.clone(),
                is_busy: is_busy.subscribe(),
                memory: memory.clone(),
            })
            .map(|writer| writer.run(notes.clone(), stop.clone()))
            .collect();
        let recorder = Recorder { sender, is_busy, clock: self.clock, component };
        (recorder, async move { drop(join_all(writers).await) })
    }
}

/// Writes one event at once, for whoever has no task to leave a note to.
pub async fn publish(client: &Client, form: &Form, note: &Note) -> kube::Result<()> {
    let now = Timestamp::now();
    let write = Memory::default().judge(note, now);
    send(client, form, note, &write, now).await
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
pub struct Recorder {
    sender: mpsc::Sender<Taken>,
    is_busy: watch::Sender<bool>,
    clock: Clock,
    component: &'static str,
}

impl Recorder {
    /// The same, for another component.
    pub fn of(&self, component: &'static str) -> Self {
        Self { component, ..self.clone() }
    }

    pub fn send(&self, note: Note) {
        let taken = Taken { note, at: self.clock.now(), due: Instant::now() + DEFERENCE };
        if let Err(error) = self.sender.try_send(taken) {
            let note = match error {
                mpsc::error::TrySendError::Full(taken) => taken.note,
                mpsc::error::TrySendError::Closed(taken) => taken.note,
            };
            debug!(reason = %note.reason, "dropped an event: too many are waiting");
        }
    }

    pub fn normal<K: Resource<DynamicType = ()>>(
        &self,
        about: &K,
        reason: &'static str,
        text: impl Into<String>,
    ) {
        self.send(self.note(about.object_ref(&()), false, reason, text.into()));
    }

    pub fn warning<K: Resource<DynamicType = ()>>(
        &self,
        about: &K,
        reason: &'static str,
        text: impl Into<String>,
    ) {
        self.send(self.note(about.object_ref(&()), true, reason, text.into()));
    }

    /// A note of this component, which may repeat.
    pub fn note(
        &self,
        about: ObjectReference,
        is_warning: bool,
        reason: &'static str,
        text: String,
    ) -> Note {
        let (component, reason) = (self.component.into(), reason.into());
        Note { about, component, is_warning, reason, action: None, text, repeats: true }
    }

    /// Lets other requests go first: while this is set a note waits, but not for long.
    pub fn set_busy(&self, is_busy: bool) {
        self.is_busy.send_if_modified(|was| std::mem::replace(was, is_busy) != is_busy);
    }
}

struct Writer {
    client: Client,
    leadership: Leadership,
    form: Form,
    is_busy: watch::Receiver<bool>,
    memory: Arc<Mutex<Memory>>,
}

type Notes = Arc<tokio::sync::Mutex<mpsc::Receiver<Taken>>>;

impl Writer {
    /// Writes until told to stop, and then what is left for a while.
    async fn run(mut self, notes: Notes, stop: CancellationToken) {
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
        let sending = send(&self.client, &self.form, &note, &write, at);
        let failed = match timeout(PATIENCE, sending).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the API server does not answer".to_owned(),
        };
        debug!(reason = %note.reason, error = failed, "cannot write an event");
        self.memory.lock().forget(&note);
    }
}

async fn send(
    client: &Client,
    form: &Form,
    note: &Note,
    write: &Write,
    now: Timestamp,
) -> kube::Result<()> {
    let core = || -> Api<Event> { Api::namespaced(client.clone(), namespace(note)) };
    let new = || -> Api<NewEvent> { Api::namespaced(client.clone(), namespace(note)) };
    let (patching, posting) = (PatchParams::default(), PostParams::default());
    match (write, form) {
        (Write::Nothing, _) => {}
        (Write::Create { name }, Form::Core) => {
            core().create(&posting, &core_event(note, name, now)).await?;
        }
        (Write::Create { name }, Form::Events { instance }) => {
            let event = new_event(note, name, instance.as_deref(), now);
            new().create(&posting, &event).await?;
        }
        (Write::Count { name, count }, Form::Core) => {
            let patch = json!({ "count": count, "lastTimestamp": stamp(now) });
            core().patch(name, &patching, &Patch::Merge(&patch)).await?;
        }
        (Write::Count { name, count }, Form::Events { .. }) => {
            let series = json!({ "count": count, "lastObservedTime": MicroTime(now) });
            new().patch(name, &patching, &Patch::Merge(&json!({ "series": series }))).await?;
        }
    }
    Ok(())
}

/// Events about cluster-scoped objects live in the default namespace.
fn namespace(note: &Note) -> &str {
    note.about.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}

fn meta(note: &Note, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace(note).to_owned()),
        ..ObjectMeta::default()
    }
}

fn severity(note: &Note) -> Option<String> {
    Some(if note.is_warning { "Warning" } else { "Normal" }.to_owned())
}

fn core_event(note: &Note, name: &str, now: Timestamp) -> Event {
    let component = note.component.to_string();
    Event {
        metadata: meta(note, name),
        involved_object: note.about.clone(),
        type_: severity(note),
        reason: Some(note.reason.to_string()),
        action: note.action.as_deref().map(str::to_owned),
        message: Some(cut(&note.text)),
        count: Some(1),
        event_time: note.action.as_ref().map(|_| MicroTime(now)),
        first_timestamp: Some(stamp(now)),
        last_timestamp: Some(stamp(now)),
        source: Some(EventSource { component: Some(component.clone()), host: None }),
        reporting_instance: Some(note.action.as_ref().map_or(String::new(), |_| component.clone())),
        reporting_component: Some(component),
        ..Event::default()
    }
}

fn new_event(note: &Note, name: &str, instance: Option<&str>, now: Timestamp) -> NewEvent {
    NewEvent {
        metadata: meta(note, name),
        regarding: Some(note.about.clone()),
        type_: severity(note),
        reason: Some(note.reason.to_string()),
        action: Some(note.action.as_ref().unwrap_or(&note.reason).to_string()),
        note: Some(cut(&note.text)),
        event_time: Some(MicroTime(now)),
        reporting_controller: Some(note.component.to_string()),
        reporting_instance: Some(instance.unwrap_or(&note.component).to_owned()),
        ..NewEvent::default()
    }
}

/// A text is cut to what the API server stores.
fn cut(text: &str) -> String {
    const LIMIT: usize = 1_024;
    const TAIL: &str = " ...";
    if text.len() <= LIMIT {
        return text.to_owned();
    }
    let mut end = LIMIT - TAIL.len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{TAIL}", text.get(..end).unwrap_or_default())
}

/// What to do with a note.
#[derive(Debug, PartialEq, Eq)]
enum Write {
    Create { name: String },
    Count { name: String, count: i32 },
    Nothing,
}

/// Which events were written, by what they say. Forgets all when it grows too large: at worst an
/// event is created again where one could have been counted.
#[derive(Debug, Default)]
struct Memory {
    written: HashMap<u64, (String, i32)>,
    buckets: HashMap<u64, Bucket>,
    serial: u64,
    is_limited: bool,
}

/// How many more events an object may cause.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: i64,
    since: Timestamp,
}

impl Memory {
    fn judge(&mut self, note: &Note, now: Timestamp) -> Write {
        if self.written.len() >= REMEMBERED || self.buckets.len() >= REMEMBERED {
            self.written.clear();
            self.buckets.clear();
        }
        if self.is_limited && !self.bucket(note, now).take(now) {
            return Write::Nothing;
        }
        let text = text_hash(note);
        if let Some((name, count)) = self.written.get_mut(&text) {
            *count = count.saturating_add(1);
            return Write::Count { name: name.clone(), count: *count };
        }
        self.serial = self.serial.wrapping_add(1);
        // Time does not go back and the count goes up, so no two sums are equal.
        let moment = u64::try_from(now.as_nanosecond()).unwrap_or(0).wrapping_add(self.serial);
        let name = format!("{}.{moment:x}", note.about.name.as_deref().unwrap_or_default());
        if note.repeats {
            self.written.insert(text, (name.clone(), 1));
        }
        Write::Create { name }
    }

    fn bucket(&mut self, note: &Note, now: Timestamp) -> &mut Bucket {
        let about = object_hash(note).finish();
        self.buckets.entry(about).or_insert(Bucket { left: BURST, since: now })
    }

    /// The write failed, perhaps because the event has expired: start a new one next time.
    fn forget(&mut self, note: &Note) {
        self.written.remove(&text_hash(note));
    }
}

impl Bucket {
    fn take(&mut self, now: Timestamp) -> bool {
        let earned = now.duration_since(self.since).as_secs() / SECONDS_A_TOKEN;
        if earned > 0 {
            self.left = self.left.saturating_add(earned).min(BURST);
            self.since = now;
        }
        let has_one = self.left > 0;
        self.left -= i64::from(has_one);
        has_one
    }
}

fn object_hash(note: &Note) -> DefaultHasher {
    let mut hasher = DefaultHasher::new();
    let ObjectReference { kind, namespace, name, uid, field_path, .. } = &note.about;
    (kind, namespace, name, uid, field_path).hash(&mut hasher);
    hasher
}

fn text_hash(note: &Note) -> u64 {
    let mut hasher = object_hash(note);
    (&note.reason, &note.text).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};

    use super::*;
    use crate::clock::plus_seconds;

    const NOW: Timestamp = Timestamp::constant(1_900_000_000, 0);

    fn note(text: &str) -> Note {
        let mut pod = Pod::default();
        pod.metadata.name = Some("a".to_owned());
        pod.metadata.namespace = Some("d".to_owned());
        Note {
            about: pod.object_ref(&()),
            component: "test".into(),
            is_warning: true,
            reason: "FailedScheduling".into(),
            action: Some("Scheduling".into()),
            text: text.to_owned(),
            repeats: true,
        }
    }

    fn limited() -> Memory {
        Memory { is_limited: true, ..Memory::default() }
    }

    #[test]
    fn the_same_text_is_counted_and_another_is_new() {
        let mut memory = Memory::default();
        let Write::Create { name } = memory.judge(&note("full"), NOW) else { panic!("new") };
        assert!(name.starts_with("a."), "{name}");
        for count in [2, 3] {
            let again = memory.judge(&note("full"), NOW);
            assert_eq!(again, Write::Count { name: name.clone(), count });
        }
        let Write::Create { name: other } = memory.judge(&note("tainted"), NOW) else {
            panic!("another text");
        };
        assert_ne!(name, other, "two events of one moment have two names");
        memory.forget(&note("full"));
        assert!(matches!(memory.judge(&note("full"), NOW), Write::Create { .. }));
    }

    #[test]
    fn what_happens_once_is_not_remembered() {
        let mut memory = Memory::default();
        memory.judge(&Note { repeats: false, ..note("Successfully assigned d/a to n1") }, NOW);
        assert!(memory.written.is_empty(), "nothing to remember");
    }

    #[test]
    fn one_object_cannot_flood_where_that_is_limited() {
        for (mut memory, want) in [(limited(), [25, 0, 1]), (Memory::default(), [100, 10, 10])] {
            let mut written = |count: usize, seconds| {
                let at = plus_seconds(NOW, seconds);
                (0..count)
                    .filter(|number| memory.judge(&note(&number.to_string()), at) != Write::Nothing)
                    .count()
            };
            assert_eq!([written(100, 0), written(10, 299), written(10, 300)], want);
        }
    }

    #[test]
    fn events_about_nodes_live_in_the_default_namespace() {
        let mut node = Node::default();
        node.metadata.name = Some("n1".to_owned());
        let note = Note { about: node.object_ref(&()), ..note("x") };
        assert_eq!(namespace(&note), "default");
        let event = core_event(&note, "n1.1", NOW);
        assert_eq!(event.involved_object.kind.as_deref(), Some("Node"));
        assert_eq!(event.metadata.namespace.as_deref(), Some("default"));
    }

    #[test]
    fn long_texts_are_cut() {
        let long = note(&"\u{e4}".repeat(2_000));
        let core = core_event(&long, "e", NOW).message.unwrap();
        let new = new_event(&long, "e", None, NOW).note.unwrap();
        for cut in [core, new] {
            assert!(cut.len() <= 1_024 && cut.ends_with(" ..."), "{}", cut.len());
        }
    }

    #[test]
    fn both_forms_say_the_same() {
        let core = core_event(&note("full"), "e", NOW);
        let new = new_event(&note("full"), "e", Some("node-1"), NOW);
        assert_eq!((core.reason, core.action), (new.reason, new.action));
        assert_eq!((core.message, core.type_), (new.note, new.type_));
        assert_eq!(core.reporting_component, new.reporting_controller);
        assert_eq!(core.event_time, new.event_time);
        assert_eq!(new.reporting_instance.as_deref(), Some("node-1"));
    }
}
