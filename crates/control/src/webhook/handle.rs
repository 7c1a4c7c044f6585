//! What is a request judged by?
//!
//! Gathers what [`answer::answer`] needs, from memory wherever the path is hot. Only
//! rare requests ask the API server: deleting a quota, turning one into a
//! parent, changing a node's labels or the configuration, and whatever a gate
//! that is off by default adds.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use api::config::selector::Labels;
use api::kind::ElasticQuota;
use api::metadata::Wire;
use api::protocol::gate::{Gates, ManagerGate};
use api::protocol::quota::{CHILD_REQUEST, IS_PARENT, NAME, NAMESPACES};
use api::protocol::webhook::{
    MUTATE_POD, VALIDATE_CONFIG_MAP, VALIDATE_ELASTIC_QUOTA, VALIDATE_NODE, VALIDATE_POD,
    VALIDATE_POD_BINDING,
};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use prometheus::IntCounterVec;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use super::knowledge::{Knowledge, Prepared};
use super::turns::Turns;
use crate::admission::answer::{self, Context};
use crate::admission::config_map::{Data, Nodes};
use crate::admission::profile::{self, Dice};
use crate::admission::review::{Operation, Request};
use crate::admission::validate::Demands;
use crate::admission::{Admitted, Denied, Verdict, binding, charge};

/// How long a quota that was admitted here counts before the API server has told of it.
const RECENT: Duration = Duration::from_secs(5);
/// How long charging a quota may take, all attempts together.
const CHARGE: Duration = Duration::from_secs(10);
/// Pods that an answer about a quota may name.
const PODS_NAMED: u32 = 3;

/// What flags say about admission.
#[derive(Debug, Clone)]
pub struct Rules {
    pub gates: Gates<ManagerGate>,
    /// The ConfigMap that is judged, and how strictly.
    pub config_map: crate::intake::Settings,
    pub binding: binding::Rules,
    /// Where labels that pods must have are written down, and how often to look.
    pub demands: (String, String, Duration),
    /// Refuse pairs of QoS and priority class that the reference admits.
    pub strict_classes: bool,
    /// How often charging a quota is tried again when somebody else wrote it.
    pub charge_retries: u32,
    /// Before each of these, a pause of random length up to the first, all pauses together up to
    /// the second: replicas that collide do not collide again.
    pub charge_jitter: (Duration, Duration),
}

impl Rules {
    /// The next pause, `chance` being anything at all.
    fn pause(&self, spent: Duration, chance: u64) -> Duration {
        let (each, total) = self.charge_jitter;
        let most = each.min(total.saturating_sub(spent));
        let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(nanos.checked_add(1).map_or(chance, |limit| chance % limit))
    }
}

impl Default for Rules {
    fn default() -> Self {
        use api::protocol::name::{NAMESPACE, config_map::ENHANCED_VALIDATOR};
        let place = (NAMESPACE.to_owned(), ENHANCED_VALIDATOR.to_owned());
        Self {
            gates: Gates::default(),
            config_map: crate::intake::Settings::default(),
            binding: binding::Rules::default(),
            demands: (place.0, place.1, Duration::from_secs(300)),
            strict_classes: false,
            charge_retries: 3,
            charge_jitter: (Duration::ZERO, Duration::from_secs(1)),
        }
    }
}

/// Everything that answering takes.
#[derive(Debug)]
pub(super) struct Handlers {
    pub(super) client: ClientHandle,
    pub(super) knowledge: Knowledge,
    pub(super) rules: Rules,
    pub(super) binding_decisions: IntCounterVec,
    recent: Mutex<HashMap<String, (Instant, ElasticQuota)>>,
    demands: tokio::sync::Mutex<(Option<Instant>, Demands)>,
    charging: Turns,
}

/// A client that can be shown.
#[derive(Clone)]
pub(super) struct ClientHandle(pub(super) Client);

impl std::fmt::Debug for ClientHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

/// Chance for profiles that apply by chance. The standard library's hash keys are random.
fn roll(name: &str) -> u8 {
    let number = std::hash::RandomState::new().hash_one(name) % 100;
    u8::try_from(number).unwrap_or_default()
}

fn unreachable_server(error: &kube::Error) -> Denied {
    Denied::impossible(format!("cannot ask the API server: {error}"))
}

/// What is asked for because of one request.
#[derive(Debug, Default)]
struct Gathered {
    namespace: Option<Arc<Labels>>,
    recent: Vec<ElasticQuota>,
    pods: Vec<String>,
    nodes: Nodes,
    configuration: Data,
    demands: Demands,
}

fn judge(
    path: &str,
    request: &Request,
    prepared: &Prepared,
    gathered: &Gathered,
    rules: &Rules,
    dice: Dice<'_>,
) -> Verdict {
    let settings = &rules.config_map;
    let context = Context {
        profiles: &prepared.profiles,
        namespace: gathered.namespace.as_deref(),
        priority_classes: &prepared.priority_classes,
        quotas: &prepared.quotas,
        recent_quotas: &gathered.recent,
        quota_profiles: &prepared.quota_profiles,
        pods_of_quota: &gathered.pods,
        nodes: &gathered.nodes,
        configuration: &gathered.configuration,
        demands: &gathered.demands,
        gates: &rules.gates,
        config_map: (&settings.namespace, &settings.name, settings.options),
        is_strict: rules.strict_classes,
        dice,
    };
    answer::answer(path, request, &context)
}

fn has_new_labels(request: &Request) -> bool {
    let labels = |object: &Value| object.pointer("/metadata/labels").cloned();
    labels(&request.old_object) != labels(&request.object)
}

impl Handlers {
    pub(super) fn new(
        client: Client,
        knowledge: Knowledge,
        rules: Rules,
        binding_decisions: IntCounterVec,
    ) -> Self {
        Self {
            client: ClientHandle(client),
            knowledge,
            rules,
            binding_decisions,
            recent: Mutex::default(),
            demands: tokio::sync::Mutex::default(),
            charging: Turns::default(),
        }
    }

    /// Answers a request that came to `path`.
    pub(super) async fn answer(&self, path: &str, request: &Request) -> Verdict {
        if path == VALIDATE_POD_BINDING {
            return self.validate_binding(request).await;
        }
        let gathered = self.gather(path, request).await?;
        let prepared = self.knowledge.prepared();
        let verdict = if path == VALIDATE_CONFIG_MAP || path == VALIDATE_NODE {
            self.judge_aside(path, request, &prepared, gathered).await?
        } else {
            judge(path, request, &prepared, &gathered, &self.rules, Dice(&roll))?
        };
        match path {
            VALIDATE_POD => match timeout(CHARGE, self.charge(request, &prepared)).await {
                Ok(charged) => charged?,
                Err(_) => return Err(Denied::impossible("charging the pod's quota took too long")),
            },
            VALIDATE_ELASTIC_QUOTA if !request.is_dry_run() => self.remember(request),
            _ => {}
        }
        Ok(verdict)
    }

    /// Judges on a thread that may be busy for a while: a configuration may have thousands of entries, and
    /// whoever waits for another answer must not wait for this one.
    async fn judge_aside(
        &self,
        path: &str,
        request: &Request,
        prepared: &Arc<Prepared>,
        gathered: Gathered,
    ) -> Verdict {
        let (path, request) = (path.to_owned(), request.clone());
        let (prepared, rules) = (prepared.clone(), self.rules.clone());
        let judging = spawn_blocking(move || {
            judge(&path, &request, &prepared, &gathered, &rules, Dice(&roll))
        });
        judging.await.unwrap_or_else(|_| Err(Denied::impossible("the request cannot be judged")))
    }

    /// What a request is judged by besides what is always at hand.
    async fn gather(&self, path: &str, request: &Request) -> Result<Gathered, Denied> {
        let mut gathered = Gathered::default();
        match path {
            MUTATE_POD => {
                gathered.namespace = self.knowledge.namespace(answer::namespace_of(request));
            }
            VALIDATE_POD => gathered.demands = self.demands().await,
            VALIDATE_NODE if has_new_labels(request) => {
                gathered.configuration = self.configuration().await;
            }
            VALIDATE_CONFIG_MAP if self.is_configuration(&request.namespace, &request.name) => {
                gathered.nodes = self.nodes().await;
            }
            VALIDATE_ELASTIC_QUOTA => {
                gathered.pods = self.pods_of(request).await?;
                gathered.recent = self.recent();
            }
            _ => {}
        }
        Ok(gathered)
    }

    /// Which profiles mean a pod, why others do not, and what would be changed. A profile that
    /// applies by chance is taken to apply.
    pub(super) fn explain(&self, pod: &Value, namespace: &str) -> Value {
        let prepared = self.knowledge.prepared();
        let own = self.knowledge.namespace(namespace);
        let labels = profile::labels_of(pod);
        let profiles = prepared.profiles.iter().map(|profile| {
            let why = profile.mismatch(&labels, own.as_deref());
            json!({"name": profile.name(), "matches": why.is_none(), "because": why,
                "probabilityPercent": profile.percent()})
        });
        let profiles: Vec<Value> = profiles.collect();
        let request = Request::create(namespace, pod.clone());
        let gathered = Gathered { namespace: own, ..Gathered::default() };
        let certain = Dice(&|_| 0);
        let verdict = judge(MUTATE_POD, &request, &prepared, &gathered, &self.rules, certain);
        let (patch, warnings, refusal) = match verdict {
            Ok(Admitted { patch, warnings }) => (json!(patch), warnings, None),
            Err(denied) => (json!([]), Vec::new(), Some(denied.message)),
        };
        json!({"namespace": namespace, "profiles": profiles, "patch": patch,
            "warnings": warnings, "refusal": refusal})
    }

    async fn demands(&self) -> Demands {
        if !self.rules.gates.is_on(ManagerGate::EnablePodEnhancedValidator) {
            return Demands::default();
        }
        let (namespace, name, interval) = &self.rules.demands;
        let mut known = self.demands.lock().await;
        if known.0.is_none_or(|looked| looked.elapsed() >= *interval) {
            let api: Api<ConfigMap> = Api::namespaced(self.client.0.clone(), namespace);
            match api.get_opt(name).await {
                Ok(found) => {
                    let data = found.and_then(|found| found.data).unwrap_or_default();
                    match Demands::parse(&data) {
                        Ok(demands) => known.1 = demands,
                        Err(error) => {
                            warn!(%error, name, "cannot read demands on pods; the old ones stay")
                        }
                    }
                    known.0 = Some(Instant::now());
                }
                Err(error) => {
                    warn!(%error, name, "cannot look up demands on pods; the old ones stay")
                }
            }
        }
        known.1.clone()
    }

    /// Charges the quota with the pod. One pod of a quota at a time: fewer of our own conflicts.
    async fn charge(&self, request: &Request, prepared: &Prepared) -> Result<(), Denied> {
        let gates = &self.rules.gates;
        let Some((pod, target)) = answer::charged(request, &prepared.quotas, gates)? else {
            return Ok(());
        };
        let namespace = target.metadata.namespace.clone().unwrap_or_default();
        let name = target.metadata.name.clone().unwrap_or_default();
        let api: Api<ElasticQuota> = Api::namespaced(self.client.0.clone(), &namespace);
        let mut latest = target.clone();
        let mut paused = Duration::ZERO;
        for _ in 0..=self.rules.charge_retries {
            let turn = self.charging.take(&format!("{namespace}/{name}")).await;
            let Some(used) = charge::charge(&pod, &latest, gates)? else { return Ok(()) };
            if request.is_dry_run() {
                return Ok(());
            }
            let patch = json!({ "metadata": {
                "resourceVersion": latest.metadata.resource_version,
                "annotations": { CHILD_REQUEST.name: used.print() },
            }});
            match api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
                Ok(_) => return Ok(()),
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    drop(turn);
                    let chance = std::hash::RandomState::new().hash_one(&name);
                    let pause = self.rules.pause(paused, chance);
                    paused += pause;
                    sleep(pause).await;
                    latest = api.get(&name).await.map_err(|error| unreachable_server(&error))?;
                }
                Err(error) => return Err(unreachable_server(&error)),
            }
        }
        Err(Denied::impossible(format!("quota {namespace}/{name} is written by too many at once")))
    }

    async fn validate_binding(&self, request: &Request) -> Verdict {
        let is_on = self.rules.gates.is_on(ManagerGate::BindingAdmissionWebhook);
        if !is_on || request.operation != Operation::Create {
            return Ok(Admitted::default());
        }
        let api: Api<Pod> = Api::namespaced(self.client.0.clone(), &request.namespace);
        let pod = api.get_metadata_opt(&request.name).await.ok().flatten();
        let meta = pod.map(|pod| pod.metadata);
        let user = &request.user_info.username;
        let decision =
            binding::decide(&self.rules.binding, user, &request.namespace, meta.as_ref());
        self.binding_decisions.with_label_values(&[decision.as_str()]).inc();
        decision.verdict(user, &format!("{}/{}", request.namespace, request.name))?;
        Ok(Admitted::default())
    }

    fn is_configuration(&self, namespace: &str, name: &str) -> bool {
        let settings = &self.rules.config_map;
        settings.namespace == namespace && settings.name == name
    }

    /// The data of the ConfigMap in force; what cannot be read is empty.
    async fn configuration(&self) -> Data {
        let settings = &self.rules.config_map;
        let api: Api<ConfigMap> = Api::namespaced(self.client.0.clone(), &settings.namespace);
        let found = api.get_opt(&settings.name).await.ok().flatten();
        found.and_then(|found| found.data).unwrap_or_default()
    }

    /// Labels of all nodes.
    async fn nodes(&self) -> Nodes {
        let api: Api<Node> = Api::all(self.client.0.clone());
        let nodes = api.list_metadata(&ListParams::default()).await;
        let nodes = nodes.map(|list| list.items).unwrap_or_else(|error| {
            warn!(%error, "cannot list nodes; node entries are judged by themselves");
            Vec::new()
        });
        let nodes = nodes.into_iter().map(|node| {
            (node.metadata.name.unwrap_or_default(), node.metadata.labels.unwrap_or_default())
        });
        nodes.collect()
    }

    /// Notes a quota that was admitted, until the API server tells of it.
    fn remember(&self, request: &Request) {
        let mut recent = self.recent.lock();
        if request.operation == Operation::Delete {
            recent.remove(&request.name);
        } else if let Ok(admitted) = ElasticQuota::deserialize(&request.object) {
            let name = admitted.metadata.name.clone().unwrap_or_default();
            recent.insert(name, (Instant::now(), admitted));
        }
    }

    fn recent(&self) -> Vec<ElasticQuota> {
        let mut recent = self.recent.lock();
        recent.retain(|_, (since, _)| since.elapsed() < RECENT);
        recent.values().map(|(_, quota)| quota.clone()).collect()
    }

    /// Pods that count against the quota, as far as the request makes them matter.
    async fn pods_of(&self, request: &Request) -> Result<Vec<String>, Denied> {
        let read = |value: &Value| ElasticQuota::deserialize(value).ok();
        let (before, after) = (read(&request.old_object), read(&request.object));
        let is_parent = |quota: &ElasticQuota| IS_PARENT.get(&quota.metadata) == Some(true);
        let becomes_parent = match (&before, &after) {
            (Some(before), Some(after)) => !is_parent(before) && is_parent(after),
            _ => false,
        };
        if !becomes_parent && request.operation != Operation::Delete {
            return Ok(Vec::new());
        }
        let labelled = ListParams::default()
            .labels(&format!("{}={}", NAME.name, request.name))
            .limit(PODS_NAMED);
        let mut pods = self.list_pods(&Api::all(self.client.0.clone()), &labelled).await?;
        if becomes_parent {
            let listed =
                after.and_then(|quota| NAMESPACES.get(&quota.metadata)).unwrap_or_default();
            let unlabelled =
                ListParams::default().labels(&format!("!{}", NAME.name)).limit(PODS_NAMED);
            for namespace in listed.iter().chain([&request.name]) {
                let api = Api::namespaced(self.client.0.clone(), namespace);
                pods.extend(self.list_pods(&api, &unlabelled).await?);
            }
        }
        Ok(pods)
    }

    async fn list_pods(&self, api: &Api<Pod>, params: &ListParams) -> Result<Vec<String>, Denied> {
        let list = api.list_metadata(params).await.map_err(|error| unreachable_server(&error))?;
        let name = |pod: &kube::core::PartialObjectMeta<Pod>| {
            let part = |text: &Option<String>| text.clone().unwrap_or_default();
            format!("{}/{}", part(&pod.metadata.namespace), part(&pod.metadata.name))
        };
        Ok(list.items.iter().map(name).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_random_and_end_in_time() {
        let millis = Duration::from_millis;
        let jitter = |each, total| Rules { charge_jitter: (each, total), ..Rules::default() };
        let off = Rules::default();
        assert_eq!(off.pause(Duration::ZERO, 12_345), Duration::ZERO, "off by default");
        let rules = jitter(millis(200), millis(500));
        let pauses: Vec<Duration> =
            [0, u64::MAX / 3, u64::MAX].map(|chance| rules.pause(Duration::ZERO, chance)).to_vec();
        assert!(pauses.iter().all(|pause| *pause <= millis(200)), "{pauses:?}");
        assert!(pauses[0] != pauses[1] && pauses[1] != pauses[2], "{pauses:?}");
        for chance in [7, u64::MAX / 5, u64::MAX] {
            assert!(rules.pause(millis(450), chance) <= millis(50), "what is left");
            assert_eq!(rules.pause(millis(500), chance), Duration::ZERO, "nothing is left");
            assert_eq!(rules.pause(millis(900), chance), Duration::ZERO);
        }
    }
}
