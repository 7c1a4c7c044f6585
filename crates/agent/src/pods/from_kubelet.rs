//! Asking the kubelet, and the API server in its place.

use std::time::{Duration, Instant};

use groups::Layout;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use qos::node::{Pod, Pods, next};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::from_api;
use super::source::Plan;
use crate::exposition::Exposition;
use crate::health::Part;
use crate::kubelet::{self, Endpoint, Kubelet};
use crate::object::{Seen, chain};
use crate::pleg::Change;

/// What the task needs.
#[derive(Debug)]
pub struct Asking {
    pub node_name: String,
    pub layout: Layout,
    pub settings: kubelet::Settings,
    pub node: watch::Receiver<Seen<Node>>,
    /// Changes of control groups; a closed channel means that there is no watcher.
    pub changes: mpsc::Receiver<Change>,
    pub metrics: Exposition,
    pub part: Part,
}

/// The connection to the kubelet, made anew when its address changes.
struct Connection {
    endpoint: Endpoint,
    kubelet: Kubelet,
}

/// Publishes the pods of this node until shutdown; the newest connection goes to `connected`.
pub async fn follow(
    asking: Asking,
    client: Client,
    out: watch::Sender<Pods>,
    connected: watch::Sender<Option<Kubelet>>,
    shutdown: CancellationToken,
) {
    let Asking { node_name, layout, settings, mut node, mut changes, metrics, part } = asking;
    let start = Instant::now();
    let mut plan = Plan::new(settings.interval);
    let mut connection: Option<Connection> = None;
    let mut fallback = Fallback::new(client, node_name.clone(), layout.clone());
    let mut soon = false;
    loop {
        part.beat(settings.interval, Instant::now());
        let wait = plan.next().saturating_sub(start.elapsed());
        tokio::select! {
            () = shutdown.cancelled() => break,
            () = tokio::time::sleep(wait) => {}
            Some(change) = changes.recv() => {
                debug!(?change, "a control group changed");
                while changes.try_recv().is_ok() {}
                soon = true;
                plan.changed(start.elapsed());
                continue;
            }
            Ok(()) = node.changed() => {
                // Another address may answer where the old one did not.
                if plan.needs_fallback() {
                    plan.changed(start.elapsed());
                }
                continue;
            }
            pods = fallback.next() => {
                if plan.needs_fallback() {
                    out.send_replace(pods);
                    if plan.long_silence(start.elapsed()).is_none() {
                        part.ready();
                    }
                }
                continue;
            }
        }
        let seen = node.borrow_and_update().clone();
        let result = match connect(&seen, &settings, &mut connection, &metrics) {
            Ok(kubelet) => {
                connected.send_replace(Some(kubelet.clone()));
                kubelet.pods(&node_name).await.map_err(|error| chain(&error))
            }
            Err(reason) => Err(reason),
        };
        let now = start.elapsed();
        match result {
            Ok(listed) => {
                if plan.needs_fallback() {
                    info!("the kubelet lists pods again");
                }
                if listed.foreign > 0 || listed.unreadable > 0 {
                    let (foreign, unreadable) = (listed.foreign, listed.unreadable);
                    warn!(
                        foreign,
                        unreadable,
                        "the kubelet lists pods that are not of this node or cannot be read"
                    );
                }
                plan.succeeded(now, std::mem::take(&mut soon));
                fallback.stop();
                part.ready();
                let previous = out.borrow().clone();
                let pods = listed.pods.iter().filter_map(|pod| Pod::read(pod, &layout));
                let pods = next(&previous, pods);
                out.send_replace(pods);
            }
            Err(reason) => {
                plan.failed(now);
                let has_pods = !out.borrow().is_empty();
                tell(&plan, now, &reason, has_pods, &part);
                if plan.needs_fallback() && fallback.start() {
                    warn!(error = reason, "the kubelet lists no pods; asking the API server");
                }
            }
        }
    }
    fallback.end().await;
}

/// The last known pods will do for a while, and the API server's for longer.
fn tell(plan: &Plan, now: Duration, reason: &str, has_pods: bool, part: &Part) {
    match plan.long_silence(now) {
        Some(silent) => {
            let seconds = silent.as_secs();
            part.lacks(format!("kubelet silent for {seconds} s: {reason}"));
        }
        None if !has_pods => part.lacks(format!("kubelet: {reason}")),
        None => {}
    }
}

fn connect<'c>(
    node: &Seen<Node>,
    settings: &kubelet::Settings,
    connection: &'c mut Option<Connection>,
    metrics: &Exposition,
) -> Result<&'c Kubelet, String> {
    let node = node.present().ok_or_else(|| "the Node object is not known yet".to_owned())?;
    let endpoint = kubelet::endpoint(node, settings).map_err(|error| chain(&error))?;
    if connection.as_ref().is_none_or(|connection| connection.endpoint != endpoint) {
        info!(%endpoint, "asking the kubelet");
        let kubelet = Kubelet::new(&endpoint, settings, metrics.clone());
        let kubelet = kubelet.map_err(|error| chain(&error))?;
        *connection = Some(Connection { endpoint, kubelet });
    }
    match connection {
        Some(connection) => Ok(&connection.kubelet),
        None => Err("no connection".to_owned()),
    }
}

/// The watch that stands in for the kubelet.
struct Fallback {
    client: Client,
    node: String,
    layout: Layout,
    running: Option<(watch::Receiver<Option<Pods>>, CancellationToken)>,
    /// The watch that runs, and those that are told to end. Dropping the set ends them.
    tasks: JoinSet<()>,
}

impl Fallback {
    fn new(client: Client, node: String, layout: Layout) -> Self {
        Self { client, node, layout, running: None, tasks: JoinSet::new() }
    }

    /// Starts the watch and says whether it was not running.
    fn start(&mut self) -> bool {
        if self.running.is_some() {
            return false;
        }
        let (sender, receiver) = watch::channel(None);
        let stop = CancellationToken::new();
        let (client, node, layout) = (self.client.clone(), self.node.clone(), self.layout.clone());
        while self.tasks.try_join_next().is_some() {}
        self.tasks.spawn(from_api::follow(client, node, layout, sender, stop.clone()));
        self.running = Some((receiver, stop));
        true
    }

    fn stop(&mut self) {
        if let Some((_, stop)) = self.running.take() {
            stop.cancel();
        }
    }

    /// Stops the watch and waits until it has ended.
    async fn end(mut self) {
        self.stop();
        while self.tasks.join_next().await.is_some() {}
    }

    /// The next whole list; never while the watch is not running.
    async fn next(&mut self) -> Pods {
        loop {
            let Some((receiver, _)) = &mut self.running else {
                return std::future::pending().await;
            };
            if receiver.changed().await.is_err() {
                self.running = None;
                warn!("the watch of pods ended by itself; it starts again when it is needed");
                continue;
            }
            if let Some(pods) = receiver.borrow_and_update().clone() {
                return pods;
            }
        }
    }
}
