use std::sync::Arc;

use proptest::prelude::*;
use units::Ratio;

use super::*;
use crate::model::Resources;
use crate::numa::state::tests::{described, zone};
use crate::numa::state::{Machine, Settings};
use crate::numa::take::Exclusive;

const GIB: i64 = 1 << 30;

/// Allocatable and requested CPU and memory of a node.
struct Node {
    allocatable: [i64; 2],
    requested: [i64; 2],
}

impl Totals for Node {
    fn allocatable(&self, resource: ResourceId) -> i64 {
        self.allocatable.get(resource.index()).copied().unwrap_or(0)
    }

    fn requested(&self, resource: ResourceId) -> i64 {
        self.requested.get(resource.index()).copied().unwrap_or(0)
    }
}

fn node() -> Node {
    Node { allocatable: [16_000, 32 * GIB], requested: [0, 0] }
}

fn shared(cpu: i64, memory: i64) -> Demand {
    Demand { requests: zone(cpu, memory), ..Demand::default() }
}

fn bound(cpus: i64, bind: Bind, bind_is_required: bool) -> Demand {
    Demand { bind: Some(bind), bind_is_required, ..shared(cpus * 1_000, GIB) }
}

fn state(settings: Settings) -> State {
    let mut state = State::default();
    state.configure(settings);
    state.describe(Arc::new(described()));
    state
}

fn numa(policy: NumaTopologyPolicy) -> State {
    state(Settings { policy: Some(policy), ..Settings::default() })
}

fn refusal(state: &State, demand: &Demand, totals: &Node) -> Option<(String, bool)> {
    let resources = Resources::default();
    let refusal = state.filter(demand, &Rules::default(), totals).err()?;
    Some((refusal.text(|id| resources.name(id)), refusal.is_final()))
}

#[test]
fn a_node_says_why_it_refuses() {
    use NumaTopologyPolicy::{Restricted, SingleNumaNode};
    use api::metadata::node::NodeCpuBindPolicy::{FullPcpusOnly, SpreadByPcpus};
    let label = |bind| state(Settings { bind: Some(bind), ..Settings::default() });
    let unknown = State::default();
    let with_policy = |policy, demand: Demand| Demand { policy: Some(policy), ..demand };
    let full = |cpus, required| bound(cpus, Bind::Full, required);
    let cases = [
        ("fits", state(Settings::default()), full(4, true), None),
        (
            "no topology",
            unknown.clone(),
            full(4, false),
            Some(("node(s) invalid CPU Topology", true)),
        ),
        ("no topology, nothing to bind", unknown.clone(), shared(4_000, GIB), None),
        (
            "bad ratio",
            state(Settings { ratios: Ratios::Unreadable, ..Settings::default() }),
            full(4, false),
            Some(("node(s) invalid CPU amplification ratio", true)),
        ),
        (
            "half a core",
            state(Settings::default()),
            full(3, true),
            Some(("node(s) requested cpus not multiple cpus per core", true)),
        ),
        ("half a core as a wish", state(Settings::default()), full(3, false), None),
        (
            "half a core by order of the node",
            label(FullPcpusOnly),
            full(3, false),
            Some(("node(s) requested cpus not multiple cpus per core", true)),
        ),
        ("the node's order suits the wish", label(FullPcpusOnly), full(4, false), None),
        (
            "the node's order against a wish",
            label(FullPcpusOnly),
            bound(4, Bind::Spread, false),
            None,
        ),
        (
            "the node's order against a condition",
            label(FullPcpusOnly),
            bound(4, Bind::Spread, true),
            Some(("node(s) cpu bind policy conflicts with pod's required cpu bind policy", true)),
        ),
        (
            "everyone binds here",
            label(SpreadByPcpus),
            shared(1_500, GIB),
            Some(("the requested CPUs must be integer", true)),
        ),
        ("everyone binds here, whole", label(SpreadByPcpus), shared(8_000, GIB), None),
        (
            "one thread of each core",
            label(SpreadByPcpus),
            shared(9_000, GIB),
            Some(("not enough cpus available to satisfy request", false)),
        ),
        (
            "too many as a wish",
            state(Settings::default()),
            full(17, false),
            Some(("not enough cpus available to satisfy request", false)),
        ),
        (
            "policies differ",
            numa(Restricted),
            with_policy(SingleNumaNode, shared(1_000, GIB)),
            Some(("node(s) NUMA Topology policy not match", true)),
        ),
        (
            "the pod's own policy",
            state(Settings::default()),
            with_policy(SingleNumaNode, shared(8_000, GIB)),
            None,
        ),
        (
            "no zones",
            unknown,
            with_policy(SingleNumaNode, shared(1_000, GIB)),
            Some(("node(s) missing NUMA resources", true)),
        ),
        (
            "over one NUMA node",
            numa(SingleNumaNode),
            shared(8_001, GIB),
            Some((
                "Unaligned NUMA Hint cause cpu prefer [{0,1}] among [{0,1}],memory prefer [{0,1}] among [{0,1}]",
                false,
            )),
        ),
        ("two are fine when restricted", numa(Restricted), shared(8_001, GIB), None),
        (
            "over all NUMA nodes",
            numa(Restricted),
            shared(16_001, GIB),
            Some(("Unsatisfied NUMA cpu, Unsatisfied NUMA memory", false)),
        ),
        (
            "best effort fits nowhere",
            numa(NumaTopologyPolicy::BestEffort),
            shared(16_001, GIB),
            Some(("Insufficient NUMA cpu", false)),
        ),
    ];
    for (name, state, demand, want) in cases {
        let want = want.map(|(text, is_final)| (text.to_owned(), is_final));
        assert_eq!(refusal(&state, &demand, &node()), want, "{name}");
    }
}

#[test]
fn amplified_nodes_charge_bound_cpus_more() {
    let ratios = Ratios::Known(vec![(ResourceId::CPU, Ratio::from_hundredths(150))]);
    let mut state = state(Settings { ratios, ..Settings::default() });
    let held = Allocation { cpus: "0-7".parse().unwrap(), ..Allocation::default() };
    state.hold("a".into(), held);
    let with = |requested| Node { allocatable: [48_000, 32 * GIB], requested: [requested, 0] };
    let pod = bound(4, Bind::Full, false);
    assert_eq!(state.amplified_requests(&with(20_000)), 24_000, "C25");
    assert_eq!(refusal(&state, &pod, &with(20_000)), None, "C25");
    assert_eq!(refusal(&state, &pod, &with(38_000)), None, "6000 of 6000");
    let full = Some(("Insufficient amplified cpu".to_owned(), false));
    assert_eq!(refusal(&state, &pod, &with(38_001)), full);
    assert_eq!(
        refusal(&state, &shared(4_000, 0), &with(40_000)),
        None,
        "shared CPU costs as it is"
    );
    assert_eq!(state.amplified_requests(&with(7_000)), 7_000, "less than what is bound");
}

#[test]
fn cpus_come_from_the_numa_nodes_of_the_policy() {
    let rules = Rules::default();
    let mut single = numa(NumaTopologyPolicy::SingleNumaNode);
    let first = single.allocate(&bound(6, Bind::Full, true), &rules).unwrap();
    assert_eq!(first.cpus, "0-2,8-10".parse().unwrap());
    assert_eq!(first.shares, [(0, zone(6_000, GIB))]);
    single.hold("a".into(), first);
    let second = single.allocate(&bound(4, Bind::Full, true), &rules).unwrap();
    assert_eq!(second.cpus, "4-5,12-13".parse().unwrap(), "node 0 has one core left");
    let shared_pod = single.allocate(&shared(2_500, GIB), &rules).unwrap();
    assert_eq!(shared_pod.cpus, CpuSet::new());
    assert_eq!(shared_pod.shares, [(1, zone(2_500, GIB))], "least allocated");

    let restricted = numa(NumaTopologyPolicy::Restricted);
    let wide = restricted.allocate(&bound(10, Bind::Full, true), &rules).unwrap();
    let shares: Vec<i64> = wide.shares.iter().map(|(_, own)| own.get(ResourceId::CPU)).collect();
    assert_eq!(shares, [4_000, 6_000], "C23");
    assert_eq!(wide.cpus, "0-1,4-6,8-9,12-14".parse().unwrap());
}

#[test]
fn without_a_policy_only_cpus_are_recorded() {
    let state = state(Settings::default());
    let rules = Rules::default();
    let got = state.allocate(&bound(4, Bind::Full, false), &rules).unwrap();
    assert_eq!((got.cpus.to_string().as_str(), got.shares.len()), ("0-1,8-9", 0));
    assert!(state.allocate(&shared(4_000, GIB), &rules).unwrap().is_empty());
}

#[test]
fn a_planners_choice_is_only_checked() {
    let mut state = numa(NumaTopologyPolicy::SingleNumaNode);
    let chosen = Allocation {
        cpus: "3,7".parse().unwrap(),
        exclusive: Exclusive::None,
        shares: vec![(0, zone(1_000, GIB)), (1, zone(1_000, GIB))],
    };
    let pod = Demand { designated: Some(chosen.clone()), ..bound(2, Bind::Full, true) };
    assert_eq!(refusal(&state, &pod, &node()), None);
    assert_eq!(state.allocate(&pod, &Rules::default()), Ok(chosen.clone()));
    let small = Demand { requests: zone(3_000, GIB), ..pod.clone() };
    assert!(refusal(&state, &small, &node()).is_some(), "two CPUs for three");
    state.hold("a".into(), chosen);
    assert!(refusal(&state, &pod, &node()).is_some(), "taken meanwhile");
}

#[test]
fn scores_look_at_the_node_or_at_the_chosen_numa_nodes() {
    let totals = Node { allocatable: [16_000, 32 * GIB], requested: [4_000, 8 * GIB] };
    let least = Rules::default();
    let most = Scoring { strategy: Fill::Most, ..Scoring::default() };
    let most = Rules { node: most.clone(), numa: most };
    let plain = state(Settings::default());
    let pod = shared(4_000, 8 * GIB);
    assert_eq!(plain.score(&pod, &least, &totals), 50);
    assert_eq!(plain.score(&pod, &most, &totals), 50);
    assert_eq!(plain.score(&shared(8_000, 0), &least, &totals), (25 + 75) / 2);
    let mut single = numa(NumaTopologyPolicy::SingleNumaNode);
    assert_eq!(single.score(&pod, &least, &totals), 50, "half of one NUMA node");
    let held = Allocation { shares: vec![(0, zone(4_000, 8 * GIB))], ..Allocation::default() };
    single.hold("a".into(), held);
    assert_eq!(single.score(&pod, &least, &totals), 50, "the other NUMA node");
    assert_eq!(single.score(&pod, &most, &totals), 100, "the same NUMA node");
    assert_eq!(single.score(&shared(9_000, GIB), &least, &totals), 0, "does not fit");
    let best = numa(NumaTopologyPolicy::BestEffort);
    assert_eq!(best.score(&pod, &least, &totals), 50, "not decided before it is placed");
    assert_eq!(State::default().score(&bound(1, Bind::Full, false), &least, &totals), 0);
    let odd = Scoring { weights: vec![(ResourceId(9), 5)], ..Scoring::default() };
    assert_eq!(odd.score(|_| (0, 0)), 0, "no listed resource is there");
}

fn demands() -> impl proptest::strategy::Strategy<Value = Demand> {
    let bind = prop_oneof![Just(None), Just(Some(Bind::Full)), Just(Some(Bind::Spread))];
    let exclusive =
        prop_oneof![Just(Exclusive::None), Just(Exclusive::Core), Just(Exclusive::Node)];
    (1..10_i64, 0..20 * GIB, bind, any::<bool>(), exclusive, any::<bool>()).prop_map(
        |(cpus, memory, bind, required, exclusive, numa_is_exclusive)| Demand {
            bind,
            bind_is_required: required && bind.is_some(),
            exclusive,
            numa_is_exclusive,
            ..shared(cpus * 1_000, memory)
        },
    )
}

fn policies() -> impl proptest::strategy::Strategy<Value = Option<NumaTopologyPolicy>> {
    prop_oneof![
        Just(None),
        Just(Some(NumaTopologyPolicy::BestEffort)),
        Just(Some(NumaTopologyPolicy::Restricted)),
        Just(Some(NumaTopologyPolicy::SingleNumaNode)),
    ]
}

proptest! {
    /// The short way gives what the topology manager would.
    #[test]
    fn the_short_way_is_the_long_way(
        policy in prop_oneof![
            Just(NumaTopologyPolicy::BestEffort),
            Just(NumaTopologyPolicy::Restricted),
            Just(NumaTopologyPolicy::SingleNumaNode),
        ],
        used in prop::collection::vec((0..8_000_i64, 0..12 * GIB), 4),
        demand in demands(),
        is_most in any::<bool>(),
    ) {
        let mut state = numa(policy);
        let zones = (0..4).map(|id| (id, zone(8_000, 16 * GIB))).collect();
        let topology = Some(crate::numa::topology::tests::machine(2, 2, 4, 2));
        state.describe(Arc::new(Machine { topology, zones, ..Machine::default() }));
        for (id, (cpu, memory)) in (0_u16..).zip(used) {
            let shares = vec![(id, zone(cpu, memory))];
            state.hold(format!("pod-{id}").into(), Allocation { shares, ..Allocation::default() });
        }
        let demand = Demand { numa_is_exclusive: false, ..demand };
        let mut rules = Rules::default();
        rules.numa.strategy = if is_most { Fill::Most } else { Fill::Least };
        let Ok(binding) = state.binding(&demand) else { return Ok(()) };
        let offers = state.offers(policy, &demand, binding, &rules);
        let question = Question { policy, all: Mask::first(4), offers: &offers, occupancy: &[] };
        let long = hint::admit(&question).ok();
        let short = state.admit(policy, &demand, binding, &rules).ok();
        let serves = |mask: Option<Mask>| {
            mask.is_none_or(|mask| state.shares(&demand, binding, mask).is_ok())
        };
        prop_assert_eq!(short, long.filter(|mask| serves(*mask)));
    }

    /// A pod the filter lets through gets what it asked for, from what was free, once.
    #[test]
    fn what_passes_is_allocated(
        policy in policies(),
        hundredths in prop_oneof![Just(100_u32), Just(133), Just(150)],
        demands in prop::collection::vec(demands(), 1..8),
    ) {
        let ratios = Ratios::Known(vec![(ResourceId::CPU, Ratio::from_hundredths(hundredths))]);
        let mut state = State::default();
        state.configure(Settings { policy, ratios, ..Settings::default() });
        state.describe(Arc::new(Machine { reserved: "15".parse().unwrap(), ..described() }));
        let rules = Rules::default();
        let totals = Node { allocatable: [1_000_000, 32 * GIB], requested: [0, 0] };
        for (at, demand) in demands.iter().enumerate() {
            let verdict = state.filter(demand, &rules, &totals);
            let got = state.allocate(demand, &rules);
            prop_assert_eq!(verdict.is_ok(), got.is_ok(), "{:?} {:?}", verdict, got);
            prop_assert_eq!(&got, &state.allocate(demand, &rules), "not deterministic");
            let Ok(got) = got else { continue };
            let cpus = i64::try_from(got.cpus.len()).unwrap();
            prop_assert_eq!(cpus, if demand.bind.is_some() { demand.cpu() / 1_000 } else { 0 });
            prop_assert!(got.cpus.is_subset(state.free()));
            if policy == Some(NumaTopologyPolicy::SingleNumaNode) {
                prop_assert!(got.shares.len() <= 1);
            }
            let free = state.free().clone();
            let before = state.zones().to_vec();
            state.hold(format!("pod-{at}").into(), got);
            for zone in state.zones() {
                for amount in &zone.amounts {
                    let is_bounded = policy.is_none() || state.used(zone, amount) <= amount.capacity;
                    prop_assert!(is_bounded, "{:?} over {:?}", amount, zone.bound);
                }
            }
            if at % 3 == 2 {
                state.release(&format!("pod-{at}"));
                prop_assert_eq!(state.free(), &free);
                prop_assert_eq!(state.zones(), &before[..]);
            }
        }
    }
}
