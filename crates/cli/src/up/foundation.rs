//! What do all components find in the cluster?
//!
//! The custom resource definitions, the four priority classes and the namespace that Koordinator's
//! charts would have installed. They are applied at every start, so that a newer `tidepool` brings
//! its newer definitions along; on a cluster that has them nothing is written. The configuration
//! that lends idle resources to batch work is created once and belongs to the user from then on.

use std::fmt::Debug;

use anyhow::Context;
use api::priority::PriorityClass;
use api::protocol::name::{NAMESPACE, config_map};
use futures_util::future::try_join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::scheduling::v1;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

/// Who owns these fields.
const FIELD_MANAGER: &str = "tidepool-up";

/// Applies everything; returns when the definitions are served.
pub(super) async fn lay(client: &Client) -> anyhow::Result<()> {
    let namespace = serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE},
    }))?;
    apply::<Namespace>(client, &namespace).await?;
    let classes = PriorityClass::ALL.iter().map(|class| priority_class(*class));
    try_join_all(classes.map(|class| async move { apply(client, &class).await })).await?;
    let definitions = api::kind::definitions();
    try_join_all(definitions.iter().map(|definition| apply(client, definition))).await?;
    lend(client).await
}

/// Reports every few seconds, because one machine is a small cluster.
const COLOCATION: &str = r#"{"enable": true, "metricReportIntervalSeconds": 10}"#;

/// Lets batch work have what is idle, unless somebody has decided about that already.
async fn lend(client: &Client) -> anyhow::Result<()> {
    let config: ConfigMap = serde_json::from_value(json!({
        "metadata": {"name": config_map::SLO},
        "data": {config_map::COLOCATION: COLOCATION},
    }))?;
    let configs: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    match configs.create(&PostParams::default(), &config).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(error).context("cannot create the ConfigMap slo-controller-config"),
    }
}

fn priority_class(class: PriorityClass) -> v1::PriorityClass {
    let purpose = match class {
        PriorityClass::Prod => "Online services.",
        PriorityClass::Mid => "Work on resources that are lent for a longer time.",
        PriorityClass::Batch => "Batch work on resources that may be taken back at any time.",
        PriorityClass::Free => "Work that runs when nobody else wants the machine.",
    };
    v1::PriorityClass {
        metadata: kube::core::ObjectMeta { name: Some(class.to_string()), ..Default::default() },
        value: class.object_value(),
        description: Some(purpose.to_owned()),
        ..Default::default()
    }
}

async fn apply<K>(client: &Client, object: &K) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    let name = object.meta().name.clone().unwrap_or_default();
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let applied = api.patch(&name, &params, &Patch::Apply(object)).await;
    applied.with_context(|| format!("cannot install {} {name}", K::kind(&())))?;
    Ok(())
}
