//! Who holds the lease?
//!
//! A Lease names its holder and how long its word counts. The holder renews it
//! every retry period; whoever sees no renewal for the whole length of the
//! lease, by its own clock and not by the times in the object, takes it over:
//!
//! ```text
//! held by nobody, or unchanged for its length  ->  take
//! held by us                                   ->  renew
//! held by another                              ->  wait
//! ```
//!
//! Writes carry the version that was read, so of two that take at once one
//! fails. A holder that cannot renew before its deadline stops leading before
//! the other replica may start. A holder that is told to stop gives the lease
//! back, and the other replica takes it at its next look.
//!
//! The object is the one that Kubernetes' own election library writes, so a
//! replica of the reference and one of ours exclude each other.

mod leadership;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use api::protocol::name::{NAMESPACE, lease};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use leadership::Leadership;

/// Which lease, in whose name, and how patiently.
#[derive(Debug, Clone)]
pub struct Settings {
    pub namespace: String,
    pub name: String,
    /// Different for every replica.
    pub identity: String,
    /// How long a holder's word counts.
    pub length: Duration,
    /// When a holder that cannot renew stops leading; shorter than the length.
    pub deadline: Duration,
    /// How often everybody looks.
    pub retry: Duration,
}

impl Settings {
    /// The manager's lease and times.
    pub fn manager(identity: String) -> Self {
        Self {
            namespace: NAMESPACE.to_owned(),
            name: lease::MANAGER.to_owned(),
            identity,
            length: Duration::from_secs(lease::DURATION_SECONDS.into()),
            deadline: Duration::from_secs(lease::RENEW_SECONDS.into()),
            retry: Duration::from_secs(lease::RETRY_SECONDS.into()),
        }
    }
}

/// How an election ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// We were told to stop, and gave back what we held.
    Stopped,
    /// We led and could not keep it.
    Lost,
}

/// Stands for election until told to stop or until leadership is lost. What
/// `held` says follows the lease at once.
pub async fn run(
    client: Client,
    settings: Settings,
    held: watch::Sender<bool>,
    shutdown: CancellationToken,
) -> End {
    let api = Api::namespaced(client, &settings.namespace);
    let mut candidate = Candidate { api, settings, seen: None, renewed: None };
    let end = loop {
        let patience = candidate.patience();
        let outcome = tokio::select! {
            () = shutdown.cancelled() => break End::Stopped,
            outcome = timeout(patience, candidate.look()) => outcome,
        };
        match outcome {
            Ok(Ok(LeaseCheck::Leads)) => {
                if !held.send_replace(true) {
                    info!(identity = candidate.settings.identity, "leading");
                }
            }
            Ok(Ok(LeaseCheck::Waits)) if candidate.renewed.is_some() => break End::Lost,
            Ok(Ok(LeaseCheck::Waits | LeaseCheck::Raced)) => {}
            Ok(Err(error)) => warn!(%error, "cannot look at the lease; will try again"),
            Err(_) => warn!("the API server does not answer about the lease; will try again"),
        }
        if candidate.is_overdue() {
            break End::Lost;
        }
        tokio::select! {
            () = shutdown.cancelled() => break End::Stopped,
            () = sleep(candidate.pause()) => {}
        }
    };
    held.send_replace(false);
    if end == End::Stopped && candidate.renewed.is_some() {
        candidate.release().await;
    }
    end
}

/// What one look at the lease came to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LeaseCheck {
    Leads,
    /// Another holds the lease.
    Waits,
    /// Somebody else wrote at the same moment; the next look tells.
    Raced,
}

struct Candidate {
    api: Api<Lease>,
    settings: Settings,
    /// The lease as last read, and when it last changed, by our clock.
    seen: Option<(LeaseSpec, Instant)>,
    /// When we last renewed; `None` while another leads.
    renewed: Option<Instant>,
}

impl Candidate {
    /// One round: read, then take, renew or wait.
    async fn look(&mut self) -> Result<LeaseCheck, kube::Error> {
        let asked = Instant::now();
        let check = match self.api.get_opt(&self.settings.name).await? {
            None => self.create().await?,
            Some(lease) => self.claim(lease).await?,
        };
        if check == LeaseCheck::Leads {
            // The other side counts from the write; counting from the question is the safe side.
            self.renewed = Some(asked);
        }
        Ok(check)
    }

    async fn create(&mut self) -> Result<LeaseCheck, kube::Error> {
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(self.settings.name.clone()),
                namespace: Some(self.settings.namespace.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(self.ours(None)),
        };
        succeeds(self.api.create(&PostParams::default(), &lease).await)
    }

    async fn claim(&mut self, mut lease: Lease) -> Result<LeaseCheck, kube::Error> {
        let spec = lease.spec.take().unwrap_or_default();
        let holder = spec.holder_identity.as_deref().unwrap_or_default().to_owned();
        let is_ours = holder == self.settings.identity;
        if !is_ours && !holder.is_empty() && !self.is_expired(&spec) {
            return Ok(LeaseCheck::Waits);
        }
        lease.spec = Some(self.ours(Some(&spec)));
        let name = self.settings.name.clone();
        succeeds(self.api.replace(&name, &PostParams::default(), &lease).await)
    }

    /// Has the lease stood unchanged for its whole length?
    fn is_expired(&mut self, spec: &LeaseSpec) -> bool {
        match &self.seen {
            Some((seen, since)) if seen == spec => {
                let length = spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok());
                since.elapsed() >= length.map_or(self.settings.length, Duration::from_secs)
            }
            _ => {
                self.seen = Some((spec.clone(), Instant::now()));
                false
            }
        }
    }

    fn ours(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = Some(MicroTime(Timestamp::now()));
        let held = before.and_then(|spec| spec.holder_identity.as_deref());
        let is_renewal = held == Some(&self.settings.identity);
        let transitions = before.and_then(|spec| spec.lease_transitions).unwrap_or_default();
        let acquired = before.filter(|_| is_renewal).and_then(|spec| spec.acquire_time.clone());
        let seconds = self.settings.length.as_secs().max(1);
        LeaseSpec {
            holder_identity: Some(self.settings.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
            acquire_time: acquired.or_else(|| now.clone()),
            renew_time: now,
            lease_transitions: Some(match before {
                Some(_) if !is_renewal => transitions.saturating_add(1),
                _ => transitions,
            }),
            ..before.cloned().unwrap_or_default()
        }
    }

    /// Gives the lease back, if it is still ours. Failing costs the other side its patience only.
    async fn release(&mut self) {
        let give = async {
            let Some(mut lease) = self.api.get_opt(&self.settings.name).await? else {
                return Ok(());
            };
            let Some(spec) = lease.spec.as_mut() else { return Ok(()) };
            if spec.holder_identity.as_deref() != Some(&self.settings.identity) {
                return Ok(());
            }
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            self.api.replace(&self.settings.name, &PostParams::default(), &lease).await?;
            Ok::<(), kube::Error>(())
        };
        match timeout(self.settings.retry, give).await {
            Ok(Ok(())) => info!("gave the lease back"),
            Ok(Err(error)) => warn!(%error, "cannot give the lease back; it will run out"),
            Err(_) => warn!("cannot give the lease back in time; it will run out"),
        }
    }

    fn is_overdue(&self) -> bool {
        self.renewed.is_some_and(|renewed| renewed.elapsed() >= self.settings.deadline)
    }

    /// How long one look may take: a holder must know before its deadline that it failed.
    fn patience(&self) -> Duration {
        match self.renewed {
            Some(renewed) => self.settings.deadline.saturating_sub(renewed.elapsed()),
            None => self.settings.deadline,
        }
    }

    /// Holders keep the beat; candidates spread out a little, so that they do not all write at once.
    fn pause(&self) -> Duration {
        if self.renewed.is_some() {
            return self.settings.retry;
        }
        let mut hasher = DefaultHasher::new();
        self.settings.identity.hash(&mut hasher);
        let percent = 90 + u32::try_from(hasher.finish() % 20).unwrap_or_default();
        self.settings.retry * percent / 100
    }
}

/// Losing a race is no error.
fn succeeds<T>(result: Result<T, kube::Error>) -> Result<LeaseCheck, kube::Error> {
    match result {
        Ok(_) => Ok(LeaseCheck::Leads),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(LeaseCheck::Raced),
        Err(error) => Err(error),
    }
}
