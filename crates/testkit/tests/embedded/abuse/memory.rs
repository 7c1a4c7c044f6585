//! How much memory can clients make the server take?
//!
//! The server is a process of its own (this test binary, told by its environment), so that its
//! memory can be told from that of its clients.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use apiserver::http::{Clock, Credentials, Options, RandomIds, SystemClock};
use apiserver::store::Limits;
use futures_util::future::join_all;
use serde_json::json;
use tempfile::TempDir;
use testkit::embedded::Embedded;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use super::door::Door;
use super::{MAPS, PATIENCE};

const DIR: &str = "TIDEPOOL_TEST_ABUSE_DIR";

/// The budget of the server for large bodies.
const BODIES: usize = 16 << 20;
/// Events that may wait for a watcher.
const WAITING: usize = 32;

fn credentials(dir: &std::path::Path) -> Credentials {
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    Credentials::load_or_create(dir, &names, &RandomIds, SystemClock.now()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_apart() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    let options = Options { max_bodies: BODIES, ..Options::default() };
    let limits = Limits { watch_events: WAITING, history_bytes: 8 << 20, ..Limits::default() };
    let server = Embedded::start_with(credentials(&dir), options, limits).await.unwrap();
    println!("\nready {}", server.url.strip_prefix("https://").unwrap());
    std::future::pending::<()>().await;
}

struct Apart {
    child: Child,
    door: Door,
    _dir: TempDir,
}

impl Apart {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let credentials = credentials(dir.path());
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "abuse::memory::server_apart", "--nocapture"])
            .env(DIR, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let address = said.find_map(|line| line.strip_prefix("ready ").map(str::to_owned));
        let door = Door::new(address.expect("the server starts"), &credentials);
        Self { child, door, _dir: dir }
    }

    fn resident_mib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
    }

    /// Serves a few requests, so that what is made once is made.
    async fn warm_up(&self) -> u64 {
        self.create("warm", 1_000).await;
        self.door.still_answers().await;
        self.resident_mib()
    }

    async fn create(&self, name: &str, bytes: usize) {
        let body = json!({"metadata": {"name": name}, "data": {"k": "x".repeat(bytes)}});
        let (code, text) = self.door.raw(&self.door.post(&body.to_string())).await;
        assert_eq!(code, 201, "{text}");
    }

    async fn watch(&self) -> TlsStream<TcpStream> {
        let mut stream = self.door.connect().await;
        let path = format!("{MAPS}?watch=1&resourceVersion=1&timeoutSeconds=600");
        stream.write_all(self.door.head("GET", &path, "").as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        stream
    }

    fn assert_grown_less_than(&self, limit: u64, before: u64) {
        let grown = self.resident_mib().saturating_sub(before);
        assert!(grown < limit, "grown by {grown} MiB from {before} MiB");
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        // It may be gone already, which is what some test then says.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends the head and most of the body of a large request, and waits.
async fn crawl(server: &Apart) -> TlsStream<TcpStream> {
    const SENT: usize = 2_900_000;
    let mut stream = server.door.connect().await;
    let more = "content-type: application/json\r\ncontent-length: 3000000\r\n";
    let mut bytes = server.door.head("POST", MAPS, more).into_bytes();
    bytes.resize(bytes.len() + SENT, b' ');
    // Refused early, the server does not take the rest.
    let _ = timeout(PATIENCE, stream.write_all(&bytes)).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_that_crawl_share_a_budget_and_keep_no_small_write_out() {
    let server = Apart::start();
    let before = server.warm_up().await;
    let crawling = join_all((0..60).map(|_| crawl(&server))).await;
    let budget = u64::try_from(BODIES >> 20).unwrap();
    server.assert_grown_less_than(budget + 64, before);
    server.create("small", 1_000).await;

    // Whoever was refused has been told; whoever was not is still waited for.
    let mut refused = 0;
    for mut stream in crawling {
        let mut answer = Vec::new();
        let told = timeout(std::time::Duration::ZERO, stream.read_to_end(&mut answer)).await;
        refused += u64::from(told.is_ok());
    }
    assert!(refused > 0, "174 MB cannot have been within the budget");
    server.door.still_answers().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_of_nonsense_are_answered_and_forgotten() {
    let server = Apart::start();
    let before = server.warm_up().await;
    let deep = format!("{{\"data\":{}", "[".repeat(500_000));
    let wide = format!("{{\"data\":{{{}\"z\":\"\"}}}}", "\"a\":\"\",".repeat(100_000));
    let large = "x".repeat(10 << 20);
    for body in [&deep, &wide, &large] {
        let bytes = server.door.post(body);
        let answers = join_all((0..12).map(|_| server.door.raw(&bytes))).await;
        for (code, text) in answers {
            // A connection that was closed while it still wrote may not see its answer.
            assert!(matches!(code, 0 | 400 | 413 | 422 | 429), "{code}: {text}");
        }
    }
    server.assert_grown_less_than(160, before);
    server.create("after", 1_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_connections_that_watch_are_cheap() {
    let server = Apart::start();
    let before = server.warm_up().await;
    let mut watches = join_all((0..500).map(|_| server.watch())).await;
    for stream in &mut watches {
        // The head, and the object that is there.
        timeout(PATIENCE, stream.read_u8()).await.unwrap().unwrap();
    }
    server.assert_grown_less_than(100, before);
    drop(watches);
    server.door.still_answers().await;
}

/// Reads events until the stream ends or there were `wanted`; returns how many.
async fn read_events(stream: TlsStream<TcpStream>, wanted: usize) -> usize {
    let mut lines = tokio::io::BufReader::new(stream).lines();
    let mut seen = 0;
    while seen < wanted {
        match timeout(PATIENCE, lines.next_line()).await.expect("the stream goes on or ends") {
            Ok(Some(line)) => seen += usize::from(line.contains("\"type\":\"ADDED\"")),
            _ => break,
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_that_stop_reading_delay_nobody_and_are_cut_off() {
    const WRITES: usize = 300;
    let server = Apart::start();
    let before = server.warm_up().await;
    let stuck = join_all((0..20).map(|_| server.watch())).await;
    let reading = tokio::spawn(read_events(server.watch().await, WRITES + 1));
    // More than all buffers between server and client hold.
    for at in 0..WRITES {
        server.create(&format!("m-{at}"), 100_000).await;
    }
    let seen = timeout(PATIENCE, reading).await.expect("nobody is delayed").unwrap();
    assert_eq!(seen, WRITES + 1, "the one that reads sees everything");
    let objects = u64::try_from((WRITES * 100_000) >> 20).unwrap();
    server.assert_grown_less_than(objects + 100, before);
    for stream in stuck {
        let seen = read_events(stream, WRITES + 1).await;
        assert!(seen <= WRITES, "a watcher that missed something must not look complete");
    }
}
