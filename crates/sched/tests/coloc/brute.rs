//! Load-aware and NUMA decisions against formulas written down a second time.
//!
//! The profile has these two plugins and nothing else, so that a node's total is the sum of their
//! scores. Everything is computed anew from plain numbers for every pod and every node: no
//! bookkeeping, no classes, no columns. Thresholds are 65 % of CPU and 95 % of memory, factors 85 %
//! and 70 %, reports are old after 180 s.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use sched::Scheduler;
use sched::profile::Profile;
use sched::scheduler::{Change, Key, Options, Outcome, Update};
use serde_json::{Value, json};
use units::CpuSet;

use super::{STATUS, at, bound, placed, upsert};

const MIB: i64 = 1 << 20;

/// A node: cores with two threads each, half of them on each NUMA node.
#[derive(Debug, Clone)]
struct Machine {
    cores: i64,
    memory: i64,
    /// Seconds at which the last report was made, and what it said.
    report: Option<(i64, [i64; 2])>,
}

impl Machine {
    fn cpus(&self) -> i64 {
        2 * self.cores
    }

    fn capacity(&self) -> [i64; 2] {
        [self.cpus() * 1_000, self.memory * MIB]
    }
}

/// A pod that was placed.
#[derive(Debug, Clone)]
struct Placed {
    node: usize,
    asked: [i64; 2],
    cpus: CpuSet,
}

/// What a pod asks for: milli-cores and bytes; whether it binds, and whether whole cores are a
/// condition.
#[derive(Debug, Clone, Copy)]
struct Wish {
    asked: [i64; 2],
    binds: bool,
    is_required: bool,
}

#[derive(Debug, Default)]
struct World {
    machines: Vec<Machine>,
    placed: BTreeMap<String, Placed>,
}

fn estimate(asked: [i64; 2]) -> [i64; 2] {
    [(asked[0] * 85 + 50) / 100, (asked[1] * 70 + 50) / 100]
}

impl World {
    fn on(&self, node: usize) -> impl Iterator<Item = &Placed> {
        self.placed.values().filter(move |pod| pod.node == node)
    }

    /// What a report says and what it cannot know yet. No pod is in any report.
    fn load(&self, node: usize, wish: Wish) -> [i64; 2] {
        let usage = self.machines[node].report.map_or([0, 0], |(_, usage)| usage);
        let mut total = usage;
        let others = self.on(node).map(|pod| pod.asked);
        for own in others.chain([wish.asked]).map(estimate) {
            total[0] += own[0];
            total[1] += own[1];
        }
        total
    }

    fn is_old(&self, node: usize, now: i64) -> bool {
        self.machines[node].report.is_some_and(|(made, _)| now - made >= 180)
    }

    /// CPUs nobody holds, core by core.
    fn free(&self, node: usize) -> Vec<Vec<u16>> {
        let cores = u16::try_from(self.machines[node].cores).unwrap();
        let held: BTreeSet<u16> = self.on(node).flat_map(|pod| pod.cpus.iter()).collect();
        let open = |core: u16| [core, core + cores].into_iter().filter(|cpu| !held.contains(cpu));
        (0..cores).map(|core| open(core).collect()).collect()
    }

    fn refusal(&self, node: usize, wish: Wish, now: i64) -> Option<&'static str> {
        if self.machines[node].report.is_some() {
            if self.is_old(node, now) {
                return Some("node(s) nodeMetric expired");
            }
            let (load, capacity) = (self.load(node, wish), self.machines[node].capacity());
            // More than 65 % after rounding is 65.5 % or more.
            if load[0] * 1_000 >= capacity[0] * 655 {
                return Some("node(s) cpu usage exceed threshold");
            }
            if load[1] * 1_000 >= capacity[1] * 955 {
                return Some("node(s) memory usage exceed threshold");
            }
        }
        if !wish.binds {
            return None;
        }
        if wish.is_required && wish.asked[0] / 1_000 % 2 != 0 {
            return Some("node(s) requested cpus not multiple cpus per core");
        }
        let free = self.free(node);
        let whole = free.iter().filter(|core| core.len() == 2).count() * 2;
        let any = free.iter().map(Vec::len).sum();
        let usable = if wish.is_required { whole } else { any };
        let is_short = i64::try_from(usable).unwrap() < wish.asked[0] / 1_000;
        is_short.then_some("not enough cpus available to satisfy request")
    }

    fn total(&self, node: usize, wish: Wish) -> i64 {
        let capacity = self.machines[node].capacity();
        let free = |used: i64, capacity: i64| {
            if used > capacity { 0 } else { (capacity - used) * 100 / capacity }
        };
        let load = match self.machines[node].report {
            None => 0,
            Some(_) => {
                let load = self.load(node, wish);
                (free(load[0], capacity[0]) + free(load[1], capacity[1])) / 2
            }
        };
        let mut requested = wish.asked;
        for pod in self.on(node) {
            requested = [requested[0] + pod.asked[0], requested[1] + pod.asked[1]];
        }
        load + (free(requested[0], capacity[0]) + free(requested[1], capacity[1])) / 2
    }

    /// The best totals and who has them, or the message.
    fn decide(&self, wish: Wish, now: i64) -> Result<BTreeSet<String>, String> {
        let mut reasons: BTreeMap<&str, u32> = BTreeMap::new();
        let mut best: (i64, BTreeSet<String>) = (-1, BTreeSet::new());
        for node in 0..self.machines.len() {
            if let Some(reason) = self.refusal(node, wish, now) {
                *reasons.entry(reason).or_default() += 1;
                continue;
            }
            let total = self.total(node, wish);
            if total > best.0 {
                best = (total, BTreeSet::new());
            }
            if total == best.0 {
                best.1.insert(format!("n{node}"));
            }
        }
        if best.0 >= 0 {
            return Ok(best.1);
        }
        let mut parts: Vec<String> =
            reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        parts.sort();
        let nodes = self.machines.len();
        Err(format!("0/{nodes} nodes are available: {}.", parts.join(", ")))
    }
}

fn node(name: &str, machine: &Machine) -> Value {
    json!({"metadata": {"name": name, "uid": name}, "status": {"allocatable": {
        "cpu": machine.cpus().to_string(), "memory": format!("{}Mi", machine.memory),
        "pods": "110"}}})
}

fn topology(name: &str, machine: &Machine) -> Value {
    let cpu = |id: i64| {
        let core = id % machine.cores;
        json!({"id": id, "core": core, "socket": 0, "node": i64::from(core >= machine.cores / 2)})
    };
    let cpus = json!({"detail": (0..machine.cpus()).map(cpu).collect::<Vec<_>>()}).to_string();
    json!({"metadata": {"name": name, "annotations": {"node.koordinator.sh/cpu-topology": cpus}},
           "topologyPolicies": [], "zones": []})
}

fn metric(name: &str, made: i64, usage: [i64; 2]) -> Value {
    let time = jiff::Timestamp::from_second(at(made).whole_secs()).unwrap().to_string();
    json!({"metadata": {"name": name}, "spec": {}, "status": {"updateTime": time, "nodeMetric":
        {"nodeUsage": {"resources": {"cpu": format!("{}m", usage[0]), "memory": usage[1].to_string()}}}}})
}

fn pod(name: &str, wish: Wish) -> Value {
    let requests =
        json!({"cpu": format!("{}m", wish.asked[0]), "memory": wish.asked[1].to_string()});
    let qos = if wish.binds { "LSR" } else { "LS" };
    let spec = json!({"scheduling.koordinator.sh/resource-spec":
        r#"{"requiredCPUBindPolicy":"FullPCPUs"}"#});
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": name,
                     "annotations": if wish.is_required { spec } else { json!({}) },
                     "labels": {"koordinator.sh/qosClass": qos}},
        "spec": {"schedulerName": "default-scheduler", "priority": 9_000, "containers": [
            {"name": "c", "resources": {"requests": requests}}]},
    })
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Pod(Wish),
    Delete(usize),
    Report(usize, [i64; 2]),
    Wait(i64),
}

fn steps() -> impl Strategy<Value = Step> {
    let wish = (1..5_i64, 1..2_000_i64, any::<bool>(), any::<bool>()).prop_map(
        |(cores, memory, binds, is_required)| {
            let milli = if binds { cores * 1_000 } else { cores * 700 };
            Wish { asked: [milli, memory * MIB], binds, is_required: binds && is_required }
        },
    );
    prop_oneof![
        6 => wish.prop_map(Step::Pod),
        2 => (0..40_usize).prop_map(Step::Delete),
        2 => (0..6_usize, 0..12_000_i64, 0..4_000_i64)
            .prop_map(|(node, cpu, memory)| Step::Report(node, [cpu, memory * MIB])),
        1 => (1..150_i64).prop_map(Step::Wait),
    ]
}

fn start(machines: Vec<Machine>) -> (Scheduler, World) {
    let plugins = ["PrioritySort", "LoadAwareScheduling", "NodeNUMAResource", "DefaultBinder"];
    let profile = Profile::of("default-scheduler", plugins);
    let mut scheduler = Scheduler::new(vec![profile], Options::default()).unwrap();
    for (index, machine) in machines.iter().enumerate() {
        let name = format!("n{index}");
        scheduler.apply(Change::Node(upsert(node(&name, machine))), at(0));
        scheduler.apply(Change::NodeTopology(upsert(topology(&name, machine))), at(0));
    }
    (scheduler, World { machines, ..World::default() })
}

/// Lets both decide, and the world move on with the engine's choice among equals.
fn compare(
    scheduler: &mut Scheduler,
    world: &mut World,
    name: &str,
    wish: Wish,
    now: i64,
) -> Result<(), TestCaseError> {
    let object = pod(name, wish);
    scheduler.apply(Change::Pod(upsert(object.clone())), at(now));
    let attempt = scheduler.next(at(now)).unwrap();
    let delete = || Change::Pod(Update::Delete(Key::new("default", name).with_uid(name)));
    match (placed(&attempt), world.decide(wish, now)) {
        (Ok((node, status)), Ok(best)) => {
            prop_assert!(best.contains(node), "{} is not among {:?}", node, best);
            let index: usize = node[1..].parse().unwrap();
            let status: Value =
                status.map_or(json!({}), |text| serde_json::from_str(text).unwrap());
            let cpus: CpuSet = status["cpuset"].as_str().unwrap_or("").parse().unwrap();
            let wanted = if wish.binds { wish.asked[0] / 1_000 } else { 0 };
            prop_assert_eq!(i64::try_from(cpus.len()).unwrap(), wanted);
            let free: CpuSet = world.free(index).into_iter().flatten().collect();
            prop_assert!(cpus.is_subset(&free), "{} of {}", cpus, free);
            let pod = Placed { node: index, asked: wish.asked, cpus };
            world.placed.insert(name.to_owned(), pod);
            let Outcome::Place(place) = &attempt.outcome else { return Ok(()) };
            let status = place.patch.annotations.get(STATUS).map(String::as_str);
            scheduler.apply(Change::Pod(upsert(bound(object, node, status))), at(now));
        }
        (Err(message), Err(want)) => {
            prop_assert_eq!(message, want);
            scheduler.apply(delete(), at(now));
        }
        (found, want) => prop_assert!(false, "{:?}, brute force {:?}", found, want),
    }
    prop_assert_eq!(scheduler.check(), Vec::<String>::new());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn load_and_numa_equal_brute_force(
        machines in prop::collection::vec((2..5_i64, 4_000..9_000_i64), 1..6),
        steps in prop::collection::vec(steps(), 1..80),
    ) {
        let machine = |(cores, memory): &(i64, i64)| {
            Machine { cores: 2 * cores, memory: *memory, report: None }
        };
        let (mut scheduler, mut world) = start(machines.iter().map(machine).collect());
        let mut now = 1;
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Pod(wish) => {
                    compare(&mut scheduler, &mut world, &format!("p{number}"), wish, now)?;
                }
                Step::Delete(index) => {
                    let Some(name) = world.placed.keys().nth(index).cloned() else { continue };
                    world.placed.remove(&name);
                    let key = Key::new("default", &name).with_uid(&name);
                    scheduler.apply(Change::Pod(Update::Delete(key)), at(now));
                }
                Step::Report(index, usage) => {
                    let index = index % world.machines.len();
                    world.machines[index].report = Some((now, usage));
                    let object = metric(&format!("n{index}"), now, usage);
                    scheduler.apply(Change::NodeMetric(upsert(object)), at(now));
                }
                Step::Wait(seconds) => now += seconds,
            }
        }
    }
}
