use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::node::{Pod, next};

/// Two sockets, one NUMA node each, two cores of two threads: siblings are 4 apart.
fn machine() -> Machine {
    let cpus = (0..8).map(|id: u16| {
        let core = id % 4;
        units::Cpu { id, core, socket: core / 2, numa: core / 2 }
    });
    let numa = (0..2).map(|id| NumaNode {
        id,
        memory: Bytes::from_gib(8),
        huge_2mi: Bytes::from_mib(512),
        huge_1gi: Bytes::from_gib(1),
    });
    let basic = CpuBasicInfo {
        cpu_model: "Some CPU".to_owned(),
        hyper_thread_enabled: true,
        ..Default::default()
    };
    Machine { cpus: cpus.collect(), basic, numa: numa.collect() }
}

fn node(metadata: Value) -> Node {
    serde_json::from_value(json!({
        "metadata": metadata,
        "status": {
            "capacity": { "cpu": "8", "memory": "16Gi" },
            "allocatable": { "cpu": "7", "memory": "15Gi" },
        },
    }))
    .unwrap()
}

fn pod(uid: &str, qos: &str, cpus: &str, phase: &str) -> Pod {
    let pod = serde_json::from_value(json!({
        "metadata": {
            "namespace": "d", "name": uid, "uid": uid,
            "labels": { "koordinator.sh/qosClass": qos },
            "annotations": { "scheduling.koordinator.sh/resource-status": json!({ "cpuset": cpus }).to_string() },
        },
        "status": { "phase": phase },
    }));
    Pod::read(&pod.unwrap(), &groups::Layout::one_machine()).unwrap()
}

fn pods(all: Vec<Pod>) -> Pods {
    next(&Arc::default(), all)
}

/// A node that nothing is said about.
struct World {
    machine: Machine,
    node: Node,
    pods: Pods,
    kubelet: Option<KubeletConfig>,
    bound: CpuState,
    huge_pages: bool,
}

impl Default for World {
    fn default() -> Self {
        Self {
            machine: machine(),
            node: node(json!({ "name": "n1", "uid": "u" })),
            pods: Pods::default(),
            kubelet: None,
            bound: CpuState::default(),
            huge_pages: false,
        }
    }
}

impl World {
    fn compute(&self) -> Result<Topology, TopologyError> {
        compute(&Inputs {
            machine: &self.machine,
            node: &self.node,
            pods: &self.pods,
            kubelet: self.kubelet.as_ref(),
            bound: &self.bound,
            huge_pages: self.huge_pages,
        })
    }

    fn annotation(&self, key: &str) -> String {
        self.compute().unwrap().annotations[key].clone()
    }
}

fn kubelet(answer: Value) -> Option<KubeletConfig> {
    let answer = json!({ "kubeletconfig": answer }).to_string();
    Some(kubelet::parse(answer.as_bytes()).unwrap())
}

const STATIC: &str = "static";

#[test]
fn a_plain_node_shares_everything() {
    let topology = World::default().compute().unwrap();
    let object = object::create("n1", object::owner(&World::default().node), &topology);
    insta::assert_yaml_snapshot!(object);
}

#[test]
fn pools_lose_what_others_hold() {
    let shared = |world: &World| world.annotation("node.koordinator.sh/cpu-shared-pools");
    let best_effort = |world: &World| world.annotation("node.koordinator.sh/be-cpu-shared-pools");
    let bound = || World {
        pods: pods(vec![
            pod("lse", "LSE", "0,4", "Running"),
            pod("lsr", "LSR", "1,5", "Running"),
            pod("over", "LSE", "2,6", "Succeeded"),
        ]),
        ..World::default()
    };
    let world = bound();
    assert_eq!(shared(&world), r#"[{"socket":1,"node":1,"cpuset":"2-3,6-7"}]"#);
    assert_eq!(
        best_effort(&world),
        r#"[{"socket":0,"node":0,"cpuset":"1,5"},{"socket":1,"node":1,"cpuset":"2-3,6-7"}]"#,
        "best effort may run beside LSR, and a pod that ended holds nothing"
    );
    let annotations = json!({
        "node.koordinator.sh/reservation": r#"{"reservedCPUs":"2"}"#,
        "node.koordinator.sh/system-qos-resource": r#"{"cpuset":"3,6-7"}"#,
    });
    let world =
        World { node: node(json!({ "name": "n1", "annotations": annotations })), ..bound() };
    assert_eq!(shared(&world), r#"[{"socket":1,"node":1}]"#, "an empty pool is named without CPUs");
    let annotations = json!({
        "node.koordinator.sh/system-qos-resource": r#"{"cpuset":"3","cpusetExclusive":false}"#,
    });
    let world =
        World { node: node(json!({ "name": "n1", "annotations": annotations })), ..bound() };
    assert_eq!(shared(&world), r#"[{"socket":1,"node":1,"cpuset":"2-3,6-7"}]"#);
    let all = World { pods: pods(vec![pod("all", "LSE", "0-7", "Running")]), ..World::default() };
    assert_eq!((shared(&all), best_effort(&all)), ("[]".to_owned(), "[]".to_owned()));
}

#[test]
fn the_kubelet_s_static_policy_binds_too() {
    let state = r#"{"policyName":"static","entries":{
        "unknown":{"c":"0"},"ours":{"c":"1"},"label":{"c":"2"},"plain":{"c":"3"}}}"#;
    let world = World {
        kubelet: kubelet(json!({ "cpuManagerPolicy": STATIC, "reservedSystemCPUs": "7" })),
        bound: cpu_state::parse(state).unwrap(),
        pods: pods(vec![
            pod("ours", "LSR", "1", "Running"),
            pod("label", "LS", "", "Running"),
            pod("plain", "", "", "Running"),
        ]),
        ..World::default()
    };
    assert_eq!(
        world.annotation("node.koordinator.sh/pod-cpu-allocs"),
        r#"[{"namespace":"d","name":"plain","uid":"plain","cpuset":"3","managedByKubelet":true},{"uid":"unknown","cpuset":"0","managedByKubelet":true}]"#
    );
    assert_eq!(
        world.annotation("node.koordinator.sh/cpu-shared-pools"),
        r#"[{"socket":0,"node":0,"cpuset":"4-5"},{"socket":1,"node":1,"cpuset":"2,6-7"}]"#,
        "what the kubelet reserves stays in the pool"
    );
    let none = World { kubelet: kubelet(json!({ "cpuManagerPolicy": "none" })), ..world };
    assert_eq!(none.annotation("node.koordinator.sh/pod-cpu-allocs"), "null");
}

#[test]
fn the_kubelet_s_reserved_cpus_are_named() {
    let key = "kubelet.koordinator.sh/cpu-manager-policy";
    let cases = [
        ("not asked", None, "{}"),
        (
            "no static policy",
            Some(json!({ "cpuManagerPolicy": "none", "reservedSystemCPUs": "0" })),
            r#"{"policy":"none"}"#,
        ),
        (
            "named",
            Some(json!({ "cpuManagerPolicy": STATIC, "reservedSystemCPUs": "0,4" })),
            r#"{"policy":"static","reservedCPUs":"0,4"}"#,
        ),
        (
            "named wrongly",
            Some(json!({ "cpuManagerPolicy": STATIC, "reservedSystemCPUs": "0,64" })),
            r#"{"policy":"static"}"#,
        ),
        (
            "counted",
            Some(
                json!({ "cpuManagerPolicy": STATIC, "kubeReserved": { "cpu": "1500m" }, "systemReserved": { "cpu": "100m" },
                "cpuManagerPolicyOptions": { "full-pcpus-only": "true" } }),
            ),
            r#"{"policy":"static","options":{"full-pcpus-only":"true"},"reservedCPUs":"0,4"}"#,
        ),
        ("counted as none", Some(json!({ "cpuManagerPolicy": STATIC })), r#"{"policy":"static"}"#),
        (
            "too many",
            Some(json!({ "cpuManagerPolicy": STATIC, "kubeReserved": { "cpu": "9" } })),
            r#"{"policy":"static"}"#,
        ),
    ];
    for (name, config, want) in cases {
        let world = World { kubelet: config.and_then(kubelet), ..World::default() };
        assert_eq!(world.annotation(key), want, "{name}");
    }
}

#[test]
fn the_operator_s_reservation_is_resolved() {
    let cases = [
        ("absent", None, "{}"),
        ("unreadable", Some("{"), "{}"),
        ("not an object", Some("[]"), "{}"),
        ("named, not normal", Some(r#"{"reservedCPUs":"1,0,2-3"}"#), r#"{"reservedCPUs":"0-3"}"#),
        (
            "named wrongly",
            Some(r#"{"reservedCPUs":"a","applyPolicy":"Default"}"#),
            r#"{"applyPolicy":"Default"}"#,
        ),
        (
            "counted",
            Some(r#"{"resources":{"cpu":"1500m"}}"#),
            r#"{"resources":{"cpu":"1500m"},"reservedCPUs":"0,4"}"#,
        ),
        (
            "memory only",
            Some(r#"{"resources":{"memory":"1Gi"}}"#),
            r#"{"resources":{"memory":"1Gi"}}"#,
        ),
    ];
    for (name, text, want) in cases {
        let annotations = text.map(|text| json!({ "node.koordinator.sh/reservation": text }));
        let world = World {
            node: node(json!({ "name": "n1", "annotations": annotations })),
            ..World::default()
        };
        assert_eq!(world.annotation("node.koordinator.sh/reservation"), want, "{name}");
    }
}

#[test]
fn system_cpus_that_cannot_be_read_stop_the_round() {
    let with = |annotations: Value| World {
        node: node(json!({ "name": "n1", "annotations": annotations })),
        ..World::default()
    };
    let key = "node.koordinator.sh/system-qos-resource";
    assert_eq!(with(Value::Null).annotation(key), "null");
    assert_eq!(with(json!({ "other": "x" })).annotation(key), "{}");
    assert_eq!(with(json!({ key: r#"{"cpuset":"1"}"# })).annotation(key), r#"{"cpuset":"1"}"#);
    assert!(matches!(with(json!({ key: "{" })).compute(), Err(TopologyError::SystemQos { .. })));
}

#[test]
fn policy_and_scope_are_one_word() {
    let cases = [
        (json!({}), "None"),
        (json!({ "topologyManagerPolicy": "none", "topologyManagerScope": "pod" }), "None"),
        (
            json!({ "topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "container" }),
            "SingleNUMANodeContainerLevel",
        ),
        (
            json!({ "topologyManagerPolicy": "restricted", "topologyManagerScope": "pod" }),
            "RestrictedPodLevel",
        ),
        (
            json!({ "topologyManagerPolicy": "best-effort", "topologyManagerScope": "pod" }),
            "BestEffortPodLevel",
        ),
        (json!({ "topologyManagerPolicy": "best-effort" }), "None"),
    ];
    for (config, want) in cases {
        let world = World { kubelet: kubelet(config.clone()), ..World::default() };
        assert_eq!(world.compute().unwrap().policy, want, "{config}");
    }
}

fn amounts(world: &World) -> Vec<String> {
    let zones = world.compute().unwrap().zones;
    let zone = zones.first().unwrap();
    zone.resources.iter().map(|r| format!("{} {}/{}", r.name, r.allocatable, r.capacity)).collect()
}

#[test]
fn zones_count_huge_pages_only_when_asked() {
    assert_eq!(
        amounts(&World::default()),
        ["cpu 4/4", "hugepages-1Gi 0/0", "hugepages-2Mi 0/0", "memory 8Gi/8Gi"]
    );
    let huge = World { huge_pages: true, ..World::default() };
    assert_eq!(
        amounts(&huge),
        ["cpu 4/4", "hugepages-1Gi 1Gi/1Gi", "hugepages-2Mi 512Mi/512Mi", "memory 6656Mi/6656Mi"]
    );
}

#[test]
fn zones_give_their_share_of_what_the_node_keeps() {
    let labels = json!({ "node.koordinator.sh/enable-numa-reservation": "true" });
    let world = World { node: node(json!({ "name": "n1", "labels": labels })), ..World::default() };
    assert_eq!(
        amounts(&world),
        ["cpu 3500m/4", "hugepages-1Gi 0/0", "hugepages-2Mi 0/0", "memory 7680Mi/8Gi"]
    );
    let labels = &world.compute().unwrap().labels;
    assert_eq!(labels.get("node.koordinator.sh/enable-numa-reservation").unwrap(), "true");
}

#[test]
fn a_machine_that_contradicts_itself_is_not_reported() {
    let mut world = World::default();
    world.machine.numa.pop();
    assert_eq!(world.compute(), Err(TopologyError::NumaCount { cpus: 2, memory: 1 }));
    world.machine.cpus = CpuLayout::default();
    assert_eq!(world.compute(), Err(TopologyError::NoCpus));
}

mod written {
    use api::kind::NodeResourceTopology;
    use api::kind::node_topology::{Attribute, ZoneResource};

    use super::*;

    fn object(topology: &Topology) -> NodeResourceTopology {
        let mut object = object::create("n1", None, topology);
        object.metadata.resource_version = Some("7".to_owned());
        object
    }

    #[test]
    fn an_object_that_says_it_all_is_left_alone() {
        let topology = World::default().compute().unwrap();
        let mut same = object(&topology);
        assert_eq!(object::patch(&same, &topology), None);
        let annotations = same.metadata.annotations.as_mut().unwrap();
        let pools = annotations.get_mut("node.koordinator.sh/cpu-shared-pools").unwrap();
        *pools = pools.replace(':', " : ");
        assert_eq!(object::patch(&same, &topology), None, "spaces are no difference");
    }

    #[test]
    fn what_others_wrote_into_a_zone_stays() {
        let topology = World::default().compute().unwrap();
        let mut known = object(&topology);
        let batch = ZoneResource {
            name: "kubernetes.io/batch-cpu".to_owned(),
            capacity: "1000".parse().unwrap(),
            allocatable: "1000".parse().unwrap(),
            available: "1000".parse().unwrap(),
        };
        known.zones[0].resources.push(batch.clone());
        known.zones[0].attributes.push(Attribute { name: "a".to_owned(), value: "b".to_owned() });
        assert_eq!(object::patch(&known, &topology), None);

        known.zones[0].resources[0].capacity = "1".parse().unwrap();
        known.zones[1].name = "node-7".to_owned();
        let patch = object::patch(&known, &topology).unwrap();
        let zones = patch["zones"].as_array().unwrap();
        let names: Vec<_> = zones.iter().map(|zone| zone["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["node-0", "node-1"], "zones that are not there go");
        let resources: Vec<_> = zones[0]["resources"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| r["name"].as_str().unwrap())
            .collect();
        assert_eq!(
            resources,
            ["cpu", "hugepages-1Gi", "hugepages-2Mi", "kubernetes.io/batch-cpu", "memory"]
        );
        assert_eq!(zones[0]["attributes"][0]["name"], "a");
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        assert_eq!(patch["metadata"]["annotations"], json!({}), "only what differs is written");
    }

    #[test]
    fn a_changed_policy_and_annotation_are_patched() {
        let topology = World::default().compute().unwrap();
        let mut known = object(&topology);
        known.topology_policies = vec!["RestrictedPodLevel".to_owned()];
        known.metadata.annotations.as_mut().unwrap().remove("node.koordinator.sh/cpu-topology");
        let patch = object::patch(&known, &topology).unwrap();
        assert_eq!(patch["topologyPolicies"], json!(["None"]));
        assert_eq!(patch["metadata"]["annotations"].as_object().unwrap().len(), 1);
        assert_eq!(patch.get("zones"), None);
    }
}
