//! Keeps certificates usable and the webhook configurations up to date.
//!
//! Every replica does the same whenever the Secret or a configuration changes,
//! and once a minute:
//!
//! ```text
//! Secret -> usable? -> serve with it -> reach ourselves with it -> configurations
//!             | no
//!             `-> make what is missing, write with the version that was read
//! ```
//!
//! The loser of a race reads the winner's certificates and serves with them
//! before it writes a configuration. When the authority changes, the old one
//! stays trusted for one more minute, so that a replica that has not read the
//! new certificate yet is still believed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::protocol::webhook::Stage;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::stream::{BoxStream, SelectAll};
use futures::{FutureExt, StreamExt};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use reconcile::error::chain;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::certificate::{Bundle, CertificateError};
use super::configuration::{Offer, Target, install, plan, trusted};
use super::tls::{Serving, probe};
use crate::Clock;

/// How often everything is looked at without a reason, and how long an old authority stays trusted.
const PERIOD: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_secs(2);
/// Least time between two looks.
const BREATH: Duration = Duration::from_millis(500);
/// Attempts to write the Secret before somebody else's is waited for.
const RACES: usize = 5;

/// Where certificates are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vault {
    Secret {
        namespace: String,
        name: String,
    },
    /// For one replica, or replicas that share the directory.
    Directory(PathBuf),
}

/// Why the webhooks are not ready.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    #[error("cannot {attempt}")]
    Api { attempt: String, source: kube::Error },
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("{kind} {name} does not exist; the installer creates it")]
    Missing { kind: &'static str, name: String },
    #[error("the Secret is written by somebody else all the time")]
    Races,
    #[error("the API server takes too long to answer")]
    Slow,
    #[error("cannot reach the webhooks on this machine")]
    Probe(#[from] std::io::Error),
}

fn failed(attempt: impl Into<String>) -> impl FnOnce(kube::Error) -> KeeperError {
    let attempt = attempt.into();
    |source| KeeperError::Api { attempt, source }
}

/// What the keeper looks after.
#[derive(Debug)]
pub(super) struct Charge {
    pub(super) vault: Vault,
    /// The name by which the API server calls.
    pub(super) host: String,
    pub(super) target: Target,
    pub(super) port: u16,
    pub(super) paths: Vec<&'static str>,
    /// Names of the mutating and the validating configuration.
    pub(super) configurations: (String, String),
    /// Create configurations that are missing, in this namespace. For one-machine mode.
    pub(super) install: Option<String>,
}

/// Looks after certificates and configurations.
pub(super) struct Keeper {
    pub(super) client: Client,
    pub(super) charge: Charge,
    pub(super) serving: Arc<Serving>,
    pub(super) clock: Clock,
    /// Since when an authority that is not ours any more is still trusted.
    pub(super) rotating: Option<Instant>,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("charge", &self.charge).finish_non_exhaustive()
    }
}

impl Keeper {
    /// Runs until told to stop; `ready` follows whether the last look ended well at least once.
    pub(super) async fn run(mut self, ready: watch::Sender<bool>, shutdown: CancellationToken) {
        let mut changes = self.changes();
        loop {
            let outcome = tokio::select! {
                () = shutdown.cancelled() => return,
                outcome = timeout(PERIOD, self.sync()) => outcome.unwrap_or(Err(KeeperError::Slow)),
            };
            let pause = match outcome {
                Ok(()) => {
                    if !ready.send_replace(true) {
                        info!("webhooks are ready");
                    }
                    PERIOD
                }
                Err(error) => {
                    warn!(error = %chain(&error), "webhooks are not in order; will try again");
                    RETRY
                }
            };
            // Changes that come in a bunch, or in answer to ours, are looked at together.
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = sleep(BREATH) => {}
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = sleep(pause) => {}
                Some(()) = changes.next() => while let Some(Some(())) = changes.next().now_or_never() {}
            }
        }
    }

    /// One look at everything.
    pub(super) async fn sync(&mut self) -> Result<(), KeeperError> {
        let bundle = self.bundle().await?;
        self.serving.replace(bundle.certified_key()?);
        probe(self.charge.port, &bundle.roots()?, &self.charge.host).await?;
        self.configure(Stage::Mutating, &bundle).await?;
        self.configure(Stage::Validating, &bundle).await
    }

    /// A tick for every change of what we look after.
    fn changes(&self) -> SelectAll<BoxStream<'static, ()>> {
        let named =
            |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut streams: Vec<BoxStream<'static, ()>> = Vec::new();
        if let Vault::Secret { namespace, name } = &self.charge.vault {
            let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
            let events = watcher(api, named(name)).default_backoff().touched_objects();
            streams.push(events.filter_map(|event| async { event.ok().map(|_| ()) }).boxed());
        }
        let (mutating, validating) = &self.charge.configurations;
        let api: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        let events = watcher(api, named(mutating)).default_backoff().touched_objects();
        streams.push(events.filter_map(|event| async { event.ok().map(|_| ()) }).boxed());
        let api: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        let events = watcher(api, named(validating)).default_backoff().touched_objects();
        streams.push(events.filter_map(|event| async { event.ok().map(|_| ()) }).boxed());
        futures::stream::select_all(streams)
    }

    async fn bundle(&self) -> Result<Bundle, KeeperError> {
        match &self.charge.vault {
            Vault::Secret { namespace, name } => self.open_secret(namespace, name).await,
            Vault::Directory(dir) => self.open_directory(dir),
        }
    }

    async fn open_secret(&self, namespace: &str, name: &str) -> Result<Bundle, KeeperError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        for _ in 0..RACES {
            let found = api.get_opt(name).await.map_err(failed(format!("read Secret {name}")))?;
            let written = match found {
                None => {
                    let bundle = Bundle::make(&self.charge.host, self.clock.now())?;
                    let meta = ObjectMeta {
                        name: Some(name.to_owned()),
                        namespace: Some(namespace.to_owned()),
                        ..ObjectMeta::default()
                    };
                    let data = Some(bundle.data());
                    let secret = Secret { metadata: meta, data, ..Secret::default() };
                    info!(name, "making certificates");
                    (api.create(&PostParams::default(), &secret).await, bundle)
                }
                Some(mut secret) => {
                    let data = secret.data.take().unwrap_or_default();
                    let bundle = match self.usable(&data) {
                        Ok(bundle) => return Ok(bundle),
                        Err(bundle) => bundle?,
                    };
                    secret.data = Some(data.into_iter().chain(bundle.data()).collect());
                    info!(name, "making certificates anew: those found are not usable");
                    (api.replace(name, &PostParams::default(), &secret).await, bundle)
                }
            };
            match written {
                (Ok(_), bundle) => return Ok(bundle),
                (Err(kube::Error::Api(status)), _) if status.code == 409 => {}
                (Err(kube::Error::Api(status)), _)
                    if status.code == 404 && self.charge.install.is_some() =>
                {
                    self.install_namespace(namespace).await?;
                }
                (Err(error), _) => return Err(failed(format!("write Secret {name}"))(error)),
            }
        }
        Err(KeeperError::Races)
    }

    async fn install_namespace(&self, name: &str) -> Result<(), KeeperError> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let meta = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata: meta, ..Namespace::default() };
        match api.create(&PostParams::default(), &namespace).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            created => created.map(|_| ()).map_err(failed(format!("create namespace {name}"))),
        }
    }

    /// What was found if it is usable, or else what should stand in its place.
    fn usable(
        &self,
        data: &BTreeMap<String, ByteString>,
    ) -> Result<Bundle, Result<Bundle, CertificateError>> {
        let (host, now) = (&self.charge.host, self.clock.now());
        if let Some(bundle) = Bundle::read(data)
            && bundle.judge(host, now).is_ok()
        {
            return Ok(bundle);
        }
        Err(Bundle::salvage(data).renew(host, now))
    }

    fn open_directory(&self, dir: &Path) -> Result<Bundle, KeeperError> {
        let names = Bundle::salvage(&BTreeMap::new());
        let read = |name: &str| std::fs::read(dir.join(name)).ok().map(ByteString);
        let data =
            names.parts().into_iter().filter_map(|(name, _)| Some((name.to_owned(), read(name)?)));
        let bundle = match self.usable(&data.collect()) {
            Ok(bundle) => return Ok(bundle),
            Err(bundle) => bundle?,
        };
        for (name, text) in bundle.parts() {
            let path = dir.join(name);
            reconcile::file::replace(&path, text.as_bytes())
                .map_err(|source| KeeperError::Write { path, source })?;
        }
        Ok(bundle)
    }

    async fn configure(&mut self, stage: Stage, bundle: &Bundle) -> Result<(), KeeperError> {
        let (resource, name) = match stage {
            Stage::Mutating => (
                ApiResource::erase::<MutatingWebhookConfiguration>(&()),
                self.charge.configurations.0.clone(),
            ),
            Stage::Validating => (
                ApiResource::erase::<ValidatingWebhookConfiguration>(&()),
                self.charge.configurations.1.clone(),
            ),
        };
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let found = api.get_opt(&name).await.map_err(failed(format!("read {name}")))?;
        let is_new = found.is_none();
        let mut object = match found {
            Some(object) => serde_json::to_value(&object).unwrap_or_default(),
            None => self.template(stage, &name)?,
        };
        let authorities = self.authorities(bundle.authority(), trusted(&object));
        let offer = Offer {
            target: &self.charge.target,
            paths: &self.charge.paths,
            authorities: &authorities,
        };
        let Some(patch) = plan(&object, &offer) else { return Ok(()) };
        let written = if is_new {
            // Whole from the start: nobody is sent to an address that is not there.
            json_patch::merge(&mut object, &patch);
            match serde_json::from_value(object) {
                Ok(object) => api.create(&PostParams::default(), &object).await,
                Err(error) => Err(kube::Error::SerdeError(error)),
            }
        } else {
            api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await
        };
        match written {
            Ok(_) => info!(name, "webhook configuration filled in"),
            // Somebody wrote it in between; the watch brings us back at once.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(failed(format!("write {name}"))(error)),
        }
        Ok(())
    }

    /// What an installer would create, without our address.
    fn template(&self, stage: Stage, name: &str) -> Result<serde_json::Value, KeeperError> {
        let kind = match stage {
            Stage::Mutating => "MutatingWebhookConfiguration",
            Stage::Validating => "ValidatingWebhookConfiguration",
        };
        let Some(namespace) = &self.charge.install else {
            return Err(KeeperError::Missing { kind, name: name.to_owned() });
        };
        let [mutating, validating] = install(namespace);
        let mut wanted = if stage == Stage::Mutating { mutating } else { validating };
        wanted["metadata"]["name"] = name.into();
        Ok(wanted)
    }

    /// Our authority, and for one period those that were trusted before; as the wire spells it.
    fn authorities(&mut self, own: &str, before: Option<&str>) -> String {
        let own = certificates(own);
        let before = before.and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default();
        let mut others = certificates(&String::from_utf8_lossy(&before));
        others.retain(|certificate| !own.contains(certificate));
        others.truncate(1);
        if others.is_empty() {
            self.rotating = None;
        } else if self.rotating.get_or_insert_with(Instant::now).elapsed() >= PERIOD {
            others.clear();
        }
        STANDARD.encode(own.into_iter().chain(others).collect::<String>())
    }
}

/// The certificates in a PEM text, each with its markers and nothing around them.
fn certificates(pem: &str) -> Vec<String> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let blocks = pem.split(BEGIN).skip(1).filter_map(|rest| rest.split_once(END));
    blocks.map(|(body, _)| format!("{BEGIN}{body}{END}\n")).collect()
}
