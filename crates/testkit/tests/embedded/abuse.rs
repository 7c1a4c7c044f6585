//! What happens to a client that does not mean well?

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use apiserver::http::{Options, router};
use futures_util::future::join_all;
use http_body_util::BodyExt;
use hyper::Request;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use testkit::embedded::{self, Embedded};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

const PATIENCE: Duration = Duration::from_secs(30);
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn connect(server: &Embedded) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(server.credentials.authority.as_bytes());
    roots.add(authority.unwrap()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let address = server.url.strip_prefix("https://").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

/// Sends bytes as they are; returns the status line's code and the rest.
async fn raw(server: &Embedded, bytes: &[u8]) -> (u16, String) {
    let mut stream = connect(server).await;
    // The server may refuse before it has read everything.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap();
    let text = String::from_utf8_lossy(&answer).into_owned();
    let code = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (code, text)
}

fn head(server: &Embedded, method: &str, path: &str, more: &str) -> String {
    let token = &server.credentials.token;
    format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {token}\r\n{more}\r\n"
    )
}

fn post(server: &Embedded, body: &str) -> Vec<u8> {
    let more = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    let mut bytes = head(server, "POST", MAPS, &more).into_bytes();
    bytes.extend_from_slice(body.as_bytes());
    bytes
}

async fn still_answers(server: &Embedded) {
    let (code, text) = raw(server, head(server, "GET", MAPS, "").as_bytes()).await;
    assert_eq!(code, 200, "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_are_wrong_are_refused() {
    let server = Embedded::start(Options::default()).await.unwrap();
    let deep_list = format!("{{\"data\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_map = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    let large = json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(10 << 20)}}).to_string();
    let beyond = json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(2 << 20)}}).to_string();
    for (name, body, want) in [
        ("nothing", "", 400),
        ("half a document", "{\"metadata\":", 400),
        ("no document", "moo", 400),
        ("bytes that are no text", "\u{0}\u{1}", 400),
        ("a deep list", deep_list.as_str(), 400),
        ("a deep map", deep_map.as_str(), 400),
        ("ten megabytes", large.as_str(), 413),
        ("a config map beyond its limit", beyond.as_str(), 422),
    ] {
        let (code, text) = raw(&server, &post(&server, body)).await;
        assert_eq!(code, want, "{name}: {}", text.get(..600).unwrap_or(&text));
        assert!(text.contains("\"kind\":\"Status\""), "{name}: {text}");
    }
    still_answers(&server).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_and_heads_that_are_wrong_are_refused() {
    let server = Embedded::start(Options::default()).await.unwrap();
    // A real kube-apiserver answers one or the other, depending on where it stops reading.
    for path in [
        "/api/v1/namespaces/../../etc/passwd",
        "/api/v1/namespaces/default/configmaps/..",
        "/api/v1/namespaces/default/configmaps/%2e%2e%2fsecrets",
        "/api/v1/namespaces/default/configmaps/%00",
        "/api/v1/namespaces/default/configmaps/%ff%fe",
        "//api/v1/pods",
        "/nowhere",
    ] {
        let (code, text) = raw(&server, head(&server, "GET", path, "").as_bytes()).await;
        assert!(matches!(code, 400 | 404), "{path}: {text}");
    }
    let long = format!("x-long: {}\r\n", "x".repeat(200 << 10));
    let (code, _) = raw(&server, head(&server, "GET", MAPS, &long).as_bytes()).await;
    assert!(code == 431 || code == 0, "a head of 200 KiB: {code}");
    let (code, _) = raw(&server, b"moo\r\n\r\n").await;
    assert!(code == 400 || code == 0, "no request at all: {code}");
    still_answers(&server).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_stay_outside() {
    let server = Embedded::start(Options::default()).await.unwrap();
    for token in ["", "Bearer ", "Bearer wrong", "Basic YTpi", "Bearer \u{e9}"] {
        let request = format!(
            "GET {MAPS} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: {token}\r\n\r\n"
        );
        let (code, text) = raw(&server, request.as_bytes()).await;
        assert_eq!(code, 401, "{token:?}: {text}");
        assert!(text.contains("\"reason\":\"Unauthorized\""), "{text}");
    }
    let (code, _) =
        raw(&server, b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert_eq!(code, 200, "health is for everyone");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_clients_do_not_hold_others_up() {
    let server = Embedded::start(Options::default()).await.unwrap();
    let mut slow = Vec::new();
    for _ in 0..50 {
        let mut stream = connect(&server).await;
        let more = "content-type: application/json\r\ncontent-length: 1000\r\n";
        stream.write_all(head(&server, "POST", MAPS, more).as_bytes()).await.unwrap();
        stream.write_all(b"{\"metadata\":").await.unwrap();
        slow.push(stream);
        let mut silent = connect(&server).await;
        silent.write_all(b"GET /api").await.unwrap();
        slow.push(silent);
    }
    still_answers(&server).await;
    drop(slow);
    still_answers(&server).await;
    server.stop().await;
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_idle_watches_are_cheap() {
    let server = embedded::in_process().await.unwrap();
    let client = Client::new(router(server), "default");
    let before = resident_kib();
    let watch = |_| {
        let request = Request::get(format!("{MAPS}?watch=true&allowWatchBookmarks=true"));
        client.send(request.body(Body::empty()).unwrap())
    };
    let mut streams: Vec<_> = join_all((0..1_000).map(watch)).await;
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB for 1,000 watches");

    let body = json!({"metadata": {"name": "a"}}).to_string().into_bytes();
    let request = Request::post(MAPS).header("content-type", "application/json");
    let answer = client.send(request.body(Body::from(body)).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 201);
    for stream in &mut streams {
        let body = stream.as_mut().unwrap().body_mut();
        let frame = tokio::time::timeout(PATIENCE, body.frame()).await.unwrap().unwrap().unwrap();
        let event: Value = serde_json::from_slice(frame.data_ref().unwrap()).unwrap();
        assert_eq!(event["type"], "ADDED");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_requests_than_allowed_are_told_to_wait_or_served() {
    let server = Embedded::start(Options { max_in_flight: 2, ..Options::default() }).await.unwrap();
    let bodies: Vec<Vec<u8>> = (0..64)
        .map(|at| {
            let data = "x".repeat(200 << 10);
            let body = json!({"metadata": {"name": format!("c-{at}")}, "data": {"k": data}});
            post(&server, &body.to_string())
        })
        .collect();
    let answers = join_all(bodies.iter().map(|bytes| raw(&server, bytes))).await;
    for (code, text) in &answers {
        assert!(matches!(code, 201 | 429), "{code}: {}", text.get(..400).unwrap_or(text));
        if *code == 429 {
            assert!(text.to_ascii_lowercase().contains("retry-after: "), "{text}");
        }
    }
    assert!(answers.iter().any(|(code, _)| *code == 201));
    still_answers(&server).await;
    server.stop().await;
}
