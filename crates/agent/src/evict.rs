//! How does a pod leave that has to?
//!
//! ```text
//! samples, NodeSLO ──plan──> needs ──book──> steps ──> API server: notice, eviction, events
//!                                     ^                              │
//!                                     └─────────── answers ──────────┘
//! ```
//!
//! The rules and the manners are [`qos::evict`]'s; here their steps are taken. A pod is told first, by an
//! annotation, a condition and an event that carry the sum, and asked at its hour through the eviction
//! API, which respects its grace and its disruption budgets. At most [`IN_FLIGHT`] requests are on their
//! way; the rounds go on meanwhile and count whoever was asked as gone. Who was asked is on disk before
//! the request leaves.
//!
//! Without an API server nobody leaves. Only where the operator allowed it, and memory has been critical
//! for long, the processes of a pod that was asked in vain are killed.

mod inputs;
mod kill;
mod request;
mod store;
mod why;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use api::metadata::eviction::EvictionNotice;
use api::protocol::event::{self, audit};
use api::protocol::gate::{AgentGate, Gates};
use api::protocol::metric::agent::internal::{POD_EVICTION, POD_EVICTION_DETAIL};
use host::cgroup::Tree;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::runtime::events::EventType;
use qos::evict::book::Answer;
use qos::evict::{Ask, Book, Feature, Manners, Need, Rules, State, Step, plan};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::inputs::Seen;
use self::request::{Office, Told, Victim};
use self::store::{Moment, Store};
use crate::act::{Journal, Why};
use crate::audit::{Audit, Record, Subject};
use crate::clock::Clock;
use crate::exposition::Exposition;
use crate::health::Part;
use crate::node_state::SharedNodeState;
use crate::object::chain;
use crate::series::Metrics;
use qos::node::NodeState;

/// Requests that may be on their way; what comes on top waits for the next round.
pub const IN_FLIGHT: usize = 8;

/// The strategy's name in the journal.
const NAME: &str = "evict";

/// How this process evicts; fixed at start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub manners: Manners,
    /// Between two rounds.
    pub interval: Duration,
    /// Where departures are remembered; `None` forgets them with the process.
    pub file: Option<PathBuf>,
    /// How long an answer of the API server is waited for.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            manners: Manners::default(),
            interval: Duration::from_secs(1),
            file: None,
            patience: Duration::from_secs(5),
        }
    }
}

/// What the task needs.
#[derive(Debug)]
pub struct Evicting {
    pub node_name: String,
    pub settings: Settings,
    pub gates: Gates<AgentGate>,
    /// Between two samples.
    pub sampled_every: Duration,
    pub state: SharedNodeState,
    pub metrics: Metrics,
    pub clock: Clock,
    pub tree: Tree,
    pub journal: Journal,
    pub exposition: Exposition,
    pub audit: Audit,
    pub part: Part,
}

/// What a request led to.
enum Done {
    Told,
    Asked { id: String, ask: Ask<String>, answer: Answer, words: String },
}

/// Decides and evicts until shutdown.
pub async fn follow(evicting: Evicting, client: Client, shutdown: CancellationToken) {
    let patience = evicting.settings.patience;
    let office = Office { client, node: evicting.node_name.clone(), patience };
    let mut desk = Desk::open(evicting, office);
    let mut rounds = tokio::time::interval(desk.evicting.settings.interval);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut requests = JoinSet::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = rounds.tick() => desk.round(&mut requests).await,
            Some(done) = requests.join_next() => desk.take(done.unwrap_or(Done::Told)).await,
        }
    }
}

struct Desk {
    evicting: Evicting,
    office: Office,
    store: Store,
    book: Book<String>,
    state: State,
    /// Rule and sum of each notice that stands.
    told: BTreeMap<String, Why>,
    is_store_broken: bool,
}

impl Desk {
    fn open(evicting: Evicting, office: Office) -> Self {
        let store = Store::new(evicting.settings.file.clone());
        let moment = Moment { now: evicting.clock.now(), wall: Timestamp::now() };
        let mut book = Book::new(moment.now);
        match store.read(moment, evicting.settings.manners.owner_rest) {
            Ok(memory) => book.recall(memory),
            // The API server's notices are still followed; only rests are lost.
            Err(error) => warn!(error = chain(&error), "earlier evictions are forgotten"),
        }
        evicting.part.ready();
        let (state, told) = (State::default(), BTreeMap::new());
        Self { evicting, office, store, book, state, told, is_store_broken: false }
    }

    fn moment(&self) -> Moment {
        Moment { now: self.evicting.clock.now(), wall: Timestamp::now() }
    }

    async fn round(&mut self, requests: &mut JoinSet<Done>) {
        let settings = &self.evicting.settings;
        self.evicting.part.beat(settings.interval, Instant::now());
        let moment = self.moment();
        let state = self.evicting.state.load_full();
        if !self.is_informed(&state) {
            return;
        }
        let rules = self.rules(&state);
        let has_notices = || state.pods.values().any(|pod| pod.eviction.notice.is_some());
        if rules.is_empty() && self.book.is_idle() && !has_notices() {
            self.evicting.journal.decided(NAME, Vec::new(), moment.wall);
            return;
        }
        let seen =
            Seen::look(&state, &self.evicting.metrics, &rules, self.evicting.sampled_every, moment);
        let (needs, state) = plan(&seen.inputs(), &rules, &self.state);
        self.state = state;
        if requests.len() >= IN_FLIGHT {
            return;
        }
        let steps = self.book.steps(&needs, &seen.present, &settings.manners, moment.now);
        if steps.iter().any(|step| matches!(step, Step::Evict(_))) {
            self.save(moment).await;
        }
        for step in steps {
            self.start(step, &seen, moment, requests);
        }
        self.publish(&seen, &rules, &needs, moment);
    }

    /// Whether the cluster and the acting side have been heard. Before that a pod that was asked
    /// by an earlier process would seem to have left, and its notice to be needless.
    fn is_informed(&self, state: &NodeState) -> bool {
        let switch = self.evicting.journal.switch();
        state.is_complete && (switch.is_on || switch.off_by.is_some())
    }

    /// None while the agent is switched off.
    fn rules(&self, state: &NodeState) -> Rules {
        let is_on = self.evicting.journal.switch().is_on;
        let strategy = state.slo.spec.resource_used_threshold_with_be.clone();
        Rules::new(&strategy.unwrap_or_default(), |feature| {
            is_on && self.evicting.gates.is_on(gate(feature))
        })
    }

    fn start(
        &mut self,
        step: Step<String>,
        seen: &Seen,
        moment: Moment,
        requests: &mut JoinSet<Done>,
    ) {
        let id = match &step {
            Step::Withdraw(id) => id,
            Step::Notify { ask, .. } | Step::Evict(ask) | Step::Kill(ask) => &ask.id,
        };
        let Some(victim) = seen.victims.get(id).cloned() else { return };
        let office = self.office.clone();
        match step {
            Step::Notify { ask, left } => {
                let notice = notice(&ask, left, moment.wall);
                let about = format!("{}/{}", victim.namespace, victim.name);
                let resource = ask.target.resource();
                let why = why::noticed(&about, ask.feature, &notice.reason, resource);
                self.told.insert(ask.id.clone(), why);
                info!(pod = about, feature = ask.feature, why = %ask.why, "told a pod that it will be evicted");
                // Whoever leaves at once is told by the eviction.
                if !left.is_zero() {
                    requests.spawn(async move {
                        office.notify(&victim, &notice).await;
                        Done::Told
                    });
                }
            }
            Step::Withdraw(id) => {
                self.told.remove(&id);
                info!(pod = victim.name, "a pod that was to be evicted may stay");
                requests.spawn(async move {
                    office.withdraw(&victim).await;
                    Done::Told
                });
            }
            Step::Evict(ask) => {
                requests.spawn(async move {
                    let (answer, words) = office.evict(&victim).await;
                    tell_answer(&office, &victim, &ask, answer, &words).await;
                    Done::Asked { id: ask.id.clone(), ask, answer, words }
                });
            }
            Step::Kill(ask) => self.kill(&ask, victim, requests),
        }
    }

    fn kill(&self, ask: &Ask<String>, victim: Victim, requests: &mut JoinSet<Done>) {
        let state = self.evicting.state.load();
        let Some(pod) = state.pods.get(&ask.id) else { return };
        let (tree, group) = (self.evicting.tree.clone(), pod.cgroup.clone());
        let note = format!("{} was asked in vain, and memory runs out: {}", victim.name, ask.why);
        warn!(pod = victim.name, why = %ask.why, "killing a best-effort pod: memory runs out");
        self.record(&victim, &note);
        let office = self.office.clone();
        requests.spawn(async move {
            let killing = tokio::task::spawn_blocking(move || kill::kill(&tree, &group));
            if killing.await.is_ok() {
                let told =
                    Told { type_: EventType::Warning, reason: event::EVICTION_KILLED, note: &note };
                office.tell(&victim, told).await;
            }
            Done::Told
        });
    }

    async fn take(&mut self, done: Done) {
        let Done::Asked { id, ask, answer, words } = done else { return };
        let moment = self.moment();
        self.book.take(&id, answer, &self.evicting.settings.manners, moment.now);
        let state = self.evicting.state.load_full();
        let (namespace, name) = state
            .pods
            .get(&id)
            .map(|pod| (pod.namespace.clone(), pod.name.clone()))
            .unwrap_or_default();
        match answer {
            Answer::Leaves => {
                info!(pod = name, feature = ask.feature, why = %ask.why, "evicted a pod");
                self.evicting.exposition.count(&POD_EVICTION, &[ask.feature]);
                let labels = [namespace.as_str(), &name, ask.feature];
                self.evicting.exposition.count(&POD_EVICTION_DETAIL, &labels);
                let message = message(&ask, &name);
                self.record(&Victim { namespace, name, uid: String::new() }, &message);
            }
            Answer::Gone => info!(pod = name, "a pod left before it was evicted"),
            Answer::Refuses { .. } => {
                warn!(pod = name, answer = words, "a pod may not be evicted now; others are asked");
            }
            Answer::Unknown => {
                warn!(pod = name, answer = words, "whether a pod was evicted is not known yet");
            }
        }
        self.told.remove(&id);
        self.save(moment).await;
    }

    fn record(&self, victim: &Victim, message: &str) {
        let record = Record {
            subject: Subject::Pod,
            namespace: victim.namespace.clone(),
            name: victim.name.clone(),
            ..Record::node(Timestamp::now(), 0, audit::EVICTED, message)
        };
        self.evicting.audit.record(record);
    }

    /// Keeps departures on disk. A disk that is full costs rests after a restart, not evictions now.
    async fn save(&mut self, moment: Moment) {
        let memory = self.book.remember(&self.evicting.settings.manners, moment.now);
        let store = self.store.clone();
        let written = tokio::task::spawn_blocking(move || store.write(&memory, moment)).await;
        let Ok(written) = written else { return };
        match written {
            Ok(()) => self.is_store_broken = false,
            Err(error) => {
                if !std::mem::replace(&mut self.is_store_broken, true) {
                    warn!(error = chain(&error), "evictions are not remembered on disk");
                }
            }
        }
    }

    /// Shows what would be, is and was decided.
    fn publish(&mut self, seen: &Seen, rules: &Rules, needs: &[Need<String>], moment: Moment) {
        let noticed: BTreeSet<&String> = self.book.notices().map(|(id, _)| id).collect();
        self.told.retain(|id, _| noticed.contains(id));
        let slo = &self.evicting.state.load().slo;
        let whys = why::node(seen, rules, needs, slo);
        let whys = whys.into_iter().chain(self.told.values().cloned()).collect();
        self.evicting.journal.decided(NAME, whys, moment.wall);
    }
}

fn gate(feature: Feature) -> AgentGate {
    match feature {
        Feature::BestEffortCpu => AgentGate::BECPUEvict,
        Feature::LentCpu => AgentGate::CPUAllocatableEvict,
        Feature::Cpu => AgentGate::CPUEvict,
        Feature::BestEffortMemory => AgentGate::BEMemoryEvict,
        Feature::LentMemory => AgentGate::MemoryAllocatableEvict,
        Feature::Memory => AgentGate::MemoryEvict,
    }
}

fn notice(ask: &Ask<String>, left: Duration, now: Timestamp) -> EvictionNotice {
    EvictionNotice {
        feature: ask.feature.to_owned(),
        reason: ask.why.to_string(),
        since: Some(Time(now)),
        due: now.checked_add(left).ok().map(Time),
    }
}

/// The reference's words, and the sum.
fn message(ask: &Ask<String>, name: &str) -> String {
    format!("trigger by koordlet feature {}, kill pod: {name}; {}", ask.feature, ask.why)
}

async fn tell_answer(
    office: &Office,
    victim: &Victim,
    ask: &Ask<String>,
    answer: Answer,
    words: &str,
) {
    let message = message(ask, &victim.name);
    let (reason, note) = match answer {
        Answer::Leaves => (event::EVICT_SUCCESS, message),
        Answer::Refuses { .. } => (event::EVICT_FAIL, format!("{message}; answered {words}")),
        Answer::Gone | Answer::Unknown => return,
    };
    office.tell(victim, Told { type_: EventType::Warning, reason, note: &note }).await;
}
