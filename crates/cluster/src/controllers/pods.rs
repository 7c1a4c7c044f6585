//! How do the pods of an owner come and go?
//!
//! Three controllers make and delete pods in numbers. Each pod leaves an expectation, so that none
//! is made twice, and an event on the owner.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use reconcile::key::Key;
use reconcile::record::Recorder;
use reconcile::write::{Kind, WriteError, Writer};

use super::expectations::Expectations;

/// Makes and deletes pods for owners of one kind.
#[derive(Debug)]
pub(crate) struct PodWriter {
    pub(crate) writer: Writer,
    pub(crate) events: Recorder,
    pub(crate) expectations: Expectations<Key>,
}

impl PodWriter {
    pub(crate) fn new(writer: Writer, events: Recorder) -> Self {
        Self { writer, events, expectations: Expectations::new() }
    }

    /// Creates pods, a few at first. A namespace that ends is no failure: nothing comes of trying
    /// again.
    pub(crate) async fn create<O: Kind>(
        &mut self,
        owner: &O,
        pods: &[Pod],
        now: Timestamp,
    ) -> Result<(), WriteError> {
        let created = self.writer.create_all(pods).await;
        for pod in &created.done {
            self.expectations.created(&Key::of(owner), pod, now);
            let text = format!("Created pod: {}", pod.name_any());
            self.events.normal(owner, "SuccessfulCreate", text);
        }
        let Some(error) = created.error.filter(|error| !error.is_namespace_ending()) else {
            return Ok(());
        };
        let text = format!("Error creating: {}", error.message());
        self.events.warning(owner, "FailedCreate", text);
        Err(error)
    }

    /// Deletes pods all at once.
    pub(crate) async fn delete<O: Kind>(
        &mut self,
        owner: &O,
        pods: &[Arc<Pod>],
        now: Timestamp,
    ) -> Result<(), WriteError> {
        let deleted = self.writer.delete_all(pods).await;
        for pod in &deleted.done {
            self.expectations.deleted(&Key::of(owner), &**pod, now);
            let text = format!("Deleted pod: {}", pod.name_any());
            self.events.normal(owner, "SuccessfulDelete", text);
        }
        deleted.error.map_or(Ok(()), Err)
    }
}
