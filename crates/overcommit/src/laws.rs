//! What always holds, and what the chapter's vectors say of whole plans.

use api::config::Config;
use api::priority::PriorityClass;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;
use units::Quantity;

use crate::example::{N, amounts, gib, pod, usage};
use crate::facts::{PodFacts, PodUsage, Pods, Shown, Switch, ThirdParty};
use crate::plan::{Plan, Plugins, Standing};
use crate::publish::cpu_quantity;
use crate::strategy::{CpuCalculation, MemoryCalculation, MidMode};
use crate::{Amounts, Pair, explain};

type Change = Box<dyn Fn(&mut N)>;

#[test]
fn batch_vectors() {
    struct Case {
        name: &'static str,
        change: Change,
        want: (Option<i64>, Option<i64>),
    }
    let case = |name, change: Change, cpu: i64, memory: i64| Case {
        name,
        change,
        want: (Some(cpu), Some(memory)),
    };
    let cases = [
        case("B1", Box::new(|_| {}), 14_400, 77_738_908_058),
        case(
            "B2",
            Box::new(|n| n.strategies.lending.memory_policy = MemoryCalculation::Request),
            14_400,
            58_411_555_226,
        ),
        case(
            "B3r: the reference forgets the pod that is not reported yet",
            Box::new(|n| {
                n.pods.remove(&crate::facts::PodKey::new("d", "new"));
                n.strategies.lending.cpu_policy = CpuCalculation::MaxUsageRequest;
                n.strategies.lending.memory_policy = MemoryCalculation::MaxUsageRequest;
            }),
            8_400,
            58_411_555_226,
        ),
        case(
            "B3f",
            Box::new(|n| {
                n.strategies.lending.cpu_policy = CpuCalculation::MaxUsageRequest;
                n.strategies.lending.memory_policy = MemoryCalculation::MaxUsageRequest;
            }),
            4_400,
            49_821_620_634,
        ),
        case(
            "B4",
            Box::new(|n| n.node.reserved.annotation = amounts(6, 4)),
            10_400,
            77_738_908_058,
        ),
        case(
            "B5",
            Box::new(|n| n.strategies.lending.batch_percent = Pair::new(Some(20), Some(5))),
            12_800,
            13_743_895_347,
        ),
        case(
            "B6",
            Box::new(|n| {
                n.pods = Pods::default();
                n.metric.pods = Box::new([usage("web", PriorityClass::Prod, amounts(40, 200))]);
            }),
            0,
            0,
        ),
        case(
            "B7",
            Box::new(|n| n.strategies.lending.reclaim_percent.cpu = 120),
            52_800,
            77_738_908_058,
        ),
        case(
            "B9",
            Box::new(|n| n.metric.hosts.above_batch = amounts(2, 4)),
            12_900,
            75_591_424_410,
        ),
        case("B10", Box::new(faster), 17_280, 77_738_908_058),
        Case {
            name: "G1",
            change: Box::new(|n| n.now += SignedDuration::from_mins(16)),
            want: (None, None),
        },
        case(
            "fifteen minutes are still trusted",
            Box::new(|n| n.now += SignedDuration::from_mins(15)),
            14_400,
            77_738_908_058,
        ),
    ];
    for Case { name, change, want } in cases {
        let mut node = N::new();
        change(&mut node);
        let plan = node.plan();
        assert_eq!(shown(&plan, &mut node), want, "{name}");
    }
}

/// Normalization of 1.20 by default.
fn faster(node: &mut N) {
    let strategy = node.strategies.normalization.as_mut().unwrap();
    strategy.enable = Some(true);
    strategy.default_ratio = Some(1.2);
    let zones = Box::new([]);
    let processor = Some(Default::default());
    node.topology = Some(crate::facts::TopologyFacts { zones, processor });
}

/// Batch resources on the node once the plan is written.
fn shown(plan: &Plan, node: &mut N) -> (Option<i64>, Option<i64>) {
    node.write(plan);
    let count = |shown: Shown| {
        assert_eq!(shown.capacity, shown.allocatable);
        shown.allocatable.map(Quantity::value)
    };
    (count(node.node.batch.cpu), count(node.node.batch.memory))
}

#[test]
fn third_party_vectors_note_the_origin() {
    let mut node = N::new();
    let memory = Quantity::from_int(gib(10), units::Format::BinarySi);
    node.node.third_party = ThirdParty::Taken(Pair::new(cpu_quantity(10_000), memory));
    let plan = node.plan();
    let origin = plan.status.as_ref().unwrap().origin.clone().unwrap();
    assert!(origin.contains(r#""kubernetes.io/batch-cpu":"14400""#), "{origin}");
    assert!(origin.contains(r#""kubernetes.io/batch-memory":"77738908058""#), "{origin}");
    assert_eq!(shown(&plan, &mut node), (Some(4_400), Some(67_001_489_818)));
}

#[test]
fn each_doubt_has_its_name_and_takes_everything_away() {
    let cases: [(&str, Change, Standing); 6] = [
        ("fresh", Box::new(|_| {}), Standing::Lending),
        ("never updated", Box::new(|n| n.metric.updated = None), Standing::NoReport),
        ("empty", Box::new(|n| n.metric.node = None), Standing::EmptyReport),
        (
            "stale",
            Box::new(|n| n.now += SignedDuration::from_secs(901)),
            Standing::Stale { age: SignedDuration::from_secs(901) },
        ),
        (
            "skewed",
            Box::new(|n| n.now -= SignedDuration::from_secs(901)),
            Standing::Skewed { ahead: SignedDuration::from_secs(901) },
        ),
        ("disabled", Box::new(|n| n.strategies.is_enabled = false), Standing::Disabled),
    ];
    for (name, change, want) in cases {
        let mut node = N::new();
        node.metric.reclaimable = amounts(12, 30);
        let first = node.plan();
        node.write(&first);
        assert!(!node.node.mid.cpu.is_absent() && !node.node.batch.cpu.is_absent());
        change(&mut node);
        let plan = node.plan();
        assert_eq!(plan.why.standing, want, "{name}");
        node.write(&plan);
        let is_gone = node.node.mid.cpu.is_absent() && node.node.batch.memory.is_absent();
        assert_eq!(is_gone, want != Standing::Lending, "{name}");
        if want != Standing::Lending {
            let origin = node.node.origin.as_ref().unwrap();
            assert_eq!(
                origin.batch,
                Pair::new(Some(Quantity::ZERO), Some(Quantity::ZERO)),
                "{name}"
            );
        }
    }
}

#[test]
fn a_node_without_numbers_or_lending_is_left_alone() {
    let mut node = N::new();
    node.node.capacity = None;
    assert!(node.plan().is_quiet());
    let mut node = N::new();
    node.strategies.is_enabled = false;
    let plan = node.plan();
    assert!(plan.is_quiet() && plan.is_synced, "{plan:?}");
}

#[test]
fn plugins_that_are_off_leave_their_part_alone() {
    let mut node = N::new();
    let plan = node.plan();
    node.write(&plan);
    node.metric.pods = Box::new([]);
    node.options.plugins = Plugins::choose(|name| name == "MidResource");
    let plan = node.plan();
    assert!(plan.is_quiet(), "{plan:?}");
    assert!(plan.why.batch.is_none() && plan.why.mid.is_some() && plan.why.normalization.is_none());
}

#[test]
fn small_moves_wait_for_their_time() {
    let mut node = N::new();
    let plan = node.plan();
    assert!(plan.status.as_ref().unwrap().is_urgent);
    node.write(&plan);
    let start = node.now;
    // One more core is used: 14400 -> 13400 is less than a tenth.
    node.metric.pods[4].usage.cpu += cpu_quantity(1);
    node.now = start + SignedDuration::from_secs(300);
    let waiting = node.plan();
    assert!(waiting.is_quiet() && !waiting.is_synced);
    assert_eq!(waiting.look_again, Some(start + SignedDuration::from_secs(301)));
    node.now = start + SignedDuration::from_secs(301);
    let late = node.plan();
    assert!(!late.status.as_ref().unwrap().is_urgent);
    assert_eq!(shown(&late, &mut node).0, Some(13_400));
    node.now += SignedDuration::from_secs(301);
    let quiet = node.plan();
    assert!(quiet.is_quiet() && quiet.is_synced, "time alone writes nothing");
}

/// A node that lent and lost its note, or never had one, still says that it lends nothing now.
#[test]
fn a_disabled_node_with_batch_resources_gets_a_note_of_zero() {
    let mut node = N::new();
    node.strategies.is_enabled = false;
    assert!(node.plan().status.is_none(), "a node that never lent is left alone");
    let shown = |amount| Shown { capacity: Some(amount), allocatable: Some(amount) };
    node.node.batch = Pair::new(shown(cpu_quantity(20_000)), shown(cpu_quantity(1 << 30)));
    let status = node.plan().status.unwrap();
    let text = status.origin.as_deref().unwrap();
    let want = r#"{"resources":{"kubernetes.io/batch-cpu":"0","kubernetes.io/batch-memory":"0"}}"#;
    assert_eq!(text, want);
    assert!(status.resources.iter().all(|(_, wanted)| wanted.is_none()), "{status:?}");
}

#[test]
fn amplification_follows_normalization_one_round_behind() {
    let mut node = N::new();
    faster(&mut node);
    let first = node.plan();
    let names: Vec<_> = first.meta.as_ref().unwrap().annotations.clone();
    assert_eq!(names.len(), 1, "{names:?}");
    node.write(&first);
    assert_eq!(node.node.ratio.as_deref(), Some("1.20"));
    let second = node.plan();
    node.write(&second);
    assert_eq!(node.node.amplification.as_deref(), Some(r#"{"cpu":1.20}"#));
    assert!(node.plan().is_quiet());
    // Co-location off: the ratio stays, the amplification goes.
    node.strategies.is_enabled = false;
    let plan = node.plan();
    node.write(&plan);
    assert_eq!(node.node.ratio.as_deref(), Some("1.20"));
    assert_eq!(node.node.amplification, None);
}

fn an_amount(cores: i64, gibs: i64) -> impl Strategy<Value = Amounts> {
    // Billionths of a core and thousandths of a byte, so that every rounding step has work.
    (0..=cores * 1_000_000_000, 0..=gib(gibs)).prop_map(|(nanos, bytes)| {
        let cpu = format!("{nanos}n").parse().unwrap();
        Amounts::new(cpu, Quantity::from_int(bytes, units::Format::BinarySi))
    })
}

fn a_class() -> impl Strategy<Value = PriorityClass> {
    prop::sample::select(PriorityClass::ALL.to_vec())
}

prop_compose! {
    fn a_pod()(
        name in 0..40_u32, class in a_class(), request in an_amount(16, 64),
        is_exclusive in any::<bool>(), zones in prop::collection::vec(-1..3_i32, 0..3),
    ) -> PodFacts {
        PodFacts { is_exclusive, numa_nodes: zones.into(), ..pod(&name.to_string(), class, request) }
    }
}

prop_compose! {
    fn a_report()(name in 0..40_u32, class in a_class(), used in an_amount(16, 64)) -> PodUsage {
        usage(&name.to_string(), class, used)
    }
}

prop_compose! {
    fn a_node()(
        capacity in an_amount(128, 512),
        kubelet in an_amount(8, 16),
        annotation in an_amount(8, 16),
        system in an_amount(16, 32),
        total in an_amount(128, 512),
        hosts in an_amount(8, 16),
        reclaimable in an_amount(64, 256),
        taken in prop::option::of(an_amount(1, 64)),
        unreadable in any::<bool>(),
        pods in prop::collection::vec(a_pod(), 0..12),
        reports in prop::collection::vec(a_report(), 0..12),
        (reclaim, cap, mid, unallocated) in (0..300_i64, prop::option::of(0..300_i64), 0..=100_i64, 0..=100_i64),
        policies in (0..2_u8, 0..3_u8, 0..2_u8, any::<bool>()),
        ratio in prop::option::of(100..=500_u32),
        has_zones in any::<bool>(),
        age in -2_000..2_000_i64,
    ) -> N {
        let mut n = if has_zones { N::new().with_zones() } else { N::new() };
        n.node.capacity = Some(capacity);
        n.node.reserved = crate::facts::Reserved { kubelet, annotation };
        n.node.third_party = match (taken, unreadable) {
            (Some(_), true) => ThirdParty::Unreadable,
            (Some(taken), false) => ThirdParty::Taken(taken.map(|amount| cpu_quantity(amount.value()))),
            (None, _) => ThirdParty::Nothing,
        };
        n.pods = pods.into_iter().collect();
        let mut reports = reports;
        reports.sort_by(|a, b| a.key.cmp(&b.key));
        reports.dedup_by(|a, b| a.key == b.key);
        n.metric.pods = reports.into();
        n.metric.hosts.above_batch = hosts;
        n.metric.reclaimable = reclaimable;
        n.metric.node = Some(crate::facts::NodeUsage { total: total.map(Some), system });
        let lending = &mut n.strategies.lending;
        lending.reclaim_percent = Pair::new(reclaim, 300 - reclaim);
        lending.batch_percent = Pair::new(cap, cap);
        lending.mid_percent = Pair::new(mid, 100 - mid);
        lending.cpu_policy = if policies.0 == 0 { CpuCalculation::Usage } else { CpuCalculation::MaxUsageRequest };
        lending.memory_policy = match policies.1 {
            0 => MemoryCalculation::Usage,
            1 => MemoryCalculation::Request,
            _ => MemoryCalculation::MaxUsageRequest,
        };
        lending.mid_mode = if policies.2 == 0 {
            MidMode::Static(Pair::new(unallocated * 2, unallocated))
        } else {
            MidMode::Dynamic { unallocated_percent: unallocated }
        };
        lending.is_mid_within_batch = policies.3;
        if let Some(ratio) = ratio {
            n.node.normalization = Switch::Set(true);
            let strategy = n.strategies.normalization.as_mut().unwrap();
            strategy.default_ratio = Some(f64::from(ratio) / 100.0);
            let zones = n.topology.take().map(|topology| topology.zones).unwrap_or_default();
            n.topology = Some(crate::facts::TopologyFacts { zones, processor: Some(Default::default()) });
        }
        n.now += SignedDuration::from_secs(age);
        n
    }
}

/// Everything the node and its zones show, next to what they may show at most: a threshold above 100
/// lends more than there is.
fn published(n: &N) -> Vec<(&'static str, Option<Quantity>, f64)> {
    let ratio: f64 = n.node.ratio.as_deref().map_or(1.0, |text| text.parse().unwrap());
    let most = n.node.capacity.unwrap().counts();
    let reclaim =
        n.strategies.lending.reclaim_percent.map(|percent| percent.max(100) as f64 / 100.0);
    // Margins are rounded, once for each of the two.
    let batch_cpu = |most: i64| (((most as f64 * reclaim.cpu).ceil() + 1.0) * ratio).ceil();
    let batch_memory = |most: i64| (most as f64 * reclaim.memory).ceil() + 1.0;
    let mut all = vec![
        ("batch cpu", n.node.batch.cpu.allocatable, batch_cpu(most.cpu)),
        ("batch memory", n.node.batch.memory.allocatable, batch_memory(most.memory)),
        ("mid cpu", n.node.mid.cpu.allocatable, most.cpu as f64),
        ("mid memory", n.node.mid.memory.allocatable, most.memory as f64),
    ];
    for zone in n.topology.iter().flat_map(|topology| &topology.zones) {
        let most = zone.allocatable.map(Option::unwrap).counts();
        let cpu = zone.batch.cpu.map(|shown| shown.allocatable);
        let memory = zone.batch.memory.map(|shown| shown.allocatable);
        all.push(("zone cpu", cpu, batch_cpu(most.cpu)));
        all.push(("zone memory", memory, batch_memory(most.memory)));
    }
    all
}

proptest! {
    #[test]
    fn nothing_is_negative_or_above_what_thresholds_allow(mut n in a_node()) {
        let plan = n.plan();
        n.write(&plan);
        for (name, amount, most) in published(&n) {
            let Some(amount) = amount else { continue };
            prop_assert!(amount >= Quantity::ZERO, "{name}: {amount}");
            prop_assert!(amount.value() as f64 <= most, "{name}: {amount} of {most}");
        }
        let is_lending = plan.why.standing == Standing::Lending;
        prop_assert_eq!(plan.why.batch.is_some(), is_lending);
    }

    /// Writing a plan and planning again settles: normalization, then amplification, then silence.
    #[test]
    fn planning_again_is_quiet(mut n in a_node()) {
        for _ in 0..2 {
            let plan = n.plan();
            n.write(&plan);
        }
        let plan = n.plan();
        prop_assert!(plan.is_quiet(), "{plan:?}");
    }

    /// More load above batch never leaves more for batch.
    #[test]
    fn batch_falls_as_load_rises(n in a_node(), more in an_amount(8, 16)) {
        let before = n.batch().left;
        let mut busier = n.clone();
        if let Some(usage) = &mut busier.metric.node {
            usage.system += more;
        }
        busier.node.reserved.annotation += more;
        busier.pods.insert(pod("more", PriorityClass::Prod, more));
        let after = busier.batch().left;
        prop_assert!(after.cpu <= before.cpu && after.memory <= before.memory);
    }

    /// What `explain` prints adds up to what is lent, with every clip and rounding as a line.
    #[test]
    fn every_sum_adds_up(n in a_node()) {
        let view = Config::default().for_node(&ObjectMeta::default());
        let why = n.plan().why;
        let batch = explain::batch(&why, &view).zip(why.published.map(|batch| batch.shown));
        let mid = explain::mid(&why, &view).zip(why.mid_published.map(|mid| mid.map(Some)));
        for (sums, lent) in batch.into_iter().chain(mid) {
            for (why, lent) in sums.iter().zip([lent.cpu, lent.memory]) {
                prop_assert_eq!(why.sum.mistake(), None, "{:?}", why);
                prop_assert_eq!(why.sum.result(), Some(lent.unwrap_or(0)), "{:?}", why);
            }
        }
    }

    /// The order in which pods are learned of does not matter.
    #[test]
    fn order_does_not_matter(n in a_node()) {
        let mut other = n.clone();
        other.pods = n.pods.iter().rev().cloned().collect();
        prop_assert_eq!(n.plan(), other.plan());
    }
}
