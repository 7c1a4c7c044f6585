//! An API server, a node, and ways to wait for things.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use apiserver::http::{ApiServer, LogError, LogRequest, LogSource, LogStream, Options, router};
use apiserver::store::{Limits, Store};
use cluster::node::{LogOptions, Logs, NodeConfig, Shim, StreamChoice, purge, run};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};
use kube::api::{DeleteParams, ListParams, LogParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tempfile::TempDir;
pub(crate) use testkit::wait::until;
use testkit::wait::until_object;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) struct Rig {
    pub(crate) client: Client,
    /// The node's own way to the API, which can be cut.
    node_client: Client,
    is_up: Arc<AtomicBool>,
    pub(crate) config: NodeConfig,
    node: Option<(CancellationToken, JoinHandle<()>)>,
    /// Removed after the containers are gone.
    _state: TempDir,
}

impl Rig {
    /// An API server with a node that takes pods.
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut NodeConfig)) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let state = TempDir::new().unwrap();
        let server =
            ApiServer::start(Store::in_memory(Limits::default()).unwrap(), Options::default())
                .await;
        let shim = Shim { program: env!("CARGO_BIN_EXE_node-shim").into(), args: Vec::new() };
        let mut config = NodeConfig::new("n1", state.path().join("node"), shim);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        config.cgroup_root = format!("tidepool-test-{}-{number}", std::process::id());
        change(&mut config);
        server.set_log_source(Arc::new(Adapter(Logs::new(&config.state_dir))));
        let (client, node_client, is_up) = clients(server);
        let mut rig = Self { client, node_client, is_up, config, node: None, _state: state };
        rig.start();
        rig
    }

    pub(crate) fn start(&mut self) {
        let token = CancellationToken::new();
        let (config, client, own) = (self.config.clone(), self.node_client.clone(), token.clone());
        let running =
            tokio::spawn(
                async move { run(config, client, oneshot::channel().0, own).await.unwrap() },
            );
        self.node = Some((token, running));
    }

    /// Cuts the node off from the API, or connects it again. Watches that are open end with the next
    /// piece of news.
    pub(crate) fn set_api(&self, is_up: bool) {
        self.is_up.store(is_up, Ordering::SeqCst);
    }

    /// A clean shutdown of the node.
    pub(crate) async fn stop(&mut self) {
        let (token, running) = self.node.take().unwrap();
        token.cancel();
        running.await.unwrap();
    }

    /// The node loses its memory between two instants, as if it had been killed.
    pub(crate) async fn crash(&mut self) {
        let (_, running) = self.node.take().unwrap();
        running.abort();
        let _ = running.await;
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    /// Creates a pod of one container `c`, bound to the node. Dollar signs in the script are for the
    /// shell.
    pub(crate) async fn run(&self, name: &str, script: &str, fields: Value) -> Pod {
        let script = script.replace('$', "$$");
        let container = json!({"name": "c", "image": "host", "command": ["sh", "-c", script]});
        self.create(name, json!({"containers": [container]}), fields).await
    }

    /// Creates a pod bound to the node; `fields` are laid over `spec`.
    pub(crate) async fn create(&self, name: &str, mut spec: Value, fields: Value) -> Pod {
        let own = spec.as_object_mut().unwrap();
        own.insert("nodeName".into(), json!("n1"));
        own.insert("terminationGracePeriodSeconds".into(), json!(2));
        own.insert("restartPolicy".into(), json!("Never"));
        for (field, value) in fields.as_object().unwrap() {
            match (own.get_mut(field), value) {
                (Some(Value::Array(list)), Value::Object(changes)) => {
                    let first = list[0].as_object_mut().unwrap();
                    first.extend(changes.clone());
                }
                _ => {
                    own.insert(field.clone(), value.clone());
                }
            }
        }
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        let pod = serde_json::from_value(pod).unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap()
    }

    /// Waits until the pod is as asked.
    pub(crate) async fn until(&self, name: &str, what: &str, is_so: impl Fn(&Pod) -> bool) -> Pod {
        until_object(&self.pods(), name, what, is_so).await
    }

    pub(crate) async fn until_phase(&self, name: &str, phase: &str) -> Pod {
        self.until(name, phase, |pod| {
            pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(phase)
        })
        .await
    }

    pub(crate) async fn until_ready(&self, name: &str) -> Pod {
        self.until(name, "ready", is_ready).await
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.pods().delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub(crate) async fn until_gone(&self, name: &str) {
        until(&format!("{name} is gone"), async || {
            self.pods().get_opt(name).await.unwrap().is_none().then_some(())
        })
        .await;
    }

    pub(crate) async fn logs(&self, name: &str, params: LogParams) -> String {
        self.pods().logs(name, &params).await.unwrap()
    }

    /// The notes of all events with this reason about the pod.
    pub(crate) async fn events(&self, pod: &str, reason: &str) -> Vec<String> {
        let api: Api<Event> = Api::default_namespaced(self.client.clone());
        let all = api.list(&ListParams::default()).await.unwrap();
        let about = all.items.into_iter().filter(|event| {
            event.involved_object.name.as_deref() == Some(pod)
                && event.reason.as_deref() == Some(reason)
        });
        about.map(|event| event.message.unwrap_or_default()).collect()
    }

    pub(crate) async fn until_event(&self, pod: &str, reason: &str) -> String {
        until(&format!("event {reason}"), || async {
            self.events(pod, reason).await.into_iter().next()
        })
        .await
    }

    /// A file in a volume of the pod.
    pub(crate) fn volume(&self, pod: &Pod, path: &str) -> PathBuf {
        let uid = pod.metadata.uid.as_deref().unwrap();
        self.config.state_dir.join("pods").join(uid).join("volumes").join(path)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some((token, node)) = self.node.take() {
            token.cancel();
            // A node that still works would make the groups anew that are removed below.
            for _ in 0..500 {
                if node.is_finished() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
        let config = self.config.clone();
        let ended = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(purge(&config.state_dir)).unwrap();
        });
        let _ = ended.join();
        let left = groups_left(&self.config.cgroup_root);
        assert!(std::thread::panicking() || left.is_empty(), "control groups stay: {left:?}");
    }
}

/// Control groups below this root, in whichever hierarchy.
fn groups_left(root: &str) -> Vec<PathBuf> {
    let hierarchies = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    let places = hierarchies.map(|entry| entry.path()).chain(["/sys/fs/cgroup".into()]);
    places.map(|place| place.join(root)).filter(|group| group.is_dir()).collect()
}

/// A client for the test, and one for the node that fails while the flag is down.
fn clients(server: ApiServer) -> (Client, Client, Arc<AtomicBool>) {
    let is_up = Arc::new(AtomicBool::new(true));
    let flag = is_up.clone();
    let router = router(server);
    let client = Client::new(router.clone(), "default");
    let cut = tower::service_fn(move |request| {
        let (router, is_up) = (router.clone(), flag.load(Ordering::SeqCst));
        async move {
            if !is_up {
                return Err("the API is away".to_owned());
            }
            let answer = tower::ServiceExt::oneshot(router, request).await;
            answer.map_err(|never| match never {})
        }
    });
    (client, Client::new(cut, "default"), is_up)
}

/// Waits until a file has something in it.
pub(crate) async fn until_written(path: PathBuf) -> String {
    until(&format!("content of {}", path.display()), || async {
        std::fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n'))
    })
    .await
}

/// Waits until no process has this number.
pub(crate) async fn until_dead(pid: &str) {
    let proc = PathBuf::from(format!("/proc/{}", pid.trim()));
    until(&format!("the end of {}", proc.display()), || async { (!proc.exists()).then_some(()) })
        .await;
}

pub(crate) fn is_alive(pid: &str) -> bool {
    PathBuf::from(format!("/proc/{}", pid.trim())).exists()
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|own| own.type_ == "Ready" && own.status == "True")
}

/// The status of the pod's first container.
pub(crate) fn status(pod: &Pod) -> ContainerStatus {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    statuses.and_then(|statuses| statuses.first()).cloned().expect("a container status")
}

/// What the command line will do too: hands the server's questions to the node.
#[derive(Debug)]
struct Adapter(Logs);

impl LogSource for Adapter {
    fn open(&self, request: LogRequest) -> BoxFuture<'static, Result<LogStream, LogError>> {
        let options = LogOptions {
            follow: request.follow,
            previous: request.previous,
            tail_lines: request.tail_lines,
            since: request.since,
            timestamps: request.timestamps,
            limit_bytes: request.limit_bytes,
            streams: StreamChoice::All,
        };
        let opened = self.0.open(&request.uid, &request.container, options);
        let opened = opened.map_err(|error| LogError::BadRequest(error.to_string()));
        Box::pin(async move { opened })
    }
}
