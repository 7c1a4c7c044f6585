//! `tidepool up`: a cluster of one, on this machine, with nothing installed.

use std::io::{self, IsTerminal};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use apiserver::http::{ApiServer, Credentials, Options, RandomIds, listen};
use apiserver::store::{Limits, Store};
use clap::Args;
use jiff::Timestamp;
use tokio::signal::unix::{SignalKind, signal};

use crate::state::{self, StateDir};
use crate::{Outcome, output};

/// Run a Kubernetes API on this machine
///
/// Serves the API on loopback over TLS and writes a kubeconfig. Objects are kept
/// on disk and are there again after the next start. Stops on Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    state_dir: StateDir,
    /// Port of the API; 0 picks a free one
    #[arg(long, default_value_t = 6480)]
    port: u16,
    /// Keep objects in memory only; they are gone with the process
    #[arg(long)]
    in_memory: bool,
}

const EXAMPLES: &str = "\
Examples:
  tidepool up
  tidepool up --state-dir /tmp/try --port 0 --in-memory";

/// What is meant by the arguments.
struct Plan {
    dir: PathBuf,
    address: SocketAddr,
    in_memory: bool,
}

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        let plan = Plan {
            dir: self.state_dir.resolve()?,
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.port),
            in_memory: self.in_memory,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(plan.run())
    }
}

/// Says what is being done, to people who are watching.
struct Progress {
    start: Instant,
    shown: bool,
}

impl Progress {
    fn step(&self, what: &str) {
        if self.shown {
            eprintln!("[{:5.2} s] {what}", self.start.elapsed().as_secs_f64());
        }
    }
}

impl Plan {
    async fn run(self) -> anyhow::Result<Outcome> {
        let progress = Progress { start: Instant::now(), shown: io::stderr().is_terminal() };
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;

        progress.step("opening the store");
        let store = self.open_store()?;
        // The port comes next: whoever holds the store may still be closing it.
        let listener = listen(self.address, false)
            .await
            .with_context(|| "is another program using the port? choose one with --port")?;
        let url = format!("https://{}", listener.local_addr()?);

        progress.step("preparing certificates");
        let credentials = self.credentials()?;
        let kubeconfig = credentials.write_kubeconfig(&self.dir, &url)?;

        progress.step("starting the API");
        let options = Options { token: Some(credentials.token.clone()), ..Options::default() };
        let server = ApiServer::start(store.clone(), options).await;
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let serving =
            tokio::spawn(server.serve(listener, Some(credentials.server_config()?), async move {
                // An error means that the sender is gone, which is a reason to stop as well.
                let _ = stopped.await;
            }));

        output::print(&banner(&url, &kubeconfig))?;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        progress.step("stopping");
        drop(stop);
        serving.await.context("the API ended unexpectedly")?;
        store.shutdown().await;
        Ok(Outcome::Done)
    }

    fn open_store(&self) -> anyhow::Result<Store> {
        if self.in_memory {
            return Ok(Store::in_memory(Limits::default())?);
        }
        Store::open(&state::store(&self.dir), Limits::default()).with_context(|| {
            format!("cannot use {}; name another place with --state-dir", self.dir.display())
        })
    }

    fn credentials(&self) -> anyhow::Result<Credentials> {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let dir = state::credentials(&self.dir);
        Ok(Credentials::load_or_create(&dir, &names, &RandomIds, Timestamp::now())?)
    }
}

/// The one block a person reads, and the line a program waits for.
fn banner(url: &str, kubeconfig: &Path) -> String {
    let kubeconfig = kubeconfig.display();
    format!(
        "ready at {url}\n\n\
         Use it:\n  export KUBECONFIG={kubeconfig}\n  kubectl get namespaces\n  \
         tidepool get namespaces\n\nStop with Ctrl-C or `tidepool down`; objects are kept.\n"
    )
}
