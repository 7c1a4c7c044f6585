//! What the webhooks do when others do not behave.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Api;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::rig::{Cluster, Faults, LIMIT, NAMESPACE, create, options, pod, ready, start, until};

async fn connect(cluster: &Cluster, address: SocketAddr) -> TlsStream<TcpStream> {
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let secret = secrets.get("koordinator-webhook-certs").await.expect("there is a Secret");
    let data = secret.data.expect("it holds something");
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(&data["ca-cert.pem"].0).expect("PEM");
    roots.add(authority).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.expect("somebody listens");
    let name = ServerName::try_from("127.0.0.1").expect("an address");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("a certificate")
}

/// Sends a request as it stands and returns status and body.
async fn say(mut stream: TlsStream<TcpStream>, head: &str, body: &[u8]) -> (u16, String) {
    let head =
        format!("{head}\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await.expect("the head is taken");
    // A server that refuses early may close before it has read everything.
    let _ = stream.write_all(body).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.get(9..12).and_then(|code| code.parse().ok()).unwrap_or_default();
    (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

fn review(object: Value) -> Vec<u8> {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u", "operation": "CREATE", "namespace": "default", "object": object},
    })
    .to_string()
    .into_bytes()
}

const JSON: &str = "\r\nContent-Type: application/json";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_says_nothing_after_the_handshake_is_let_go() {
    let cluster = Cluster::start().await;
    let mut options = options();
    options.webhook.limits.first_byte = Duration::from_millis(200);
    let manager = ready(cluster.client.clone(), options).await;
    let mut silent = connect(&cluster, manager.status.webhook_address.expect("webhooks")).await;
    let mut said = Vec::new();
    let closed = tokio::time::timeout(LIMIT, silent.read_to_end(&mut said)).await;
    // Whether with a farewell or without one.
    let _ = closed.expect("the connection is closed");
    assert_eq!(said, b"");
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_are_mutated_though_silent_clients_hold_every_place() {
    let cluster = Cluster::start().await;
    let mut options = options();
    // Nobody is let go for want of time while the test runs.
    options.webhook.limits.first_byte = LIMIT;
    options.webhook.limits.handshake = LIMIT;
    // Fewer than usual, because this process holds both ends.
    options.webhook.limits.connections = 32;
    let manager = ready(cluster.client.clone(), options).await;
    cluster
        .apply(json!({
            "apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile",
            "metadata": {"name": "all"}, "spec": {"selector": {}, "labels": {"tier": "batch"}},
        }))
        .await;
    let pods: Api<Pod> = cluster.api();
    let is_mutated = |pod: &Pod| pod.metadata.labels.iter().flatten().any(|(key, _)| key == "tier");
    until("the profile is known", async || {
        let _ = pods.delete("first", &Default::default()).await;
        let made = create(&pods, pod("first", json!({}), "", json!({}))).await.ok()?;
        is_mutated(&made).then_some(())
    })
    .await;
    let address = manager.status.webhook_address.expect("webhooks");
    let mut silent = Vec::new();
    for _ in 0..64 {
        silent.push(TcpStream::connect(address).await.expect("somebody listens"));
    }
    let made = create(&pods, pod("second", json!({}), "", json!({}))).await.expect("a pod");
    assert!(is_mutated(&made), "{made:?}");
    drop(silent);
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strange_requests_get_the_right_status() {
    let cluster = Cluster::start().await;
    let manager = ready(cluster.client.clone(), options()).await;
    let address = manager.status.webhook_address.expect("webhooks");
    let good = review(pod("p", json!({}), "", json!({})));
    let huge = vec![b' '; 9 << 20];
    let post = |path: &str| format!("POST {path} HTTP/1.1{JSON}");
    let plain = "POST /validate-pod HTTP/1.1\r\nContent-Type: text/plain".to_owned();
    let cases: [(&str, String, &[u8], u16); 10] = [
        ("good", post("/validate-pod"), &good, 200),
        ("no JSON", post("/validate-pod"), b"{", 400),
        ("no bytes", post("/validate-pod"), b"", 400),
        ("not a review", post("/mutate-pod"), br#"{"kind":"Pod"}"#, 400),
        ("another method", "GET /validate-pod HTTP/1.1".to_owned(), b"", 405),
        ("another type", plain, &good, 415),
        ("too much", post("/validate-pod"), &huge, 413),
        ("no such path", post("/validate-everything"), &good, 404),
        ("a gate that is off", post("/validate-configmap"), &good, 404),
        ("health", "GET /healthz HTTP/1.1".to_owned(), b"", 200),
    ];
    for (name, head, body, want) in cases {
        let (status, text) = say(connect(&cluster, address).await, &head, body).await;
        assert_eq!(status, want, "{name}: {text}");
    }
    let (status, text) =
        say(connect(&cluster, address).await, &post("/mutate-pod"), &review(json!("text"))).await;
    let answer: Value = serde_json::from_str(&text).expect("a review");
    assert_eq!((status, &answer["response"]["allowed"]), (200, &json!(false)), "{text}");
    assert_eq!(answer["response"]["status"]["code"], 400);
    let conversion = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "c", "desiredAPIVersion": "a/v2", "objects": [{"apiVersion": "a/v1", "x": 1}]}});
    let (status, text) =
        say(connect(&cluster, address).await, &post("/convert"), conversion.to_string().as_bytes())
            .await;
    let answer: Value = serde_json::from_str(&text).expect("a review");
    assert_eq!(status, 200);
    assert_eq!(answer["response"]["convertedObjects"], json!([{"apiVersion": "a/v2", "x": 1}]));
    for hostile in [json!([7]), json!(["text"]), json!([{"x": 1}, []]), json!([null])] {
        let review = json!({"kind": "ConversionReview",
            "request": {"uid": "c", "desiredAPIVersion": "a/v2", "objects": hostile}});
        let body = review.to_string();
        let (status, text) =
            say(connect(&cluster, address).await, &post("/convert"), body.as_bytes()).await;
        let answer: Value = serde_json::from_str(&text).expect("a review");
        let result = &answer["response"]["result"]["status"];
        assert_eq!((status, result), (200, &json!("Failure")), "{text}");
    }
    // Whoever connects and says nothing, or no TLS, holds nobody up.
    let _silent = connect(&cluster, address).await;
    let mut no_tls = TcpStream::connect(address).await.expect("somebody listens");
    no_tls.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("taken");
    let api: Api<Pod> = cluster.api();
    create(&api, pod("p", json!({}), "", json!({}))).await.expect("served as before");
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_answer_while_the_api_server_is_away() {
    let cluster = Cluster::start().await;
    let faults = Faults::default();
    let manager = ready(cluster.client_with(&faults), options()).await;
    let api: Api<Pod> = cluster.api();
    let bad = || pod("bad", json!({"koordinator.sh/qosClass": "BE"}), "koord-prod", json!({}));
    for fault in [Faults::cut, Faults::hang] {
        fault(&faults);
        assert!(create(&api, bad()).await.is_err(), "answered from memory");
    }
    faults.heal();
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_that_starts_before_its_api_server_becomes_ready() {
    let cluster = Cluster::start().await;
    let faults = Faults::default();
    faults.cut();
    let mut manager = start(cluster.client_with(&faults), options()).await;
    let health = manager.status.health_address.expect("health");
    assert_eq!(crate::rig::get(health, "/readyz").await.0, 503);
    faults.heal();
    manager.until_ready().await;
    assert_eq!(crate::rig::get(health, "/readyz").await.0, 200);
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_that_never_becomes_ready_says_so() {
    let cluster = Cluster::start().await;
    let mut options = options();
    options.webhook.install_missing = false;
    options.ready_within = Some(Duration::from_millis(300));
    let manager = start(cluster.client.clone(), options).await;
    let end = manager.end().await.expect_err("nobody installs the configurations");
    assert!(end.to_string().contains("not ready"), "{end}");
}
