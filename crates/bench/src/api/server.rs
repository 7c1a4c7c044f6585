//! The server under measurement, in a process of its own: its memory is then its own, and it can
//! be started again.
//!
//! It serves as `tidepool up` does, on loopback with TLS and a token, and ends when its standard
//! input does, so that it never outlives the measurement.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use apiserver::http::{ApiServer, Credentials, Options, RandomIds, listen};
use apiserver::store::{Limits, Store};
use clap::Args;
use jiff::Timestamp;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::StoreKind;

#[derive(Debug, Clone, Args)]
pub struct Arguments {
    #[arg(long, value_enum)]
    store: StoreKind,
    /// Where the kubeconfig goes, and the store if it is on disk
    #[arg(long)]
    dir: PathBuf,
}

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.serve())?;
        Ok(())
    }

    async fn serve(self) -> anyhow::Result<()> {
        let store = match self.store {
            StoreKind::Memory => Store::in_memory(Limits::default())?,
            StoreKind::Disk => Store::open(&store_dir(&self.dir), Limits::default())?,
        };
        let names = ["127.0.0.1".to_owned()];
        let now = Timestamp::now();
        let credentials = Credentials::load_or_create(&self.dir, &names, &RandomIds, now)?;
        let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), false).await?;
        let url = format!("https://{}", listener.local_addr()?);
        credentials.write_kubeconfig(&self.dir, &url)?;
        let options = Options { token: Some(credentials.token.clone()), ..Options::default() };
        let server = ApiServer::start(store, options).await;
        println!("ready");
        let ended = tokio::task::spawn_blocking(|| {
            // Nobody writes to it; an error means the same as its end.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
        });
        let shutdown = async {
            let _ = ended.await;
        };
        server.serve(listener, Some(credentials.server_config()?), shutdown).await;
        Ok(())
    }
}

pub(super) fn store_dir(dir: &Path) -> PathBuf {
    dir.join("store")
}

/// A running server; dropping it kills it, as a crash would.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    dir: PathBuf,
    /// From the start of the process until it served.
    pub(super) started: Duration,
}

impl Server {
    pub(crate) fn start(store: StoreKind, dir: &Path) -> anyhow::Result<Self> {
        let kind = match store {
            StoreKind::Memory => "memory",
            StoreKind::Disk => "disk",
        };
        let program = std::env::current_exe().context("cannot find this program")?;
        let begin = Instant::now();
        let mut child = Command::new(program)
            .args(["bench", "api-server", "--store", kind, "--dir"])
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a server process")?;
        let said = child.stdout.take().map(|stdout| BufReader::new(stdout).lines().next());
        let started = begin.elapsed();
        let server = Self { child, dir: dir.to_owned(), started };
        let ready = matches!(said, Some(Some(Ok(line))) if line == "ready");
        ensure!(ready, "the server process ended before it was ready");
        Ok(server)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }

    pub(super) async fn config(&self) -> anyhow::Result<Config> {
        configuration(&self.kubeconfig()).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) async fn configuration(kubeconfig: &Path) -> anyhow::Result<Config> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}
