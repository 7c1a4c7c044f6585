//! A cluster of one in a directory of its own, and ways to wait for things.

use std::fmt::Debug;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::{LogParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Resource};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tempfile::TempDir;
pub(crate) use testkit::wait::until;

pub(crate) const TIDEPOOL: &str = env!("CARGO_BIN_EXE_tidepool");

/// A running `tidepool up`; it and its pods are gone when the test ends.
pub(crate) struct Up {
    arguments: Vec<String>,
    /// What stands before the program's name.
    prefix: Vec<String>,
    pub(crate) child: Child,
    /// What it said when it was ready.
    pub(crate) said: String,
    dir: TempDir,
}

impl Up {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    pub(crate) fn with(arguments: &[&str]) -> Self {
        Self::launch(TempDir::new().unwrap(), &[], arguments)
    }

    /// Starts below `dir` with a prefix, and waits until it is ready.
    pub(crate) fn launch(dir: TempDir, prefix: &[&str], arguments: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let root = format!("tidepool-test-{}-{number}", std::process::id());
        let own = ["up", "--port", "0", "--name", "n1", "--cgroup-root", &root];
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let arguments: Vec<String> = owned(&[&own, arguments].concat());
        let prefix: Vec<String> = owned(prefix);
        let (child, said) = begin(&prefix, &arguments, dir.path());
        Self { arguments, prefix, child, said, dir }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.dir().join("kubeconfig")
    }

    pub(crate) fn cgroup_root(&self) -> &str {
        let at = self.arguments.iter().position(|word| word == "--cgroup-root").unwrap();
        &self.arguments[at + 1]
    }

    /// kill -9, between two instants.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end, as Ctrl-C does; whether it was content.
    pub(crate) fn interrupt(&mut self) -> bool {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        self.child.wait().unwrap().success()
    }

    /// Starts again where the last one ended.
    pub(crate) fn again(&mut self) {
        (self.child, self.said) = begin(&self.prefix, &self.arguments, self.dir.path());
    }

    pub(crate) async fn client(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        Client::try_from(config).unwrap()
    }

    /// Runs another command of the program against this cluster.
    pub(crate) fn tidepool(&self, arguments: &[&str]) -> Output {
        tidepool(self.dir(), arguments)
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let purged = tidepool(self.dir.path(), &["down", "--purge"]);
        if !std::thread::panicking() {
            assert!(purged.status.success(), "{}", said(&purged));
        }
    }
}

fn begin(prefix: &[String], arguments: &[String], dir: &Path) -> (Child, String) {
    let words: Vec<&str> = prefix.iter().map(String::as_str).chain([TIDEPOOL]).collect();
    let mut child = Command::new(words[0])
        .args(&words[1..])
        .args(arguments)
        .arg("--state-dir")
        .arg(dir)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary was built with this test");
    let output = child.stdout.take().expect("stdout is piped");
    let mut lines = BufReader::new(output);
    let mut said = String::new();
    // The last line of the block says how to remove everything, or that it passes.
    while lines.read_line(&mut said).unwrap() > 0 {
        let last = said.lines().last().unwrap_or_default();
        if last.contains("--purge") || last.ends_with("end with it.") {
            break;
        }
    }
    assert!(said.starts_with("ready at https://127.0.0.1:"), "{said:?}");
    std::thread::spawn(move || std::io::copy(&mut lines.take(u64::MAX), &mut std::io::sink()));
    (child, said)
}

pub(crate) fn tidepool(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(TIDEPOOL)
        .args(arguments)
        .env("TIDEPOOL_STATE_DIR", dir)
        .env_remove("KUBECONFIG")
        .output()
        .expect("the binary was built with this test")
}

/// Everything that was printed.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Creates an object in namespace `default`.
pub(crate) async fn create<K>(client: &Client, object: Value) -> K
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned,
{
    let object: K = serde_json::from_value(object).unwrap();
    Api::default_namespaced(client.clone()).create(&PostParams::default(), &object).await.unwrap()
}

/// Waits until the pods with a label are as asked.
pub(crate) async fn until_pods(
    client: &Client,
    selector: &str,
    what: &str,
    is_so: impl Fn(&[Pod]) -> bool,
) -> Vec<Pod> {
    let api: Api<Pod> = Api::default_namespaced(client.clone());
    let params = kube::api::ListParams::default().labels(selector);
    let (api, params) = (&api, &params);
    let is_so = &is_so;
    until(what, || async move {
        let pods = api.list(params).await.unwrap().items;
        is_so(&pods).then_some(pods)
    })
    .await
}

pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|own| own.type_ == "Ready" && own.status == "True")
}

/// The status of the pod's first container.
pub(crate) fn status(pod: &Pod) -> Option<ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first().cloned()
}

pub(crate) async fn logs(client: &Client, pod: &Pod) -> String {
    let api: Api<Pod> = Api::default_namespaced(client.clone());
    api.logs(pod.metadata.name.as_deref().unwrap(), &LogParams::default()).await.unwrap()
}

/// Waits until the pod has printed a line with its process number.
pub(crate) async fn pid_of(client: &Client, pod: &Pod) -> Pid {
    until("the pod prints its process number", || async {
        let printed = logs(client, pod).await;
        Pid::from_raw(printed.lines().last()?.trim().parse().ok()?)
    })
    .await
}

pub(crate) fn is_alive(pid: Pid) -> bool {
    test_kill_process(pid).is_ok()
}
