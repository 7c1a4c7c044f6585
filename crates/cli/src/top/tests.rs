//! Screens as goldens, and what keys do.

use console::model::World;
use console::model::overview::Overview;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyModifiers};
use serde_json::{Value, json};

use super::*;

fn now() -> Timestamp {
    "2030-01-01T12:00:00Z".parse().unwrap()
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn put_node(world: &mut World, name: &str, is_ready: bool) {
    world.put_node(object(json!({
        "metadata": {"name": name},
        "status": {
            "capacity": {"cpu": "16", "memory": "64Gi"},
            "allocatable": {"kubernetes.io/batch-cpu": "5200"},
            "conditions": [{"type": "Ready", "status": if is_ready { "True" } else { "False" },
                "lastHeartbeatTime": null, "lastTransitionTime": null}],
        },
    })));
}

fn put_pod(world: &mut World, name: &str, node: &str, qos: &str, cpus: &str) {
    world.put_pod(&object(json!({
        "metadata": {"name": name, "namespace": "default",
            "labels": {"koordinator.sh/qosClass": qos},
            "annotations": {"scheduling.koordinator.sh/resource-status":
                json!({ "cpuset": cpus }).to_string()}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests":
            if qos == "BE" { json!({"kubernetes.io/batch-cpu": "3000"}) } else { json!({"cpu": "4"}) }}}]},
        "status": {"phase": "Running"},
    })));
}

/// Three nodes; the first has pods of all classes and 16 CPUs on two sockets.
fn world() -> World {
    let mut world = World::default();
    put_node(&mut world, "atlas", true);
    put_node(&mut world, "boreas", true);
    put_node(&mut world, "ceres", false);
    put_pod(&mut world, "trading", "atlas", "LSE", "0,8");
    put_pod(&mut world, "cache", "atlas", "LSR", "1,9");
    put_pod(&mut world, "web", "atlas", "LS", "");
    put_pod(&mut world, "transcode", "atlas", "BE", "");
    let pods = [
        ("trading", "LSE", 1_800),
        ("cache", "LSR", 900),
        ("web", "LS", 2_500),
        ("transcode", "BE", 3_100),
    ];
    let pods: Vec<Value> = pods
        .iter()
        .map(|(name, qos, milli)| {
            json!({"name": name, "namespace": "default", "qos": qos,
                "podUsage": {"resources": {"cpu": format!("{milli}m"), "memory": "2Gi"}}})
        })
        .collect();
    world.put_metric(object(json!({
        "metadata": {"name": "atlas"}, "spec": {},
        "status": {"updateTime": now().to_string(), "podsMetric": pods,
            "nodeMetric": {"nodeUsage": {"resources": {"cpu": "8700m", "memory": "21Gi"}}}},
    })));
    world.put_agent("atlas", object(json!({"decisions": [{
        "strategy": "suppress", "since": now().to_string(), "about": "node", "resource": "cpu",
        "headline": "best-effort may use 4.4 of 16 CPUs", "boundBy": "threshold",
        "lines": [{"amount": 16_000, "label": "capacity"}, {"amount": 4_400, "label": "granted"}],
    }]})));
    let detail: Vec<Value> = (0..16)
        .map(|cpu| json!({"id": cpu, "core": cpu % 8, "socket": cpu % 8 / 4, "node": cpu % 8 / 4}))
        .collect();
    let pool = |cpus: &str| json!([{"socket": 0, "node": 0, "cpuset": cpus}]).to_string();
    world.put_topology(&object(json!({
        "metadata": {"name": "atlas", "annotations": {
            "node.koordinator.sh/cpu-topology": json!({ "detail": detail }).to_string(),
            "node.koordinator.sh/cpu-shared-pools": pool("2-6,10-14"),
            "node.koordinator.sh/be-cpu-shared-pools": pool("2-7,10-15"),
        }},
        "zones": [],
    })));
    world
}

fn snapshot(world: &World, node: Option<&str>) -> Snapshot {
    let rows = world.rows(now());
    Snapshot {
        at: now(),
        overview: Overview::of(world, &rows),
        nodes: rows,
        pods: world.pod_rows(),
        node: node.and_then(|node| world.node_page(node, now())),
    }
}

fn drawn(screen: &Screen, width: u16, height: u16, palette: Palette) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view::draw(screen, palette, frame)).unwrap();
    terminal.backend().clone()
}

#[test]
fn screens_look_as_they_should() {
    let world = world();
    for (name, tab) in [("nodes", Tab::Nodes), ("pods", Tab::Pods), ("cpus", Tab::Cpus)] {
        let screen = Screen::new(snapshot(&world, Some("atlas")), tab);
        for (width, height) in [(80, 24), (200, 60)] {
            let drawn = drawn(&screen, width, height, Palette::PLAIN);
            insta::assert_snapshot!(format!("{name}-{width}x{height}"), drawn);
        }
    }
}

#[test]
fn empty_clusters_and_help_are_screens_too() {
    let empty = Screen::new(snapshot(&World::default(), None), Tab::Nodes);
    insta::assert_snapshot!("empty-80x24", drawn(&empty, 80, 24, Palette::PLAIN));
    let mut helping = Screen::new(snapshot(&world(), None), Tab::Nodes);
    helping.key(KeyCode::Char('?'), KeyModifiers::NONE);
    insta::assert_snapshot!("help-80x24", drawn(&helping, 80, 24, Palette::PLAIN));
}

#[test]
fn no_screen_is_too_small() {
    let screen = Screen::new(snapshot(&world(), Some("atlas")), Tab::Cpus);
    for (width, height) in [(1, 1), (3, 2), (20, 5), (79, 7)] {
        drawn(&screen, width, height, Palette::COLOURED);
    }
}

#[test]
fn colours_are_left_out_where_nobody_wants_them() {
    let screen = Screen::new(snapshot(&world(), Some("atlas")), Tab::Cpus);
    let colours = |palette| {
        let backend = drawn(&screen, 80, 24, palette);
        let cells = backend.buffer().content();
        cells.iter().filter(|cell| cell.fg != ratatui::style::Color::Reset).count()
    };
    assert_eq!(colours(Palette::of(Some("1".as_ref()))), 0);
    assert!(colours(Palette::of(None)) > 0);
    assert!(colours(Palette::of(Some("".as_ref()))) > 0, "an empty NO_COLOR says nothing");
}

#[test]
fn keys_lead_from_place_to_place() {
    let mut screen = Screen::new(snapshot(&world(), None), Tab::Nodes);
    let none = KeyModifiers::NONE;
    let mut press = |keys: &[KeyCode]| {
        keys.iter().for_each(|key| assert_eq!(screen.key(*key, none), Flow::Stay));
        (screen.tab, screen.chosen, screen.search.clone(), screen.node().map(str::to_owned))
    };
    let at = |tab, chosen, search: &str, node: Option<&str>| {
        (tab, chosen, search.to_owned(), node.map(str::to_owned))
    };
    assert_eq!(press(&[KeyCode::Down, KeyCode::End, KeyCode::Down]), at(Tab::Nodes, 2, "", None));
    assert_eq!(press(&[KeyCode::Home, KeyCode::Up]), at(Tab::Nodes, 0, "", None));
    let typed = [
        KeyCode::Char('/'),
        KeyCode::Char('a'),
        KeyCode::Char('q'),
        KeyCode::Backspace,
        KeyCode::Char('t'),
    ];
    assert_eq!(press(&typed), at(Tab::Nodes, 0, "at", None), "letters are typed, not obeyed");
    assert_eq!(press(&[KeyCode::Enter]), at(Tab::Nodes, 0, "at", None));
    assert_eq!(press(&[KeyCode::Enter]), at(Tab::Cpus, 0, "", Some("atlas")));
    assert_eq!(press(&[KeyCode::Esc, KeyCode::Char('2')]), at(Tab::Pods, 0, "", Some("atlas")));
    assert!(!screen.wants_another_node(), "no CPUs are shown");
    assert_eq!(screen.key(KeyCode::Char('q'), none), Flow::Leave);
    assert_eq!(screen.key(KeyCode::Char('c'), KeyModifiers::CONTROL), Flow::Leave);
}

#[test]
fn a_chosen_row_that_goes_away_is_not_missed() {
    let mut screen = Screen::new(snapshot(&world(), None), Tab::Nodes);
    screen.key(KeyCode::End, KeyModifiers::NONE);
    screen.take(snapshot(&World::default(), None));
    assert_eq!(screen.chosen, 0);
}

#[test]
fn without_a_terminal_it_is_a_table() {
    let world = world();
    let page = |tab| text::page(&Screen::new(snapshot(&world, Some("atlas")), tab));
    insta::assert_snapshot!("text", [Tab::Nodes, Tab::Pods, Tab::Cpus].map(page).join("\n"));
}

#[test]
fn terminals_are_not_commanded_by_names() {
    assert_eq!(text::plain("a\u{1b}[2Jb\nc"), "a?[2Jb?c");
}
