//! Nodes without a machine: how does a cluster of thousands look to the rest of the system?
//!
//! A hollow node registers, renews its Lease, takes the pods bound to it and reports that they run, without
//! running anything. What a pod does is scripted by its annotations:
//!
//! | annotation | means |
//! |---|---|
//! | `tidepool.io/hollow-start-seconds` | how long the pod takes to start; the fleet's delay otherwise |
//! | `tidepool.io/hollow-run-seconds` | ends after running that long; never otherwise |
//! | `tidepool.io/hollow-exit-code` | how it ends; 0 otherwise |
//! | `tidepool.io/hollow-usage` | what it pretends to use, see [`Usage`] |
//!
//! One task serves all nodes. [`Fleet`](fleet::Fleet) keeps what is known and a queue of what is due; the shell
//! around it has a bounded number of requests under way. Leases go first, and with many nodes they are
//! renewed less often, so that the request rate stays bounded: at 10,000 nodes every 25 s.

mod body;
mod fleet;
mod pod;
mod usage;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ApiResource, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use reconcile::watch::Watch;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use units::{Bytes, MilliCpu};

pub use usage::{Usage, UsageError};

use crate::well_known::NODE_LEASE_NAMESPACE;
use fleet::{Done, Fleet, Write};
use pod::HollowPod;

/// How many hollow nodes there are, and what they look like.
#[derive(Debug, Clone)]
pub struct HollowConfig {
    pub count: u32,
    /// Names are the prefix and a number of five digits.
    pub prefix: String,
    pub cpu: MilliCpu,
    pub memory: Bytes,
    pub max_pods: u32,
    pub labels: BTreeMap<String, String>,
    /// How long a pod takes to start unless it says otherwise.
    pub start_delay: Duration,
    /// Requests under way at once.
    pub max_requests: usize,
}

impl HollowConfig {
    /// Nodes of a common size.
    pub fn new(count: u32) -> Self {
        Self {
            count,
            prefix: "hollow-".into(),
            cpu: MilliCpu::from_cores(32),
            memory: Bytes::from_gib(128),
            max_pods: 110,
            labels: BTreeMap::new(),
            start_delay: Duration::from_secs(1),
            max_requests: 64,
        }
    }
}

/// Keeps the nodes alive until shutdown. `registered` follows how many of them the API has.
pub async fn run(
    config: HollowConfig,
    client: Client,
    registered: watch::Sender<u32>,
    shutdown: CancellationToken,
) {
    let mut shell = Shell {
        fleet: Fleet::new(config.clone()),
        client: client.clone(),
        requests: FuturesUnordered::new(),
        failures: 0,
        registered,
    };
    let api: Api<HollowPod> = Api::all_with(client, &ApiResource::erase::<Pod>(&()));
    let mut pods = Watch::all(api, shutdown);
    loop {
        let wake_at = shell.send(config.max_requests);
        tokio::select! {
            update = pods.next() => match update {
                Some(update) => shell.fleet.take(update, Timestamp::now()),
                None => return,
            },
            Some((write, done)) = shell.requests.next() => shell.take(write, done),
            () = sleep_until(wake_at) => {}
        }
    }
}

type Request = futures::future::BoxFuture<'static, (Write, Result<Done, kube::Error>)>;

struct Shell {
    fleet: Fleet,
    client: Client,
    requests: FuturesUnordered<Request>,
    failures: u64,
    registered: watch::Sender<u32>,
}

impl Shell {
    /// Starts what is due and fits; when something becomes due.
    fn send(&mut self, max_requests: usize) -> Instant {
        let now = Timestamp::now();
        while self.requests.len() < max_requests {
            let Some(write) = self.fleet.next(now) else { break };
            let request = perform(self.client.clone(), self.fleet.request(&write, now));
            self.requests.push(Box::pin(async move { (write, request.await) }));
        }
        let until = self.fleet.wake_at().map(|at| at.duration_since(now));
        let until = until.and_then(|until| Duration::try_from(until).ok());
        // With all requests taken, the next answer wakes us.
        Instant::now() + until.unwrap_or(Duration::from_secs(3_600))
    }

    fn take(&mut self, write: Write, done: Result<Done, kube::Error>) {
        let done = match done {
            Ok(done) => {
                if self.failures > 0 {
                    info!(failures = self.failures, "hollow nodes reach the API again");
                    self.failures = 0;
                }
                done
            }
            Err(error) => {
                if self.failures == 0 {
                    warn!(%error, "hollow nodes cannot write; will try again");
                }
                self.failures += 1;
                Done::Failed
            }
        };
        if matches!((&write, done), (Write::Lease { is_new: true, .. }, Done::Good)) {
            self.registered.send_modify(|count| *count = count.saturating_add(1));
        }
        self.fleet.take_done(write, done, Timestamp::now());
    }
}

/// A request to the API, with everything in it.
#[derive(Debug, Clone, PartialEq)]
enum Call {
    CreateNode(Box<Node>),
    CreateLease(Box<Lease>),
    RenewLease {
        node: String,
        body: serde_json::Value,
    },
    PatchStatus {
        namespace: String,
        pod: String,
        body: serde_json::Value,
    },
    Delete {
        namespace: String,
        pod: String,
        uid: String,
    },
    /// The pod went away meanwhile.
    Nothing,
}

async fn perform(client: Client, call: Call) -> Result<Done, kube::Error> {
    let params = PatchParams::default();
    match call {
        Call::CreateNode(node) => return register(client, *node).await,
        Call::CreateLease(lease) => {
            let api: Api<Lease> = Api::namespaced(client, NODE_LEASE_NAMESPACE);
            match api.create(&PostParams::default(), &lease).await {
                Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                other => drop(other?),
            }
        }
        Call::RenewLease { node, body } => {
            let api: Api<Lease> = Api::namespaced(client, NODE_LEASE_NAMESPACE);
            return missing_is(Done::Missing, api.patch(&node, &params, &Patch::Merge(body)).await);
        }
        Call::PatchStatus { namespace, pod, body } => {
            let api: Api<Pod> = Api::namespaced(client, &namespace);
            let patched = api.patch_status(&pod, &params, &Patch::Strategic(body)).await;
            return missing_is(Done::Missing, patched);
        }
        Call::Delete { namespace, pod, uid } => {
            let api: Api<Pod> = Api::namespaced(client, &namespace);
            let params = DeleteParams {
                grace_period_seconds: Some(0),
                preconditions: Some(Preconditions { uid: Some(uid), resource_version: None }),
                ..DeleteParams::default()
            };
            return missing_is(Done::Missing, api.delete(&pod, &params).await);
        }
        Call::Nothing => {}
    }
    Ok(Done::Good)
}

/// Some API servers do not take a status with a new Node.
async fn register(client: Client, node: Node) -> Result<Done, kube::Error> {
    let api: Api<Node> = Api::all(client);
    let name = node.metadata.name.clone().unwrap_or_default();
    let created = match api.create(&PostParams::default(), &node).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => None,
        other => Some(other?),
    };
    let has_status =
        created.and_then(|node| node.status).is_some_and(|own| own.allocatable.is_some());
    if !has_status {
        let body = serde_json::json!({"status": node.status});
        api.patch_status(&name, &PatchParams::default(), &Patch::Strategic(body)).await?;
    }
    Ok(Done::Good)
}

/// An object that is gone, or whose name belongs to another one by now, is an answer.
fn missing_is<T>(answer: Done, result: Result<T, kube::Error>) -> Result<Done, kube::Error> {
    match result {
        Ok(_) => Ok(Done::Good),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(answer),
        Err(error) => Err(error),
    }
}
