//! Do the machines of kube-rs run on the embedded server?

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apiserver::http::{Options, router};
use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::Action;
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{Controller, WatchStreamExt, watcher as watch};
use kube::{Api, Client, Config, Resource, ResourceExt};
use kube_lease_manager::LeaseManagerBuilder;
use testkit::embedded::{self, Embedded};
use tokio::sync::mpsc;

const PATIENCE: Duration = Duration::from_secs(20);

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it happens in time")
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: kube::core::ObjectMeta { name: Some(name.to_owned()), ..Default::default() },
        data: Some(BTreeMap::from([("k".to_owned(), value.to_owned())])),
        ..ConfigMap::default()
    }
}

async fn over_tls() -> (Embedded, Client) {
    let server = Embedded::start(Options::default()).await.unwrap();
    let text = server.credentials.kubeconfig(&server.url);
    let config = Kubeconfig::from_yaml(&text).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(config, &options).await.unwrap();
    let client = Client::try_from(config).unwrap();
    (server, client)
}

#[tokio::test]
async fn a_watcher_lists_and_follows_in_both_ways() {
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let server = embedded::in_process().await.unwrap();
        let api: Api<ConfigMap> = Api::default_namespaced(Client::new(router(server), "default"));
        api.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
        let mut events = std::pin::pin!(watch(api.clone(), config));
        assert!(matches!(in_time(events.try_next()).await.unwrap().unwrap(), Event::Init));
        let Event::InitApply(first) = in_time(events.try_next()).await.unwrap().unwrap() else {
            panic!("the list has an object");
        };
        assert_eq!(first.name_any(), "a");
        assert!(matches!(in_time(events.try_next()).await.unwrap().unwrap(), Event::InitDone));
        api.create(&PostParams::default(), &config_map("b", "1")).await.unwrap();
        api.delete("a", &Default::default()).await.unwrap();
        let Event::Apply(added) = in_time(events.try_next()).await.unwrap().unwrap() else {
            panic!("b was added");
        };
        assert_eq!(added.name_any(), "b");
        let Event::Delete(gone) = in_time(events.try_next()).await.unwrap().unwrap() else {
            panic!("a was deleted");
        };
        assert_eq!(gone.name_any(), "a");
    }
}

#[tokio::test]
async fn a_reflector_holds_what_the_server_holds() {
    let server = embedded::in_process().await.unwrap();
    let api: Api<ConfigMap> = Api::default_namespaced(Client::new(router(server), "default"));
    for at in 0..120 {
        api.create(&PostParams::default(), &config_map(&format!("c-{at}"), "1")).await.unwrap();
    }
    let (store, writer) = reflector::store();
    let config = watcher::Config::default().page_size(50);
    let stream = watch(api.clone(), config).default_backoff().reflect(writer);
    let follow = tokio::spawn(stream.for_each(|_| std::future::ready(())));
    in_time(store.wait_until_ready()).await.unwrap();
    assert_eq!(store.len(), 120);

    let patch = serde_json::json!({"data": {"k": "2"}});
    api.patch("c-7", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    api.delete("c-8", &Default::default()).await.unwrap();
    in_time(async {
        let key = ObjectRef::new("c-7").within("default");
        loop {
            let seen = store.get(&key).and_then(|map| map.data.clone()?.remove("k"));
            if seen.as_deref() == Some("2") && store.len() == 119 {
                break;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    follow.abort();
}

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct ReconcileError(#[from] kube::Error);

/// Makes a secret for every config map.
async fn reconcile(
    map: Arc<ConfigMap>,
    context: Arc<(Client, mpsc::UnboundedSender<String>)>,
) -> Result<Action, ReconcileError> {
    let (client, done) = &*context;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let secret = Secret {
        metadata: kube::core::ObjectMeta {
            name: Some(map.name_any()),
            owner_references: Some(map.controller_owner_ref(&()).into_iter().collect()),
            ..Default::default()
        },
        string_data: map.data.clone(),
        ..Secret::default()
    };
    let params = PatchParams::apply("maker").force();
    secrets.patch(&map.name_any(), &params, &Patch::Apply(&secret)).await?;
    let _ = done.send(map.name_any());
    Ok(Action::await_change())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_reconciles_owners_and_what_they_own() {
    let (server, client) = over_tls().await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let (done, mut reconciled) = mpsc::unbounded_channel();
    let controller = Controller::new(maps.clone(), watcher::Config::default())
        .owns(secrets.clone(), watcher::Config::default())
        .run(
            reconcile,
            |_, _: &ReconcileError, _| Action::requeue(Duration::from_millis(50)),
            Arc::new((client, done)),
        );
    let running = tokio::spawn(controller.for_each(|_| std::future::ready(())));
    maps.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    assert_eq!(in_time(reconciled.recv()).await.as_deref(), Some("a"));
    let uid = secrets.get("a").await.unwrap().uid();

    secrets.delete("a", &Default::default()).await.unwrap();
    in_time(async {
        loop {
            reconciled.recv().await.unwrap();
            match secrets.get_opt("a").await.unwrap() {
                Some(secret) if secret.uid() != uid => break,
                _ => {}
            }
        }
    })
    .await;
    running.abort();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_passes_when_it_is_given_up() {
    let (server, client) = over_tls().await;
    let candidate = |name: &str| {
        LeaseManagerBuilder::new(client.clone(), "leader")
            .with_namespace("default")
            .with_identity(name)
            .with_duration(5)
            .with_grace(1)
            .build()
    };
    let (first, second) = (candidate("first").await.unwrap(), candidate("second").await.unwrap());
    let (mut leads, first) = first.watch().await;
    in_time(leads.wait_for(|leads| *leads)).await.unwrap();
    let (mut follows, second) = second.watch().await;
    assert!(!*follows.borrow());

    drop(leads);
    in_time(first).await.unwrap().unwrap();
    in_time(follows.wait_for(|leads| *leads)).await.unwrap();
    drop(follows);
    in_time(second).await.unwrap().unwrap();
    server.stop().await;
}

#[tokio::test]
async fn a_client_reads_pages_and_errors_as_types() {
    let server = embedded::in_process().await.unwrap();
    let api: Api<ConfigMap> = Api::default_namespaced(Client::new(router(server), "default"));
    for at in 0..5 {
        api.create(&PostParams::default(), &config_map(&format!("c-{at}"), "1")).await.unwrap();
    }
    let page = api.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(page.items.len(), 2);
    let token = page.metadata.continue_.unwrap();
    let rest = api.list(&ListParams::default().continue_token(&token)).await.unwrap();
    assert_eq!(rest.items.len(), 3);
    let missing = api.get("none").await.unwrap_err();
    assert!(matches!(missing, kube::Error::Api(status) if status.is_not_found()));
    assert!(api.get_opt("none").await.unwrap().is_none());
}
