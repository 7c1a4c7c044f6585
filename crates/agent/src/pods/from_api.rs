//! What does the API server say about the pods of this node?

use std::collections::BTreeMap;

use groups::Layout;
use k8s_openapi::api::core::v1::Pod as PodObject;
use kube::{Api, Client};
use qos::node::{Pod, Pods, next};
use reconcile::watch::{Config, Update, Watch};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

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
    let config = Config::default().fields(&format!("spec.nodeName={node}"));
    let mut watch = Watch::new(Api::<PodObject>::all(client), config, shutdown);
    // By the API server's own uid, which a mirror pod does not share with its cgroup.
    let mut known: BTreeMap<String, Pod> = BTreeMap::new();
    let mut arriving: Option<BTreeMap<String, Pod>> = None;
    while let Some(update) = watch.next().await {
        match update {
            Update::Relist => arriving = Some(BTreeMap::new()),
            Update::Applied(pod) => {
                arriving.as_mut().unwrap_or(&mut known).extend(entry(&pod, &layout))
            }
            Update::Listed => known = arriving.take().unwrap_or_default(),
            Update::Deleted(pod) => {
                known.remove(pod.metadata.uid.as_deref().unwrap_or_default());
            }
            Update::Refused(_) => continue,
        }
        if arriving.is_some() {
            continue;
        }
        let previous = out.borrow().clone().unwrap_or_default();
        let pods = next(&previous, known.values().cloned());
        out.send_replace(Some(pods));
    }
}

fn entry(pod: &PodObject, layout: &Layout) -> Option<(String, Pod)> {
    Some((pod.metadata.uid.clone()?, Pod::read(pod, layout)?))
}
