//! What do all components find in the cluster?
//!
//! The custom resource definitions, the four priority classes and the namespace that Koordinator's
//! charts would have installed. They are applied at every start, so that a newer `tidepool` brings
//! its newer definitions along; on a cluster that has them nothing is written.
//!
//! A cluster of one is there to share its machine, so it starts with a configuration that turns
//! co-location on. It is made once and then its owner's: a change or a removal stays.

use std::collections::BTreeMap;
use std::fmt::Debug;

use anyhow::Context;
use api::priority::PriorityClass;
use api::protocol::name::{NAMESPACE, config_map};
use api::protocol::object::CONFIGURED;
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
    configure(client).await?;
    let classes = PriorityClass::ALL.iter().map(|class| priority_class(*class));
    try_join_all(classes.map(|class| async move { apply(client, &class).await })).await?;
    let definitions = api::kind::definitions();
    try_join_all(definitions.iter().map(|definition| apply(client, definition))).await?;
    Ok(())
}

/// What the configuration of a new cluster says.
fn configuration() -> ConfigMap {
    let text = |value: serde_json::Value| value.to_string();
    let data = BTreeMap::from([
        ("colocation-config".to_owned(), text(json!({"enable": true}))),
        (
            "resource-threshold-config".to_owned(),
            text(json!({"clusterStrategy": {"enable": true}})),
        ),
        (
            "resource-qos-config".to_owned(),
            text(json!({"clusterStrategy": {"beClass": {"cpuQOS": {"enable": true}}}})),
        ),
    ]);
    ConfigMap {
        metadata: kube::core::ObjectMeta {
            name: Some(config_map::SLO.to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            ..Default::default()
        },
        data: Some(data),
        ..Default::default()
    }
}

/// Makes the configuration once: whoever removes it does not want it.
async fn configure(client: &Client) -> anyhow::Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = namespaces.get(NAMESPACE).await?;
    if CONFIGURED.is_present(&namespace.metadata) {
        return Ok(());
    }
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    match maps.create(&PostParams::default(), &configuration()).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        created => {
            created.context("cannot make the configuration of a new cluster")?;
        }
    }
    let mark = json!({"metadata": {"annotations": {(CONFIGURED.name): "true"}}});
    namespaces.patch(NAMESPACE, &PatchParams::default(), &Patch::Merge(&mark)).await?;
    Ok(())
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
