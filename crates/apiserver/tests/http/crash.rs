//! Does a write that a client was told about survive `kill -9` of the server?
//!
//! The server is a process of its own (this test binary, told by its environment) over a store on
//! disk. Writers take pods through a fixed sequence of steps over TLS, and a watcher follows them.
//! After a random number of answers the server is killed, started again and compared:
//!
//! - each pod is at the last step that was answered, or at the one that was under way;
//! - no revision that anybody saw is beyond the one the server starts with;
//! - a watch that goes on from an old revision misses nothing, or is told 410.
//!
//! Every life of a pod has the same steps, so the number of the step tells exactly what the pod is:
//!
//! ```text
//! 1 create   2 update   3 merge patch   4 status   5 apply   6 JSON patch   7 delete
//! ```

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use apiserver::http::{ApiServer, Clock, Credentials, Options, RandomIds, SystemClock, listen};
use apiserver::store::{Limits, Store};
use futures_util::{AsyncBufReadExt, Stream, StreamExt, TryStreamExt, stream};
use http_body_util::BodyExt;
use hyper::{Method, Request};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::random::Random;

const DIR: &str = "TIDEPOOL_TEST_CRASH_SERVER_DIR";
const SEED: &str = "TIDEPOOL_TEST_SEED";
const ROUNDS: &str = "TIDEPOOL_TEST_ROUNDS";
/// Enough after an edit; the whole suite asks for 200.
const DEFAULT_ROUNDS: u64 = 40;
const WRITERS: u64 = 8;
const LIFE: u64 = 7;
const PODS: &str = "/api/v1/namespaces/crash/pods";
const QUIET: &str = "/api/v1/namespaces/crash/configmaps";
/// Nothing here takes long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_server() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    println!("\nopening");
    let store = Store::open(&dir.join("store"), Limits::default()).unwrap();
    let names = ["127.0.0.1".to_owned()];
    let now = SystemClock.now();
    let credentials = Credentials::load_or_create(&dir, &names, &RandomIds, now).unwrap();
    let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0)), false).await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    credentials.write_kubeconfig(&dir, &url).unwrap();
    let options = Options { token: Some(credentials.token.clone()), ..Options::default() };
    let server = ApiServer::start(store, options).await;
    println!("ready");
    let tls = credentials.server_config().unwrap();
    server.serve(listener, Some(tls), std::future::pending()).await;
}

/// A server process; dropping it kills it.
struct Server {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Server {
    fn spawn(dir: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::crash_server", "--nocapture"])
            .env(DIR, dir)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        wait_for(&mut said, "opening");
        Self { child, said }
    }

    async fn ready(&mut self, dir: &Path) -> Client {
        wait_for(&mut self.said, "ready");
        let kubeconfig = Kubeconfig::read_from(dir.join("kubeconfig")).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        Client::try_from(config).unwrap()
    }
}

fn wait_for(said: &mut Lines<BufReader<ChildStdout>>, wanted: &str) {
    let found = said.map(Result::unwrap).find(|line| line == wanted);
    assert!(found.is_some(), "the server ended before it said {wanted:?}");
}

impl Drop for Server {
    fn drop(&mut self) {
        // By its own id, and waited for, so that the next one finds the store unlocked.
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The connection broke, so nobody knows what became of the request.
struct Unknown;

/// Sends a request and returns the whole answer. A refusal is a failure of the test: every writer
/// is alone with its pod.
async fn send(
    client: &Client,
    method: Method,
    path: &str,
    content_type: &str,
    body: &Value,
) -> Result<Value, Unknown> {
    let request = Request::builder()
        .method(method.clone())
        .uri(path)
        .header("content-type", content_type)
        .body(Body::from(body.to_string().into_bytes()))
        .unwrap();
    let answer = client.send(request).await.map_err(|_| Unknown)?;
    let code = answer.status();
    let text = answer.into_body().collect().await.map_err(|_| Unknown)?.to_bytes();
    let text = String::from_utf8_lossy(&text);
    assert!(code.is_success(), "{method} {path}: {code} {text}");
    Ok(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

async fn get(client: &Client, path: &str) -> Value {
    let answer = send(client, Method::GET, path, "application/json", &Value::Null).await;
    answer.unwrap_or_else(|Unknown| panic!("GET {path}: the server went away"))
}

fn revision_of(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

/// One writer's pod as far as its steps decide it.
#[derive(Debug, PartialEq, Eq)]
struct View {
    step: u64,
    padding: usize,
    message: Option<u64>,
    applied: Option<u64>,
}

/// Pods of very different sizes.
fn padding(writer: u64, step: u64) -> usize {
    usize::try_from(Random::new(writer * 1_000_003 + step).below(12_000)).unwrap()
}

fn view_after(writer: u64, step: u64) -> Option<View> {
    let at = step % LIFE;
    let base = step - at;
    let last = match at {
        0 => return None,
        4 | 5 => base + 3,
        _ => step,
    };
    let message = (at >= 4).then_some(base + 4);
    let applied = (at >= 5).then_some(base + 5);
    Some(View { step: last, padding: padding(writer, last), message, applied })
}

fn view_of(pod: &Value) -> View {
    let number = |pointer: &str| pod.pointer(pointer).map(|v| v.as_str().unwrap().parse().unwrap());
    let padding = pod["metadata"]["annotations"]["padding"].as_str().unwrap();
    assert!(padding.bytes().all(|byte| byte == b'x'), "a torn pod: {pod}");
    View {
        step: number("/metadata/labels/step").unwrap(),
        padding: padding.len(),
        message: number("/status/message"),
        applied: number("/metadata/annotations/applied"),
    }
}

/// Owns one pod and takes it through its steps.
#[derive(Debug, Default)]
struct Writer {
    number: u64,
    /// The last step that was answered.
    step: u64,
    /// What the server said the pod is.
    pod: Option<Value>,
}

impl Writer {
    fn name(&self) -> String {
        format!("writer-{}", self.number)
    }

    async fn advance(&mut self, client: &Client) -> Result<(), Unknown> {
        let step = self.step + 1;
        let pod = format!("{PODS}/{}", self.name());
        let metadata = json!({
            "name": self.name(),
            "labels": {"step": step.to_string()},
            "annotations": {"padding": "x".repeat(padding(self.number, step))},
        });
        let answer = match step % LIFE {
            1 => {
                let containers = json!([{"name": "main", "image": "host"}]);
                let body = json!({"metadata": metadata, "spec": {"containers": containers}});
                send(client, Method::POST, PODS, "application/json", &body).await
            }
            2 => {
                let mut body = self.pod.clone().unwrap();
                body["metadata"]["labels"] = metadata["labels"].clone();
                body["metadata"]["annotations"] = metadata["annotations"].clone();
                send(client, Method::PUT, &pod, "application/json", &body).await
            }
            3 => {
                let body = json!({"metadata": metadata});
                send(client, Method::PATCH, &pod, "application/merge-patch+json", &body).await
            }
            4 => {
                let (path, kind) =
                    (format!("{pod}/status"), "application/strategic-merge-patch+json");
                let body = json!({"status": {"message": step.to_string()}});
                send(client, Method::PATCH, &path, kind, &body).await
            }
            5 => {
                let path = format!("{pod}?fieldManager=crash");
                let body = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
                    "name": self.name(), "annotations": {"applied": step.to_string()}}});
                send(client, Method::PATCH, &path, "application/apply-patch+yaml", &body).await
            }
            6 => {
                let replace = |path: &str, value: &Value| json!({"op": "replace", "path": path, "value": value});
                let body = json!([
                    replace("/metadata/labels/step", &metadata["labels"]["step"]),
                    replace("/metadata/annotations/padding", &metadata["annotations"]["padding"]),
                ]);
                send(client, Method::PATCH, &pod, "application/json-patch+json", &body).await
            }
            _ => {
                let path = format!("{pod}?gracePeriodSeconds=0");
                send(client, Method::DELETE, &path, "application/json", &json!({})).await
            }
        }?;
        self.accept(step, (!step.is_multiple_of(LIFE)).then_some(answer));
        Ok(())
    }

    /// Takes note of an answer, which must be what was asked for.
    fn accept(&mut self, step: u64, pod: Option<Value>) {
        assert_eq!(pod.as_ref().map(view_of), view_after(self.number, step), "{}", self.name());
        if let (Some(old), Some(new)) = (&self.pod, &pod) {
            assert!(revision_of(new) > revision_of(old), "{}: revisions went back", self.name());
            assert_eq!(new["metadata"]["uid"], old["metadata"]["uid"], "{}", self.name());
        }
        (self.step, self.pod) = (step, pod);
    }

    /// Compares with what a new server has: the last answered step, or the one after it.
    fn compare(&mut self, found: Option<&Value>) {
        let view = found.map(view_of);
        if view == view_after(self.number, self.step) {
            let revision = |pod: Option<&Value>| pod.map(revision_of);
            assert_eq!(revision(found), revision(self.pod.as_ref()), "{}", self.name());
            self.pod = found.cloned();
        } else if view == view_after(self.number, self.step + 1) {
            self.accept(self.step + 1, found.cloned());
        } else {
            panic!("{} was at step {}, found {view:?}", self.name(), self.step);
        }
    }
}

/// What a watcher knows: the revision of each pod, as of a revision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Cache {
    revision: u64,
    pods: BTreeMap<String, u64>,
}

impl Cache {
    fn of_list(list: &Value) -> Self {
        let items = list["items"].as_array().unwrap();
        let pods = items.iter().map(|pod| (name_of(pod), revision_of(pod))).collect();
        Self { revision: revision_of(list), pods }
    }

    fn follow(&mut self, event: &Value) {
        let (pod, kind) = (&event["object"], event["type"].as_str().unwrap());
        let revision = revision_of(pod);
        assert!(revision > self.revision, "{kind} at {revision} after {}", self.revision);
        let before = match kind {
            "DELETED" => self.pods.remove(&name_of(pod)),
            _ => self.pods.insert(name_of(pod), revision),
        };
        assert_eq!(before.is_none(), kind == "ADDED", "{kind} of {}", name_of(pod));
        self.revision = revision;
    }
}

/// The lines of a watch, until the server is gone; none, if it went before the watch began.
async fn watch(client: &Client, path: &str, from: u64) -> impl Stream<Item = Value> + use<> {
    let request = Request::get(format!("{path}?watch=1&resourceVersion={from}"));
    let lines = match client.request_stream(request.body(Vec::new()).unwrap()).await {
        Ok(body) => Some(body.lines()),
        Err(kube::Error::Api(refusal)) => panic!("cannot watch {path}: {refusal:?}"),
        Err(_) => None,
    };
    stream::unfold(lines, |lines| async move {
        let mut lines = lines?;
        // The last line may be cut.
        let line = lines.try_next().await.ok()??;
        Some((serde_json::from_str(&line).ok()?, Some(lines)))
    })
}

/// How a watch that was cut off by a crash went on.
struct Followed {
    cache: Cache,
    expired: bool,
}

/// Follows all pods from what `old` knows; told 410, it starts from the listing instead.
async fn follow(client: Client, old: Cache, listed: Cache) -> Followed {
    let mut events = Box::pin(watch(&client, PODS, old.revision).await);
    let mut followed = Followed { cache: old, expired: false };
    while let Some(event) = events.next().await {
        if event["type"] == "ERROR" {
            assert_eq!(event["object"]["code"], 410, "{event}");
            assert!(!followed.expired, "a listing of this server cannot be too old");
            followed = Followed { cache: listed.clone(), expired: true };
            events = Box::pin(watch(&client, PODS, listed.revision).await);
            continue;
        }
        if !followed.expired {
            // It goes on only if nothing happened that it did not see.
            assert!(
                followed.cache.revision > listed.revision || followed.cache.pods == listed.pods
            );
        }
        followed.cache.follow(&event);
    }
    followed
}

/// Counts answers, and wakes whoever waits for a number of them.
#[derive(Debug, Default)]
struct Answers {
    count: AtomicU64,
    more: Notify,
}

impl Answers {
    fn add(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.more.notify_one();
    }

    async fn reach(&self, wanted: u64) {
        while self.count.load(Ordering::SeqCst) < wanted {
            self.more.notified().await;
        }
    }
}

/// All writers at once, each until its connection breaks.
fn write(client: &Client, writers: Vec<Writer>, answers: &Arc<Answers>) -> JoinSet<Writer> {
    let mut tasks = JoinSet::new();
    for mut writer in writers {
        let (client, answers) = (client.clone(), answers.clone());
        tasks.spawn(async move {
            while writer.advance(&client).await.is_ok() {
                answers.add();
            }
            writer
        });
    }
    tasks
}

/// The namespace and a collection that never changes again; returns its revision.
async fn prepare(client: &Client) -> u64 {
    for (path, name) in [("/api/v1/namespaces", "crash"), (QUIET, "quiet")] {
        let body = json!({"metadata": {"name": name}});
        let made = send(client, Method::POST, path, "application/json", &body).await;
        assert!(made.is_ok(), "the server went away");
    }
    revision_of(&get(client, QUIET).await)
}

/// What is carried from one server to the next.
struct Story {
    writers: Vec<Writer>,
    cache: Cache,
    quiet: u64,
    answers: u64,
    expired: u64,
}

impl Story {
    /// Compares a server that has just started with what is known.
    fn compare(&mut self, list: &Value) -> Cache {
        let listed = Cache::of_list(list);
        assert!(listed.revision >= self.cache.revision, "revisions went back");
        let items = list["items"].as_array().unwrap();
        for writer in &mut self.writers {
            writer.compare(items.iter().find(|pod| name_of(pod) == writer.name()));
        }
        for (name, seen) in &self.cache.pods {
            let found = listed.pods.get(name);
            assert!(found.is_none_or(|found| found >= seen), "{name}: a watcher knew more");
        }
        listed
    }

    /// Lets everybody loose on a server and kills it after `wanted` answers.
    async fn interrupt(&mut self, server: Server, client: Client, listed: Cache, wanted: u64) {
        let quiet: JoinHandle<Vec<Value>> = {
            let events = watch(&client, QUIET, self.quiet).await;
            tokio::spawn(events.collect())
        };
        let old = std::mem::take(&mut self.cache);
        let follower = tokio::spawn(follow(client.clone(), old, listed));
        let answers = Arc::new(Answers::default());
        let writers = write(&client, std::mem::take(&mut self.writers), &answers);
        timeout(PATIENCE, answers.reach(wanted)).await.expect("writers are answered");
        drop(server);

        self.writers = timeout(PATIENCE, writers.join_all()).await.expect("writers stop");
        self.writers.sort_by_key(|writer| writer.number);
        let followed = timeout(PATIENCE, follower).await.expect("the watcher stops").unwrap();
        self.cache = followed.cache;
        self.expired += u64::from(followed.expired);
        self.answers += answers.count.load(Ordering::SeqCst);
        let heard = timeout(PATIENCE, quiet).await.expect("the quiet watcher stops").unwrap();
        assert!(heard.is_empty(), "nothing happened to this collection: {heard:?}");
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answered_write_is_lost_and_watches_resume_or_expire() {
    let (seed, rounds) = (number(SEED, 1), number(ROUNDS, DEFAULT_ROUNDS));
    println!("{SEED}={seed} {ROUNDS}={rounds}");
    let mut random = Random::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::spawn(dir.path());
    let mut client = server.ready(dir.path()).await;
    let quiet = prepare(&client).await;
    let cache = Cache::of_list(&get(&client, PODS).await);
    let writers = (0..WRITERS).map(|number| Writer { number, ..Writer::default() }).collect();
    let mut story = Story { writers, cache, quiet, answers: 0, expired: 0 };
    for round in 0..rounds {
        let listed = story.compare(&get(&client, PODS).await);
        story.interrupt(server, client, listed, random.below(80)).await;
        if round % 8 == 0 {
            // This one does not even get to open the store.
            drop(Server::spawn(dir.path()));
        }
        server = Server::spawn(dir.path());
        client = server.ready(dir.path()).await;
    }
    story.compare(&get(&client, PODS).await);
    let Story { answers, expired, .. } = story;
    println!("{answers} answers, {rounds} kills, {expired} watches expired");
    assert!(answers > rounds * 10, "{answers} answers are too few to tell anything");
    assert!(expired > 0, "a watch that missed something must be told");
}
