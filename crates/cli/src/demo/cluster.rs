//! The cluster of the demo: a `tidepool up` of its own, and the pods in it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use api::kind::ClusterColocationProfile;
use api::protocol::name::{NAMESPACE, config_map};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{Instant, sleep, timeout};

use super::machine::Machine;
use super::work;
use crate::state;

/// How batch pods are introduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Batch {
    /// As any pod.
    Plain,
    /// By a profile that makes best-effort work of them.
    BestEffort,
}

pub(super) struct Cluster {
    up: Child,
    /// The cluster ends with it.
    input: Option<ChildStdin>,
    client: Client,
    place: PathBuf,
    cpus: u32,
    rounds: u64,
}

/// Enough for a busy machine; what is due takes seconds.
const PATIENCE: Duration = Duration::from_secs(90);
/// A report every few seconds makes room known soon, or there is none.
const ROOM_PATIENCE: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What the service and each batch worker ask for, in thousandths of the machine's CPUs.
const ONLINE_REQUEST: u32 = 250;
const WORKER_REQUEST: u32 = 300;

impl Cluster {
    pub(super) async fn start(place: &Path, machine: &Machine) -> anyhow::Result<Self> {
        let state = place.join("state");
        fs::create_dir(place.join("counts"))?;
        let mut up = Command::new(std::env::current_exe()?)
            .args(["up", "--in-memory", "--port", "0", "--name", "demo", "--end-with-input"])
            .args(["--cgroup-root", &format!("tidepool-demo-{}", std::process::id())])
            .arg("--state-dir")
            .arg(&state)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // What it has to say comes when it fails.
            .stderr(fs::File::create(place.join("up.log"))?)
            .spawn()
            .context("cannot start the cluster")?;
        let input = up.stdin.take();
        let said = up.stdout.take().context("the cluster has no output")?;
        let mut said = BufReader::new(said).lines();
        let ready = timeout(PATIENCE, said.next_line()).await;
        let is_ready = matches!(&ready, Ok(Ok(Some(line))) if line.starts_with("ready"));
        if !is_ready {
            let log = fs::read_to_string(place.join("up.log")).unwrap_or_default();
            bail!("the cluster did not start: {}", log.trim());
        }
        let kubeconfig = Kubeconfig::read_from(state::kubeconfig(&state))?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        let client = Client::try_from(config)?;
        report_often(&client).await?;
        let (cpus, rounds) = (machine.cpus, machine.rounds);
        Ok(Self { up, input, client, place: place.to_owned(), cpus, rounds })
    }

    /// The service's address, once it listens.
    pub(super) async fn start_service(&self) -> anyhow::Result<SocketAddr> {
        let file = self.place.join("address");
        let command = self.command(&["serve", "--address"], &file)?;
        let labels = json!({"app": "online", "koordinator.sh/qosClass": "LS"});
        let request = format!("{}m", ONLINE_REQUEST * self.cpus);
        let mut pods = deployment("online", 1, labels, command, &request);
        pods["spec"]["template"]["spec"]["priorityClassName"] = json!("koord-prod");
        self.create::<Deployment>(Api::default_namespaced(self.client.clone()), pods).await?;
        anyhow::ensure!(
            self.are_running("online", 1, PATIENCE).await?,
            "the service does not start: {}",
            self.last_warning().await
        );
        let until = Instant::now() + PATIENCE;
        loop {
            if let Ok(address) = fs::read_to_string(&file) {
                return Ok(address.parse()?);
            }
            anyhow::ensure!(Instant::now() < until, "the service does not listen");
            sleep(LOOK_AGAIN).await;
        }
    }

    /// As many workers as CPUs. Unprotected they all run; best-effort ones wait for room that a busy
    /// machine may not have, and then the phase shows just that.
    pub(super) async fn start_batch(&self, batch: Batch) -> anyhow::Result<()> {
        if batch == Batch::BestEffort {
            let profile = json!({
                "metadata": {"name": "demo-batch"},
                "spec": {
                    "selector": {"matchLabels": {"app": "batch"}},
                    "qosClass": "BE",
                    "priorityClassName": "koord-batch",
                    "schedulerName": "koord-scheduler",
                },
            });
            let profiles: Api<ClusterColocationProfile> = Api::all(self.client.clone());
            self.create(profiles, profile).await?;
        }
        let command = self.command(&["work", "--dir"], &self.counts())?;
        let request = format!("{WORKER_REQUEST}m");
        let pods = deployment("batch", self.cpus, json!({"app": "batch"}), command, &request);
        self.create::<Deployment>(Api::default_namespaced(self.client.clone()), pods).await?;
        let patience = match batch {
            Batch::Plain => PATIENCE,
            Batch::BestEffort => ROOM_PATIENCE,
        };
        let are_running = self.are_running("batch", self.cpus as usize, patience).await?;
        if !are_running && batch == Batch::Plain {
            bail!("the batch pods do not start: {}", self.last_warning().await);
        }
        Ok(())
    }

    /// Returns once the last worker has ended.
    pub(super) async fn stop_batch(&self) -> anyhow::Result<()> {
        let deployments: Api<Deployment> = Api::default_namespaced(self.client.clone());
        deployments.delete("batch", &DeleteParams::background()).await?;
        let until = Instant::now() + PATIENCE;
        while !self.pods("batch").await?.is_empty() {
            anyhow::ensure!(Instant::now() < until, "batch pods do not end");
            sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    /// Units of work that all batch pods have done so far.
    pub(super) fn units(&self) -> anyhow::Result<u64> {
        work::units(&self.counts())
    }

    /// Ends all pods and removes their control groups.
    pub(super) async fn stop(&mut self) -> anyhow::Result<()> {
        drop(self.input.take());
        let ended = timeout(PATIENCE, self.up.wait()).await;
        ended.context("the cluster does not end")??;
        Ok(())
    }

    fn counts(&self) -> PathBuf {
        self.place.join("counts")
    }

    /// A part of the demo as a container's command.
    fn command(&self, part: &[&str], path: &Path) -> anyhow::Result<Vec<String>> {
        let program = std::env::current_exe()?;
        let mut command = vec![program.display().to_string(), "demo".to_owned()];
        command.extend(part.iter().map(|word| (*word).to_owned()));
        command.extend([path.display().to_string(), "--rounds".into(), self.rounds.to_string()]);
        Ok(command)
    }

    async fn create<T>(&self, api: Api<T>, object: Value) -> anyhow::Result<()>
    where
        T: kube::Resource + Clone + std::fmt::Debug + serde::Serialize + DeserializeOwned,
    {
        api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    }

    async fn pods(&self, app: &str) -> anyhow::Result<Vec<Pod>> {
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        Ok(pods.list(&ListParams::default().labels(&format!("app={app}"))).await?.items)
    }

    /// Whether so many pods of an app run before patience ends.
    async fn are_running(
        &self,
        app: &str,
        count: usize,
        patience: Duration,
    ) -> anyhow::Result<bool> {
        let until = Instant::now() + patience;
        loop {
            let pods = self.pods(app).await?;
            let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
            let running = pods.iter().filter(|pod| phase(pod).as_deref() == Some("Running"));
            if running.count() == count {
                return Ok(true);
            }
            if Instant::now() >= until {
                return Ok(false);
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    /// What the cluster complains about. A machine that is short of something takes no pods, and an
    /// event about a pod does not say of what.
    async fn last_warning(&self) -> String {
        let nodes = Api::<Node>::all(self.client.clone()).list(&ListParams::default()).await;
        let nodes = nodes.map(|nodes| nodes.items).unwrap_or_default();
        let conditions = nodes.into_iter().filter_map(|node| node.status?.conditions).flatten();
        let mut short = conditions
            .filter(|one| one.type_.ends_with("Pressure") && one.status == "True")
            .filter_map(|one| one.message);
        if let Some(shortage) = short.next() {
            return format!("{shortage}; make room and try again");
        }
        let events: Api<Event> = Api::default_namespaced(self.client.clone());
        let events = events.list(&ListParams::default().fields("type=Warning")).await;
        let last = events.ok().and_then(|events| events.items.into_iter().next_back());
        last.and_then(|event| event.message).unwrap_or_else(|| "no event says why".into())
    }
}

/// A minute between two reports is right for a day, and too long for a demo.
async fn report_often(client: &Client) -> anyhow::Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let often = json!({
        "enable": true,
        "metricReportIntervalSeconds": 3,
        "metricAggregateDurationSeconds": 5,
    });
    let patch = json!({"data": {"colocation-config": often.to_string()}});
    maps.patch(config_map::SLO, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

fn deployment(
    name: &str,
    replicas: u32,
    labels: Value,
    command: Vec<String>,
    request: &str,
) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    // Neither part has anything to finish.
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{
                        "name": name,
                        "image": "host",
                        "command": command,
                        "resources": {"requests": {"cpu": request, "memory": "32Mi"}},
                    }],
                },
            },
        },
    })
}
