//! The binder that decides nothing: what the API server takes, and no scheduler can pass.

use std::pin::pin;

use anyhow::bail;
use control::scheduler::Options;
use futures_util::{StreamExt, TryStreamExt, future};
use k8s_openapi::api::core::v1::{Binding, Node, Pod};
use kube::api::{ListParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::core::Status;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};
use serde_json::json;

use super::objects::NAMESPACE;
use crate::manager::typed;

/// Sends the pod to the node.
pub(crate) async fn bind(
    pods: &Api<Pod>,
    name: &str,
    uid: Option<&str>,
    node: &str,
) -> anyhow::Result<()> {
    let binding: Binding = typed(json!({"metadata": {"name": name, "uid": uid},
        "target": {"kind": "Node", "name": node}}))?;
    let params = PostParams::default();
    pods.create_subresource::<_, Status>("binding", name, &params, &binding).await?;
    Ok(())
}

/// Takes one node after the other, with as many requests at once as the scheduler.
pub(super) async fn bind_for_ever(client: Client) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let nodes = nodes.list_metadata(&ListParams::default()).await?.items;
    let nodes: Vec<String> = nodes.into_iter().filter_map(|node| node.metadata.name).collect();
    if nodes.is_empty() {
        bail!("no nodes; make some with `tidepool bench cluster fill`");
    }
    let names: Api<PartialObjectMeta<Pod>> = Api::namespaced(client.clone(), NAMESPACE);
    let pods: &Api<Pod> = &Api::namespaced(client, NAMESPACE);
    // It need not see a pod again that has its node, nor anything of it but the name.
    let waiting = watcher::Config::default().fields("spec.nodeName=");
    let waiting = pin!(watcher(names, waiting).applied_objects());
    waiting
        .map_err(anyhow::Error::from)
        .try_filter(|pod| future::ready(pod.metadata.deletion_timestamp.is_none()))
        .zip(futures_util::stream::iter(nodes.iter().cycle()))
        .map(|(pod, node)| async move {
            let metadata = pod?.metadata;
            let name = metadata.name.unwrap_or_default();
            bind(pods, &name, metadata.uid.as_deref(), node).await
        })
        .buffer_unordered(Options::default().bindings)
        .try_collect()
        .await
}
