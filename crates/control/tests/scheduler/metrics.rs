//! Every name that dashboards query is there, with its labels.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::replicas::ask;
use crate::rig::{is_bound, object, options, rig, scheduled};

/// What the scheduler inherits and adds, and what has been observed once pods were bound, refused
/// and preempted.
const NAMES: &[(&str, &[&str], bool)] = &[
    ("schedule_attempts_total", &["result", "profile"], true),
    ("scheduling_attempt_duration_seconds", &["result", "profile"], true),
    ("scheduling_algorithm_duration_seconds", &[], true),
    ("preemption_victims", &[], true),
    ("preemption_attempts_total", &[], true),
    ("pending_pods", &["queue"], true),
    ("inflight_events", &["event"], false),
    ("goroutines", &["operation"], true),
    ("pod_scheduling_sli_duration_seconds", &["attempts"], true),
    ("pod_scheduling_attempts", &[], true),
    ("framework_extension_point_duration_seconds", &["extension_point", "status", "profile"], true),
    ("plugin_execution_duration_seconds", &["plugin", "extension_point", "status"], true),
    ("queueing_hint_execution_duration_seconds", &["plugin", "event", "hint"], false),
    ("queue_incoming_pods_total", &["queue", "event"], true),
    ("permit_wait_duration_seconds", &["result"], false),
    ("cache_size", &["type"], true),
    ("unschedulable_pods", &["plugin", "profile"], true),
    ("plugin_evaluation_total", &["plugin", "extension_point", "profile"], true),
    ("event_handling_duration_seconds", &["event"], true),
    ("preemption_goroutines_duration_seconds", &["result"], true),
    ("preemption_goroutines_execution_total", &["result"], true),
    ("scheduling_timeout", &["profile"], false),
    ("reservation_status_phase", &["name", "phase"], false),
    ("reservation_resource", &["type", "name", "resource", "unit"], false),
    ("pod_scheduling_evaluated_nodes", &[], true),
    ("pod_scheduling_feasible_nodes", &[], true),
    ("elastic_quota_process_latency", &["operation"], false),
    ("elastic_quota_hook_plugin_latency", &["plugin", "operation"], false),
    ("elastic_quota_spec", &["name", "resource", "tree", "is_parent", "parent", "field"], false),
    ("elastic_quota_status", &["name", "resource", "tree", "is_parent", "parent", "field"], false),
    ("update_elastic_quota_status_duration_seconds", &[], false),
    ("secondary_device_not_well_planned", &["node_name"], false),
    ("waiting_gang_group_number", &[], false),
    ("next_pod_delete_from_queue_latency", &[], false),
    ("job_preemption_duration_seconds", &["jobName", "result"], false),
    ("gang_schedule_cycle_duration_seconds", &["reason", "job_size"], false),
    ("reservation_selector_index_query_total", &["result"], false),
    ("reservation_selector_index_candidates_count", &[], false),
    ("inline_batch_schedule_duration_seconds", &["result"], false),
];

/// The sets of labels of each family.
type Series = BTreeMap<String, BTreeSet<BTreeSet<String>>>;

/// Types by name, and the sets of labels of each family's series.
fn read(page: &str) -> (BTreeMap<&str, &str>, Series) {
    let (mut types, mut labels) = (BTreeMap::new(), Series::new());
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and a type");
            assert!(types.insert(name, kind).is_none(), "{name} is there twice");
        } else if !line.starts_with('#') {
            let series = line.rsplit_once(' ').expect("a value").0;
            let (name, own) = series.split_once('{').unwrap_or((series, "}"));
            let own = own.trim_end_matches('}').split("\",").filter(|part| !part.is_empty());
            let own = own.map(|part| part.split('=').next().unwrap_or("").to_owned());
            let own: BTreeSet<String> = own.filter(|label| label != "le").collect();
            let stems = ["_bucket", "_sum", "_count"];
            let stem = stems.iter().find_map(|end| name.strip_suffix(end));
            let family = stem.filter(|stem| types.get(stem) == Some(&"histogram")).unwrap_or(name);
            labels.entry(family.to_owned()).or_default().insert(own);
        }
    }
    (types, labels)
}

#[tokio::test]
async fn every_name_is_there_with_its_labels() {
    let rig = rig().await;
    let classes: Api<PriorityClass> = Api::all(rig.client.clone());
    let class = json!({"metadata": {"name": "high"}, "value": 1_000});
    classes.create(&PostParams::default(), &object(class)).await.expect("new");
    rig.add_node("n1", "4").await;
    let mut options = options();
    options.listen = Some(([127, 0, 0, 1], 0).into());
    let scheduler = rig.schedule_with(options).await;
    rig.add("low", "3", json!({"terminationGracePeriodSeconds": 0})).await;
    rig.until_pod("low", "bound", is_bound).await;
    rig.add_pod("huge", "40").await;
    rig.until_pod("huge", "told", |pod| scheduled(pod).is_some()).await;
    rig.add("boss", "3", json!({"priorityClassName": "high"})).await;
    rig.until_pod("boss", "bound", is_bound).await;
    rig.until_event("boss", "Scheduled").await;
    let address = scheduler.status.address.expect("a port");

    // What the engine counts by itself is fetched once a second.
    let is_observed = |page: &str| {
        let (_, labels) = read(page);
        let live = NAMES.iter().filter(|(_, _, is_live)| *is_live);
        let missing = live.map(|(name, ..)| format!("scheduler_{name}"));
        missing.filter(|name| !labels.contains_key(name)).collect::<Vec<_>>()
    };
    let mut page = String::new();
    for _ in 0..200 {
        page = ask(address, "/metrics").await.1;
        if is_observed(&page).is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(is_observed(&page), Vec::<String>::new(), "{page}");
    let (types, labels) = read(&page);
    for (name, want, _) in NAMES {
        let name = format!("scheduler_{name}");
        assert!(types.contains_key(name.as_str()), "{name} is missing");
        let want: BTreeSet<String> = want.iter().map(|label| (*label).to_owned()).collect();
        for found in labels.get(&name).into_iter().flatten() {
            assert_eq!(*found, want, "{name}");
        }
        let defined = control::scheduler::instruments::known().find(|own| own.name == name);
        let defined: BTreeSet<String> =
            defined.expect("defined").labels.iter().map(|label| (*label).to_owned()).collect();
        assert_eq!(defined, want, "{name}");
    }
    let counts = [
        r#"scheduler_queue_incoming_pods_total{event="UnscheduledPodAdd",queue="active"} 3"#,
        r#"scheduler_preemption_goroutines_execution_total{result="success"} 1"#,
        r#"plugin_execution_duration_seconds_count{extension_point="Filter",plugin="NodeResourcesFit",status="Success"}"#,
    ];
    for want in counts {
        assert!(page.contains(want), "{want} is not in {page}");
    }
    scheduler.stop().await;
}
