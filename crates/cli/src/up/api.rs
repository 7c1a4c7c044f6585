//! The API of `tidepool up`: a server on loopback, and the way in.

use std::path::{Path, PathBuf};

use anyhow::Context;
use apiserver::http::{ApiServer, Credentials, Options, RandomIds, listen};
use apiserver::store::Store;
use futures_util::FutureExt;
use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::Plan;
use super::components::Components;
use super::progress::Progress;
use crate::state;

/// A server that answers.
pub(super) struct Api {
    access: Access,
    /// It has a list of its own because it must outlive its clients.
    serving: Components,
}

/// Where the server is and how to come in.
#[derive(Debug, Clone)]
pub(super) struct Access {
    pub(super) url: String,
    pub(super) kubeconfig: PathBuf,
    pub(super) server: ApiServer,
}

impl Api {
    pub(super) async fn start(
        plan: &Plan,
        store: Store,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let listener = listen(plan.address, false)
            .await
            .with_context(|| "is another program using the port? choose one with --port")?;
        let url = format!("https://{}", listener.local_addr()?);
        progress.step("preparing certificates");
        let credentials = credentials(&plan.dir)?;
        let kubeconfig = credentials.write_kubeconfig(&plan.dir, &url)?;
        progress.step("starting the API");
        let tls = credentials.server_config()?;
        let options = Options { token: Some(credentials.token), ..Options::default() };
        let server = ApiServer::start(store, options).await;
        let mut serving = Components::new();
        serving.start("the API", |token| {
            server.clone().serve(listener, Some(tls), token.cancelled_owned()).map(Ok)
        });
        Ok(Self { access: Access { url, kubeconfig, server }, serving })
    }

    pub(super) fn access(&self) -> Access {
        self.access.clone()
    }

    /// Waits for an end that nobody asked for.
    pub(super) async fn failure(&mut self) -> anyhow::Error {
        self.serving.failure().await
    }

    /// Answers what was asked, then ends.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        self.serving.stop().await
    }
}

impl Access {
    /// A client that comes in by the front door, as everyone does.
    pub(super) async fn client(&self) -> anyhow::Result<Client> {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig)?;
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        // Every part repeats what it has to by itself, and a refused eviction is an answer.
        config.default_retry = false;
        Ok(Client::try_from(config)?)
    }
}

fn credentials(dir: &Path) -> anyhow::Result<Credentials> {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let dir = state::credentials(dir);
    Ok(Credentials::load_or_create(&dir, &names, &RandomIds, Timestamp::now())?)
}
