//! Silence, from one node and from all.

use k8s_openapi::{api::coordination::v1::LeaseSpec, apimachinery::pkg::apis::meta::v1::MicroTime};

use super::*;
use crate::{
    controllers::fixture::{NOW, ago, ahead, meta, node, pod, tainted},
    well_known::{TAINT_MEMORY_PRESSURE, TAINT_NOT_READY, TAINT_UNREACHABLE, TAINT_UNSCHEDULABLE},
};

const GRACE: SignedDuration = SignedDuration::from_secs(40);

/// Nodes over time; every node in `beating` renews its lease before each look.
struct World {
    nodes: Vec<Node>,
    leases: HashMap<String, Arc<Lease>>,
    memory: Memory,
}

impl World {
    fn new(names: &[&str]) -> Self {
        let nodes = names.iter().map(|name| node(name)).collect();
        Self { nodes, leases: HashMap::new(), memory: Memory::default() }
    }

    fn look(&mut self, beating: &[&str], now: Timestamp) -> Vec<Action> {
        for name in beating {
            let spec = LeaseSpec { renew_time: Some(MicroTime(now)), ..LeaseSpec::default() };
            let lease = Lease { metadata: meta(name), spec: Some(spec) };
            self.leases.insert((*name).to_owned(), Arc::new(lease));
        }
        let nodes: Vec<_> = self.nodes.iter().cloned().map(Arc::new).collect();
        let observed = Observed { nodes: &nodes, leases: &self.leases, grace: GRACE };
        let plan = plan(&observed, &self.memory, now);
        self.memory = plan.memory;
        for action in plan.actions.clone() {
            let (Action::Conditions { node, .. } | Action::Taints { node, .. }) = &action;
            let same = |known: &&mut Node| known.metadata.name == node.metadata.name;
            let node = self.nodes.iter_mut().find(same).unwrap();
            match action {
                Action::Conditions { conditions, .. } => {
                    node.status.get_or_insert_default().conditions = Some(conditions);
                }
                Action::Taints { taints, .. } => {
                    node.spec.get_or_insert_default().taints = Some(taints);
                }
            }
        }
        plan.actions
    }

    fn taints(&self, name: &str) -> Vec<String> {
        let node = self.nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name));
        let taints = node.unwrap().spec.as_ref().unwrap().taints.clone().unwrap_or_default();
        let mut texts: Vec<_> =
            taints.iter().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect();
        texts.sort();
        texts
    }

    fn ready(&self, name: &str) -> (String, String) {
        let node = self.nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name));
        let ready = condition(node.unwrap(), "Ready").unwrap();
        (ready.status.clone(), ready.reason.clone().unwrap_or_default())
    }
}

fn both(key: &str) -> Vec<String> {
    vec![format!("{key}:NoExecute"), format!("{key}:NoSchedule")]
}

#[test]
fn a_silent_node_becomes_unknown_and_comes_back() {
    let mut world = World::new(&["n1", "n2"]);
    assert_eq!(world.look(&["n1", "n2"], NOW), []);
    assert_eq!(world.look(&["n2"], ahead(40)), [], "exactly the grace period is fine");
    world.look(&["n2"], ahead(41));
    assert_eq!(world.ready("n1"), ("Unknown".into(), "NodeStatusUnknown".into()));
    assert_eq!(world.ready("n2"), ("True".into(), "KubeletReady".into()));
    assert_eq!(world.taints("n1"), both(TAINT_UNREACHABLE));
    assert_eq!(world.look(&["n2"], ahead(46)), [], "said once");

    // The node itself reports that it is well again.
    world.nodes[0] = Node { spec: world.nodes[0].spec.clone(), ..node("n1") };
    let conditions = world.nodes[0].status.as_mut().unwrap().conditions.as_mut().unwrap();
    conditions[0].last_heartbeat_time = Some(stamp(ahead(50)));
    world.look(&["n1", "n2"], ahead(51));
    assert_eq!(world.ready("n1").0, "True");
    assert_eq!(world.taints("n1"), [""; 0]);
}

#[test]
fn a_lease_alone_keeps_a_node_alive() {
    let mut world = World::new(&["n1", "n2"]);
    for seconds in [0, 30, 60, 90, 120] {
        assert_eq!(world.look(&["n1", "n2"], ahead(seconds)), [], "{seconds}");
    }
    assert_eq!(
        condition(&world.nodes[0], "Ready").unwrap().last_heartbeat_time,
        Some(stamp(ago(5)))
    );
}

#[test]
fn a_node_that_never_reports_has_a_minute() {
    let mut world = World::new(&["n1", "n2"]);
    world.nodes[0].status = None;
    world.nodes[0].metadata.creation_timestamp = Some(stamp(NOW));
    world.look(&["n2"], ahead(1));
    assert_eq!(world.look(&["n2"], ahead(60)), []);
    world.look(&["n2"], ahead(61));
    assert_eq!(world.ready("n1"), ("Unknown".into(), "NodeStatusNeverUpdated".into()));
    assert_eq!(condition(&world.nodes[0], "DiskPressure").unwrap().status, "Unknown");
}

#[test]
fn conditions_become_taints() {
    let set = |node: &mut Node, kind: &str, status: &str| {
        let conditions = node.status.as_mut().unwrap().conditions.as_mut().unwrap();
        match conditions.iter_mut().find(|condition| condition.type_ == kind) {
            Some(condition) => condition.status = status.into(),
            None => conditions.push(NodeCondition {
                type_: kind.into(),
                status: status.into(),
                ..NodeCondition::default()
            }),
        }
    };
    let mut world = World::new(&["n1", "n2", "n3"]);
    world.nodes[2] = tainted(node("n3"), "mine", "NoExecute");
    set(&mut world.nodes[0], "Ready", "False");
    set(&mut world.nodes[1], "MemoryPressure", "True");
    world.nodes[1].spec.as_mut().unwrap().unschedulable = Some(true);
    world.look(&["n1", "n2", "n3"], NOW);
    assert_eq!(world.taints("n1"), both(TAINT_NOT_READY));
    let want = [TAINT_MEMORY_PRESSURE, TAINT_UNSCHEDULABLE].map(|key| format!("{key}:NoSchedule"));
    assert_eq!(world.taints("n2"), want);
    assert_eq!(world.taints("n3"), ["mine:NoExecute"], "other people's taints stay");
    let first = world.nodes[0].spec.clone();

    // From not ready to unreachable: one pair replaces the other; what stays keeps its time.
    set(&mut world.nodes[0], "Ready", "Unknown");
    set(&mut world.nodes[1], "MemoryPressure", "False");
    world.look(&["n1", "n2", "n3"], ahead(10));
    assert_eq!(world.taints("n1"), both(TAINT_UNREACHABLE));
    assert_ne!(world.nodes[0].spec, first);
    assert_eq!(world.taints("n2"), [format!("{TAINT_UNSCHEDULABLE}:NoSchedule")]);
    let kept = world.nodes[1].spec.as_ref().unwrap().taints.as_ref().unwrap();
    assert_eq!(kept[0].time_added, Some(stamp(NOW)));
}

#[test]
fn when_nobody_is_heard_nobody_is_driven_away() {
    let mut world = World::new(&["n1"]);
    world.look(&["n1"], NOW);
    world.look(&[], ahead(41));
    assert_eq!(world.ready("n1").0, "Unknown");
    assert_eq!(world.taints("n1"), [format!("{TAINT_UNREACHABLE}:NoSchedule")]);

    let mut world = World::new(&["n1", "n2"]);
    world.look(&["n1", "n2"], NOW);
    world.look(&["n2"], ahead(41));
    assert_eq!(world.taints("n1"), both(TAINT_UNREACHABLE));
    world.look(&[], ahead(90));
    assert_eq!(world.taints("n1"), [format!("{TAINT_UNREACHABLE}:NoSchedule")], "taken back");
}

#[test]
fn nodes_are_emptied_one_by_one_and_not_when_most_are_silent() {
    let names: Vec<String> = (0..10).map(|n| format!("n{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let driven = |world: &World| {
        names.iter().filter(|name| world.taints(name).contains(&both(TAINT_UNREACHABLE)[0])).count()
    };
    let mut world = World::new(&names);
    world.look(&names, NOW);
    let mut counts = Vec::new();
    for seconds in [41, 46, 51, 56, 61, 66] {
        world.look(&names[3..], ahead(seconds));
        counts.push(driven(&world));
    }
    assert_eq!(counts, [1, 1, 2, 2, 3, 3], "one every ten seconds");

    let mut world = World::new(&names);
    world.look(&names, NOW);
    for seconds in [41, 51, 61] {
        world.look(&names[6..], ahead(seconds));
    }
    assert_eq!(driven(&world), 0, "six of ten: a small cluster holds still");
    assert_eq!(world.taints("n0"), [format!("{TAINT_UNREACHABLE}:NoSchedule")]);
}

#[test]
fn pods_of_a_silent_node_do_not_serve() {
    let pods = [
        pod("a").ready_since(ago(60)).build(),
        pod("b").running().build(),
        pod("c").ready_since(ago(60)).terminating().build(),
    ];
    let marked = falsely_ready(pods.map(Arc::new).into());
    assert_eq!(marked.len(), 1);
    assert_eq!(next_look(NOW), ahead(5));
}
