//! Certificates in the life of a cluster: made once, shared, repaired.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control::webhook::Vault;
use control::webhook::certificate::Bundle;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::rig::{Cluster, NAMESPACE, create, options, pod, ready, until};

const SECRET: &str = "koordinator-webhook-certs";

fn secrets(cluster: &Cluster) -> Api<Secret> {
    Api::namespaced(cluster.client.clone(), NAMESPACE)
}

async fn stored(cluster: &Cluster) -> Bundle {
    let secret = secrets(cluster).get(SECRET).await.expect("there is a Secret");
    Bundle::read(&secret.data.unwrap_or_default()).expect("it is whole")
}

/// What the API server trusts.
async fn trusted(cluster: &Cluster) -> String {
    let api: Api<MutatingWebhookConfiguration> = Api::all(cluster.client.clone());
    let found = api.get("koordinator-mutating-webhook-configuration").await.expect("installed");
    let bundles: Vec<ByteString> = found
        .webhooks
        .unwrap_or_default()
        .into_iter()
        .filter_map(|webhook| webhook.client_config.ca_bundle)
        .collect();
    let first = bundles.first().cloned().unwrap_or_default();
    assert!(bundles.iter().all(|bundle| *bundle == first), "all entries trust the same");
    String::from_utf8(first.0).expect("PEM is text")
}

/// The webhook is called and believed: it refuses what it should.
async fn refuses(cluster: &Cluster) -> bool {
    let api: Api<Pod> = cluster.api();
    let bad = pod("bad", json!({"koordinator.sh/qosClass": "BE"}), "koord-prod", json!({}));
    let result = create(&api, bad).await;
    if result.is_ok() {
        let _ = api.delete("bad", &DeleteParams::default().grace_period(0)).await;
    }
    result.is_err()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_start_together_agree() {
    let cluster = Cluster::without_namespace().await;
    let managers = tokio::join!(
        ready(cluster.client.clone(), options()),
        ready(cluster.client.clone(), options()),
        ready(cluster.client.clone(), options()),
    );
    let bundle = stored(&cluster).await;
    bundle.judge("127.0.0.1", Timestamp::now()).expect("it is usable");
    until("one authority is trusted", async || {
        (trusted(&cluster).await == bundle.authority()).then_some(())
    })
    .await;
    assert!(refuses(&cluster).await);
    let (a, b, c) = managers;
    tokio::join!(a.stop(), b.stop(), c.stop());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_keeps_what_is_good() {
    let cluster = Cluster::start().await;
    ready(cluster.client.clone(), options()).await.stop().await;
    let before = stored(&cluster).await;
    let manager = ready(cluster.client.clone(), options()).await;
    assert_eq!(stored(&cluster).await, before);
    assert!(refuses(&cluster).await);
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unusable_secrets_are_repaired() {
    let now = Timestamp::now();
    let other_name = Bundle::make("somewhere.else.svc", now).expect("made");
    let old =
        Bundle::make("127.0.0.1", "2015-01-01T00:00:00Z".parse().expect("a time")).expect("made");
    let month = jiff::SignedDuration::from_hours(24 * 30);
    let ahead = Bundle::make("127.0.0.1", now + month).expect("made");
    let mut half = Bundle::make("127.0.0.1", now).expect("made").data();
    half.retain(|name, _| name != "tls.key" && name != "key.pem");
    let mut torn = Bundle::make("127.0.0.1", now).expect("made").data();
    for name in ["cert.pem", "tls.crt"] {
        if let Some(text) = torn.get_mut(name) {
            text.0.truncate(100);
        }
    }
    let authority = Bundle::salvage(&half).authority().to_owned();
    let cases = [
        ("empty", Default::default(), None),
        ("for another name", other_name.data(), Some(other_name.authority().to_owned())),
        ("expired", old.data(), None),
        ("by a clock a month ahead", ahead.data(), None),
        ("half written", half, Some(authority)),
        ("torn", torn, None),
    ];
    let cluster = Cluster::start().await;
    for (name, data, keeps) in cases {
        let _ = secrets(&cluster).delete(SECRET, &DeleteParams::default()).await;
        let secret = Secret {
            metadata: kube::core::ObjectMeta { name: Some(SECRET.into()), ..Default::default() },
            data: Some(data),
            ..Secret::default()
        };
        secrets(&cluster).create(&PostParams::default(), &secret).await.expect("a Secret");
        let manager = ready(cluster.client.clone(), options()).await;
        let bundle = stored(&cluster).await;
        bundle.judge("127.0.0.1", now).unwrap_or_else(|error| panic!("{name}: {error}"));
        if let Some(authority) = keeps {
            assert_eq!(bundle.authority(), authority, "{name}: the authority was good");
        }
        until(name, async || refuses(&cluster).await.then_some(())).await;
        manager.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_certificate_is_served_without_a_restart() {
    let cluster = Cluster::start().await;
    let manager = ready(cluster.client.clone(), options()).await;
    let first = stored(&cluster).await;
    // Somebody else rotates: a foreign but usable bundle.
    let next = Bundle::make("127.0.0.1", Timestamp::now()).expect("made");
    let data: serde_json::Map<_, _> = next
        .data()
        .into_iter()
        .map(|(name, text)| (name, STANDARD.encode(text.0).into()))
        .collect();
    let patch = json!({ "data": data });
    let params = PatchParams::default();
    secrets(&cluster).patch(SECRET, &params, &Patch::Merge(&patch)).await.expect("rotated");
    let bundle = until("the new authority is trusted", async || {
        let trusted = trusted(&cluster).await;
        trusted.contains(next.authority().trim()).then_some(trusted)
    })
    .await;
    assert!(bundle.contains(first.authority().trim()), "the old one for a while, too");
    assert!(refuses(&cluster).await);

    secrets(&cluster).delete(SECRET, &DeleteParams::default()).await.expect("deleted");
    until("there is a Secret again", async || {
        secrets(&cluster).get_opt(SECRET).await.ok().flatten()
    })
    .await;
    until("it is believed", async || refuses(&cluster).await.then_some(())).await;
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_may_live_in_a_directory() {
    let cluster = Cluster::start().await;
    let dir = tempfile::tempdir().expect("a directory");
    let mut options = options();
    options.webhook.vault = Vault::Directory(dir.path().join("certs"));
    ready(cluster.client.clone(), options.clone()).await.stop().await;
    let key = dir.path().join("certs/tls.key");
    let before = std::fs::read(&key).expect("the key is there");
    ready(cluster.client.clone(), options.clone()).await.stop().await;
    assert_eq!(std::fs::read(&key).expect("the key"), before, "what is good is kept");
    std::fs::write(&key, "half").expect("written");
    let manager = ready(cluster.client.clone(), options).await;
    assert_ne!(std::fs::read(&key).expect("the key"), b"half");
    assert!(refuses(&cluster).await);
    manager.stop().await;
}
