//! When has a pod got its node, as everybody who watches sees it?

use std::pin::Pin;

use anyhow::Context;
use futures_util::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};

use super::objects::NAMESPACE;

type Events = dyn Stream<Item = watcher::Result<Event<PartialObjectMeta<Pod>>>> + Send;

/// A watch for pods with nodes. Only their names travel, so that watching costs the server little.
pub(crate) struct Sightings {
    events: Pin<Box<Events>>,
}

impl Sightings {
    /// Begins to look. What is bound after this has returned is seen.
    pub(crate) async fn begin(client: &Client) -> anyhow::Result<Self> {
        let pods: Api<PartialObjectMeta<Pod>> = Api::namespaced(client.clone(), NAMESPACE);
        let bound = watcher::Config::default().fields("spec.nodeName!=");
        let mut events = watcher(pods, bound).boxed();
        while !matches!(events.try_next().await?.context("a watch ended")?, Event::InitDone) {}
        Ok(Self { events })
    }

    /// The name of a pod that has a node. The same may come again.
    pub(crate) async fn next(&mut self) -> anyhow::Result<String> {
        loop {
            let event = self.events.try_next().await?.context("a watch ended")?;
            if let Event::Apply(pod) | Event::InitApply(pod) = event {
                return Ok(pod.metadata.name.unwrap_or_default());
            }
        }
    }
}
