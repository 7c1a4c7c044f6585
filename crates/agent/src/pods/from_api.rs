//! What does the API server say about the pods of this node?

use std::collections::BTreeMap;

use futures::StreamExt;
use groups::Layout;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::read::{NodePod, read};
use super::{Pods, next};
use crate::object::chain;

/// What the watch has brought so far; `None` until the first whole list.
pub type FromApi = watch::Sender<Option<Pods>>;

/// Watches pods bound to `node` and publishes each state of them until shutdown.
///
/// An empty list is believed: unlike a kubelet, the API server does not forget.
pub async fn follow(
    client: Client,
    node: String,
    layout: Layout,
    out: FromApi,
    shutdown: CancellationToken,
) {
    let config = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
    let events = watcher(Api::<Pod>::all(client), config).default_backoff();
    let mut events = std::pin::pin!(events.take_until(shutdown.cancelled_owned()));
    // By the API server's own uid, which a mirror pod does not share with its cgroup.
    let mut known: BTreeMap<String, NodePod> = BTreeMap::new();
    let mut listing: Option<BTreeMap<String, NodePod>> = None;
    let mut failing = false;
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => listing = Some(BTreeMap::new()),
            Ok(watcher::Event::InitApply(pod)) => {
                if let Some(listing) = &mut listing {
                    listing.extend(entry(&pod, &layout));
                }
                continue;
            }
            Ok(watcher::Event::InitDone) => {
                known = listing.take().unwrap_or_default();
            }
            Ok(watcher::Event::Apply(pod)) => known.extend(entry(&pod, &layout)),
            Ok(watcher::Event::Delete(pod)) => {
                known.remove(pod.metadata.uid.as_deref().unwrap_or_default());
            }
            Err(error) => {
                if std::mem::replace(&mut failing, true) {
                    debug!(%error, "still cannot watch pods");
                } else {
                    warn!(error = chain(&error), "cannot watch pods; those known stay");
                }
                continue;
            }
        }
        if listing.is_some() {
            continue;
        }
        failing = false;
        let previous = out.borrow().clone().unwrap_or_default();
        let pods = next(&previous, known.values().cloned());
        out.send_replace(Some(pods));
    }
}

fn entry(pod: &Pod, layout: &Layout) -> Option<(String, NodePod)> {
    Some((pod.metadata.uid.clone()?, read(pod, layout)?))
}
