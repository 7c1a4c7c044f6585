//! What does the API know about this node, and how does it stay true?
//!
//! Two loops. The **heartbeat** renews the node's Lease every 10 s; from it the rest of the cluster
//! concludes that the node lives. The **registration** compares the Node object with what the node
//! knows about itself every 10 s, makes it if it is missing, writes what differs, and writes the
//! status at least every 5 minutes. Only keys of our own are written: resources, conditions and
//! labels that others add to the Node stay.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use api::protocol::node::{CGROUP, ISOLATION_CONDITION, MISSING};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, NodeStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};
use units::{Bytes, MilliCpu};

use super::machine::{Machine, Pressure, architecture};
use crate::well_known::NODE_LEASE_NAMESPACE;

/// What the node says about itself.
#[derive(Debug, Clone)]
pub(crate) struct Profile {
    pub(crate) name: String,
    pub(crate) address: IpAddr,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) machine: Machine,
    pub(crate) reserved: Reserved,
    pub(crate) max_pods: u32,
    /// `v1`, `v2`, or nothing.
    pub(crate) cgroup: Option<&'static str>,
    /// What this node cannot do, one sentence each.
    pub(crate) missing: Vec<String>,
}

/// What of the machine is not for pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserved {
    pub cpu: MilliCpu,
    pub memory: Bytes,
    pub storage: Bytes,
}

impl Default for Reserved {
    /// As kubelet out of the box: 100 MiB of memory, so that the machine stays usable.
    fn default() -> Self {
        Self { cpu: MilliCpu::ZERO, memory: Bytes::from_mib(100), storage: Bytes::ZERO }
    }
}

/// What pods may have, together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allocatable {
    pub(crate) cpu: MilliCpu,
    pub(crate) memory: Bytes,
    pub(crate) storage: Bytes,
}

impl Profile {
    pub(crate) fn allocatable(&self) -> Allocatable {
        let Self { machine, reserved, .. } = self;
        let huge: Bytes = machine.huge_pages.values().copied().sum();
        Allocatable {
            cpu: (machine.cpu - reserved.cpu).max(MilliCpu::ZERO),
            memory: (machine.memory - reserved.memory - huge).max(Bytes::ZERO),
            // The last tenth of a disk is not given away.
            storage: (Bytes(machine.storage.0 / 10 * 9) - reserved.storage).max(Bytes::ZERO),
        }
    }

    fn resources(
        &self,
        cpu: MilliCpu,
        memory: Bytes,
        storage: Bytes,
    ) -> BTreeMap<String, Quantity> {
        let huge = self.machine.huge_pages.iter();
        let huge = huge.map(|(size, bytes)| (format!("hugepages-{size}"), bytes.to_string()));
        let own = [
            ("cpu".to_owned(), cpu.to_string()),
            ("memory".to_owned(), memory.to_string()),
            ("ephemeral-storage".to_owned(), storage.to_string()),
            ("pods".to_owned(), self.max_pods.to_string()),
        ];
        own.into_iter().chain(huge).map(|(name, amount)| (name, Quantity(amount))).collect()
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let own = [
            ("kubernetes.io/hostname", self.name.as_str()),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", architecture()),
            ("beta.kubernetes.io/os", "linux"),
            ("beta.kubernetes.io/arch", architecture()),
        ];
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        self.labels.clone().into_iter().chain(own).collect()
    }

    /// `None` is an annotation that must not be there.
    fn annotations(&self) -> [(&'static str, Option<String>); 2] {
        let missing = (!self.missing.is_empty()).then(|| self.missing.join("; "));
        [(CGROUP.name, self.cgroup.map(str::to_owned)), (MISSING.name, missing)]
    }

    fn new_node(&self) -> Node {
        let annotations = self.annotations().into_iter();
        let annotations =
            annotations.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        Node {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(self.labels()),
                annotations: Some(annotations),
                ..ObjectMeta::default()
            },
            ..Node::default()
        }
    }

    /// The change to labels and annotations, if there is one.
    fn metadata_patch(&self, node: &Node) -> Option<Value> {
        let meta = &node.metadata;
        let has = |map: &Option<BTreeMap<String, String>>, name: &str| {
            map.as_ref().and_then(|map| map.get(name)).cloned()
        };
        let mut labels = self.labels();
        labels.retain(|name, value| has(&meta.labels, name).as_ref() != Some(value));
        let mut annotations = BTreeMap::from(self.annotations());
        annotations.retain(|name, value| has(&meta.annotations, name) != *value);
        if labels.is_empty() && annotations.is_empty() {
            return None;
        }
        Some(json!({"metadata": {"labels": labels, "annotations": annotations}}))
    }

    /// The part of the status that is ours. Times of conditions that did not change are kept.
    fn status(
        &self,
        before: Option<&NodeStatus>,
        pressure: Pressure,
        now: Timestamp,
    ) -> NodeStatus {
        let Allocatable { cpu, memory, storage } = self.allocatable();
        let machine = &self.machine;
        let address =
            |kind: &str, value: String| NodeAddress { type_: kind.into(), address: value };
        NodeStatus {
            capacity: Some(self.resources(machine.cpu, machine.memory, machine.storage)),
            allocatable: Some(self.resources(cpu, memory, storage)),
            conditions: Some(self.conditions(before, pressure, now)),
            addresses: Some(vec![
                address("InternalIP", self.address.to_string()),
                address("Hostname", self.name.clone()),
            ]),
            node_info: Some(machine.info.clone()),
            ..NodeStatus::default()
        }
    }

    fn conditions(
        &self,
        before: Option<&NodeStatus>,
        pressure: Pressure,
        now: Timestamp,
    ) -> Vec<NodeCondition> {
        let isolation = if self.missing.is_empty() {
            (true, "Complete", "pods are held to their requests and limits".to_owned())
        } else {
            (false, "Limited", self.missing.join("; "))
        };
        let short = |is_short: bool, what: &str| match is_short {
            true => (true, "Short", format!("the machine is short of {what}")),
            false => (false, "Sufficient", format!("the machine has enough {what}")),
        };
        let findings = [
            ("MemoryPressure", short(pressure.memory, "memory")),
            ("DiskPressure", short(pressure.disk, "disk space")),
            ("PIDPressure", short(pressure.pids, "process numbers")),
            (ISOLATION_CONDITION, isolation),
            ("Ready", (true, "NodeReady", "the node takes pods".to_owned())),
        ];
        let old = before.and_then(|before| before.conditions.as_deref()).unwrap_or_default();
        let made = findings.into_iter().map(|(kind, (holds, reason, message))| {
            let status = if holds { "True" } else { "False" };
            let same = old.iter().find(|old| old.type_ == kind && old.status == status);
            let since = same.and_then(|same| same.last_transition_time.clone());
            NodeCondition {
                type_: kind.to_owned(),
                status: status.to_owned(),
                reason: Some(reason.to_owned()),
                message: Some(message),
                last_heartbeat_time: Some(stamp(now)),
                last_transition_time: since.or_else(|| Some(stamp(now))),
            }
        });
        made.collect()
    }
}

fn stamp(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// Is everything of ours in the API's status, apart from the heartbeat times?
fn is_written(before: Option<&NodeStatus>, ours: &NodeStatus) -> bool {
    let Some(before) = before else { return false };
    let holds = |has: &Option<BTreeMap<String, Quantity>>,
                 wants: &Option<BTreeMap<String, Quantity>>| {
        let mut wanted = wants.iter().flatten();
        wanted.all(|(name, amount)| has.as_ref().and_then(|has| has.get(name)) == Some(amount))
    };
    let without_heartbeat = |condition: &NodeCondition| NodeCondition {
        last_heartbeat_time: None,
        ..condition.clone()
    };
    let old: Vec<_> = before.conditions.iter().flatten().map(without_heartbeat).collect();
    let mut conditions = ours.conditions.iter().flatten().map(without_heartbeat);
    holds(&before.capacity, &ours.capacity)
        && holds(&before.allocatable, &ours.allocatable)
        && before.addresses == ours.addresses
        && before.node_info == ours.node_info
        && conditions.all(|condition| old.contains(&condition))
}

/// How long ago the API was last told that nothing has changed.
fn heartbeat_age(before: Option<&NodeStatus>, now: Timestamp) -> SignedDuration {
    let conditions = before.and_then(|before| before.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    let ready = conditions.find(|condition| condition.type_ == "Ready");
    let told = ready.and_then(|ready| ready.last_heartbeat_time.as_ref());
    told.map_or(SignedDuration::MAX, |told| now.duration_since(told.0))
}

const LOOK_EVERY: Duration = Duration::from_secs(10);
const WRITE_EVERY: SignedDuration = SignedDuration::from_mins(5);

/// Keeps the Node object true. `first` is told once it is there.
pub(crate) async fn keep_registered(
    client: Client,
    profile: Profile,
    pressure: impl Fn() -> Pressure,
    first: impl FnOnce(&Node),
) {
    let api: Api<Node> = Api::all(client);
    let mut first = Some(first);
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut was_failing = false;
    loop {
        ticks.tick().await;
        match register(&api, &profile, pressure(), Timestamp::now()).await {
            Ok(node) => {
                if let Some(first) = first.take() {
                    info!(node = profile.name, "registered");
                    first(&node);
                }
                was_failing = false;
            }
            Err(error) if !was_failing => {
                warn!(node = profile.name, %error, "cannot write the Node; will try again");
                was_failing = true;
                // The API may just be starting.
                ticks.reset_after(Duration::from_secs(1));
            }
            Err(_) if first.is_some() => ticks.reset_after(Duration::from_secs(1)),
            Err(_) => {}
        }
    }
}

async fn register(
    api: &Api<Node>,
    profile: &Profile,
    pressure: Pressure,
    now: Timestamp,
) -> Result<Node, kube::Error> {
    let mut node = match api.get_opt(&profile.name).await? {
        Some(node) => node,
        None => match api.create(&PostParams::default(), &profile.new_node()).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                api.get(&profile.name).await?
            }
            other => other?,
        },
    };
    let params = PatchParams::default();
    if let Some(patch) = profile.metadata_patch(&node) {
        node = api.patch(&profile.name, &params, &Patch::Merge(patch)).await?;
    }
    let status = profile.status(node.status.as_ref(), pressure, now);
    if !is_written(node.status.as_ref(), &status)
        || heartbeat_age(node.status.as_ref(), now) >= WRITE_EVERY
    {
        let patch = Patch::Strategic(json!({"status": status}));
        node = api.patch_status(&profile.name, &params, &patch).await?;
    }
    Ok(node)
}

const LEASE_SECONDS: i32 = 40;

/// Renews the Lease for ever.
pub(crate) async fn keep_alive(client: Client, node: String) {
    let api: Api<Lease> = Api::namespaced(client.clone(), NODE_LEASE_NAMESPACE);
    let nodes: Api<Node> = Api::all(client);
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut was_failing = false;
    loop {
        ticks.tick().await;
        match renew(&api, &nodes, &node, Timestamp::now()).await {
            Ok(()) => was_failing = false,
            Err(error) => {
                if !was_failing {
                    warn!(node, %error, "cannot renew the Lease; will try again");
                }
                was_failing = true;
                ticks.reset_after(Duration::from_secs(1));
            }
        }
    }
}

async fn renew(
    api: &Api<Lease>,
    nodes: &Api<Node>,
    name: &str,
    now: Timestamp,
) -> Result<(), kube::Error> {
    let patch = json!({"spec": {
        "holderIdentity": name,
        "leaseDurationSeconds": LEASE_SECONDS,
        "renewTime": MicroTime(now),
    }});
    match api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => {}
        other => return other.map(drop),
    }
    let owner = nodes.get_opt(name).await?;
    match api.create(&PostParams::default(), &new_lease(name, owner.as_ref(), now)).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        other => other.map(drop),
    }
}

/// A Lease that goes when its Node does.
pub(crate) fn new_lease(name: &str, owner: Option<&Node>, now: Timestamp) -> Lease {
    let owner = owner.and_then(|node| node.metadata.uid.clone()).map(|uid| OwnerReference {
        api_version: "v1".into(),
        kind: "Node".into(),
        name: name.to_owned(),
        uid,
        ..OwnerReference::default()
    });
    Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(NODE_LEASE_NAMESPACE.to_owned()),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(name.to_owned()),
            lease_duration_seconds: Some(LEASE_SECONDS),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        let machine = Machine {
            cpu: MilliCpu(4_000),
            memory: Bytes::from_gib(8),
            storage: Bytes::from_gib(100),
            huge_pages: [("2Mi".to_owned(), Bytes::from_gib(1))].into(),
            info: Default::default(),
        };
        Profile {
            name: "n1".into(),
            address: "127.0.0.1".parse().unwrap(),
            labels: [("zone".to_owned(), "a".to_owned())].into(),
            machine,
            reserved: Reserved { cpu: MilliCpu(500), ..Reserved::default() },
            max_pods: 110,
            cgroup: Some("v1"),
            missing: Vec::new(),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn amounts(resources: Option<BTreeMap<String, Quantity>>) -> Vec<String> {
        let resources = resources.unwrap();
        resources.into_iter().map(|(name, amount)| format!("{name}={}", amount.0)).collect()
    }

    #[test]
    fn reserves_and_huge_pages_are_not_for_pods() {
        let status = profile().status(None, Pressure::default(), at(0));
        let capacity =
            ["cpu=4", "ephemeral-storage=100Gi", "hugepages-2Mi=1Gi", "memory=8Gi", "pods=110"];
        assert_eq!(amounts(status.capacity), capacity);
        let allocatable = [
            "cpu=3500m",
            "ephemeral-storage=90Gi",
            "hugepages-2Mi=1Gi",
            "memory=7068Mi",
            "pods=110",
        ];
        assert_eq!(amounts(status.allocatable), allocatable);

        let reserved = Reserved { memory: Bytes(i64::MAX), ..Reserved::default() };
        assert_eq!(Profile { reserved, ..profile() }.allocatable().memory, Bytes::ZERO);
    }

    #[test]
    fn what_the_api_has_is_not_written_again() {
        let first = profile().status(None, Pressure::default(), at(0));
        let later = profile().status(Some(&first), Pressure::default(), at(60));
        assert!(is_written(Some(&first), &later));
        assert!(!is_written(None, &later));
        assert!(heartbeat_age(Some(&first), at(60)) < WRITE_EVERY);
        assert!(heartbeat_age(Some(&first), at(300)) >= WRITE_EVERY);

        let mut shared = first.clone();
        shared.allocatable.as_mut().unwrap().insert("batch".into(), Quantity("5".into()));
        shared.conditions.as_mut().unwrap().push(NodeCondition::default());
        assert!(is_written(Some(&shared), &later), "what others add does not matter");

        let mut marked = first.clone();
        marked.conditions.as_mut().unwrap().last_mut().unwrap().status = "Unknown".into();
        assert!(!is_written(Some(&marked), &later), "what others change does");
        let short =
            profile().status(Some(&first), Pressure { disk: true, ..Pressure::default() }, at(60));
        assert!(!is_written(Some(&first), &short));
    }

    #[test]
    fn times_move_with_the_status_only() {
        let times = |status: &NodeStatus| -> Vec<(String, i64, i64)> {
            let seconds =
                |time: &Option<Time>| time.as_ref().unwrap().0.as_second() - 1_800_000_000;
            let conditions = status.conditions.iter().flatten();
            conditions
                .map(|own| {
                    let times =
                        (seconds(&own.last_transition_time), seconds(&own.last_heartbeat_time));
                    (own.type_.clone(), times.0, times.1)
                })
                .filter(|(kind, ..)| kind == "MemoryPressure" || kind == "Ready")
                .collect()
        };
        let first = profile().status(None, Pressure::default(), at(0));
        let pressure = Pressure { memory: true, ..Pressure::default() };
        let later = profile().status(Some(&first), pressure, at(60));
        assert_eq!(times(&later), [("MemoryPressure".into(), 60, 60), ("Ready".into(), 0, 60)]);
    }

    #[test]
    fn labels_and_annotations_are_put_right_and_no_others_touched() {
        let profile = profile();
        let mut node = profile.new_node();
        assert_eq!(profile.metadata_patch(&node), None);
        let labels = node.metadata.labels.as_mut().unwrap();
        labels.insert("theirs".into(), "x".into());
        labels.insert("kubernetes.io/os".into(), "plan9".into());
        node.metadata.annotations.as_mut().unwrap().insert(MISSING.name.into(), "old".into());
        let want = json!({"metadata": {
            "labels": {"kubernetes.io/os": "linux"},
            "annotations": {(MISSING.name): null},
        }});
        assert_eq!(profile.metadata_patch(&node), Some(want));
    }

    #[test]
    fn what_is_missing_is_said() {
        let profile = Profile { missing: vec!["memory: not mounted".into()], ..profile() };
        let status = profile.status(None, Pressure::default(), at(0));
        let conditions = status.conditions.unwrap();
        let isolation = conditions.iter().find(|own| own.type_ == ISOLATION_CONDITION).unwrap();
        assert_eq!(isolation.status, "False");
        assert_eq!(isolation.message.as_deref(), Some("memory: not mounted"));
        let annotations = profile.new_node().metadata.annotations.unwrap();
        assert_eq!(annotations[MISSING.name], "memory: not mounted");
    }

    #[test]
    fn a_lease_belongs_to_its_node() {
        let mut node = profile().new_node();
        node.metadata.uid = Some("u".into());
        let lease = new_lease("n1", Some(&node), at(0));
        let owners = lease.metadata.owner_references.unwrap();
        assert_eq!((owners[0].kind.as_str(), owners[0].uid.as_str()), ("Node", "u"));
        assert_eq!(new_lease("n1", None, at(0)).metadata.owner_references, None);
    }
}
