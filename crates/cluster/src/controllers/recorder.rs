//! What happened, for the owner of an object to read?
//!
//! Controllers hand events over and go on; one task writes them. The channel is bounded: an event
//! that does not fit is dropped, because events explain and must never hold anything up. The same
//! event again raises the count of the one that is there, and one object may cause 25 new events
//! and then one more every five minutes, as in Kubernetes.

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{
    clock::{Clock, stamp},
    key::Key,
};

const WAITING: usize = 1_024;
const REMEMBERED: usize = 4_096;
const BURST: i64 = 25;
const SECONDS_A_TOKEN: i64 = 300;

/// Takes events; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Events(mpsc::Sender<Note>);

/// One thing to tell.
#[derive(Debug, Clone)]
pub(crate) struct Note {
    component: &'static str,
    severity: &'static str,
    about: ObjectReference,
    reason: &'static str,
    message: String,
}

impl Events {
    pub(crate) fn send<K>(
        &self,
        component: &'static str,
        severity: &'static str,
        about: &K,
        reason: &'static str,
        message: String,
    ) where
        K: Resource<DynamicType = ()>,
    {
        let about = about.object_ref(&());
        let note = Note { component, severity, about, reason, message };
        if self.0.try_send(note).is_err() {
            debug!(reason, "dropped an event: too many are waiting");
        }
    }
}

/// The writing end and the task's end.
pub(crate) fn channel() -> (Events, mpsc::Receiver<Note>) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (Events(sender), receiver)
}

/// Writes events until told to stop.
pub(crate) async fn record(
    client: Client,
    mut notes: mpsc::Receiver<Note>,
    clock: Clock,
    shutdown: CancellationToken,
) {
    let mut memory = Memory::default();
    loop {
        let note = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            note = notes.recv() => match note {
                Some(note) => note,
                None => return,
            },
        };
        let now = clock.now();
        let write = memory.judge(&note, now);
        if let Err(error) = send(&client, &note, &write, now).await {
            debug!(reason = note.reason, %error, "cannot write an event");
            memory.forget(&note);
        }
    }
}

async fn send(client: &Client, note: &Note, write: &Write, now: Timestamp) -> kube::Result<()> {
    let api: Api<Event> = Api::namespaced(client.clone(), namespace(note));
    match write {
        Write::Nothing => {}
        Write::Create { name } => {
            api.create(&PostParams::default(), &event(note, name, now)).await?;
        }
        Write::Count { name, count } => {
            let patch = json!({ "count": count, "lastTimestamp": stamp(now) });
            api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        }
    }
    Ok(())
}

/// Events about cluster-scoped objects live in the default namespace.
fn namespace(note: &Note) -> &str {
    note.about.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}

fn event(note: &Note, name: &str, now: Timestamp) -> Event {
    Event {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace(note).to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: note.about.clone(),
        reason: Some(note.reason.into()),
        message: Some(note.message.clone()),
        type_: Some(note.severity.into()),
        count: Some(1),
        first_timestamp: Some(stamp(now)),
        last_timestamp: Some(stamp(now)),
        source: Some(EventSource { component: Some(note.component.into()), host: None }),
        reporting_component: Some(note.component.into()),
        reporting_instance: Some(String::new()),
        ..Event::default()
    }
}

/// What to do with an event.
#[derive(Debug, PartialEq, Eq)]
enum Write {
    Create { name: String },
    Count { name: String, count: i32 },
    Nothing,
}

type Text = (Option<String>, Key, &'static str, String);

/// What was told already. Forgets everything when it grows too large: at worst an event is
/// written twice.
#[derive(Debug, Default)]
struct Memory {
    told: HashMap<Text, (String, i32)>,
    buckets: HashMap<(Option<String>, Key), Bucket>,
    written: u64,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: i64,
    since: Timestamp,
}

impl Memory {
    fn judge(&mut self, note: &Note, now: Timestamp) -> Write {
        if self.told.len() >= REMEMBERED || self.buckets.len() >= REMEMBERED {
            self.told.clear();
            self.buckets.clear();
        }
        if !self.bucket(note, now).take(now) {
            return Write::Nothing;
        }
        if let Some((name, count)) = self.told.get_mut(&text(note)) {
            *count = count.saturating_add(1);
            return Write::Count { name: name.clone(), count: *count };
        }
        self.written = self.written.wrapping_add(1);
        // Time does not go back and the count goes up, so no two sums are equal.
        let moment = u64::try_from(now.as_nanosecond()).unwrap_or(0).wrapping_add(self.written);
        let name = format!("{}.{moment:x}", note.about.name.as_deref().unwrap_or_default());
        self.told.insert(text(note), (name.clone(), 1));
        Write::Create { name }
    }

    fn bucket(&mut self, note: &Note, now: Timestamp) -> &mut Bucket {
        let about = (note.about.uid.clone(), about(note));
        self.buckets.entry(about).or_insert(Bucket { left: BURST, since: now })
    }

    /// The write failed, perhaps because the event has expired: start a new one next time.
    fn forget(&mut self, note: &Note) {
        self.told.remove(&text(note));
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

fn about(note: &Note) -> Key {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Key { namespace: text(&note.about.namespace), name: text(&note.about.name) }
}

fn text(note: &Note) -> Text {
    (note.about.uid.clone(), about(note), note.reason, note.message.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::fixture::{NOW, ahead, pod};

    fn note(message: &str) -> Note {
        Note {
            component: "test",
            severity: "Normal",
            about: pod("a").build().object_ref(&()),
            reason: "Done",
            message: message.into(),
        }
    }

    #[test]
    fn a_repeated_event_is_counted() {
        let mut memory = Memory::default();
        let Write::Create { name } = memory.judge(&note("x"), NOW) else { panic!("not created") };
        assert!(name.starts_with("a."), "{name}");
        let again = memory.judge(&note("x"), NOW);
        assert_eq!(again, Write::Count { name: name.clone(), count: 2 });
        let Write::Create { name: other } = memory.judge(&note("y"), NOW) else {
            panic!("counted")
        };
        assert_ne!(name, other, "two events of one moment have two names");
        memory.forget(&note("x"));
        assert!(matches!(memory.judge(&note("x"), NOW), Write::Create { .. }));
    }

    #[test]
    fn one_object_cannot_flood() {
        let mut memory = Memory::default();
        let mut written = |count: usize, at| {
            (0..count)
                .filter(|number| memory.judge(&note(&number.to_string()), at) != Write::Nothing)
                .count()
        };
        assert_eq!(written(100, NOW), 25);
        assert_eq!(written(10, ahead(299)), 0);
        assert_eq!(written(10, ahead(300)), 1);
    }

    #[test]
    fn events_about_nodes_live_in_the_default_namespace() {
        let node = crate::controllers::fixture::node("n1");
        let note = Note { about: node.object_ref(&()), ..note("x") };
        assert_eq!(namespace(&note), "default");
        let event = event(&note, "n1.1", NOW);
        assert_eq!(event.involved_object.kind.as_deref(), Some("Node"));
        assert_eq!(event.metadata.namespace.as_deref(), Some("default"));
    }
}
