//! Is what the caches know after any sequence of events what the cluster says?
//!
//! Random clusters, a thousand each time and ten thousand on request: objects come, change and go, watches are lost and lists made anew,
//! plans are written. At the end the world that lived through all of it must plan exactly what a
//! world plans that sees the final objects for the first time.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::config::Key;
use api::kind::{Device, NodeMetric, NodeResourceTopology, NodeSlo};
use api::resources::WireList;
use control::caches::{Filed, Kind, World};
use control::intake::{InForce, Input, Settings, State};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use overcommit::plan::{Options, Plan};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const THREADS: u64 = 4;

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("below a usize")
    }

    fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.index(items.len())]
    }
}

fn typed<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the object has its kind's shape")
}

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a time")
}

/// The cluster as the API server has it.
#[derive(Default)]
struct Truth {
    version: u64,
    nodes: BTreeMap<String, Node>,
    pods: BTreeMap<String, Pod>,
    metrics: BTreeMap<String, NodeMetric>,
    slos: BTreeMap<String, NodeSlo>,
    topologies: BTreeMap<String, NodeResourceTopology>,
    devices: BTreeMap<String, Device>,
}

fn name(random: &mut Random) -> String {
    format!("n{}", random.below(3))
}

impl Truth {
    fn node(&mut self, random: &mut Random) -> Node {
        self.version += 1;
        let name = name(random);
        let cores = random.one_of(&[16, 64]);
        let mut annotations = json!({});
        if random.below(4) == 0 {
            annotations["node.koordinator.sh/reservation"] = json!(r#"{"resources":{"cpu":"3"}}"#);
        }
        if random.below(6) == 0 {
            let text = random.one_of(&[r#"{"cpuReclaimThresholdPercent":80}"#, "{"]);
            annotations["node.koordinator.sh/colocation-strategy"] = json!(text);
        }
        if random.below(6) == 0 {
            let text = random.one_of(&[
                "{",
                r#"{"allocations":[{"name":"y","priority":"koord-batch","resources":{"kubernetes.io/batch-cpu":"1k"}}]}"#,
            ]);
            annotations["node.koordinator.sh/thirdPartyAllocations"] = json!(text);
        }
        let status = json!({"capacity": {"cpu": cores.to_string(), "memory": "64Gi"},
                            "allocatable": {"cpu": (cores - 1).to_string(), "memory": "60Gi"}});
        let pool = random.one_of(&["a", "b"]);
        let mut node: Node = typed(json!({
            "metadata": {"name": name, "uid": name, "resourceVersion": self.version.to_string(),
                         "labels": {"pool": pool}, "annotations": annotations},
            "status": if random.below(12) == 0 { json!({}) } else { status },
        }));
        // What was written to the node earlier stays on it.
        if let Some(old) = self.nodes.get(&name) {
            let lent = |list: &Option<WireList>| -> WireList {
                let mut list = list.clone().unwrap_or_default();
                list.retain(|key, _| key.contains('/'));
                list
            };
            if let (Some(new), Some(old)) = (&mut node.status, &old.status) {
                new.capacity.get_or_insert_default().extend(lent(&old.capacity));
                new.allocatable.get_or_insert_default().extend(lent(&old.allocatable));
            }
        }
        self.nodes.insert(name, node.clone());
        node
    }

    fn pod(&mut self, random: &mut Random) -> Pod {
        let node = name(random);
        let pod = format!("p{}", random.below(8));
        let phase = random.one_of(&["Running", "Running", "Pending", "Succeeded"]);
        let priority = random.one_of(&[9_500, 7_500, 5_500, 0]);
        let cpu = random.one_of(&["500m", "2", "4"]);
        let qos = random.one_of(&["LS", "LSE", "BE"]);
        let placed = format!(r#"{{"numaNodeResources":[{{"node":{}}}]}}"#, random.below(3));
        let pod: Pod = typed(json!({
            "metadata": {"name": pod, "namespace": "d", "labels": {"koordinator.sh/qosClass": qos},
                "annotations": {"scheduling.koordinator.sh/resource-status": placed}},
            "spec": {"nodeName": node, "priority": priority, "containers": [{"name": "c",
                "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]},
            "status": {"phase": phase},
        }));
        pod
    }

    fn metric(&mut self, random: &mut Random) -> NodeMetric {
        let name = name(random);
        let ago = random.one_of(&[10_i64, 400, 899, 901, -5, -1_000]);
        let updated = now() - SignedDuration::from_secs(ago);
        let usage =
            |cores: u64| json!({"resources": {"cpu": format!("{cores}m"), "memory": "2Gi"}});
        let pods: Vec<Value> = (0..random.below(5))
            .map(|_| {
                let class = random.one_of(&["koord-prod", "koord-batch", "odd"]);
                json!({"namespace": "d", "name": format!("p{}", random.below(8)),
                       "priority": class, "podUsage": usage(random.below(4_000))})
            })
            .collect();
        let node = json!({"nodeUsage": usage(random.below(9_000)), "systemUsage": usage(random.below(2_000))});
        let mut status = json!({"updateTime": updated.to_string(), "podsMetric": pods,
            "prodReclaimableMetric": {"resource": usage(random.below(8_000))}});
        if random.below(10) > 0 {
            status["nodeMetric"] = node;
        }
        let metric: NodeMetric = typed(json!({"apiVersion": "slo.koordinator.sh/v1alpha1",
            "kind": "NodeMetric", "metadata": {"name": name}, "spec": {}, "status": status}));
        self.metrics.insert(name, metric.clone());
        metric
    }

    fn topology(&mut self, random: &mut Random) -> NodeResourceTopology {
        let name = name(random);
        let zone = |index: u64, cores: u64| {
            json!({"name": format!("node-{index}"), "type": "Node", "resources": [
                {"name": "cpu", "capacity": cores.to_string(), "allocatable": cores.to_string(),
                 "available": cores.to_string()}]})
        };
        let cores = random.one_of(&[8, 32]);
        let info = r#"{"cpuModel":"fast","hyperThreadEnabled":true}"#;
        let topology: NodeResourceTopology = typed(json!({
            "metadata": {"name": name, "annotations": {"node.koordinator.sh/cpu-basic-info": info}},
            "zones": [zone(0, cores), zone(1, cores)],
        }));
        self.topologies.insert(name, topology.clone());
        topology
    }

    fn device(&mut self, random: &mut Random) -> Device {
        let name = name(random);
        let health = random.below(2) == 0;
        let device: Device = typed(json!({"apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Device", "metadata": {"name": name}, "spec": {"devices": [
                {"type": "gpu", "health": health, "resources": {"koordinator.sh/gpu-core": "100"}},
                {"type": "rdma", "health": !health}]}}));
        self.devices.insert(name, device.clone());
        device
    }

    /// Shows a world everything of a kind, as after a lost watch.
    fn list(&self, world: &mut World, kind: Kind) {
        fn all<K: Filed>(world: &mut World, objects: &BTreeMap<String, K>) {
            for object in objects.values() {
                object.apply(world);
            }
        }
        world.begin(kind);
        match kind {
            Kind::Node => all(world, &self.nodes),
            Kind::Pod => all(world, &self.pods),
            Kind::Metric => all(world, &self.metrics),
            Kind::Slo => all(world, &self.slos),
            Kind::Topology => all(world, &self.topologies),
            Kind::Device => all(world, &self.devices),
        }
        world.finish(kind);
    }

    /// Writes a plan to the node, as the API server would.
    fn write(&mut self, name: &str, plan: &Plan) -> Option<Node> {
        let write = plan.status.as_ref()?;
        let node = self.nodes.get_mut(name)?;
        self.version += 1;
        node.metadata.resource_version = Some(self.version.to_string());
        let status = node.status.as_mut()?;
        for list in [&mut status.capacity, &mut status.allocatable] {
            let list = list.get_or_insert_default();
            for (resource, amount) in &write.resources {
                match amount {
                    Some(amount) => {
                        list.insert((*resource).to_owned(), api::resources::to_wire(*amount));
                    }
                    None => {
                        list.remove(*resource);
                    }
                }
            }
        }
        if let Some(origin) = &write.origin {
            let key = "node.koordinator.sh/originExtendedAllocatable".to_owned();
            node.metadata.annotations.get_or_insert_default().insert(key, origin.clone());
        }
        Some(node.clone())
    }
}

/// Removes one object, and tells the world unless its watch is lost.
fn remove<K: Filed>(objects: &mut BTreeMap<String, K>, key: &str, world: Option<&mut World>) {
    if let Some(object) = objects.remove(key)
        && let Some(world) = world
    {
        object.remove(world);
    }
}

fn step(random: &mut Random, truth: &mut Truth, world: &mut World, lost: &mut Vec<Kind>) {
    let kind = random.one_of(&Kind::ALL);
    if random.below(12) == 0 {
        lost.push(kind);
    }
    let is_lost = lost.contains(&kind);
    let is_deleted = random.below(5) == 0;
    let (node, pod) = (name(random), format!("p{}", random.below(8)));
    let seen = if is_lost { None } else { Some(world) };
    match (kind, is_deleted) {
        (Kind::Node, true) => remove(&mut truth.nodes, &node, seen),
        (Kind::Pod, true) => remove(&mut truth.pods, &pod, seen),
        (Kind::Metric, true) => remove(&mut truth.metrics, &node, seen),
        (Kind::Slo, true) => remove(&mut truth.slos, &node, seen),
        (Kind::Topology, true) => remove(&mut truth.topologies, &node, seen),
        (Kind::Device, true) => remove(&mut truth.devices, &node, seen),
        (Kind::Node, false) => tell(&truth.node(random), seen),
        (Kind::Pod, false) => {
            let pod = truth.pod(random);
            let key = pod.metadata.name.clone().expect("pods here have names");
            // A pod never moves: one of the same name elsewhere means that the first is gone.
            let mut seen = seen;
            remove(&mut truth.pods, &key, seen.as_deref_mut());
            truth.pods.insert(key, pod.clone());
            tell(&pod, seen);
        }
        (Kind::Metric, false) => tell(&truth.metric(random), seen),
        (Kind::Slo, false) => {
            let slo = NodeSlo::new(&node, Default::default());
            truth.slos.insert(node, slo.clone());
            tell(&slo, seen);
        }
        (Kind::Topology, false) => tell(&truth.topology(random), seen),
        (Kind::Device, false) => tell(&truth.device(random), seen),
    }
}

fn tell(object: &impl Filed, world: Option<&mut World>) {
    if let Some(world) = world {
        object.apply(world);
    }
}

fn configs() -> Vec<Arc<InForce>> {
    let mut state = State::new(&Settings::default());
    let texts = [
        r#"{"enable":true,"cpuReclaimThresholdPercent":70,"midUnallocatedPercent":20}"#,
        r#"{"enable":true,"memoryCalculatePolicy":"request","nodeConfigs":[
            {"name":"b","nodeSelector":{"matchLabels":{"pool":"b"}},"enable":false}]}"#,
        r#"{"enable":false}"#,
    ];
    let normalization = r#"{"enable":true,"ratioModel":{"fast":{"hyperThreadEnabledRatio":1.2}}}"#;
    texts
        .into_iter()
        .map(|text| {
            let data = [(Key::Colocation, text), (Key::Normalization, normalization)];
            let data = data.map(|(key, text)| (key.name().to_owned(), text.to_owned()));
            state.next(Input::Data(data.into())).expect("each text is new").in_force
        })
        .collect()
}

fn cluster(seed: u64, configs: &[Arc<InForce>]) {
    let mut random = Random(seed);
    let (mut truth, mut world) = (Truth::default(), World::default());
    let (mut lost, options) = (Vec::new(), Options::default());
    for kind in Kind::ALL {
        truth.list(&mut world, kind);
    }
    for _ in 0..12 + random.below(12) {
        step(&mut random, &mut truth, &mut world, &mut lost);
        if random.below(4) == 0 {
            let (name, config) = (name(&mut random), &configs[random.index(configs.len())]);
            let earlier = now() - SignedDuration::from_secs(600);
            if let Some(plan) = world.plan(&name, config, &options, earlier)
                && !lost.contains(&Kind::Node)
                && let Some(written) = truth.write(&name, &plan)
            {
                written.apply(&mut world);
                world.synced(&name, earlier);
            }
        }
    }
    for kind in lost {
        truth.list(&mut world, kind);
    }
    let mut fresh = World::default();
    for kind in Kind::ALL {
        truth.list(&mut fresh, kind);
    }
    let names = |world: &World| -> Vec<String> {
        let mut names: Vec<String> = world.names().map(ToString::to_string).collect();
        names.sort();
        names
    };
    assert_eq!(names(&world), names(&fresh), "seed {seed}");
    let config = &configs[random.index(configs.len())];
    for name in names(&fresh) {
        let lived = world.plan(&name, config, &options, now());
        let scratch = fresh.plan(&name, config, &options, now());
        assert_eq!(lived, scratch, "seed {seed}, {name}");
    }
}

/// `cargo xtask test` asks for ten thousand.
#[test]
fn clusters_agree_with_a_fresh_look() {
    let is_whole = std::env::var_os("TIDEPOOL_TEST_LENGTH").is_some_and(|length| length == "whole");
    agree(0..if is_whole { 10_000 } else { 1_000 });
}

fn agree(seeds: std::ops::Range<u64>) {
    let configs = configs();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (configs, seeds) = (&configs, seeds.clone());
            scope.spawn(move || {
                for seed in seeds.filter(|seed| seed % THREADS == thread) {
                    cluster(seed, configs);
                }
            });
        }
    });
}
