//! What do the clients write? Pods and nodes about as large as they are in the field.

use serde_json::{Value, json};

/// Marks the nodes of a measurement, so that it can take them away again.
pub(super) const NODE_LABEL: &str = "tidepool-bench";

pub(super) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "bench", "koordinator.sh/qosClass": "LS"},
            "annotations": {"note": "a line of text as tools like to leave it on pods"}},
        "spec": {"automountServiceAccountToken": false, "containers": [{
            "name": "main",
            "image": "registry.example/bench:1",
            "command": ["/bin/serve", "--port", "8080"],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "ports": [{"containerPort": 8080}],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"},
                "limits": {"cpu": "1", "memory": "128Mi"}},
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}},
        }]},
    })
}

pub(super) fn binding(pod: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node}})
}

pub(super) fn pod_status() -> Value {
    const SINCE: &str = "2026-01-01T00:00:00Z";
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": SINCE});
    json!({"status": {
        "phase": "Running",
        "hostIP": "10.1.0.1",
        "podIP": "10.0.0.1",
        "podIPs": [{"ip": "10.0.0.1"}],
        "startTime": SINCE,
        "conditions": [condition("Initialized"), condition("Ready"), condition("ContainersReady"),
            condition("PodScheduled")],
        "containerStatuses": [{
            "name": "main",
            "image": "registry.example/bench:1",
            "imageID": "registry.example/bench@sha256:0000",
            "containerID": "containerd://0000000000000000",
            "ready": true,
            "started": true,
            "restartCount": 0,
            "state": {"running": {"startedAt": SINCE}},
        }],
    }})
}

pub(super) fn node_name(number: usize) -> String {
    format!("tidepool-bench-{number:05}")
}

pub(super) fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {
            NODE_LABEL: "",
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/zone": "zone-a",
        }},
        "spec": {"podCIDR": "10.0.0.0/24"},
    })
}

pub(super) fn node_status() -> Value {
    const SEEN: &str = "2026-01-01T00:00:00Z";
    let resources = json!({"cpu": "64", "memory": "262144000Ki", "pods": "110",
        "ephemeral-storage": "524288000Ki", "hugepages-2Mi": "0"});
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": "Kubelet", "message": "as expected",
            "lastHeartbeatTime": SEEN, "lastTransitionTime": SEEN})
    };
    json!({"status": {
        "capacity": resources,
        "allocatable": resources,
        "conditions": [condition("MemoryPressure", "False"), condition("DiskPressure", "False"),
            condition("PIDPressure", "False"), condition("Ready", "True")],
        "addresses": [{"type": "InternalIP", "address": "10.1.0.1"},
            {"type": "Hostname", "address": "node"}],
        "nodeInfo": {
            "machineID": "0", "systemUUID": "0", "bootID": "0", "kernelVersion": "6.1.0",
            "osImage": "Linux", "containerRuntimeVersion": "containerd://2.1.0",
            "kubeletVersion": "v1.35.0", "kubeProxyVersion": "", "operatingSystem": "linux",
            "architecture": "amd64",
        },
    }})
}
