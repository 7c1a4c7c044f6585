//! What hollow nodes write.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use api::protocol::node::HOLLOW;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, NodeStatus, NodeSystemInfo};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use serde_json::{Value, json};

use super::HollowConfig;

/// Addresses of a node's pods are taken from a range of its own.
const ADDRESSES_PER_NODE: u32 = 1_024;

pub(super) fn node(config: &HollowConfig, name: &str, number: u32, now: Timestamp) -> Node {
    let own = [
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        (HOLLOW.name, "true"),
    ];
    let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let amounts = BTreeMap::from([
        ("cpu".to_owned(), Quantity(config.cpu.to_string())),
        ("memory".to_owned(), Quantity(config.memory.to_string())),
        ("ephemeral-storage".to_owned(), Quantity("1Ti".to_owned())),
        ("pods".to_owned(), Quantity(config.max_pods.to_string())),
    ]);
    let address = |kind: &str, value: String| NodeAddress { type_: kind.into(), address: value };
    Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(config.labels.clone().into_iter().chain(own).collect()),
            ..ObjectMeta::default()
        },
        status: Some(NodeStatus {
            capacity: Some(amounts.clone()),
            allocatable: Some(amounts),
            addresses: Some(vec![
                address("InternalIP", address_of(number, 0).to_string()),
                address("Hostname", name.to_owned()),
            ]),
            conditions: Some(conditions(now)),
            node_info: Some(NodeSystemInfo {
                architecture: "amd64".into(),
                operating_system: "linux".into(),
                os_image: "none".into(),
                kernel_version: "none".into(),
                container_runtime_version: format!("hollow://{}", env!("CARGO_PKG_VERSION")),
                kubelet_version: format!("v1.35.0+tidepool.{}", env!("CARGO_PKG_VERSION")),
                ..NodeSystemInfo::default()
            }),
            ..NodeStatus::default()
        }),
        ..Node::default()
    }
}

fn conditions(now: Timestamp) -> Vec<NodeCondition> {
    let condition = |kind: &str, holds: bool| NodeCondition {
        type_: kind.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: Some("Hollow".to_owned()),
        message: Some("there is no machine behind this node".to_owned()),
        last_heartbeat_time: Some(stamp(now)),
        last_transition_time: Some(stamp(now)),
    };
    vec![
        condition("MemoryPressure", false),
        condition("DiskPressure", false),
        condition("PIDPressure", false),
        condition("Ready", true),
    ]
}

/// The `slot`-th address of a node; slot 0 is the node's own.
pub(super) fn address_of(node: u32, slot: u32) -> Ipv4Addr {
    let base = u32::from(Ipv4Addr::new(10, 0, 0, 0));
    let offset = node.wrapping_mul(ADDRESSES_PER_NODE).wrapping_add(slot % ADDRESSES_PER_NODE);
    Ipv4Addr::from(base | (offset & 0x00ff_ffff))
}

pub(super) fn renewal(node: &str, now: Timestamp) -> Value {
    json!({"spec": {"holderIdentity": node, "renewTime": MicroTime(now)}})
}

fn stamp(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// What is said about the containers of a pod.
#[derive(Debug)]
pub(super) struct Told<'a> {
    pub(super) uid: &'a str,
    /// Names and images.
    pub(super) containers: &'a [(String, String)],
    pub(super) init_containers: &'a [(String, String)],
    pub(super) host: Ipv4Addr,
    pub(super) address: Ipv4Addr,
    pub(super) started_at: Timestamp,
    pub(super) now: Timestamp,
}

impl Told<'_> {
    pub(super) fn running(&self) -> Value {
        let state = json!({"running": {"startedAt": stamp(self.now)}});
        self.status("Running", true, None, &state)
    }

    pub(super) fn finished(&self, exit_code: i32) -> Value {
        let (phase, reason, why) = match exit_code {
            0 => ("Succeeded", "Completed", "PodCompleted"),
            _ => ("Failed", "Error", "PodFailed"),
        };
        let state = json!({"terminated": {
            "exitCode": exit_code,
            "reason": reason,
            "startedAt": stamp(self.started_at),
            "finishedAt": stamp(self.now),
        }});
        self.status(phase, false, Some(why), &state)
    }

    fn status(&self, phase: &str, is_ready: bool, why: Option<&str>, state: &Value) -> Value {
        let now = stamp(self.now);
        let condition = |kind: &str, holds: bool, why: Option<&str>| {
            let status = if holds { "True" } else { "False" };
            json!({"type": kind, "status": status, "reason": why, "lastTransitionTime": now})
        };
        let container = |(name, image): &(String, String), state: &Value, is_ready: bool| {
            json!({
                "name": name, "image": image, "imageID": "", "ready": is_ready, "restartCount": 0,
                "started": is_ready, "containerID": format!("hollow://{}-{name}", self.uid), "state": state,
            })
        };
        let done = json!({"terminated": {
            "exitCode": 0, "reason": "Completed",
            "startedAt": stamp(self.started_at), "finishedAt": stamp(self.started_at),
        }});
        let inits = self.init_containers.iter().map(|own| container(own, &done, true));
        let inits: Vec<Value> = inits.collect();
        let own = self.containers.iter().map(|own| container(own, state, is_ready));
        let mut status = json!({
            "phase": phase,
            "startTime": stamp(self.started_at),
            "hostIP": self.host.to_string(),
            "hostIPs": [{"ip": self.host.to_string()}],
            "podIP": self.address.to_string(),
            "podIPs": [{"ip": self.address.to_string()}],
            "conditions": [
                condition("PodReadyToStartContainers", is_ready, None),
                condition("Initialized", true, None),
                condition("Ready", is_ready, why),
                condition("ContainersReady", is_ready, why),
                condition("PodScheduled", true, None),
            ],
            "containerStatuses": own.collect::<Vec<_>>(),
        });
        if !inits.is_empty() {
            status["initContainerStatuses"] = Value::Array(inits);
        }
        json!({"metadata": {"uid": self.uid}, "status": status})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_nodes_do_not_meet() {
        assert_eq!(address_of(0, 1).to_string(), "10.0.0.1");
        assert_eq!(address_of(1, 0).to_string(), "10.0.4.0");
        assert_eq!(address_of(9_999, 1_023).to_string(), "10.156.63.255");
        assert_eq!(address_of(1, 1_024), address_of(1, 0));
    }

    #[test]
    fn a_finished_pod_says_how() {
        let told = Told {
            uid: "u",
            containers: &[("c".into(), "i".into())],
            init_containers: &[("i".into(), "i".into())],
            host: address_of(0, 0),
            address: address_of(0, 1),
            started_at: Timestamp::UNIX_EPOCH,
            now: Timestamp::UNIX_EPOCH,
        };
        let phase = |value: &Value| value["status"]["phase"].as_str().unwrap().to_owned();
        assert_eq!(phase(&told.running()), "Running");
        assert_eq!(phase(&told.finished(0)), "Succeeded");
        let failed = told.finished(3);
        assert_eq!(phase(&failed), "Failed");
        let state = &failed["status"]["containerStatuses"][0]["state"]["terminated"];
        assert_eq!((&state["exitCode"], &state["reason"]), (&json!(3), &json!("Error")));
        assert_eq!(failed["status"]["initContainerStatuses"][0]["ready"], json!(true));
    }
}
