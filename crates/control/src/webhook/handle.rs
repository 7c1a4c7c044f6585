//! Which function answers which request?
//!
//! Gathers what a function needs, from memory wherever the path is hot. Only
//! rare requests ask the API server: deleting a quota, turning one into a
//! parent, changing a node's labels or the configuration, and whatever a gate
//! that is off by default adds.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::time::Duration;

use api::config::Options as ConfigOptions;
use api::kind::ElasticQuota;
use api::metadata::Wire;
use api::protocol::gate::{Gates, ManagerGate};
use api::protocol::quota::{CHILD_REQUEST, IS_PARENT, NAME, NAMESPACES};
use api::protocol::webhook::{
    MUTATE_ELASTIC_QUOTA, MUTATE_NODE_STATUS, MUTATE_POD, MUTATE_RESERVATION, VALIDATE_CONFIG_MAP,
    VALIDATE_ELASTIC_QUOTA, VALIDATE_NODE, VALIDATE_POD, VALIDATE_POD_BINDING,
};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use prometheus::IntCounterVec;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use super::knowledge::{Knowledge, Prepared};
use super::turns::Turns;
use crate::admission::profile::{self, Dice};
use crate::admission::review::{Operation, Request};
use crate::admission::validate::Demands;
use crate::admission::{
    Admitted, Denied, Verdict, binding, charge, config_map, node, pod, quota, reservation, validate,
};

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

/// The object before the request; `None` when it is new.
fn old(request: &Request) -> Option<&Value> {
    Some(&request.old_object).filter(|old| !old.is_null())
}

fn unreachable_server(error: &kube::Error) -> Denied {
    Denied::impossible(format!("cannot ask the API server: {error}"))
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
        use Operation::{Create, Delete, Update};
        match (path, request.operation) {
            (MUTATE_POD, Create) => self.mutate_pod(request),
            (VALIDATE_POD, Create | Update) => self.validate_pod(request).await,
            (VALIDATE_POD_BINDING, Create) => self.validate_binding(request).await,
            (MUTATE_NODE_STATUS, Update) => node::mutate_status(
                &request.old_object,
                &request.object,
                &request.user_info.username,
            ),
            (VALIDATE_NODE, Update) => self.validate_node(request).await,
            (VALIDATE_CONFIG_MAP, Create | Update) => self.validate_config_map(request).await,
            (MUTATE_ELASTIC_QUOTA, Create) => {
                quota::mutate(&request.object, &self.knowledge.prepared().quotas)
            }
            (VALIDATE_ELASTIC_QUOTA, Create | Update | Delete) => {
                self.validate_quota(request).await
            }
            (MUTATE_RESERVATION, Create) => self.mutate_reservation(request),
            _ => Ok(Admitted::default()),
        }
    }

    fn mutate_pod(&self, request: &Request) -> Verdict {
        let named = request.object.pointer("/metadata/namespace").and_then(Value::as_str);
        let namespace = named.filter(|name| !name.is_empty()).unwrap_or(&request.namespace);
        self.mutate(&request.object, namespace, Dice(&roll))
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
        let (patch, warnings, refusal) = match self.mutate(pod, namespace, Dice(&|_| 0)) {
            Ok(Admitted { patch, warnings }) => (json!(patch), warnings, None),
            Err(denied) => (json!([]), Vec::new(), Some(denied.message)),
        };
        json!({"namespace": namespace, "profiles": profiles, "patch": patch,
            "warnings": warnings, "refusal": refusal})
    }

    fn mutate(&self, pod: &Value, namespace: &str, dice: Dice<'_>) -> Verdict {
        let prepared = self.knowledge.prepared();
        let labels = self.knowledge.namespace(namespace);
        let around = pod::Surroundings {
            profiles: &prepared.profiles,
            namespace: labels.as_deref(),
            priority_classes: &prepared.priority_classes,
            quotas: &prepared.quotas,
            quota_profiles: &prepared.quota_profiles,
            gates: &self.rules.gates,
            dice,
        };
        pod::mutate(pod, namespace, &around)
    }

    fn mutate_reservation(&self, request: &Request) -> Verdict {
        let prepared = self.knowledge.prepared();
        let around = reservation::Surroundings {
            profiles: &prepared.profiles,
            priority_classes: &prepared.priority_classes,
            gates: &self.rules.gates,
            dice: Dice(&roll),
        };
        reservation::mutate(&request.object, &around)
    }

    async fn validate_pod(&self, request: &Request) -> Verdict {
        let prepared = self.knowledge.prepared();
        let demands = self.demands().await;
        let around = validate::Surroundings {
            quotas: &prepared.quotas,
            gates: &self.rules.gates,
            demands: &demands,
            is_strict: self.rules.strict_classes,
        };
        let verdict =
            validate::validate(old(request), &request.object, &request.namespace, &around)?;
        if self.rules.gates.is_on(ManagerGate::EnableQuotaAdmission) {
            match timeout(CHARGE, self.charge(request, &prepared)).await {
                Ok(charged) => charged?,
                Err(_) => return Err(Denied::impossible("charging the pod's quota took too long")),
            }
        }
        Ok(verdict)
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
        let read = |value: &Value| Pod::deserialize(value).ok();
        let Some(mut pod) = read(&request.object) else { return Ok(()) };
        pod.metadata.namespace.get_or_insert_with(|| request.namespace.clone());
        let Some(target) = charge::quota_for(&pod, &prepared.quotas, gates)? else {
            return Ok(());
        };
        if let Some(old) = old(request).and_then(read) {
            let before = charge::quota_for(&old, &prepared.quotas, gates).ok().flatten();
            let is_moved = before.map(|quota| &quota.metadata.name) != Some(&target.metadata.name);
            if !is_moved || !gates.is_on(ManagerGate::EnableQuotaAdmissionOnUpdate) {
                return Ok(());
            }
        }
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
        if !self.rules.gates.is_on(ManagerGate::BindingAdmissionWebhook) {
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

    async fn validate_node(&self, request: &Request) -> Verdict {
        let labels = |object: &Value| object.pointer("/metadata/labels").cloned();
        if labels(&request.old_object) == labels(&request.object) {
            return Ok(Admitted::default());
        }
        let settings = &self.rules.config_map;
        let api: Api<ConfigMap> = Api::namespaced(self.client.0.clone(), &settings.namespace);
        let found = api.get_opt(&settings.name).await.ok().flatten();
        let data = found.and_then(|found| found.data).unwrap_or_default();
        node::validate(&request.old_object, &request.object, &data)
    }

    async fn validate_config_map(&self, request: &Request) -> Verdict {
        if !self.is_configuration(&request.namespace, &request.name) {
            return Ok(Admitted::default());
        }
        let data = |object: &Value| -> BTreeMap<String, String> {
            BTreeMap::deserialize(&object["data"]).unwrap_or_default()
        };
        let api: Api<Node> = Api::all(self.client.0.clone());
        let nodes = api.list_metadata(&ListParams::default()).await;
        let nodes = nodes.map(|list| list.items).unwrap_or_else(|error| {
            warn!(%error, "cannot list nodes; node entries are judged by themselves");
            Vec::new()
        });
        let nodes = nodes.into_iter().map(|node| {
            (node.metadata.name.unwrap_or_default(), node.metadata.labels.unwrap_or_default())
        });
        let object = format!("ConfigMap {}/{}", request.namespace, request.name);
        let options: ConfigOptions = self.rules.config_map.options;
        let before = old(request).map(data);
        config_map::validate(
            before.as_ref(),
            &data(&request.object),
            &object,
            options,
            &nodes.collect(),
        )
    }

    async fn validate_quota(&self, request: &Request) -> Verdict {
        let prepared = self.knowledge.prepared();
        let pods = self.pods_of(request).await?;
        let recent = self.recent();
        let around = quota::Surroundings {
            quotas: &prepared.quotas,
            recent: &recent,
            pods: &pods,
            gates: &self.rules.gates,
        };
        if request.operation == Operation::Delete {
            let Some(old) = old(request) else { return Ok(Admitted::default()) };
            let verdict = quota::validate_delete(old, &around)?;
            if !request.is_dry_run() {
                self.recent.lock().remove(&request.name);
            }
            return Ok(verdict);
        }
        let verdict = quota::validate(old(request), &request.object, &around)?;
        if let Ok(admitted) = ElasticQuota::deserialize(&request.object)
            && !request.is_dry_run()
        {
            let name = admitted.metadata.name.clone().unwrap_or_default();
            self.recent.lock().insert(name, (Instant::now(), admitted));
        }
        Ok(verdict)
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
