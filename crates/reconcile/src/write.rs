//! How do decisions reach the API server?
//!
//! Every write asks at its moment whether this process still leads, and has a time limit. Writes
//! name the version they were decided on wherever that matters, so that a decision made on old facts
//! fails with a conflict and is made anew. A refusal, an answer that does not come and a lease that
//! is gone are told apart by [`WriteError`].

mod batch;

use std::error::Error;
use std::fmt::Debug;
use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ClusterResourceScope, NamespaceResourceScope, Status};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

pub use self::batch::{Batch, in_parallel, slow_start};
use crate::elect::Leadership;
use crate::key::{Key, ObjectVersion};
use crate::merge;

/// What is asked of the API server must be answered within this time, or counts as failed.
///
/// A lease is 15 s long and its holder gives up after 10 s without renewing it: what a leader began
/// at the last moment is over before another one begins.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// What an attempt to write, or to read for writing, came to.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("cannot {verb} {kind} {key}")]
    Refused { verb: &'static str, kind: String, key: Key, source: Box<kube::Error> },
    #[error("cannot {verb} {kind} {key}: the API server does not answer")]
    Slow { verb: &'static str, kind: String, key: Key },
    #[error("cannot read {kind} {key}")]
    Unreadable { kind: String, key: Key, source: Box<dyn Error + Send + Sync> },
    /// The lease went to the other replica; nothing was sent.
    #[error("this process no longer leads")]
    NotLeading,
    #[error("a decision about {0} broke; this is a mistake in the program")]
    Broken(String),
}

impl WriteError {
    pub fn refused(verb: &'static str, kind: &str, key: &Key, source: kube::Error) -> Self {
        let (kind, key) = (kind.to_owned(), key.clone());
        Self::Refused { verb, kind, key, source: Box::new(source) }
    }

    /// What the API server answered; none when it did not.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused { source, .. } => match &**source {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
            _ => None,
        }
    }

    fn is_answered(&self, code: u16, reason: &str) -> bool {
        self.status().is_some_and(|status| status.code == code || status.reason == reason)
    }

    /// The object has changed since it was looked at; looking again will do.
    pub fn is_conflict(&self) -> bool {
        self.is_answered(409, "Conflict")
    }

    pub fn is_missing(&self) -> bool {
        self.is_answered(404, "NotFound")
    }

    /// Something else has this name.
    pub fn is_taken(&self) -> bool {
        self.status().is_some_and(|status| status.reason == "AlreadyExists")
    }

    /// Nobody knows whether the request was carried out.
    pub fn is_unclear(&self) -> bool {
        match self {
            Self::Slow { .. } => true,
            Self::Refused { .. } => self.status().is_none_or(|status| status.code >= 500),
            Self::Unreadable { .. } | Self::NotLeading | Self::Broken(_) => false,
        }
    }

    /// Nothing new may be created there any more, so there is no point in trying again.
    pub fn is_namespace_ending(&self) -> bool {
        let details = self.status().and_then(|status| status.details.as_ref());
        let mut causes = details.into_iter().flat_map(|details| &details.causes);
        causes.any(|cause| cause.reason == "NamespaceTerminating")
    }

    /// What the server or the network said, for conditions and events.
    pub fn message(&self) -> String {
        match (self, self.status()) {
            (_, Some(status)) => status.message.clone(),
            (Self::Refused { source, .. }, None) => source.to_string(),
            (Self::Slow { .. }, None) => "the API server does not answer".to_owned(),
            (Self::Unreadable { source, .. }, None) => source.to_string(),
            (Self::NotLeading | Self::Broken(_), None) => self.to_string(),
        }
    }

    /// One word for a metric's label.
    pub fn word(&self) -> &'static str {
        match self {
            Self::NotLeading => "notLeading",
            Self::Unreadable { .. } => "unreadable",
            Self::Slow { .. } => "slow",
            Self::Broken(_) => "broken",
            Self::Refused { .. } if self.is_conflict() => "conflict",
            Self::Refused { verb, .. } => verb.split(' ').next().unwrap_or(verb),
        }
    }
}

/// A missing object is an answer, for whoever wanted it gone.
pub fn missing_is_fine<T>(result: Result<T, WriteError>) -> Result<Option<T>, WriteError> {
    match result {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error),
    }
}

/// How objects are addressed: in a namespace, or in none.
pub trait ScopedApi {
    fn api<K: Resource<DynamicType = (), Scope = Self>>(client: &Client, key: &Key) -> Api<K>;
}

impl ScopedApi for ClusterResourceScope {
    fn api<K: Resource<DynamicType = (), Scope = Self>>(client: &Client, _: &Key) -> Api<K> {
        Api::all(client.clone())
    }
}

impl ScopedApi for NamespaceResourceScope {
    fn api<K: Resource<DynamicType = (), Scope = Self>>(client: &Client, key: &Key) -> Api<K> {
        Api::namespaced(client.clone(), &key.namespace)
    }
}

/// A kind that can be written.
pub trait Kind:
    Resource<DynamicType = (), Scope: ScopedApi>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = (), Scope: ScopedApi>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// Writes for one part of a process; cheap to clone.
#[derive(Clone)]
pub struct Writer {
    pub client: Client,
    leadership: Leadership,
    /// The field manager; the API server makes one up for none.
    manager: Option<&'static str>,
    patience: Duration,
}

impl Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("manager", &self.manager).finish_non_exhaustive()
    }
}

impl Writer {
    /// Writes while this process leads.
    pub fn new(client: Client, leadership: Leadership) -> Self {
        Self { client, leadership, manager: None, patience: PATIENCE }
    }

    /// Writes for a process that is alone.
    pub fn alone(client: Client) -> Self {
        Self::new(client, Leadership::alone())
    }

    /// Writes in the name of this field manager.
    pub fn managing(self, manager: &'static str) -> Self {
        Self { manager: Some(manager), ..self }
    }

    /// Waits for answers as long as this.
    pub fn waiting(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// May this process write at this moment?
    pub fn leads(&self) -> bool {
        self.leadership.is_held()
    }

    pub fn api<K: Kind>(&self, key: &Key) -> Api<K> {
        K::Scope::api(&self.client, key)
    }

    pub fn patch_params(&self) -> PatchParams {
        let field_manager = self.manager.map(str::to_owned);
        PatchParams { field_manager, ..PatchParams::default() }
    }

    /// Waits for an answer, but not for ever.
    pub async fn ask<T>(
        &self,
        verb: &'static str,
        kind: &str,
        key: &Key,
        asking: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, WriteError> {
        match timeout(self.patience, asking).await {
            Ok(answer) => answer.map_err(|source| WriteError::refused(verb, kind, key, source)),
            Err(_) => Err(WriteError::Slow { verb, kind: kind.to_owned(), key: key.clone() }),
        }
    }

    /// Sends a request that changes something, if this process leads at this moment.
    pub async fn send<T>(
        &self,
        verb: &'static str,
        kind: &str,
        key: &Key,
        sending: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, WriteError> {
        if !self.leads() {
            return Err(WriteError::NotLeading);
        }
        self.ask(verb, kind, key, sending).await
    }

    /// The object as the server has it now, past all caches.
    pub async fn get<K: Kind>(&self, key: &Key) -> Result<Option<K>, WriteError> {
        self.ask("get", &K::kind(&()), key, self.api::<K>(key).get_opt(&key.name)).await
    }

    pub async fn create<K: Kind>(&self, object: &K) -> Result<K, WriteError> {
        let params =
            PostParams { field_manager: self.patch_params().field_manager, dry_run: false };
        let mut key = Key::of(object);
        if key.name.is_empty() {
            key.name = object.meta().generate_name.clone().unwrap_or_default();
        }
        let api = self.api::<K>(&key);
        self.send("create", &K::kind(&()), &key, api.create(&params, object)).await
    }

    /// Changes an object by a merge patch.
    pub async fn patch<K: Kind>(&self, key: &Key, patch: &Value) -> Result<K, WriteError> {
        let (api, params, patch) = (self.api::<K>(key), self.patch_params(), Patch::Merge(patch));
        self.send("patch", &K::kind(&()), key, api.patch(&key.name, &params, &patch)).await
    }

    /// Changes an object's status by a merge patch.
    pub async fn patch_status<K: Kind>(&self, key: &Key, patch: &Value) -> Result<K, WriteError> {
        let (api, params, patch) = (self.api::<K>(key), self.patch_params(), Patch::Merge(patch));
        let sending = api.patch_status(&key.name, &params, &patch);
        self.send("patch the status of", &K::kind(&()), key, sending).await
    }

    /// Writes the status that differs onto the object that was seen; none when nothing changes.
    pub async fn write_status<K: Kind, S: Serialize>(
        &self,
        object: &K,
        before: Option<&S>,
        after: &S,
    ) -> Result<Option<K>, WriteError> {
        let seen = ObjectVersion::of(object);
        match merge::status(&seen, before, after) {
            Some(patch) => self.patch_status(&seen.key, &patch).await.map(Some),
            None => Ok(None),
        }
    }

    /// Deletes an object; one that is gone already is fine.
    pub async fn delete<K: Kind>(&self, key: &Key, params: DeleteParams) -> Result<(), WriteError> {
        let api = self.api::<K>(key);
        let deleted = self.send("delete", &K::kind(&()), key, api.delete(&key.name, &params)).await;
        missing_is_fine(deleted).map(drop)
    }

    /// Deletes this very object and no other of its name; one that is gone already is fine.
    pub async fn delete_exactly<K: Kind>(
        &self,
        seen: &ObjectVersion,
        params: DeleteParams,
    ) -> Result<(), WriteError> {
        let uid = Some(seen.uid.clone());
        let params = params.preconditions(Preconditions { uid, resource_version: None });
        self.delete::<K>(&seen.key, params).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use k8s_openapi::api::core::v1::Pod;
    use tokio::sync::watch;

    use super::*;

    fn refusal(code: u16, reason: &str) -> WriteError {
        let mut status = Status::failure("no", reason);
        status.code = code;
        let source = kube::Error::Api(status.boxed());
        WriteError::refused("create", "Pod", &Key::new("default", "a"), source)
    }

    #[test]
    fn errors_say_what_was_tried_and_know_their_kind() {
        let error = refusal(403, "Forbidden");
        assert_eq!(error.to_string(), "cannot create Pod default/a");
        assert_eq!((error.message().as_str(), error.word()), ("no", "create"));
        assert!(!error.is_conflict() && !error.is_missing() && !error.is_taken());
        assert!(!error.is_namespace_ending() && !error.is_unclear());
        let taken = refusal(409, "AlreadyExists");
        assert!(taken.is_taken() && taken.is_conflict());
        assert_eq!(taken.word(), "conflict");
        assert!(refusal(404, "NotFound").is_missing());
        assert!(refusal(503, "ServiceUnavailable").is_unclear());
        assert!(!WriteError::NotLeading.is_unclear(), "nothing was sent");
    }

    #[test]
    fn a_status_is_patched_and_counted_as_a_patch() {
        let source = kube::Error::Api(Status::failure("no", "Forbidden").boxed());
        let key = Key::new("default", "a");
        let error = WriteError::refused("patch the status of", "Pod", &key, source);
        assert_eq!(error.to_string(), "cannot patch the status of Pod default/a");
        assert_eq!(error.word(), "patch");
    }

    /// A server that counts what reaches it, and answers or does not.
    fn server(answers: bool) -> (Client, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            count.fetch_add(1, Ordering::SeqCst);
            async move {
                if !answers {
                    std::future::pending::<()>().await;
                }
                let body = kube::client::Body::from(b"{}".to_vec());
                Ok::<_, tower::BoxError>(http::Response::new(body))
            }
        });
        (Client::new(service, "default"), asked)
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_does_not_lead_sends_nothing() {
        let (client, asked) = server(true);
        let (election, held) = watch::channel(false);
        let writer = Writer::new(client, Leadership::follow(held));
        let patch = Value::Object(serde_json::Map::new());
        let key = Key::new("default", "a");
        let refused = writer.patch::<Pod>(&key, &patch).await;
        assert!(matches!(refused, Err(WriteError::NotLeading)), "{refused:?}");
        assert_eq!(asked.load(Ordering::SeqCst), 0);
        election.send_replace(true);
        writer.patch::<Pod>(&key, &patch).await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_is_not_answered_ends_and_is_unclear() {
        let (client, _) = server(false);
        let writer = Writer::new(client, Leadership::alone());
        let key = Key::new("default", "a");
        let error = writer.delete::<Pod>(&key, DeleteParams::default()).await.unwrap_err();
        assert!(error.is_unclear(), "{error}");
        assert_eq!(error.word(), "slow");
    }
}
