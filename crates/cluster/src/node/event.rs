//! Telling the owners of pods and nodes what happened, through events of the API.

use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use tokio::sync::mpsc;
use tracing::{debug, warn};

/// Takes events from anywhere in the node; one task writes them.
#[derive(Debug, Clone)]
pub(crate) struct Events(mpsc::Sender<(Event, ObjectReference)>);

/// Events wait here for the API. When it is full further ones are dropped: they are hints, and a
/// node must not stall for them.
const WAITING: usize = 256;

impl Events {
    /// The handle, and the task that writes until every handle is gone.
    pub(crate) fn new(client: Client, node: &str) -> (Self, impl Future<Output = ()> + use<>) {
        let (sender, mut waiting) = mpsc::channel::<(Event, ObjectReference)>(WAITING);
        let reporter = Reporter { controller: "tidepool-node".into(), instance: Some(node.into()) };
        let recorder = Recorder::new(client, reporter);
        let writing = async move {
            while let Some((event, about)) = waiting.recv().await {
                if let Err(error) = recorder.publish(&event, &about).await {
                    debug!(reason = event.reason, %error, "cannot write an event");
                }
            }
        };
        (Self(sender), writing)
    }

    pub(crate) fn normal(&self, about: &ObjectReference, reason: &str, note: impl Into<String>) {
        self.send(EventType::Normal, about, reason, note.into());
    }

    pub(crate) fn warning(&self, about: &ObjectReference, reason: &str, note: impl Into<String>) {
        self.send(EventType::Warning, about, reason, note.into());
    }

    fn send(&self, type_: EventType, about: &ObjectReference, reason: &str, note: String) {
        /// The API takes no longer ones.
        const MAX_NOTE: usize = 1_024;
        let note = note.chars().take(MAX_NOTE).collect();
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note),
            action: reason.to_owned(),
            secondary: None,
        };
        if self.0.try_send((event, about.clone())).is_err() {
            warn!(reason, "dropped an event: the API does not keep up");
        }
    }
}

pub(crate) fn about_pod(pod: &Pod) -> ObjectReference {
    pod.object_ref(&())
}

pub(crate) fn about_container(pod: &Pod, container: &str, is_init: bool) -> ObjectReference {
    let list = if is_init { "spec.initContainers" } else { "spec.containers" };
    let field_path = Some(format!("{list}{{{container}}}"));
    ObjectReference { field_path, ..about_pod(pod) }
}

pub(crate) fn about_node(node: &Node) -> ObjectReference {
    node.object_ref(&())
}
