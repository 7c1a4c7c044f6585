//! The parts of a running agent.

use std::fmt::Debug;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::kind::{Device, NodeMetric, NodeResourceTopology, NodeSlo};
use api::protocol::gate::AgentGate;
use api::protocol::metric::agent::internal::START_TIME;
use api::qos::KubeQos;
use arc_swap::ArcSwap;
use groups::Layout;
use host::cgroup::Tree;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use qos::node::Pods;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::RunError;
use crate::act::thread::Watching;
use crate::act::{self, ActThread, Journal, Rounds, journal};
use crate::audit::{Audit, Record};
use crate::clock::Clock;
use crate::collect::{CollectThread, Task};
use crate::config::Config;
use crate::evict::Evicting;
use crate::exposition::Exposition;
use crate::health::Health;
use crate::kubelet::Kubelet;
use crate::node_state::SharedNodeState;
use crate::object::{self, Need, Seen};
use crate::pods::{from_api, from_kubelet};
use crate::predict::{PredictThread, Prediction};
use crate::series::{Measure, Metrics, Subject};
use crate::server::{self, Shown};
use crate::topology::SharedTopology;
use crate::topology::publish::KubeletSource;
use crate::waits::waits;
use crate::worker::{End, ThreadEnd};
use crate::{device, evict, measured, node_state, pleg, status, topology};
use qos::node::NodeState;

/// How long threads may take to stop; the process has ten seconds.
const STOP: Duration = Duration::from_secs(5);

/// Where departures are remembered, in the directory of an agent that acts.
const DEPARTURES: &str = "departures.json";
const EVICT: &str = "evict";

/// How long a part may take before it is named in the log.
const LATE: Duration = Duration::from_secs(30);

/// All parts of a running agent.
pub(super) struct Agent {
    config: Config,
    client: Client,
    layout: Layout,
    stop: CancellationToken,
    tasks: JoinSet<&'static str>,
    /// One for each thread, until it has ended by itself.
    threads: JoinSet<ThreadEnd>,
    health: Health,
    exposition: Exposition,
    audit: Audit,
    clock: Clock,
    state: SharedNodeState,
    topology: SharedTopology,
    journal: Journal,
    collect: Option<CollectThread>,
    predict: Option<PredictThread>,
    act: Option<ActThread>,
    pleg: Option<pleg::Stop>,
}

/// What is known of the cluster, for parts that look at more than the node's state.
struct ObjectFeeds {
    node: watch::Receiver<Seen<Node>>,
    pods: watch::Receiver<Pods>,
    kubelet: watch::Receiver<Option<Kubelet>>,
}

impl Agent {
    pub(super) fn start(
        mut config: Config,
        client: Client,
        tree: &Tree,
        layout: Layout,
        stop: CancellationToken,
    ) -> Result<Self, RunError> {
        let exposition = Exposition::new(&config.node_name);
        let now = Timestamp::now().as_duration().as_secs_f64();
        exposition.publish("start", |group| group.set(&START_TIME, &[], now));
        let health = Health::default();
        exposition.show_health(health.clone());
        config.collect.gates = config.gates.clone();
        config.collect.best_effort_cgroup = layout.class(KubeQos::BestEffort);
        let mut agent = Self {
            audit: Audit::new(config.audit.clone()),
            state: Arc::new(ArcSwap::from_pointee(NodeState::default())),
            topology: Arc::default(),
            journal: Journal::new(&config.node_name),
            config,
            client,
            layout,
            stop,
            tasks: JoinSet::new(),
            threads: JoinSet::new(),
            health,
            exposition,
            clock: Clock::start(),
            collect: None,
            predict: None,
            act: None,
            pleg: None,
        };
        let node = agent.watch::<Node>("node", Need::Object);
        let slo = agent.watch::<NodeSlo>("nodeslo", Need::Answer);
        let node_metric = agent.watch::<NodeMetric>("nodemetric", Need::Answer);
        let feeds = agent.start_pods(tree, node);
        agent.follow_node(&feeds, slo, node_metric.clone());
        let (metrics, prediction) = agent.start_threads(tree)?;
        agent.start_report(metrics.clone(), prediction, node_metric);
        agent.start_topology(&feeds);
        agent.start_devices(&feeds);
        agent.start_acting(tree, metrics.clone())?;
        agent.start_evicting(tree, metrics.clone());
        agent.start_server();
        agent.finish_start(metrics);
        Ok(agent)
    }

    /// Waits for shutdown, or for a part that ends before.
    pub(super) async fn wait(&mut self) -> Result<(), RunError> {
        tokio::select! {
            () = self.stop.cancelled() => Ok(()),
            Some(ended) = self.tasks.join_next() => {
                if self.stop.is_cancelled() {
                    return Ok(());
                }
                let name = ended.unwrap_or("that panicked");
                Err(RunError::Ended { name })
            }
            Some(ended) = self.threads.join_next() => match ended {
                Ok(end) => Err(RunError::ThreadEnded(end)),
                Err(_) => Err(RunError::Ended { name: "threads" }),
            },
        }
    }

    /// Ends everything; what takes too long is left behind. The lock is free for the next agent once no thread
    /// writes any more, even if nobody waits for that.
    pub(super) async fn stop(mut self, lock: Option<File>) {
        self.stop.cancel();
        self.pleg = None;
        let (act, collect, predict) = (self.act.take(), self.collect.take(), self.predict.take());
        let threads = tokio::task::spawn_blocking(move || {
            // First, because it may have much to give back.
            if let Some(act) = act {
                act.stop();
            }
            if let Some(collect) = collect {
                collect.stop();
            }
            // Last, because it writes what it has learned to disk.
            if let Some(predict) = predict {
                predict.stop();
            }
            drop(lock);
        });
        let all = async {
            while self.tasks.join_next().await.is_some() {}
            threads.await
        };
        match tokio::time::timeout(STOP, all).await {
            Ok(Ok(())) => info!("the agent has stopped"),
            Ok(Err(_)) => error!("a thread of the agent panicked while it stopped"),
            Err(_) => warn!("parts of the agent did not stop in time"),
        }
    }

    fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(async move {
            task.await;
            name
        });
    }

    /// Waits for the ends of threads: one that ends before it is told to takes the process down.
    fn follow_threads(&mut self, ends: impl IntoIterator<Item = Option<End>>) {
        for end in ends.into_iter().flatten() {
            self.threads.spawn(async move {
                match end.await {
                    Ok(end) => end,
                    Err(_) => std::future::pending().await,
                }
            });
        }
    }

    /// Follows the object of this kind that has the node's name.
    fn watch<K>(&mut self, name: &'static str, need: Need) -> watch::Receiver<Seen<K>>
    where
        K: kube::Resource<DynamicType = ()>
            + Clone
            + Debug
            + DeserializeOwned
            + Send
            + Sync
            + 'static,
    {
        let (sender, receiver) = watch::channel(Seen::Waiting);
        let api: Api<K> = Api::all(self.client.clone());
        let part = self.health.part(name);
        let (node, stop) = (self.config.node_name.clone(), self.stop.clone());
        self.spawn(name, object::follow(api, node, need, sender, part, stop));
        receiver
    }

    fn start_pods(&mut self, tree: &Tree, node: watch::Receiver<Seen<Node>>) -> ObjectFeeds {
        let (pods_sender, pods) = watch::channel(Pods::default());
        let (kubelet_sender, kubelet) = watch::channel(None);
        let part = self.health.part("pods");
        let (client, stop) = (self.client.clone(), self.stop.clone());
        let (node_name, layout) = (self.config.node_name.clone(), self.layout.clone());
        if let Some(access) = &self.config.kubelet {
            let settings = access.settings.clone();
            let asking = from_kubelet::Asking {
                node_name,
                layout,
                settings,
                node: node.clone(),
                changes: self.start_pleg(tree),
                metrics: self.exposition.clone(),
                part,
            };
            let follow = from_kubelet::follow(asking, client, pods_sender, kubelet_sender, stop);
            self.spawn("pods", follow);
        } else {
            let (sender, mut listed) = watch::channel(None);
            self.spawn("pods", from_api::follow(client, node_name, layout, sender, stop));
            let forward = async move {
                while listed.changed().await.is_ok() {
                    if let Some(pods) = listed.borrow_and_update().clone() {
                        part.ready();
                        pods_sender.send_replace(pods);
                    }
                }
            };
            self.spawn("pods", forward);
        }
        ObjectFeeds { node, pods, kubelet }
    }

    /// Changes of control groups; none come where they cannot be watched.
    fn start_pleg(&mut self, tree: &Tree) -> mpsc::Receiver<pleg::Change> {
        let real = |qos| tree.fs().real_path(&tree.main_dir(&self.layout.class(qos)));
        let parents: Vec<PathBuf> = KubeQos::ALL.iter().copied().filter_map(real).collect();
        if !parents.is_empty() {
            match pleg::follow(parents) {
                Ok((changes, stop)) => {
                    self.pleg = Some(stop);
                    return changes;
                }
                Err(error) => warn!(%error, "control groups are not watched, only polled"),
            }
        }
        // Nobody sends: the receiver is closed, and its reader never hears of a change.
        mpsc::channel(1).1
    }

    fn follow_node(
        &mut self,
        feeds: &ObjectFeeds,
        slo: watch::Receiver<Seen<NodeSlo>>,
        node_metric: watch::Receiver<Seen<NodeMetric>>,
    ) {
        let gathering = node_state::Gathering {
            layout: self.layout.clone(),
            node: feeds.node.clone(),
            slo,
            node_metric,
            pods: feeds.pods.clone(),
            exposition: self.exposition.clone(),
        };
        let follow = node_state::follow(gathering, self.state.clone(), self.stop.clone());
        self.spawn("node-state", follow);
    }

    fn start_threads(&mut self, tree: &Tree) -> Result<(Metrics, Prediction), RunError> {
        let failed = |name| move |source| RunError::Thread { name, source };
        let settings = self.config.collect.clone();
        let interval = settings.usage_interval;
        let (state, clock) = (self.state.clone(), self.clock);
        let collect = CollectThread::start(settings, tree.clone(), state.clone(), clock);
        let (mut collect, metrics) = collect.map_err(failed("collect"))?;
        self.follow_threads([collect.end()]);
        self.collect = Some(collect);
        let settings = self.config.predict.clone();
        let predict = PredictThread::start(settings, metrics.clone(), state, clock);
        let (mut predict, prediction) = predict.map_err(failed("predict"))?;
        self.follow_threads([predict.end()]);
        self.predict = Some(predict);

        let (live, state) = (metrics.clone(), self.state.clone());
        self.exposition.read_live(move |group| {
            measured::fill(group, &live, &state.load(), clock.now());
        });
        let (seen, state) = (metrics.clone(), self.state.clone());
        self.journal.ask_who_waits(move || waits(&seen, &state.load()));
        let journal = self.journal.clone();
        self.exposition.read_live(move |group| {
            journal.suppressed().iter().for_each(|suppressed| journal::fill(suppressed, group));
        });
        let part = self.health.part("samples");
        let (seen, stop) = (metrics.clone(), self.stop.clone());
        self.spawn("samples", watch_samples(seen, clock, interval, part, stop));
        Ok((metrics, prediction))
    }

    fn start_report(
        &mut self,
        metrics: Metrics,
        prediction: Prediction,
        object: watch::Receiver<Seen<NodeMetric>>,
    ) {
        let Some(settings) = self.config.report else { return };
        let reporting = status::Reporting {
            node_name: self.config.node_name.clone(),
            settings,
            gauges: self.config.gates.is_on(AgentGate::NodeMetricPromMetrics),
            metrics,
            prediction: Some(prediction),
            state: self.state.clone(),
            clock: self.clock,
            object,
            exposition: self.exposition.clone(),
            part: self.health.part("report"),
        };
        self.spawn("report", status::follow(reporting, self.client.clone(), self.stop.clone()));
    }

    fn start_topology(&mut self, feeds: &ObjectFeeds) {
        let object = self.watch::<NodeResourceTopology>("noderesourcetopology", Need::Answer);
        let gates = &self.config.gates;
        let kubelet = match &self.config.kubelet {
            Some(access) if access.ask_config => {
                let connection = feeds.kubelet.clone();
                KubeletSource::Ask { connection, root: access.root.clone() }
            }
            _ => KubeletSource::None,
        };
        let publishing = topology::publish::Publishing {
            node_name: self.config.node_name.clone(),
            interval: self.config.topology_interval,
            is_written: gates.is_on(AgentGate::NodeTopologyReport),
            huge_pages: gates.is_on(AgentGate::HugePageReport),
            per_cpu_metrics: gates.is_on(AgentGate::PerCPUMetric),
            kubelet,
            fs: self.config.host.clone(),
            node: feeds.node.clone(),
            pods: feeds.pods.clone(),
            object,
            exposition: self.exposition.clone(),
            part: self.health.part("topology"),
            local: self.topology.clone(),
        };
        let (client, stop) = (self.client.clone(), self.stop.clone());
        self.spawn("topology", topology::publish::follow(publishing, client, stop));
    }

    fn start_devices(&mut self, feeds: &ObjectFeeds) {
        if !self.config.gates.is_on(AgentGate::Accelerators) {
            return;
        }
        let object = self.watch::<Device>("device", Need::Answer);
        let publishing = device::Publishing {
            node_name: self.config.node_name.clone(),
            interval: self.config.topology_interval,
            dir: self.config.device_dir.clone(),
            node: feeds.node.clone(),
            object,
            part: self.health.part("devices"),
        };
        self.spawn("devices", device::follow(publishing, self.client.clone(), self.stop.clone()));
    }

    /// The part that writes; none where the agent only looks.
    fn start_acting(&mut self, tree: &Tree, metrics: Metrics) -> Result<(), RunError> {
        let Some(acting) = self.config.act.clone() else { return Ok(()) };
        let ledger = act::switch::open_ledger(&acting.dir)?;
        let settings = act::Settings {
            gates: self.config.gates.clone(),
            keep_quota_of_bound: acting.keep_quota_of_bound,
            ..act::Settings::default()
        };
        let (journal, audit) = (self.journal.clone(), self.audit.clone());
        let layout = self.layout.clone();
        let mut rounds = Rounds::new(settings, tree.clone(), layout, ledger, journal, audit)
            .publishing(self.exposition.clone());
        if let Some(prober) = acting.prober {
            rounds = rounds.probing(prober);
        }
        let watching = Watching {
            state: self.state.clone(),
            topology: self.topology.clone(),
            metrics,
            clock: self.clock,
            dir: acting.dir,
            cleanup_on_exit: acting.cleanup_on_exit,
            part: self.health.part("act"),
        };
        let failed = |name| move |source| RunError::Thread { name, source };
        let slow = rounds.start_thread().map_err(failed("slow-writes"))?;
        let mut act = ActThread::start(rounds, watching).map_err(failed("act"))?;
        self.follow_threads([slow, act.end()]);
        self.act = Some(act);
        Ok(())
    }

    fn start_evicting(&mut self, tree: &Tree, metrics: Metrics) {
        let Some(acting) = &self.config.act else { return };
        let mut settings = self.config.evict.clone();
        settings.file.get_or_insert_with(|| acting.dir.join(DEPARTURES));
        let evicting = Evicting {
            node_name: self.config.node_name.clone(),
            settings,
            gates: self.config.gates.clone(),
            sampled_every: self.config.collect.usage_interval,
            state: self.state.clone(),
            metrics,
            clock: self.clock,
            tree: tree.clone(),
            journal: self.journal.clone(),
            exposition: self.exposition.clone(),
            audit: self.audit.clone(),
            part: self.health.part(EVICT),
        };
        let (client, stop) = (self.client.clone(), self.stop.clone());
        self.spawn(EVICT, evict::follow(evicting, client, stop));
    }

    fn start_server(&mut self) {
        let Some(listener) = self.config.listener.take() else { return };
        let gates = &self.config.gates;
        let is_audited =
            gates.is_on(AgentGate::AuditEvents) && gates.is_on(AgentGate::AuditEventsHTTPHandler);
        let shown = Shown {
            metrics: self.exposition.clone(),
            health: self.health.clone(),
            audit: is_audited.then(|| self.audit.clone()),
            journal: self.journal.clone(),
        };
        self.spawn("server", server::serve(listener, shown, self.stop.clone()));
    }

    fn finish_start(&mut self, metrics: Metrics) {
        let (audit, stop) = (self.audit.clone(), self.stop.clone());
        let flushing = async move {
            audit.flush_until(stop.clone()).await;
            stop.cancelled().await;
        };
        self.spawn("audit", flushing);
        let (health, stop) = (self.health.clone(), self.stop.clone());
        self.spawn("late parts", name_late_parts(health, metrics, stop));
        let groups = self.layout.kubepods();
        let message = format!("control groups below {groups}");
        self.audit.record(Record::node(Timestamp::now(), 1, "AgentStarted", message));
        info!(node = self.config.node_name, %groups, "the agent is running");
    }
}

/// Beats for the kernel thread as long as the node is measured.
async fn watch_samples(
    metrics: Metrics,
    clock: Clock,
    interval: Duration,
    part: crate::health::Part,
    stop: CancellationToken,
) {
    let mut last = None;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
        let newest = metrics.latest(Subject::Node, Measure::Cpu).map(|sample| sample.at);
        let Some(at) = newest else {
            if clock.now() > LATE {
                part.lacks("the node's CPU usage has not been measured yet");
            }
            continue;
        };
        if last != Some(at) {
            last = Some(at);
            part.beat(interval, std::time::Instant::now());
            part.ready();
        }
    }
}

/// Names once what has not become ready in half a minute, collectors included.
async fn name_late_parts(health: Health, metrics: Metrics, stop: CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => return,
        () = tokio::time::sleep(LATE) => {}
    }
    for (part, reason) in health.lacking() {
        warn!(part, reason, "a part of the agent is late");
    }
    let late = |task| metrics.health(task).filter(|health| !health.is_started);
    for (task, health) in Task::ALL.into_iter().filter_map(|task| Some((task, late(task)?))) {
        let reason = health.last_error.unwrap_or_default();
        warn!(collector = task.name(), reason, "a collector is late; the others go on");
    }
    stop.cancelled().await;
}
