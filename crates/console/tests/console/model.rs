//! Views are functions of what is known.

use console::model::PodKey;
use console::model::World;
use console::model::cpus::CpuMap;
use console::model::node::MarkKind;
use console::model::overview::Overview;
use console::model::row::{NodeRow, State};
use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::json;
use units::MilliCpu;

use crate::rig::{agent, metric, node, now, object, pod, world};

fn row(world: &World) -> NodeRow {
    world.rows(now()).into_iter().next().unwrap()
}

#[test]
fn usage_is_told_by_class_and_the_rest_is_the_systems() {
    let classes = row(&world()).classes.unwrap();
    let milli = [classes.system, classes.lse, classes.lsr, classes.ls, classes.be].map(|one| one.0);
    assert_eq!(milli, [200, 0, 500, 1_500, 800]);
    assert_eq!(classes.sum(), MilliCpu(3_000));
}

#[test]
fn a_report_without_classes_takes_those_of_the_pods() {
    let mut world = world();
    let mut report = metric("n1", now(), 1_000, &[("etl", "BE", 900)]);
    report["status"]["podsMetric"][0]["qos"] = json!("");
    world.put_metric(object(report));
    assert_eq!(row(&world).classes.unwrap().be, MilliCpu(900));
}

#[test]
fn states_have_reasons() {
    struct Case {
        name: &'static str,
        change: fn(&mut World),
        want: (State, &'static str),
    }
    let cases = [
        Case {
            name: "with room",
            change: |_| {},
            want: (State::Safe, "38% of CPU and 25% of memory are used"),
        },
        Case {
            name: "above the threshold",
            change: |world| {
                world.put_metric(object(metric("n1", now(), 5_600, &[("etl", "BE", 9)])))
            },
            want: (State::Held, "70% of CPU is used; best-effort is held back at 65%"),
        },
        Case {
            name: "full",
            change: |world| {
                world.put_metric(object(metric("n1", now(), 7_800, &[("etl", "BE", 9)])))
            },
            want: (State::Unsafe, "98% of CPU is used, with best-effort work in it"),
        },
        Case {
            name: "full, but of online work alone",
            change: |world| {
                world.remove_pod(&key("etl"));
                world.put_metric(object(metric("n1", now(), 7_800, &[])));
            },
            want: (State::Safe, "98% of CPU and 25% of memory are used"),
        },
        Case {
            name: "silent",
            change: |world| {
                let at = now() - SignedDuration::from_mins(7);
                world.put_metric(object(metric("n1", at, 100, &[])));
            },
            want: (State::Unknown, "the last report is 7 min old"),
        },
        Case {
            name: "never measured",
            change: |world| world.remove_metric("n1"),
            want: (State::Unknown, "nothing was measured yet"),
        },
        Case {
            name: "not ready",
            change: |world| {
                let mut node = node("n1");
                node["status"]["conditions"][0]["status"] = json!("False");
                world.put_node(object(node));
            },
            want: (State::Unsafe, "the node is not ready"),
        },
        Case {
            name: "off by annotation",
            change: |world| {
                let mut node = node("n1");
                node["metadata"]["annotations"] = json!({"tidepool.io/switch": "off"});
                world.put_node(object(node));
            },
            want: (State::Off, "turned off by the annotation of the Node"),
        },
        Case {
            name: "off by hand",
            change: |world| {
                let mut page = agent(1, now());
                page.switch.is_on = false;
                page.switch.off_by = Some("this machine".to_owned());
                world.put_agent("n1", page);
            },
            want: (State::Off, "turned off by this machine"),
        },
    ];
    for Case { name, change, want } in cases {
        let mut world = world();
        change(&mut world);
        let row = row(&world);
        assert_eq!((row.state, row.why.as_str()), want, "{name}");
    }
}

fn key(name: &str) -> PodKey {
    PodKey { namespace: "shop".to_owned(), name: name.to_owned() }
}

#[test]
fn thresholds_follow_the_configuration() {
    let mut world = world();
    let text = r#"{"clusterStrategy":{"enable":true,"cpuSuppressThresholdPercent":30}}"#;
    let map = object(json!({"metadata": {"name": "slo-controller-config"},
        "data": {"resource-threshold-config": text}}));
    world.put_config(Some(map), "ConfigMap ns/slo-controller-config");
    assert_eq!(row(&world).state, State::Held, "38% is above 30%");
    let settings = world.settings("n1");
    let own = settings.iter().find(|one| one.field == "cpuSuppressThresholdPercent").unwrap();
    assert_eq!((own.value.clone(), own.source.as_str()), (json!(30), "cluster"));
    world.put_config(None, "ConfigMap ns/slo-controller-config");
    assert_eq!(row(&world).state, State::Safe);
}

#[test]
fn the_first_page_sums_up() {
    let mut world = world();
    world.put_node(object(node("n2")));
    let rows = world.rows(now());
    world.sample_fleet(&rows, now());
    let overview = Overview::of(&world, &rows);
    assert_eq!(overview.headline, "Safe, as far as is known: 1 node says nothing");
    assert_eq!((overview.counts.safe, overview.counts.unknown), (1, 1));
    assert_eq!(overview.cpu.capacity, MilliCpu(8_000), "what is not measured is left out");
    assert_eq!(overview.cpu.used - overview.cpu.without_batch, MilliCpu(800));
    assert_eq!(overview.batch.lent, MilliCpu(6_000));
    assert_eq!(overview.batch.requested, MilliCpu(1_000));
    assert_eq!(overview.distribution[3], 1, "38% is between 30 and 40");
    assert_eq!(overview.attention.len(), 1);
    assert_eq!(overview.history.len(), 1);
    let nothing = Overview::of(&World::default(), &[]);
    assert_eq!(nothing.headline, "There are no nodes yet");
}

#[test]
fn online_work_that_waits_is_a_hint() {
    let mut world = world();
    let first_page = |world: &World| Overview::of(world, &world.rows(now()));
    let mut page = agent(1_200, now());
    world.put_agent("n1", page.clone());
    assert_eq!(world.node_page("n1", now()).unwrap().waits, None, "nobody measures it");
    let wait =
        |pod: &str, share: u32| object(json!({"pod": pod, "resource": "cpu", "share": share}));
    page.waits = Some(vec![wait("shop/web", 700), wait("shop/cache", 499)]);
    world.put_agent("n1", page);
    assert_eq!(world.node_page("n1", now()).unwrap().waits.unwrap().len(), 2);
    let hints = first_page(&world).hints;
    let [hint] = hints.as_slice() else { panic!("the long one only: {hints:?}") };
    assert_eq!((hint.node.as_str(), hint.wait.pod.as_str()), ("n1", "shop/web"));
    world.remove_agent("n1");
    assert_eq!(first_page(&world).hints, []);
}

#[test]
fn a_node_page_has_the_past_the_limit_and_its_reasons() {
    let mut world = world();
    let pods = [("web", "LS", 3_000), ("etl", "BE", 400)];
    world.put_metric(object(metric("n1", now(), 4_000, &pods)));
    let before = now() - SignedDuration::from_secs(20);
    world.put_agent("n1", agent(2_000, before));
    world.put_agent("n1", agent(1_200, now()));
    let page = world.node_page("n1", now()).unwrap();
    assert_eq!(page.samples.len(), 2);
    let limits: Vec<i64> = page.limits.iter().map(|limit| limit.milli_cpu.0).collect();
    assert_eq!(limits, [2_000, 1_200]);
    let [mark] = page.marks.as_slice() else { panic!("one mark: {:?}", page.marks) };
    assert_eq!((mark.kind, mark.bound_by.as_str()), (MarkKind::Suppressed, "threshold"));
    assert_eq!(page.decisions.len(), 1);
    assert_eq!(page.pod_rows.len(), 3);
    assert!(page.settings.len() > 20);
    assert!(world.node_page("n2", now()).is_none());
}

#[test]
fn a_row_has_the_limit_that_the_agent_decided() {
    let mut world = world();
    assert_eq!(row(&world).best_effort_limit, None, "nobody said so");
    world.put_agent("n1", agent(1_200, now()));
    assert_eq!(row(&world).best_effort_limit, Some(MilliCpu(1_200)));
    let mut off = agent(1_200, now());
    off.switch.is_on = false;
    world.put_agent("n1", off);
    assert_eq!(row(&world).best_effort_limit, None, "an agent that is off limits nothing");
    world.remove_agent("n1");
    assert_eq!(row(&world).best_effort_limit, None);
}

#[test]
fn the_past_is_replayed_as_it_was() {
    let mut world = world();
    let at = |seconds: i64| now() - SignedDuration::from_secs(100 - seconds);
    for (seconds, limit) in [(0, 3_000), (40, 2_000), (80, 1_000)] {
        let mut page = agent(limit, at(seconds));
        if limit == 2_000 {
            page.decisions.push(object(json!({
                "strategy": "evict", "since": at(45).to_string(), "about": "shop/etl",
                "resource": "memory", "headline": "was told", "boundBy": "BEMemoryEvict",
            })));
        }
        world.put_agent("n1", page);
    }
    let replay = |seconds: i64| world.replay("n1", Some(at(seconds)), now()).unwrap();
    struct Case {
        name: &'static str,
        seconds: i64,
        want: (Option<i64>, &'static [&'static str], usize),
    }
    let cases = [
        Case { name: "before all", seconds: -1, want: (None, &[], 0) },
        Case { name: "at the first", seconds: 0, want: (Some(3_000), &["suppress"], 1) },
        Case { name: "between", seconds: 39, want: (Some(3_000), &["suppress"], 0) },
        Case { name: "at the second", seconds: 40, want: (Some(2_000), &["suppress"], 1) },
        Case { name: "with news", seconds: 60, want: (Some(2_000), &["evict", "suppress"], 0) },
        Case { name: "news get old", seconds: 120, want: (Some(1_000), &["suppress"], 0) },
    ];
    for Case { name, seconds, want } in cases {
        let found = replay(seconds);
        let strategies: Vec<&str> =
            found.decisions.iter().map(|decided| decided.strategy.as_str()).collect();
        let limit = found.limit.map(|limit| limit.0);
        assert_eq!((limit, strategies.as_slice(), found.changed), want, "{name}");
    }
    let today = world.replay("n1", None, now()).unwrap();
    assert!(today.is_now && today.at == now());
    assert_eq!(today.moments, [at(0), at(40), at(45), at(80)]);
    assert_eq!(today.used.unwrap().used.be, MilliCpu(800), "measured half a minute ago");
    assert!(world.replay("n2", None, now()).is_none());
}

#[test]
fn cpus_have_owners() {
    let mut world = world();
    let mut bound = pod("cache", "n1", "LSR");
    bound["metadata"]["annotations"] =
        json!({"scheduling.koordinator.sh/resource-status": r#"{"cpuset":"0-1"}"#});
    world.put_pod(&object(bound));
    let map = world.node_page("n1", now()).unwrap().cpu_map;
    let owners: String = map
        .cpus()
        .map(|cpu| format!("{}{} ", cpu.owner, if cpu.lends { "+" } else { "" }))
        .collect();
    assert_eq!(owners, "LSR LSR LS+ LS+ LS+ LS+ BE+ BE+ ");
    assert_eq!(map.sockets.len(), 2);
    assert_eq!(map.cpus().next().unwrap().pod.as_deref(), Some("shop/cache"));
    assert_eq!(CpuMap::of(&Default::default(), &[]), CpuMap::default());
}

#[test]
fn a_pod_page_says_how_the_pod_is_treated() {
    let mut world = world();
    world.put_agent("n1", agent(1_200, now()));
    let page = world.pod_page(&key("etl"), now()).unwrap();
    assert_eq!(page.headline, "This BE pod uses what others leave, and yields when they need it");
    assert_eq!(page.decisions.len(), 1, "what is decided about best-effort concerns it");
    assert_eq!(page.row.used.unwrap().milli_cpu, MilliCpu(800));
    let page = world.pod_page(&key("web"), now()).unwrap();
    assert!(page.decisions.is_empty());
    assert!(world.pod_page(&key("none"), now()).is_none());
}

#[test]
fn a_bad_configuration_is_told_key_by_key() {
    let mut world = world();
    assert!(world.config_page().headline.starts_with("Nothing is configured"));
    let map = object(json!({"metadata": {"name": "slo-controller-config"}, "data": {
        "resource-threshold-config": r#"{"clusterStrategy":{"cpuSuppressThresholdPercent":650}}"#,
    }}));
    world.put_config(Some(map), "ConfigMap ns/slo-controller-config");
    let page = world.config_page();
    assert!(page.headline.contains("error"), "{}", page.headline);
    let key = page.keys.iter().find(|key| key.name == "resource-threshold-config").unwrap();
    assert_eq!(key.errors, 1, "{:?}", page.findings);
    assert!(key.text.as_deref().unwrap().contains("650"));
}

#[test]
fn reports_become_core_seconds() {
    let mut world = world();
    world.put_metric(object(metric(
        "n1",
        now() + SignedDuration::from_secs(30),
        3_000,
        &[("etl", "BE", 1_000)],
    )));
    let total = world.ledger().total();
    assert_eq!(total.capacity, 8_000 * 60);
    assert_eq!((total.shared, total.lent), (0, 1_000 * 60), "no other pod was reported");
}

#[test]
fn what_is_gone_is_gone() {
    let mut world = world();
    world.put_agent("n1", agent(1, now()));
    let mut done = pod("etl", "n1", "BE");
    done["status"]["phase"] = json!("Succeeded");
    world.put_pod(&object(done));
    assert!(!world.knows_pod(&key("etl")));
    world.remove_node("n1");
    assert!(world.rows(now()).is_empty());
    assert!(world.node_page("n1", now()).is_none());
    assert!(world.agent("n1").is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever objects are called, views are made and survive the way through JSON.
    #[test]
    fn no_name_breaks_a_view(name in "\\PC{1,40}", used in -10_000..100_000i64) {
        let mut world = World::default();
        world.put_node(object(node(&name)));
        let mut own = pod(&name, &name, "BE");
        own["metadata"]["namespace"] = json!(name);
        world.put_pod(&object(own));
        world.put_metric(object(metric(&name, now(), used, &[(&name, "BE", used)])));
        let rows = world.rows(now());
        world.sample_fleet(&rows, now());
        let text = serde_json::to_string(&Overview::of(&world, &rows)).unwrap();
        prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
        let page = serde_json::to_value(world.node_page(&name, now()).unwrap()).unwrap();
        prop_assert_eq!(page["name"].as_str(), Some(name.as_str()));
    }
}
