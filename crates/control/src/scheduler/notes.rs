//! Events on pods: `Scheduled`, `FailedScheduling`, `Preempted`.
//!
//! Bindings go first: while some are on their way a note waits, but not for long. A pod is bound or
//! preempted once; only refusals repeat, and are counted then.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use reconcile::clock::Clock;
use reconcile::elect::Leadership;
use reconcile::record::{Form, Note, Recorder, Recording};
use sched::scheduler::PodRef;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Notes that wait to be written.
const WAITING: usize = 32_768;
const WRITERS: usize = 4;

/// Starts the writers.
pub(super) fn start(
    client: &Client,
    leadership: &Leadership,
    clock: &Clock,
    stop: &CancellationToken,
    tasks: &mut JoinSet<()>,
) -> Recorder {
    let (client, leadership, clock) = (client.clone(), leadership.clone(), clock.clone());
    let recording = Recording::new(client, leadership, clock, Form::Core);
    let recording = Recording { waiting: WAITING, writers: WRITERS, ..recording };
    let (recorder, writing) = recording.start("scheduler", stop.clone());
    tasks.spawn(writing);
    recorder
}

/// Something to tell the owner of a pod, by the profile that decided.
pub(super) fn note(
    pod: &PodRef,
    profile: String,
    is_warning: bool,
    reason: &'static str,
    action: &'static str,
    text: String,
) -> Note {
    let about = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.namespace.clone()),
        name: Some(pod.name.clone()),
        uid: Some(pod.uid.to_string()),
        ..ObjectReference::default()
    };
    Note {
        about,
        component: profile.into(),
        is_warning,
        reason: reason.into(),
        action: Some(action.into()),
        text,
        repeats: is_warning,
    }
}
