//! Which nodes and pods does a binder find?
//!
//! Nodes are objects only, and pods never run: what is measured is the way of a pod to its node.

use std::ops::Range;

use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ServiceAccount};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use crate::manager::typed;
use crate::scheduler::Mix;
use crate::scheduler::mix::node;

pub(crate) const NAMESPACE: &str = "tidepool-bench";
/// On every node, so that others' nodes stay.
const LABEL: &str = "tidepool.io/bench";
/// Requests at once while the cluster is made.
const MAKERS: usize = 32;

/// Makes nodes, and the namespace for pods. What is there stays as it is.
pub(crate) async fn make_nodes(client: &Client, nodes: u32) -> anyhow::Result<()> {
    let params = &PostParams::default();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = typed(json!({"metadata": {"name": NAMESPACE}}))?;
    unless_there(namespaces.create(params, &namespace).await)?;
    // Pods need one, and a controller that makes it need not be there.
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
    let account = typed(json!({"metadata": {"name": "default"}}))?;
    unless_there(accounts.create(params, &account).await)?;

    let all: &Api<Node> = &Api::all(client.clone());
    let made = stream::iter(0..nodes).map(|number| async move {
        let mut node: Node = typed(node(number))?;
        node.metadata.uid = None;
        node.metadata.labels.get_or_insert_default().insert(LABEL.to_owned(), String::new());
        unless_there(all.create(params, &node).await)?;
        // New nodes are tainted until a controller finds them ready; here is none.
        let patch = Patch::Merge(json!({"spec": {"taints": null}}));
        let name = node.metadata.name.unwrap_or_default();
        all.patch(&name, &PatchParams::default(), &patch).await?;
        anyhow::Ok(())
    });
    made.buffer_unordered(MAKERS).try_collect().await
}

fn unless_there<T>(made: kube::Result<T>) -> kube::Result<()> {
    match made {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        made => made.map(drop),
    }
}

/// A pod that waits for this scheduler.
pub(crate) fn pod(number: u32, scheduler: &str) -> anyhow::Result<Pod> {
    let mut pod = Mix::Basic.pod(number)?;
    pod.metadata.namespace = Some(NAMESPACE.to_owned());
    pod.metadata.uid = None;
    pod.metadata.creation_timestamp = None;
    pod.status = None;
    if let Some(spec) = &mut pod.spec {
        spec.priority = None;
        spec.scheduler_name = Some(scheduler.to_owned());
        // Nor any volume that only one of two servers would add.
        spec.automount_service_account_token = Some(false);
    }
    Ok(pod)
}

/// Makes pods as fast as the server takes them.
pub(crate) async fn make_pods(
    client: &Client,
    numbers: Range<u32>,
    scheduler: &str,
) -> anyhow::Result<()> {
    let all: &Api<Pod> = &Api::namespaced(client.clone(), NAMESPACE);
    let made = stream::iter(numbers).map(|number| async move {
        all.create(&PostParams::default(), &pod(number, scheduler)?).await?;
        anyhow::Ok(())
    });
    made.buffer_unordered(MAKERS).try_collect().await
}

/// Removes every pod of the bench, without the grace that a kubelet would need.
pub(crate) async fn remove_pods(client: &Client) -> anyhow::Result<()> {
    let all: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    remove(&all, &ListParams::default(), &DeleteParams::default().grace_period(0)).await
}

pub(crate) async fn remove_nodes(client: &Client) -> anyhow::Result<()> {
    let all: Api<Node> = Api::all(client.clone());
    remove(&all, &ListParams::default().labels(LABEL), &DeleteParams::default()).await
}

async fn remove<K>(all: &Api<K>, which: &ListParams, how: &DeleteParams) -> anyhow::Result<()>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let found = all.list_metadata(which).await?.items;
    let names = found.into_iter().filter_map(|object| object.metadata.name);
    let removed = stream::iter(names).map(|name| async move {
        match all.delete(&name, how).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            removed => removed.map(drop),
        }
    });
    Ok(removed.buffer_unordered(MAKERS).try_collect().await?)
}
