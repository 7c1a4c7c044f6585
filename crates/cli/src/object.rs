//! `tidepool get`, `apply` and `delete`: the little of kubectl that a machine without it needs.

pub(crate) mod apply;
pub(crate) mod delete;
pub(crate) mod discovery;
pub(crate) mod get;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use http::{Method, Request, header};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;

use self::discovery::{Kind, Kinds};
use crate::Outcome;
use crate::state::{self, StateDir};

/// Which cluster is meant.
#[derive(Debug, Args)]
pub(crate) struct Cluster {
    /// Use this kubeconfig [default: $KUBECONFIG, then that of `tidepool up`, then ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Use this context of the kubeconfig
    #[arg(long)]
    context: Option<String>,
    #[command(flatten)]
    state_dir: StateDir,
}

/// A connection and what is served at its other end.
pub(crate) struct Session {
    client: Client,
    namespace: String,
    kinds: Kinds,
}

/// One thread is enough for a client that asks one thing after the other.
pub(crate) fn run(
    command: impl Future<Output = anyhow::Result<Outcome>>,
) -> anyhow::Result<Outcome> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(command)
}

impl Cluster {
    pub(crate) fn state_dir(&self) -> &StateDir {
        &self.state_dir
    }

    /// Where `tidepool up` keeps its files, if its cluster is the one that is meant: by default, or
    /// because its kubeconfig is the one that is named.
    pub(crate) fn own(&self) -> anyhow::Result<Option<PathBuf>> {
        let from_environment = || std::env::var_os("KUBECONFIG").map(PathBuf::from);
        let file = match self.kubeconfig.clone().or_else(from_environment) {
            Some(named) => named,
            None => state::kubeconfig(&self.state_dir.resolve()?),
        };
        let dir = file.parent().map(Path::to_owned).unwrap_or_default();
        let is_ups = state::kubeconfig(&dir) == file && state::lock_file(&dir).exists();
        Ok((is_ups && file.exists()).then_some(dir))
    }

    pub(crate) async fn connect(&self) -> anyhow::Result<Session> {
        let own = self.own()?.map(|dir| state::kubeconfig(&dir));
        let file = self.kubeconfig.as_ref().or(own.as_ref());
        let kubeconfig = match file {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        }
        .context("no kubeconfig; start a cluster with `tidepool up`, or name one")?;
        let options = KubeConfigOptions { context: self.context.clone(), ..Default::default() };
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        let namespace = config.default_namespace.clone();
        let url = config.cluster_url.to_string();
        let client = Client::try_from(config)?;
        let kinds = Kinds::discover(&client)
            .await
            .with_context(|| format!("cannot reach the API at {url}"))?;
        Ok(Session { client, namespace, kinds })
    }
}

impl Session {
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Path of the object, or of its collection when it has no name.
    fn path(&self, kind: &Kind, namespace: Option<&str>, name: Option<&str>) -> String {
        let mut path = kind.root();
        if kind.namespaced
            && let Some(namespace) = namespace
        {
            path += &format!("/namespaces/{namespace}");
        }
        path += &format!("/{}", kind.plural);
        name.map(|name| path.clone() + "/" + name).unwrap_or(path)
    }

    /// Kind and path of an object in a file.
    fn locate(&self, object: &Value) -> anyhow::Result<(&Kind, String)> {
        let (api_version, kind) = (&object["apiVersion"], &object["kind"]);
        let (Some(api_version), Some(kind)) = (api_version.as_str(), kind.as_str()) else {
            bail!("an object needs apiVersion and kind");
        };
        let kind = self
            .kinds
            .by_kind(api_version, kind)
            .with_context(|| format!("the cluster does not know {kind} of {api_version}"))?;
        let name = object["metadata"]["name"].as_str().context("an object needs a name")?;
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or(&self.namespace);
        Ok((kind, self.path(kind, Some(namespace), Some(name))))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> anyhow::Result<Value> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, content_type)
            .body(body)?;
        self.client.request(request).await.map_err(in_words)
    }

    /// Asks for one thing, as `accept` would have it.
    async fn ask(&self, path: &str, accept: &str) -> anyhow::Result<Value> {
        let request = Request::get(path).header(header::ACCEPT, accept).body(Vec::new())?;
        self.client.request(request).await.map_err(in_words)
    }
}

/// What the server said, without what the client thinks of it.
pub(crate) fn in_words(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow::anyhow!("{}", status.message),
        other => other.into(),
    }
}

/// Percent-encodes a query value.
fn encode(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~');
    text.bytes()
        .map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}
