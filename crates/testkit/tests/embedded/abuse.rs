//! What happens to a client that does not mean well?

mod door;
mod memory;

use std::fs;
use std::time::Duration;

use apiserver::http::{Options, router};
use futures_util::future::join_all;
use http_body_util::BodyExt;
use hyper::Request;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use testkit::embedded::{self, Embedded};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use self::door::Door;

const PATIENCE: Duration = Duration::from_secs(30);
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_are_wrong_are_refused() {
    let server = Embedded::start(Options::default()).await.unwrap();
    let door = Door::to(&server);
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
        let (code, text) = door.raw(&door.post(body)).await;
        assert_eq!(code, want, "{name}: {}", text.get(..600).unwrap_or(&text));
        assert!(text.contains("\"kind\":\"Status\""), "{name}: {text}");
    }
    door.still_answers().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_and_heads_that_are_wrong_are_refused() {
    let server = Embedded::start(Options::default()).await.unwrap();
    let door = Door::to(&server);
    // A real kube-apiserver answers one or the other, depending on where it stops reading.
    for path in [
        "/api/v1/namespaces/../../etc/passwd",
        "/api/v1/namespaces/default/configmaps/..",
        "/api/v1/namespaces/default/configmaps/%2e%2e%2fsecrets",
        "/api/v1/namespaces/default/configmaps/%00",
        "/api/v1/namespaces/default/configmaps/%ff%fe",
        "/api/v1/namespaces/default/configmaps/%2e%2e",
        "/api/v1/namespaces/%2E%2e/configmaps",
        "/api/v1/namespaces/default/configmaps/a%2500",
        "/api/v1/namespaces/default/configmaps/%",
        "/api/v1//namespaces",
        "//api/v1/pods",
        "/api/v1/namespaces/default/pods/a/log/../../../secrets",
        "/nowhere",
        &format!("/api/v1/namespaces/default/configmaps/{}", "x".repeat(5_000)),
    ] {
        let (code, text) = door.raw(door.head("GET", path, "").as_bytes()).await;
        assert!(matches!(code, 400 | 404), "{path}: {text}");
    }
    let long = format!("{MAPS}/{}", "x".repeat(80 << 10));
    let (code, _) = door.raw(door.head("GET", &long, "").as_bytes()).await;
    assert!(matches!(code, 414 | 431 | 0), "a path of 80 KiB: {code}");
    let long = format!("x-long: {}\r\n", "x".repeat(200 << 10));
    let (code, _) = door.raw(door.head("GET", MAPS, &long).as_bytes()).await;
    assert!(code == 431 || code == 0, "a head of 200 KiB: {code}");
    let (code, _) = door.raw(b"moo\r\n\r\n").await;
    assert!(code == 400 || code == 0, "no request at all: {code}");
    door.still_answers().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_stay_outside() {
    let server = Embedded::start(Options::default()).await.unwrap();
    let door = Door::to(&server);
    for token in ["", "Bearer ", "Bearer wrong", "Basic YTpi", "Bearer \u{e9}"] {
        let request = format!(
            "GET {MAPS} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: {token}\r\n\r\n"
        );
        let (code, text) = door.raw(request.as_bytes()).await;
        assert_eq!(code, 401, "{token:?}: {text}");
        assert!(text.contains("\"reason\":\"Unauthorized\""), "{text}");
    }
    let (code, _) =
        door.raw(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert_eq!(code, 200, "health is for everyone");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_clients_do_not_hold_others_up() {
    let server = Embedded::start(Options { max_in_flight: 4, ..Options::default() }).await.unwrap();
    let door = Door::to(&server);
    let mut slow = Vec::new();
    let mut silent = Vec::new();
    for _ in 0..50 {
        let mut stream = door.connect().await;
        let more = "content-type: application/json\r\ncontent-length: 1000\r\n";
        stream.write_all(door.head("POST", MAPS, more).as_bytes()).await.unwrap();
        stream.write_all(b"{\"metadata\":").await.unwrap();
        slow.push(stream);
        let mut half_a_head = door.connect().await;
        half_a_head.write_all(b"GET /api").await.unwrap();
        slow.push(half_a_head);
        slow.push(door.connect().await);
        silent.push(TcpStream::connect(door.address()).await.unwrap());
    }
    door.still_answers().await;
    let (code, text) = door.raw(&door.post("{\"metadata\":{\"name\":\"quick\"}}")).await;
    assert_eq!(code, 201, "{text}");
    drop((slow, silent));
    door.still_answers().await;
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
    let door = Door::to(&server);
    let bodies: Vec<Vec<u8>> = (0..64)
        .map(|at| {
            let data = "x".repeat(200 << 10);
            let body = json!({"metadata": {"name": format!("c-{at}")}, "data": {"k": data}});
            door.post(&body.to_string())
        })
        .collect();
    let answers = join_all(bodies.iter().map(|bytes| door.raw(bytes))).await;
    for (code, text) in &answers {
        assert!(matches!(code, 201 | 429), "{code}: {}", text.get(..400).unwrap_or(text));
        if *code == 429 {
            assert!(text.to_ascii_lowercase().contains("retry-after: "), "{text}");
        }
    }
    assert!(answers.iter().any(|(code, _)| *code == 201));
    door.still_answers().await;
    server.stop().await;
}
