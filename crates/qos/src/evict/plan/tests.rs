use proptest::prelude::*;

use super::*;
use crate::evict::cpu::BUSY;

const SHARES: Satisfaction = Satisfaction { lower: Percent(60), upper: Percent(80), busy: BUSY };
const WINDOW: Duration = Duration::from_secs(60);

fn amounts(list: &[(&str, i64)]) -> BTreeMap<String, i64> {
    list.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect()
}

fn pod(id: &'static str, class: PriorityClass) -> Pod<&'static str> {
    let is_best_effort = class == PriorityClass::Batch;
    let value = class.default_value();
    Pod {
        id,
        is_best_effort,
        class,
        priority: Some(value),
        value,
        eviction_priority: 0,
        sub_priority: 0,
        is_willing: true,
        allows: None,
        cpu_used: Some(MilliCpu(1_000)),
        memory_used: Some(Bytes::from_gib(4)),
        asked: amounts(&[(BATCH_CPU, 2_000), (BATCH_MEMORY, 8 << 30)]),
    }
}

fn off() -> Rules {
    Rules {
        satisfaction: None,
        lent_cpu: None,
        cpu: None,
        best_effort_memory: None,
        lent_memory: None,
        memory: None,
        window: WINDOW,
    }
}

fn inputs<'a>(
    pods: &'a [Pod<&'static str>],
    lent: &'a BTreeMap<String, i64>,
) -> Inputs<'a, &'static str> {
    Inputs {
        now: Duration::from_secs(1_000),
        cpu_capacity: MilliCpu(10_000),
        memory_capacity: Bytes::from_gib(100),
        cpu_used: Some(MilliCpu(5_000)),
        memory_used: Some(Bytes::from_gib(50)),
        tier: None,
        lent,
        pods,
    }
}

fn band(threshold: i64, lower: i64) -> Band {
    Band { threshold: Percent(threshold), lower: Percent(lower) }
}

fn ids(need: &Need<&'static str>) -> Vec<&'static str> {
    need.pods.iter().map(|(id, _)| *id).collect()
}

#[test]
fn a_full_node_asks_best_effort_and_nobody_else() {
    let pods = [
        pod("web", PriorityClass::Prod),
        pod("small", PriorityClass::Batch),
        Pod { memory_used: Some(Bytes::from_gib(9)), ..pod("large", PriorityClass::Batch) },
        Pod { allows: Some(vec!["CPUEvict".to_owned()]), ..pod("exempt", PriorityClass::Batch) },
    ];
    let none = BTreeMap::new();
    let rules = Rules { best_effort_memory: Some(band(70, 68)), ..off() };
    let cases = [
        ("room", Some(69), None, false),
        ("full", Some(75), Some(7), false),
        ("about to run out", Some(80), Some(12), true),
        ("not measured", None, None, false),
    ];
    for (name, used, want, is_critical) in cases {
        let inputs = Inputs { memory_used: used.map(Bytes::from_gib), ..inputs(&pods, &none) };
        let (needs, _) = plan(&inputs, &rules, &State::default());
        let got = needs.first().map(|need| need.release >> 30);
        assert_eq!(got, want, "{name}");
        if let Some(need) = needs.first() {
            assert_eq!(
                (ids(need), need.is_critical),
                (vec!["large", "small"], is_critical),
                "{name}"
            );
        }
    }
}

#[test]
fn only_willing_pods_up_to_a_priority_leave_for_the_node() {
    let pods = [
        pod("batch", PriorityClass::Batch),
        Pod { is_willing: false, ..pod("unwilling", PriorityClass::Batch) },
        pod("mid", PriorityClass::Mid),
        Pod { cpu_used: None, memory_used: None, ..pod("unmeasured", PriorityClass::Batch) },
        pod("web", PriorityClass::Prod),
    ];
    let none = BTreeMap::new();
    let rules = Rules { cpu: Some(Capped { band: band(80, 70), highest: 7_999 }), ..off() };
    let inputs = Inputs { cpu_used: Some(MilliCpu(8_500)), ..inputs(&pods, &none) };
    let (needs, _) = plan(&inputs, &rules, &State::default());
    assert_eq!(needs[0].release, 1_500);
    assert_eq!(ids(&needs[0]), ["batch", "mid"]);
    assert_eq!(
        needs[0].why.to_string(),
        "the node uses 8500m of 10 (85%); from 80% on it goes down to 70%"
    );
}

#[test]
fn starved_best_effort_gives_back_requests() {
    let pods = [
        Pod { cpu_used: Some(MilliCpu(100)), ..pod("calm", PriorityClass::Batch) },
        pod("busy", PriorityClass::Batch),
        pod("web", PriorityClass::Prod),
    ];
    let none = BTreeMap::new();
    let rules = Rules { satisfaction: Some((SHARES, Against::RealLimit)), ..off() };
    let tier = |limit: i64| {
        let limit = MilliCpu(limit);
        let tier = Tier { used: limit, requested: MilliCpu(10_000), limit };
        Some((tier, Some(tier)))
    };
    let cases = [
        ("content", tier(7_000), None),
        ("starved", tier(4_000), Some((4_000, None))),
        ("hardly anything: one at a time", tier(900), Some((7_100, Some(1)))),
        ("not measured", None, None),
    ];
    for (name, tier, want) in cases {
        let inputs = Inputs { tier, ..inputs(&pods, &none) };
        let (needs, _) = plan(&inputs, &rules, &State::default());
        assert_eq!(needs.first().map(|need| (need.release, need.most)), want, "{name}");
        for need in needs {
            assert_eq!(ids(&need), ["busy", "calm"], "{name}");
        }
    }
}

/// A restart of the manager takes batch CPU away for a moment; nobody may be sent away for that.
#[test]
fn what_the_node_advertises_must_starve_for_a_whole_window() {
    let pods = [pod("a", PriorityClass::Batch)];
    let rules = Rules { satisfaction: Some((SHARES, Against::Allocatable)), ..off() };
    let tier = Tier { used: MilliCpu(4_000), requested: MilliCpu(10_000), limit: MilliCpu(4_000) };
    let content = Tier { limit: MilliCpu(9_000), used: MilliCpu(9_000), ..tier };
    let mut state = State::default();
    let mut round = |at: u64, lent: i64, tier: Tier| {
        let lent = amounts(&[(BATCH_CPU, lent)]);
        let now = Duration::from_secs(at);
        let inputs = Inputs { now, tier: Some((tier, Some(tier))), ..inputs(&pods, &lent) };
        let (needs, next) = plan(&inputs, &rules, &state);
        state = next;
        needs.first().map(|need| need.release)
    };
    assert_eq!(round(0, 2_000, tier), None, "not for long enough");
    assert_eq!(round(59, 2_000, tier), None);
    assert_eq!(
        round(60, 2_000, tier),
        Some(4_000),
        "both limits agree, and the smaller sum counts"
    );
    assert_eq!(round(61, 2_000, content), None, "the real limit is fine");
    assert_eq!(round(62, 9_000, tier), None, "the node lends enough");
    assert_eq!(round(63, 2_000, tier), None, "and the window starts over");
}

#[test]
fn more_asked_for_than_lent_goes_down_to_the_lower_share() {
    let mid = Pod { asked: amounts(&[(MID_CPU, 3_000)]), ..pod("mid", PriorityClass::Mid) };
    let pods = [pod("a", PriorityClass::Batch), pod("b", PriorityClass::Batch), mid];
    let rules = Rules { lent_cpu: Some(Capped { band: band(110, 100), highest: 7_999 }), ..off() };
    type Amounts = &'static [(&'static str, i64)];
    let cases: [(&str, Amounts, Amounts); 4] = [
        ("all fits", &[(BATCH_CPU, 4_000), (MID_CPU, 3_000)], &[]),
        ("a little over is tolerated", &[(BATCH_CPU, 3_700), (MID_CPU, 3_000)], &[]),
        ("over", &[(BATCH_CPU, 3_000), (MID_CPU, 3_000)], &[("batch", 1_000)]),
        ("both over", &[(BATCH_CPU, 3_000), (MID_CPU, 1_000)], &[("batch", 1_000), ("mid", 2_000)]),
    ];
    for (name, lent, want) in cases {
        let lent = amounts(lent);
        let (needs, _) = plan(&inputs(&pods, &lent), &rules, &State::default());
        let got: Vec<_> = needs
            .iter()
            .map(|need| (if need.target == Target::MidCpu { "mid" } else { "batch" }, need.release))
            .collect();
        assert_eq!(got, want, "{name}");
    }
}

#[test]
fn nothing_lent_is_believed_after_a_quarter_of_an_hour() {
    let pods = [pod("a", PriorityClass::Batch)];
    let rules =
        Rules { lent_memory: Some(Capped { band: band(110, 100), highest: 7_999 }), ..off() };
    let mut state = State::default();
    let mut round = |minutes: u64, lent: Option<i64>| {
        let lent = amounts(lent.map(|lent| (BATCH_MEMORY, lent)).as_slice());
        let now = Duration::from_secs(minutes * 60);
        let inputs = Inputs { now, ..inputs(&pods, &lent) };
        let (needs, next) = plan(&inputs, &rules, &state);
        state = next;
        needs.first().map(|need| need.release >> 30)
    };
    assert_eq!(round(0, None), None, "the node never lent any");
    assert_eq!(round(60, None), None);
    assert_eq!(round(61, Some(8 << 30)), None);
    assert_eq!(round(62, Some(0)), None, "a moment");
    assert_eq!(round(76, None), None);
    assert_eq!(round(77, None), Some(8));
    assert_eq!(round(78, Some(8 << 30)), None);
}

proptest! {
    /// Nobody above best-effort is ever named by the rules for best-effort, and no need is negative.
    #[test]
    fn online_pods_are_safe_from_best_effort_rules(
        used in 0..200i64, limit in 0..10_000i64, classes in proptest::collection::vec(0..4usize, 0..8),
    ) {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let all = [PriorityClass::Prod, PriorityClass::Mid, PriorityClass::Batch, PriorityClass::Free];
        let pods: Vec<_> = classes.iter().zip(names).map(|(class, name)| pod(name, all[*class])).collect();
        let none = BTreeMap::new();
        let rules = Rules {
            satisfaction: Some((SHARES, Against::RealLimit)),
            best_effort_memory: Some(band(70, 68)),
            ..off()
        };
        let tier = Tier { used: MilliCpu(limit), requested: MilliCpu(10_000), limit: MilliCpu(limit) };
        let inputs = Inputs {
            memory_used: Some(Bytes::from_gib(used)),
            tier: Some((tier, Some(tier))),
            ..inputs(&pods, &none)
        };
        for need in plan(&inputs, &rules, &State::default()).0 {
            prop_assert!(need.release > 0);
            for (id, _) in need.pods {
                prop_assert!(pods.iter().any(|pod| pod.id == id && pod.is_best_effort));
            }
        }
    }
}
