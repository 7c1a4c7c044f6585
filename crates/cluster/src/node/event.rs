//! Telling the owners of pods and nodes what happened, through events of the API.

use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod};
use kube::{Client, Resource};
use reconcile::clock::Clock;
use reconcile::elect::Leadership;
use reconcile::record::{Form, Recorder, Recording};
use tokio_util::sync::CancellationToken;

/// Takes events from anywhere in the node; one task writes them.
#[derive(Debug, Clone)]
pub(crate) struct Events(Recorder);

impl Events {
    /// The handle, and the task that writes until told to stop.
    pub(crate) fn new(
        client: Client,
        node: &str,
        stop: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let form = Form::Events { instance: Some(node.to_owned()) };
        let recording = Recording::new(client, Leadership::alone(), Clock::system(), form);
        let (recorder, writing) = recording.start("tidepool-node", stop);
        (Self(recorder), writing)
    }

    pub(crate) fn normal(
        &self,
        about: &ObjectReference,
        reason: &'static str,
        note: impl Into<String>,
    ) {
        self.0.send(self.0.note(about.clone(), false, reason, note.into()));
    }

    pub(crate) fn warning(
        &self,
        about: &ObjectReference,
        reason: &'static str,
        note: impl Into<String>,
    ) {
        self.0.send(self.0.note(about.clone(), true, reason, note.into()));
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
