//! Carrying out what was decided: the scheduler's writes.
//!
//! | decision | writes |
//! |---|---|
//! | place | at most one PATCH of the pod, PATCHes of its claims and volumes, one binding |
//! | reject | at most one PATCH of the pod's status |
//! | preempt | for each victim one PATCH of its status and one DELETE, bound to its uid |
//!
//! **A binding happens once.** The API server binds a pod only once and only under the uid that
//! was asked for, so what must not happen is that we believe the wrong thing. An answer that does
//! not say (an error of the server, a timeout, a connection that broke) leads to a look at the pod
//! itself, repeated until there is an answer; as long as it is unknown, the pod keeps its room. A
//! conflict is looked at in the same way: the pod was bound, is going, or is another one by now.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Binding, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time as WireTime};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Status;
use reconcile::key::Key;
use reconcile::write::{Kind, WriteError, Writer};
use sched::plugin::Patch as PodPatch;
use sched::profile::Point;
use sched::scheduler::{BindFailure, PodClaim, PodRef, Victim, VolumeWork};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::extender::Extenders;
use super::instruments::Instruments;
use super::versions::scheduler_of;

/// How often a write is tried that failed in passing.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_secs(1);
/// How often claims are looked at while volumes are made.
const CLAIM_PAUSE: Duration = Duration::from_millis(500);
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Writes for the leader.
#[derive(Clone)]
pub(super) struct Hands {
    pub(super) writer: Writer,
    /// How long volumes may take.
    pub(super) volume_patience: Duration,
    /// Write nothing onto a pod that is not ours any more.
    pub(super) looks_again: bool,
    pub(super) extenders: Arc<Extenders>,
    pub(super) instruments: Instruments,
    pub(super) stop: CancellationToken,
}

/// A pod that got a node.
#[derive(Debug)]
pub(super) struct Task<'a> {
    pub(super) pod: &'a PodRef,
    /// The version in which it is free and ours.
    pub(super) seen: Option<&'a str>,
    pub(super) profile: &'a str,
    pub(super) node: &'a str,
    pub(super) patch: &'a PodPatch,
    pub(super) volumes: &'a VolumeWork,
    /// The extender that binds it in our place.
    pub(super) binder: Option<usize>,
}

/// The API server's no; none when nobody knows whether the request was carried out.
fn code(error: &WriteError) -> Option<u16> {
    error.status().filter(|_| !error.is_unclear()).map(|status| status.code)
}

/// Worth trying again as it is.
fn is_passing(error: &WriteError) -> bool {
    error.is_unclear() || matches!(code(error), Some(409 | 429))
}

/// In the words of the API server.
fn failed(error: &WriteError) -> BindFailure {
    BindFailure::Error(error.message())
}

/// What is known of a pod after a binding whose answer did not say.
enum Sight {
    BoundTo(String),
    Free,
    Gone,
}

impl Hands {
    /// The object as it is now, if we lead.
    async fn get<K: Kind>(&self, key: &Key) -> Result<Option<K>, WriteError> {
        let api = self.writer.api::<K>(key);
        self.writer.send("get", &K::kind(&()), key, api.get_opt(&key.name)).await
    }

    /// A merge patch, tried again when it failed in passing. Patching twice is harmless.
    async fn patch<K: Kind>(&self, key: &Key, patch: &Value) -> Result<K, WriteError> {
        let mut pause = FIRST_PAUSE;
        let mut tries = 1;
        loop {
            match self.writer.patch(key, patch).await {
                Err(error) if is_passing(&error) && tries < TRIES => {
                    debug!(object = %key, error = error.message(), "patching again");
                    tries += 1;
                    self.rest(&mut pause).await;
                }
                result => return result,
            }
        }
    }

    /// A pause that grows and that a stop ends.
    async fn rest(&self, pause: &mut Duration) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = sleep(*pause) => {}
        }
        *pause = (*pause * 2).min(LAST_PAUSE);
    }

    /// Writes what plugins want written, prepares volumes and binds.
    pub(super) async fn place(&self, task: &Task<'_>) -> Result<(), BindFailure> {
        let Task { pod, seen, profile, node, patch, volumes, binder } = task;
        let is_plain = patch.is_empty() && volumes.is_empty() && binder.is_none();
        // A binding that holds for this version only is as good as a look, and one request less.
        let version = seen.filter(|_| is_plain && self.looks_again);
        if self.looks_again && version.is_none() {
            self.check(pod, profile).await?;
        }
        if !patch.is_empty() || !volumes.is_empty() {
            let start = Instant::now();
            let prepared = self.pre_bind(pod, node, patch, volumes).await;
            let is_done = prepared.is_ok();
            self.instruments.wrote(Point::PreBind, is_done, profile, start.elapsed());
            prepared?;
        }
        let start = Instant::now();
        let bound = match (binder, version) {
            (None, None) => self.bind(pod, node).await,
            (None, Some(version)) => self.bind_as_seen(pod, profile, node, version).await,
            (Some(extender), _) => self.let_bind(*extender, pod, node).await,
        };
        self.instruments.wrote(Point::Bind, bound.is_ok(), profile, start.elapsed());
        bound
    }

    async fn pre_bind(
        &self,
        pod: &PodRef,
        node: &str,
        patch: &PodPatch,
        volumes: &VolumeWork,
    ) -> Result<(), BindFailure> {
        if !patch.is_empty() {
            self.annotate(pod, patch).await?;
        }
        if !volumes.is_empty() {
            self.prepare(node, volumes).await?;
        }
        Ok(())
    }

    /// Is the pod still there, and still ours? It may have been given to another scheduler by its
    /// label since it was decided.
    async fn check(&self, pod: &PodRef, profile: &str) -> Result<(), BindFailure> {
        let found = match self.get::<Pod>(&key_of(pod)).await {
            Ok(Some(found)) => found,
            Ok(None) => return Err(BindFailure::Gone),
            Err(error) => return Err(failed(&error)),
        };
        let is_ours = scheduler_of(&found) == profile;
        match sight(&found, pod) {
            Sight::Free if is_ours => Ok(()),
            Sight::Free | Sight::Gone | Sight::BoundTo(_) => Err(BindFailure::Gone),
        }
    }

    /// An extender binds. When it does not say that it did, the pod itself is looked at.
    async fn let_bind(&self, at: usize, pod: &PodRef, node: &str) -> Result<(), BindFailure> {
        if !self.writer.leads() {
            return Err(failed(&WriteError::NotLeading));
        }
        let Err(error) = self.extenders.bind(at, pod, node).await else { return Ok(()) };
        match self.look(pod).await {
            Some(Sight::BoundTo(other)) if other == node => Ok(()),
            Some(Sight::BoundTo(_) | Sight::Gone) => Err(BindFailure::Gone),
            Some(Sight::Free) | None => Err(BindFailure::Error(error)),
        }
    }

    async fn annotate(&self, pod: &PodRef, patch: &PodPatch) -> Result<(), BindFailure> {
        let mut metadata = json!({"uid": &*pod.uid});
        if !patch.annotations.is_empty() {
            metadata["annotations"] = json!(patch.annotations);
        }
        if !patch.labels.is_empty() {
            metadata["labels"] = json!(patch.labels);
        }
        match self.patch::<Pod>(&key_of(pod), &json!({"metadata": metadata})).await {
            Ok(found) if found.metadata.deletion_timestamp.is_some() => Err(BindFailure::Gone),
            Ok(_) => Ok(()),
            Err(error) if matches!(code(&error), Some(404 | 409)) => Err(BindFailure::Gone),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Binds a pod that has not changed. One that has is looked at once more, and bound if it is
    /// still ours.
    async fn bind_as_seen(
        &self,
        pod: &PodRef,
        profile: &str,
        node: &str,
        version: &str,
    ) -> Result<(), BindFailure> {
        let Err(error) = self.post(pod, node, Some(version)).await else { return Ok(()) };
        let is_conflict = code(&error) == Some(409);
        match self.settle(pod, node, &error).await {
            Err(BindFailure::Error(_)) if is_conflict => {
                self.check(pod, profile).await?;
                self.bind(pod, node).await
            }
            settled => settled,
        }
    }

    async fn bind(&self, pod: &PodRef, node: &str) -> Result<(), BindFailure> {
        match self.post(pod, node, None).await {
            Ok(()) => Ok(()),
            Err(error) => self.settle(pod, node, &error).await,
        }
    }

    /// Sends a binding, which may hold for one version only.
    async fn post(
        &self,
        pod: &PodRef,
        node: &str,
        version: Option<&str>,
    ) -> Result<(), WriteError> {
        let (key, binding) = (key_of(pod), binding(pod, node, version));
        let (pods, params) = (self.writer.api::<Pod>(&key), PostParams::default());
        let sent = pods.create_subresource::<_, Status>("binding", &pod.name, &params, &binding);
        self.writer.send("bind", "Pod", &key, sent).await.map(drop)
    }

    /// What a binding that was not acknowledged came to.
    async fn settle(
        &self,
        pod: &PodRef,
        node: &str,
        error: &WriteError,
    ) -> Result<(), BindFailure> {
        match code(error) {
            Some(404) => return Err(BindFailure::Gone),
            Some(409) => {}
            None if error.is_unclear() => {}
            _ => return Err(failed(error)),
        }
        match self.look(pod).await {
            Some(Sight::BoundTo(other)) if other == node => Ok(()),
            Some(Sight::BoundTo(_) | Sight::Gone) => Err(BindFailure::Gone),
            Some(Sight::Free) | None => Err(failed(error)),
        }
    }

    /// Where the pod is now; asked until there is an answer. `None` when we stop asking.
    async fn look(&self, pod: &PodRef) -> Option<Sight> {
        let (key, mut pause) = (key_of(pod), FIRST_PAUSE);
        while !self.stop.is_cancelled() {
            match self.get::<Pod>(&key).await {
                Ok(None) => return Some(Sight::Gone),
                Ok(Some(found)) => return Some(sight(&found, pod)),
                Err(WriteError::NotLeading) => return None,
                Err(error) => {
                    let error = error.message();
                    warn!(pod = %key, error, "cannot tell whether the pod was bound");
                }
            }
            self.rest(&mut pause).await;
        }
        None
    }

    /// Claims get their volumes, or the node for which one shall be made; then we wait for them.
    async fn prepare(&self, node: &str, work: &VolumeWork) -> Result<(), BindFailure> {
        let refuse = |error: WriteError| failed(&error);
        for (volume, claim) in &work.bind {
            let claim_ref = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": claim.namespace, "name": claim.name});
            let patch = json!({"spec": {"claimRef": claim_ref}});
            let key = Key::new("", volume);
            self.patch::<PersistentVolume>(&key, &patch).await.map_err(refuse)?;
        }
        for claim in &work.provision {
            let annotations = json!({SELECTED_NODE: node});
            let patch = json!({"metadata": {"annotations": annotations}});
            let key = Key::new(&claim.namespace, &claim.name);
            self.patch::<PersistentVolumeClaim>(&key, &patch).await.map_err(refuse)?;
        }
        let deadline = Instant::now() + self.volume_patience;
        let bound = work.bind.iter().map(|(_, claim)| (claim, false));
        for (claim, is_made) in bound.chain(work.provision.iter().map(|claim| (claim, true))) {
            self.until_bound(claim, is_made.then_some(node), deadline).await?;
        }
        Ok(())
    }

    async fn until_bound(
        &self,
        claim: &PodClaim,
        node: Option<&str>,
        deadline: Instant,
    ) -> Result<(), BindFailure> {
        let rejected = |reason: String| BindFailure::Rejected { plugin: "VolumeBinding", reason };
        let key = Key::new(&claim.namespace, &claim.name);
        loop {
            let found = match self.get::<PersistentVolumeClaim>(&key).await {
                Ok(None) => return Err(rejected(format!("claim {} is gone", claim.name))),
                Ok(Some(found)) => Some(found),
                Err(error @ WriteError::NotLeading) => return Err(failed(&error)),
                Err(_) => None,
            };
            if let Some(found) = found {
                if found.status.and_then(|status| status.phase).as_deref() == Some("Bound") {
                    return Ok(());
                }
                let selected = found.metadata.annotations.unwrap_or_default();
                let selected = selected.get(SELECTED_NODE).map(String::as_str);
                if node.is_some() && selected != node {
                    let reason =
                        format!("no volume can be made for claim {} on that node", claim.name);
                    return Err(rejected(reason));
                }
            }
            if Instant::now() >= deadline || self.stop.is_cancelled() {
                return Err(rejected(format!("claim {} was not bound in time", claim.name)));
            }
            let mut pause = CLAIM_PAUSE;
            self.rest(&mut pause).await;
        }
    }

    /// Writes a pod's condition and nomination. False when it did not arrive.
    pub(super) async fn tell(&self, pod: &PodRef, status: &Value) -> bool {
        let patch = Patch::Strategic(json!({"metadata": {"uid": &*pod.uid}, "status": status}));
        let (key, params) = (key_of(pod), PatchParams::default());
        let api = self.writer.api::<Pod>(&key);
        let patching = api.patch_status(&pod.name, &params, &patch);
        match self.writer.send("patch the status of", "Pod", &key, patching).await {
            Ok(_) => true,
            // Gone, or another pod of that name.
            Err(error) if matches!(code(&error), Some(404 | 409)) => true,
            Err(error) => {
                warn!(pod = %key, error = error.message(), "cannot write the status of a pod");
                false
            }
        }
    }

    /// Tells a victim why, and deletes it. False when it could not be told.
    pub(super) async fn evict(&self, victim: &Victim, profile: &str, now: Timestamp) -> bool {
        let pod = &victim.pod;
        let message = format!("{profile}: preempting to accommodate a higher priority pod");
        let condition = json!({"type": "DisruptionTarget", "status": "True",
            "reason": "PreemptionByScheduler", "message": message,
            "lastTransitionTime": WireTime(now)});
        self.tell(pod, &json!({"conditions": [condition]})).await;
        let preconditions =
            Preconditions { uid: Some(pod.uid.to_string()), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let (key, mut pause) = (key_of(pod), FIRST_PAUSE);
        for _ in 0..TRIES {
            match self.writer.delete::<Pod>(&key, params.clone()).await {
                Ok(()) => return true,
                // Replaced by another of the same name.
                Err(error) if code(&error) == Some(409) => return true,
                Err(error) if error.is_unclear() => {
                    let error = error.message();
                    warn!(pod = %key, error, "cannot delete a victim; will try again");
                    self.rest(&mut pause).await;
                }
                Err(error) => {
                    warn!(pod = %key, error = error.message(), "cannot delete a victim");
                    return false;
                }
            }
        }
        false
    }
}

fn sight(found: &Pod, asked: &PodRef) -> Sight {
    let node = found.spec.as_ref().and_then(|spec| spec.node_name.clone());
    if found.metadata.uid.as_deref() != Some(&*asked.uid) {
        return Sight::Gone;
    }
    match node.filter(|node| !node.is_empty()) {
        Some(node) => Sight::BoundTo(node),
        None if found.metadata.deletion_timestamp.is_some() => Sight::Gone,
        None => Sight::Free,
    }
}

fn key_of(pod: &PodRef) -> Key {
    Key::new(&pod.namespace, &pod.name)
}

fn binding(pod: &PodRef, node: &str, version: Option<&str>) -> Binding {
    Binding {
        metadata: ObjectMeta {
            name: Some(pod.name.clone()),
            namespace: Some(pod.namespace.clone()),
            uid: Some(pod.uid.to_string()),
            resource_version: version.map(str::to_owned),
            ..ObjectMeta::default()
        },
        target: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            ..ObjectReference::default()
        },
    }
}
