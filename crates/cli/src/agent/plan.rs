//! What an agent is started with, whoever asked for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent::audit;
use agent::collect::CollectSettings;
use agent::config::{Acting, Config, Groups, KubeletAccess};
use agent::predict::PredictSettings;
use agent::status::cadence;
use anyhow::Context;
use api::protocol::gate::{AgentGate, Gates};
use host::fs::{Mounts, RealFs};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::Outcome;

/// The arguments' meaning.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) node_name: String,
    pub(super) kubeconfig: Option<PathBuf>,
    pub(super) mounts: Mounts,
    /// Host and port.
    pub(super) listen: String,
    pub(super) groups: Groups,
    pub(super) kubelet: Option<KubeletAccess>,
    pub(super) gates: Gates<AgentGate>,
    pub(super) collect: CollectSettings,
    pub(super) predict: PredictSettings,
    pub(super) report: Option<cadence::Settings>,
    pub(super) topology_interval: Duration,
    pub(super) device_dir: PathBuf,
    pub(super) lock: Option<PathBuf>,
    pub(super) audit: audit::Settings,
    pub(super) act: Option<Acting>,
    pub(super) evict: agent::evict::Settings,
}

impl Plan {
    /// Runs until a signal comes.
    pub(super) fn run(self) -> anyhow::Result<Outcome> {
        // One thread for the cluster's side; the kernel's side has its own.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(self.start())
    }

    async fn start(self) -> anyhow::Result<Outcome> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let client = self.client().await?;
        let listener = TcpListener::bind(&self.listen).await;
        let listener = listener.with_context(|| {
            format!(
                "cannot listen on {}; is the port taken? on a host network it is everyone's",
                self.listen
            )
        })?;
        let config = self.config(listener);
        let stop = CancellationToken::new();
        let running = agent::run(config, client, stop.clone());
        tokio::pin!(running);
        tokio::select! {
            ended = &mut running => ended?,
            _ = interrupt.recv() => { stop.cancel(); running.await?; }
            _ = terminate.recv() => { stop.cancel(); running.await?; }
        }
        Ok(Outcome::Done)
    }

    async fn client(&self) -> anyhow::Result<kube::Client> {
        let mut config = match &self.kubeconfig {
            Some(file) => {
                let read = Kubeconfig::read_from(file)
                    .with_context(|| format!("cannot read {}", file.display()))?;
                kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?
            }
            None => kube::Config::infer()
                .await
                .context("no cluster to talk to: neither a service account nor a kubeconfig")?,
        };
        // Every part repeats what it has to by itself, and a refused eviction is an answer.
        config.default_retry = false;
        Ok(kube::Client::try_from(config)?)
    }

    fn config(self, listener: TcpListener) -> Config {
        Config {
            node_name: self.node_name,
            host: Arc::new(RealFs::new(self.mounts)),
            groups: self.groups,
            kubelet: self.kubelet,
            gates: self.gates,
            collect: self.collect,
            predict: self.predict,
            report: self.report,
            topology_interval: self.topology_interval,
            device_dir: self.device_dir,
            lock: self.lock,
            audit: self.audit,
            act: self.act,
            evict: self.evict,
            listener: Some(listener),
        }
    }
}
