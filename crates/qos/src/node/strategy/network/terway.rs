//! The two files that terway's daemon reads.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{bits, tier_of};
use crate::node::{Pod, State};

pub(super) const GLOBAL: &str = "global_bps_config";
pub(super) const PODS: &str = "pod.json";

/// Where terway looks for a pod's packets; it knows them by their v1 group.
const NET_CLS: &str = "/sys/fs/cgroup/net_cls";

/// A pod, as terway spells it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    pod_name: String,
    pod_namespace: String,
    #[serde(rename = "podUID")]
    pod_uid: String,
    prio: u8,
    cgroup_dir: String,
    qos_config: Limits,
}

/// Bytes a second; 0 is none.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Limits {
    ingress_bandwidth: u64,
    egress_bandwidth: u64,
}

/// Terway's directory in a container of the reference's chart, or on the host itself.
pub(super) const DIRS: [&str; 2] = ["/host-var-lib/terway", "/var/lib/terway"];

/// The directory for files of this kind, below the first of terway's that is there.
pub(super) fn dir(state: &State) -> Result<String, String> {
    let found = DIRS.iter().find(|dir| state.machine.directories.contains(**dir));
    let [_, on_host] = DIRS;
    let missing = || format!("terway is not installed: there is no {on_host}");
    found.map(|dir| format!("{dir}/qos")).ok_or_else(missing)
}

/// All pods of the node.
pub(super) fn pods(state: &State) -> String {
    let pods: BTreeMap<String, Entry> =
        state.every_pod().map(|pod| (pod.uid.clone(), entry(pod))).collect();
    // Strings and numbers always have a text.
    serde_json::to_string(&pods).unwrap_or_default()
}

fn entry(pod: &Pod) -> Entry {
    let own = pod.annotations.network_qos.as_ref();
    let bytes = |limit: Option<units::Quantity>| limit.and_then(bits).unwrap_or_default() / 8;
    Entry {
        pod_name: pod.name.clone(),
        pod_namespace: pod.namespace.clone(),
        pod_uid: pod.uid.clone(),
        prio: tier_of(pod).terway(),
        cgroup_dir: format!("{NET_CLS}/{}", pod.cgroup.as_str()),
        qos_config: Limits {
            ingress_bandwidth: bytes(own.and_then(|own| own.ingress_limit)),
            egress_bandwidth: bytes(own.and_then(|own| own.egress_limit)),
        },
    }
}
