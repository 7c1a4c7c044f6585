//! Extenders: whom else do we ask about a pod, and what if they do not answer?
//!
//! | an extender that | and is ignorable | and is not |
//! |---|---|---|
//! | is slow, dead, or answers garbage | is passed over | fails the attempt; the pod is retried |
//! | accepts a node it was not asked about | is passed over | fails the attempt |
//! | agrees to clear such a node | is passed over | fails the attempt |
//! | scores badly, late or not at all | adds nothing | adds nothing |
//! | cannot bind | the pod is looked at, and retried | the same |
//!
//! Each is asked only about pods it cares for: those that ask for one of its resources.

mod wire;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use api::scheduler::Extender as Settings;
use api::scheduler::extender::TlsConfig;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::future::join_all;
use http_body_util::{BodyExt, Limited};
use hyper::header::CONTENT_TYPE;
use hyper::{Request, Uri};
use k8s_openapi::api::core::v1::{Container, Node, Pod};
use kube::client::Body;
use kube::{Client, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sched::scheduler::{Answer, Change, Consult, PodRef, RoomOffer, Update, VictimRef};
use sched::verdict::Code;
use serde_json::Value;
use tokio::time::timeout;
use tracing::warn;

const PATIENCE: Duration = Duration::from_secs(5);
/// An answer may name every node of a large cluster in full.
const MOST_BYTES: usize = 64 << 20;
/// An extender's scores end at 10, a plugin's at 100.
const SCALE: i64 = 10;

/// Why an extender cannot be called at all.
#[derive(Debug, thiserror::Error)]
#[error("extender {url}: {problem}")]
pub struct ExtenderError {
    url: String,
    problem: String,
}

/// One extender, ready to be asked.
pub(super) struct Extender {
    settings: Settings,
    client: Client,
    patience: Duration,
}

/// All of them, in the order of the configuration.
#[derive(Default)]
pub(super) struct Extenders(Vec<Extender>);

/// Pods and nodes as the API server shows them, for extenders that want to see them.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pods: HashMap<String, Arc<Pod>>,
    nodes: HashMap<String, Arc<Node>>,
    wants: Wants,
}

/// What must be kept for extenders.
#[derive(Debug, Default, Clone, Copy)]
struct Wants {
    waiting: bool,
    running: bool,
    nodes: bool,
}

impl Objects {
    pub(super) fn new(extenders: &Extenders) -> Self {
        let any =
            |has: &dyn Fn(&Settings) -> bool| extenders.0.iter().any(|one| has(&one.settings));
        let wants = Wants {
            waiting: !extenders.0.is_empty(),
            running: any(&|own| !own.preempt_verb.is_empty() && !own.node_cache_capable),
            nodes: any(&|own| !own.node_cache_capable),
        };
        Self { wants, ..Self::default() }
    }

    /// Takes note of a change.
    pub(super) fn see(&mut self, change: &Change) {
        if !self.wants.waiting {
            return;
        }
        match change {
            Change::Pod(Update::Upsert(pod)) => {
                let uid = pod.metadata.uid.clone().unwrap_or_default();
                let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
                if node.is_none_or(str::is_empty) || self.wants.running {
                    self.pods.insert(uid, pod.clone());
                } else {
                    self.pods.remove(&uid);
                }
            }
            Change::Pod(Update::Delete(key)) => {
                self.pods.remove(key.uid.as_deref().unwrap_or_default());
            }
            Change::Node(Update::Upsert(node)) if self.wants.nodes => {
                self.nodes.insert(node.metadata.name.clone().unwrap_or_default(), node.clone());
            }
            Change::Node(Update::Delete(key)) => {
                self.nodes.remove(&key.name);
            }
            _ => {}
        }
    }

    pub(super) fn pod(&self, uid: &str) -> Option<Arc<Pod>> {
        self.pods.get(uid).cloned()
    }

    /// Whole nodes, where somebody wants them.
    pub(super) fn nodes(&self, names: &[String]) -> Vec<Arc<Node>> {
        names.iter().filter_map(|name| self.nodes.get(name).cloned()).collect()
    }

    /// Whole victims, where somebody wants them.
    pub(super) fn victims(&self, rooms: &[RoomOffer]) -> HashMap<String, Arc<Pod>> {
        let all = rooms.iter().flat_map(|room| &room.victims).filter(|_| self.wants.running);
        all.filter_map(|one| Some((one.uid.to_string(), self.pod(&one.uid)?))).collect()
    }
}

impl Extenders {
    pub(super) fn connect(settings: &[Settings]) -> Result<Self, ExtenderError> {
        let one = |settings: &Settings| {
            let failed = |problem| ExtenderError { url: settings.url_prefix.clone(), problem };
            let timeout = settings.http_timeout.and_then(units::GoDuration::to_std);
            let patience = timeout.filter(|own| !own.is_zero()).unwrap_or(PATIENCE);
            let client = connect(settings, patience).map_err(failed)?;
            Ok(Extender { settings: settings.clone(), client, patience })
        };
        Ok(Self(settings.iter().map(one).collect::<Result<_, _>>()?))
    }

    /// What the engine must know of them; `None` when there are none to be asked.
    pub(super) fn consult(&self) -> Option<Consult> {
        let asked = self.0.iter().map(|one| &one.settings).filter(|own| is_asked(own));
        let asked: Vec<&Settings> = asked.collect();
        if asked.is_empty() {
            return None;
        }
        let for_all = asked.iter().any(|own| own.managed_resources.is_empty());
        let names = asked.iter().flat_map(|own| &own.managed_resources);
        let names: BTreeSet<String> = names.map(|resource| resource.name.clone()).collect();
        Some(Consult {
            resources: (!for_all).then_some(names),
            nodes: asked.iter().any(|own| has(&own.filter_verb) || has(&own.prioritize_verb)),
            victims: asked.iter().any(|own| has(&own.preempt_verb)),
        })
    }

    fn caring<'a>(
        &'a self,
        pod: &'a Pod,
        verb: impl Fn(&Settings) -> &str + 'a,
    ) -> impl Iterator<Item = &'a Extender> {
        self.0.iter().filter(move |one| has(verb(&one.settings)) && one.cares(pod))
    }

    /// What they say about nodes that fit.
    pub(super) async fn judge(
        &self,
        pod: &Pod,
        mut names: Vec<String>,
        mut nodes: Vec<Arc<Node>>,
    ) -> Answer {
        let mut refused: Vec<(String, Code, String)> = Vec::new();
        for extender in self.caring(pod, |own| &own.filter_verb) {
            if names.is_empty() {
                break;
            }
            let filtered = match extender.filter(pod, &names, &nodes).await {
                Ok(filtered) => filtered,
                Err(error) if extender.settings.ignorable => {
                    warn!(extender = extender.settings.url_prefix, error, "passed over");
                    continue;
                }
                Err(error) => return Answer::Failed(extender.complain(&error)),
            };
            let accepted: BTreeSet<&String> = filtered.nodes.iter().collect();
            for name in names.iter().filter(|name| !accepted.contains(name)) {
                refused.push(reason(name, &filtered));
            }
            names.retain(|name| accepted.contains(name));
            nodes.retain(|node| {
                node.metadata.name.as_ref().is_some_and(|own| accepted.contains(own))
            });
        }
        let scores = self.scores(pod, &names, &nodes).await;
        let accepted = names.into_iter().map(|name| {
            let score = scores.get(&name).copied().unwrap_or(0);
            (name, score)
        });
        Answer::Nodes { accepted: accepted.collect(), refused }
    }

    /// What they add to scores. One that fails adds nothing.
    async fn scores(
        &self,
        pod: &Pod,
        names: &[String],
        nodes: &[Arc<Node>],
    ) -> HashMap<String, i64> {
        let asked = self.caring(pod, |own| &own.prioritize_verb).filter(|_| !names.is_empty());
        let asked = asked.map(|one| async move { (one, one.prioritize(pod, names, nodes).await) });
        let mut sums: HashMap<String, i64> = HashMap::new();
        for (extender, answer) in join_all(asked).await {
            let scores = answer.unwrap_or_else(|error| {
                warn!(extender = extender.settings.url_prefix, error, "its scores do not count");
                Vec::new()
            });
            let weight = extender.settings.weight.unwrap_or(1).saturating_mul(SCALE);
            for (name, score) in scores {
                let sum = sums.entry(name).or_default();
                *sum = sum.saturating_add(score.saturating_mul(weight));
            }
        }
        sums
    }

    /// Which nodes they agree to clear, and of whom.
    pub(super) async fn agree(
        &self,
        pod: &Pod,
        mut rooms: Vec<RoomOffer>,
        victims: &HashMap<String, Arc<Pod>>,
    ) -> Result<Vec<RoomOffer>, String> {
        for extender in self.caring(pod, |own| &own.preempt_verb) {
            if rooms.is_empty() {
                break;
            }
            match extender.preempt(pod, &rooms, victims).await {
                Ok(kept) => rooms = narrow(rooms, &kept),
                Err(error) if extender.settings.ignorable => {
                    warn!(extender = extender.settings.url_prefix, error, "passed over");
                }
                Err(error) => return Err(extender.complain(&error)),
            }
        }
        Ok(rooms)
    }

    /// Whoever binds this pod in our place, by its index.
    pub(super) fn binder(&self, pod: &Pod) -> Option<usize> {
        self.0.iter().position(|one| has(&one.settings.bind_verb) && one.cares(pod))
    }

    /// Lets an extender bind.
    pub(super) async fn bind(&self, at: usize, pod: &PodRef, node: &str) -> Result<(), String> {
        let Some(extender) = self.0.get(at) else { return Err("there is no such extender".into()) };
        let body = wire::binding(pod, node);
        let answer = extender.post(&extender.settings.bind_verb, &body).await;
        answer.and_then(|body| wire::bound(&body)).map_err(|error| extender.complain(&error))
    }
}

fn has(verb: &str) -> bool {
    !verb.is_empty()
}

/// Is it asked while a pod is decided?
fn is_asked(own: &Settings) -> bool {
    has(&own.filter_verb) || has(&own.prioritize_verb) || has(&own.preempt_verb)
}

fn reason(name: &str, filtered: &wire::Filtered) -> (String, Code, String) {
    let (code, why) = match (filtered.unresolvable.get(name), filtered.failed.get(name)) {
        (Some(why), _) => (Code::Unresolvable, why.as_str()),
        (None, Some(why)) => (Code::Unschedulable, why.as_str()),
        (None, None) => (Code::Unresolvable, ""),
    };
    let why = if why.is_empty() { "node(s) were refused by an extender" } else { why };
    (name.to_owned(), code, why.to_owned())
}

/// The rooms that are left, in their order, with the victims that were named.
fn narrow(rooms: Vec<RoomOffer>, kept: &BTreeMap<String, Vec<String>>) -> Vec<RoomOffer> {
    let left = rooms.into_iter().filter_map(|room| {
        let uids = kept.get(&room.node)?;
        let victim = |uid: &String| VictimRef {
            violates_pdb: room.victims.iter().any(|own| &*own.uid == uid && own.violates_pdb),
            uid: uid.as_str().into(),
        };
        Some(RoomOffer { victims: uids.iter().map(victim).collect(), node: room.node.clone() })
    });
    left.collect()
}

impl Extender {
    fn complain(&self, error: &str) -> String {
        format!("extender {}: {error}", self.settings.url_prefix)
    }

    /// Does the pod ask for one of its resources?
    fn cares(&self, pod: &Pod) -> bool {
        let managed = &self.settings.managed_resources;
        if managed.is_empty() {
            return true;
        }
        let Some(spec) = &pod.spec else { return false };
        let asks = |container: &Container| {
            let resources = container.resources.as_ref();
            let lists = resources.map(|own| [own.requests.as_ref(), own.limits.as_ref()]);
            let mut lists = lists.into_iter().flatten().flatten();
            lists.any(|list| managed.iter().any(|resource| list.contains_key(&resource.name)))
        };
        spec.containers.iter().chain(spec.init_containers.iter().flatten()).any(asks)
    }

    /// Whole nodes, unless names are enough.
    fn whole<'a>(&self, nodes: &'a [Arc<Node>]) -> Option<&'a [Arc<Node>]> {
        (!self.settings.node_cache_capable).then_some(nodes)
    }

    async fn filter(
        &self,
        pod: &Pod,
        names: &[String],
        nodes: &[Arc<Node>],
    ) -> Result<wire::Filtered, String> {
        let body = wire::nodes(pod, names, self.whole(nodes));
        let filtered = wire::filtered(&self.post(&self.settings.filter_verb, &body).await?)?;
        let asked: BTreeSet<&String> = names.iter().collect();
        match filtered.nodes.iter().find(|name| !asked.contains(name)) {
            Some(name) => Err(format!("it accepts node {name}, which it was not asked about")),
            None => Ok(filtered),
        }
    }

    async fn prioritize(
        &self,
        pod: &Pod,
        names: &[String],
        nodes: &[Arc<Node>],
    ) -> Result<Vec<(String, i64)>, String> {
        let body = wire::nodes(pod, names, self.whole(nodes));
        wire::scores(&self.post(&self.settings.prioritize_verb, &body).await?)
    }

    async fn preempt(
        &self,
        pod: &Pod,
        rooms: &[RoomOffer],
        victims: &HashMap<String, Arc<Pod>>,
    ) -> Result<BTreeMap<String, Vec<String>>, String> {
        let find = |uid: &str| victims.get(uid).cloned();
        let is_told_all = !self.settings.node_cache_capable;
        let body = match is_told_all {
            true => wire::rooms(pod, rooms, Some(&find)),
            false => wire::rooms(pod, rooms, None),
        };
        let kept = wire::kept(&self.post(&self.settings.preempt_verb, &body).await?)?;
        let asked: BTreeSet<&String> = rooms.iter().map(|room| &room.node).collect();
        match kept.keys().find(|name| !asked.contains(name)) {
            Some(name) => Err(format!("it clears node {name}, which it was not asked about")),
            None => Ok(kept),
        }
    }

    /// Says something and hears the answer, within the time there is.
    async fn post(&self, verb: &str, body: &Value) -> Result<Bytes, String> {
        let request = Request::post(format!("/{}", verb.trim_start_matches('/')))
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string().into_bytes()))
            .map_err(|error| format!("{verb:?} is no path: {error}"))?;
        let asking = async {
            let answer = self.client.send(request).await.map_err(|error| error.to_string())?;
            if !answer.status().is_success() {
                return Err(format!("it answers {}", answer.status()));
            }
            let body = Limited::new(answer.into_body(), MOST_BYTES).collect().await;
            body.map(|body| body.to_bytes())
                .map_err(|error| format!("its answer breaks off: {error}"))
        };
        let late = || Err(format!("it does not answer within {} ms", self.patience.as_millis()));
        timeout(self.patience, asking).await.unwrap_or_else(|_| late())
    }
}

fn connect(settings: &Settings, patience: Duration) -> Result<Client, String> {
    let url: Uri = settings.url_prefix.parse().map_err(|error| format!("no address: {error}"))?;
    let mut config = Config::new(url);
    config.default_retry = false;
    config.connect_timeout = Some(patience);
    let tls = settings.tls_config.clone().unwrap_or_default();
    let authority = authority(&tls)?;
    config.accept_invalid_certs = tls.insecure || (settings.enable_https && authority.is_none());
    config.root_cert = authority;
    config.tls_server_name = Some(tls.server_name).filter(|name| !name.is_empty());
    let given = |text: String| Some(text).filter(|text| !text.is_empty());
    config.auth_info.client_certificate_data = given(tls.cert_data);
    config.auth_info.client_certificate = given(tls.cert_file);
    config.auth_info.client_key_data = given(tls.key_data).map(Into::into);
    config.auth_info.client_key = given(tls.key_file);
    Client::try_from(config).map_err(|error| error.to_string())
}

/// Whom to trust, if that is said.
fn authority(tls: &TlsConfig) -> Result<Option<Vec<Vec<u8>>>, String> {
    let pem = match (tls.ca_data.as_str(), tls.ca_file.as_str()) {
        ("", "") => return Ok(None),
        ("", file) => std::fs::read(Path::new(file))
            .map_err(|error| format!("cannot read {file}: {error}"))?,
        (data, _) => STANDARD.decode(data).map_err(|error| format!("caData: {error}"))?,
    };
    let chain = CertificateDer::pem_slice_iter(&pem).map(|one| one.map(|one| one.to_vec()));
    let chain: Vec<Vec<u8>> =
        chain.collect::<Result<_, _>>().map_err(|error| format!("CA: {error}"))?;
    if chain.is_empty() {
        return Err("the authority's file holds no certificate".to_owned());
    }
    Ok(Some(chain))
}
