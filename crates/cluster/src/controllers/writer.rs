//! How do decisions reach the API server?
//!
//! Every controller writes through one of these, from its one task. Writes name the object they
//! were decided for, so that a decision made on old facts fails with a conflict and is made anew.

use std::{fmt::Debug, sync::Arc};

use futures::future::join_all;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    claim::{Claims, Owner, adoption, release},
    key::{Key, Seen, is_terminating, uid},
    recorder::Events,
};

/// Requests of one controller that may be under way together.
const AT_ONCE: usize = 64;

/// What an attempt to write, or to read for writing, came to.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} {kind} {key}")]
pub(crate) struct SyncError {
    verb: &'static str,
    kind: String,
    key: Key,
    source: Box<kube::Error>,
}

impl SyncError {
    pub(crate) fn new(verb: &'static str, kind: &str, key: &Key, source: kube::Error) -> Self {
        Self { verb, kind: kind.to_owned(), key: key.clone(), source: Box::new(source) }
    }

    fn reason(&self) -> &str {
        match &*self.source {
            kube::Error::Api(status) => &status.reason,
            _ => "",
        }
    }

    /// The object has changed since it was looked at; looking again will do.
    pub(crate) fn is_conflict(&self) -> bool {
        self.reason() == "Conflict"
    }

    pub(crate) fn is_missing(&self) -> bool {
        self.reason() == "NotFound"
    }

    /// Something else has this name.
    pub(crate) fn is_taken(&self) -> bool {
        self.reason() == "AlreadyExists"
    }

    /// Nothing new may be created there any more, so there is no point in trying again.
    pub(crate) fn is_namespace_ending(&self) -> bool {
        let kube::Error::Api(status) = &*self.source else { return false };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
    }

    /// What the server said, for conditions and events.
    pub(crate) fn message(&self) -> String {
        match &*self.source {
            kube::Error::Api(status) => status.message.clone(),
            other => other.to_string(),
        }
    }
}

/// A kind that lives in namespaces and that controllers write.
pub(crate) trait Kind:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
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
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// Writes for one controller.
#[derive(Clone)]
pub(crate) struct Writer {
    pub(crate) client: Client,
    /// The controller's name: field manager and source of events.
    pub(crate) name: &'static str,
    pub(crate) events: Events,
}

impl Writer {
    fn api<K: Kind>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    pub(crate) fn patch_params(&self) -> PatchParams {
        PatchParams { field_manager: Some(self.name.into()), ..PatchParams::default() }
    }

    /// The object as the server has it now, past all caches.
    pub(crate) async fn get<K: Kind>(&self, key: &Key) -> Result<Option<K>, SyncError> {
        let found = self.api::<K>(&key.namespace).get_opt(&key.name).await;
        found.map_err(|source| SyncError::new("get", &K::kind(&()), key, source))
    }

    pub(crate) async fn create<K: Kind>(&self, object: &K) -> Result<K, SyncError> {
        let params = PostParams { field_manager: Some(self.name.into()), dry_run: false };
        let mut key = Key::of(object);
        if key.name.is_empty() {
            key.name = object.meta().generate_name.clone().unwrap_or_default();
        }
        let created = self.api::<K>(&key.namespace).create(&params, object).await;
        created.map_err(|source| SyncError::new("create", &K::kind(&()), &key, source))
    }

    pub(crate) async fn patch<K: Kind>(&self, key: &Key, patch: &Value) -> Result<K, SyncError> {
        let api = self.api::<K>(&key.namespace);
        let patched = api.patch(&key.name, &self.patch_params(), &Patch::Merge(patch)).await;
        patched.map_err(|source| SyncError::new("patch", &K::kind(&()), key, source))
    }

    pub(crate) async fn patch_status<K: Kind>(
        &self,
        key: &Key,
        patch: &Value,
    ) -> Result<K, SyncError> {
        let api = self.api::<K>(&key.namespace);
        let patched = api.patch_status(&key.name, &self.patch_params(), &Patch::Merge(patch)).await;
        patched.map_err(|source| SyncError::new("patch the status of", &K::kind(&()), key, source))
    }

    /// Deletes this very object; one that is gone already is fine.
    pub(crate) async fn delete<K: Kind>(
        &self,
        seen: &Seen,
        params: DeleteParams,
    ) -> Result<(), SyncError> {
        let uid = Some(seen.uid.clone());
        let params = params.preconditions(Preconditions { uid, resource_version: None });
        let api = self.api::<K>(&seen.key.namespace);
        match api.delete(&seen.key.name, &params).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(source) => Err(SyncError::new("delete", &K::kind(&()), &seen.key, source)),
        }
    }

    /// Adopts and releases, and returns what the owner controls then.
    ///
    /// The cache may not know yet that the owner is on its way out or was replaced; it must not
    /// adopt then, so the server is asked first.
    pub(crate) async fn settle<O: Kind, K: Kind>(
        &self,
        owner: &Owner,
        claims: Claims<K>,
    ) -> Result<Vec<Arc<K>>, SyncError> {
        let mut owned = claims.owned;
        for object in &claims.release {
            match self.patch::<K>(&Key::of(&**object), &release(owner, &**object)).await {
                Ok(_) => {}
                Err(error) if error.is_missing() => {}
                Err(error) => return Err(error),
            }
        }
        if claims.adopt.is_empty() {
            return Ok(owned);
        }
        let live = self.get::<O>(&owner.key).await?;
        if live.is_none_or(|live| uid(&live) != owner.uid || is_terminating(&live)) {
            return Ok(owned);
        }
        for object in &claims.adopt {
            match self.patch::<K>(&Key::of(&**object), &adoption(owner, &**object)).await {
                Ok(adopted) => owned.push(Arc::new(adopted)),
                Err(error) if error.is_missing() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(owned)
    }

    /// Creates objects, a few at first; see [`slow_start`].
    pub(crate) async fn create_all<K: Kind>(&self, objects: &[K]) -> Batches<K> {
        slow_start(objects, |object| self.create(object)).await
    }

    /// Deletes objects all at once and reports those that are gone, and the first refusal.
    pub(crate) async fn delete_all<K: Kind>(&self, objects: &[Arc<K>]) -> Batches<Arc<K>> {
        let deletions = objects.iter().map(|object| async move {
            let seen = Seen::of(&**object);
            self.delete::<K>(&seen, DeleteParams::default()).await.map(|()| object.clone())
        });
        let mut batches = Batches { done: Vec::new(), error: None };
        batches.extend(in_parallel(deletions.collect()).await);
        batches
    }

    pub(crate) fn normal<K>(&self, about: &K, reason: &'static str, message: String)
    where
        K: Resource<DynamicType = ()>,
    {
        self.events.send(self.name, "Normal", about, reason, message);
    }

    pub(crate) fn warning<K>(&self, about: &K, reason: &'static str, message: String)
    where
        K: Resource<DynamicType = ()>,
    {
        self.events.send(self.name, "Warning", about, reason, message);
    }
}

/// What several writes came to: those that worked, and why the others did not.
#[derive(Debug)]
pub(crate) struct Batches<R> {
    pub(crate) done: Vec<R>,
    pub(crate) error: Option<SyncError>,
}

impl<R> Batches<R> {
    fn extend(&mut self, results: impl IntoIterator<Item = Result<R, SyncError>>) {
        for result in results {
            match result {
                Ok(done) => self.done.push(done),
                Err(error) => {
                    self.error.get_or_insert(error);
                }
            }
        }
    }
}

/// Lets requests run side by side, but leaves room for others: the server serves a limited number
/// at once and refuses the rest.
pub(crate) async fn in_parallel<F: Future>(requests: Vec<F>) -> Vec<F::Output> {
    let mut results = Vec::new();
    let mut rest = requests.into_iter();
    loop {
        let some: Vec<_> = rest.by_ref().take(AT_ONCE).collect();
        if some.is_empty() {
            return results;
        }
        results.extend(join_all(some).await);
    }
}

/// Tries one, then two, then four at a time, and stops after a batch with a failure.
///
/// What fails for one pod of a template mostly fails for all of them; a quota that is used up
/// should cost one refused request, not five hundred.
pub(crate) async fn slow_start<'a, T, R, F>(items: &'a [T], act: impl Fn(&'a T) -> F) -> Batches<R>
where
    F: Future<Output = Result<R, SyncError>>,
{
    let mut batches = Batches { done: Vec::new(), error: None };
    let mut rest = items;
    let mut size = 1;
    while !rest.is_empty() && batches.error.is_none() {
        let (batch, later) = rest.split_at(size.min(rest.len()));
        batches.extend(in_parallel(batch.iter().map(&act).collect()).await);
        rest = later;
        size *= 2;
    }
    batches
}

/// The names of objects, for logs and events.
pub(crate) fn name(object: &impl Resource) -> String {
    object.name_any()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn refusal() -> SyncError {
        let status = kube::core::Status::failure("no", "Forbidden").boxed();
        SyncError::new("create", "Pod", &Key::new("default", "a"), kube::Error::Api(status))
    }

    #[tokio::test]
    async fn batches_double_until_one_fails() {
        let cases = [
            ("all work", 10, 10, 10, 10),
            ("the first fails", 10, 0, 1, 0),
            ("one of the second batch fails", 10, 2, 3, 2),
            ("one of the third batch fails, the batch goes on", 10, 4, 7, 6),
        ];
        for (name, wanted, works, tried, done) in cases {
            let items: Vec<usize> = (0..wanted).collect();
            let seen = RefCell::new(Vec::new());
            let batches = slow_start(&items, |item| {
                seen.borrow_mut().push(*item);
                let result = if *item == works { Err(refusal()) } else { Ok(*item) };
                async move { result }
            })
            .await;
            assert_eq!((seen.borrow().len(), batches.done.len()), (tried, done), "{name}");
            assert_eq!(batches.error.is_some(), tried < wanted, "{name}");
        }
    }

    #[test]
    fn errors_say_what_was_tried_and_know_their_kind() {
        let error = refusal();
        assert_eq!(error.to_string(), "cannot create Pod default/a");
        assert_eq!(error.message(), "no");
        assert!(!error.is_conflict() && !error.is_missing() && !error.is_taken());
        assert!(!error.is_namespace_ending());
    }
}
