//! Objects follow nodes, reports and configuration.

use api::kind::{NodeMetric, NodeResourceTopology, NodeSlo};
use api::protocol::event;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Event, Node};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use overcommit::plan::{Options, Standing};
use reconcile::elect::Leadership;
use serde_json::json;
use tokio::sync::watch;

use crate::rig::{
    BATCH_CPU, CONFIG, NAMESPACE, batch_cpu, create, rig, rig_with, until, until_gone,
};

#[tokio::test]
async fn objects_come_change_and_go_with_their_node() {
    let rig = rig().await;
    rig.configure(json!({"enable": true, "metricReportIntervalSeconds": 30})).await;
    rig.add_node("n1").await;
    let (metrics, slos) = (rig.all::<NodeMetric>(), rig.all::<NodeSlo>());
    let interval = |metric: &NodeMetric| {
        metric.spec.metric_collect_policy.as_ref().and_then(|policy| policy.report_interval_seconds)
    };
    until(&metrics, "n1", "measured", |metric| interval(metric) == Some(30)).await;
    until(&slos, "n1", "told", |slo| slo.spec.cpu_burst_strategy.is_some()).await;

    let extensions = json!({"spec": {"extensions": {"theirs": {"x": 1}}}});
    slos.patch("n1", &PatchParams::default(), &Patch::Merge(&extensions)).await.unwrap();
    rig.configure_all(json!({
        "colocation-config": r#"{"enable":true,"metricReportIntervalSeconds":20}"#,
        "cpu-burst-config": r#"{"clusterStrategy":{"cpuBurstPercent":777}}"#,
    }))
    .await;
    until(&metrics, "n1", "measured anew", |metric| interval(metric) == Some(20)).await;
    let told = |slo: &NodeSlo| {
        slo.spec.cpu_burst_strategy.as_ref().and_then(|burst| burst.cpu_burst_percent) == Some(777)
    };
    let slo = until(&slos, "n1", "told anew", told).await;
    assert!(slo.spec.extensions.is_some_and(|all| all.contains_key("theirs")));

    metrics.delete("n1", &DeleteParams::default()).await.unwrap();
    until(&metrics, "n1", "created again", |metric| interval(metric) == Some(20)).await;

    rig.all::<Node>().delete("n1", &DeleteParams::default()).await.unwrap();
    until_gone(&metrics, "n1").await;
    until_gone(&slos, "n1").await;
    rig.stop().await;
}

#[tokio::test]
async fn batch_cpu_follows_the_report_and_nothing_is_written_twice() {
    let rig = rig().await;
    rig.configure(json!({"enable": true})).await;
    rig.add_node("n1").await;
    let nodes = rig.all::<Node>();
    // 64000 - 25600 - used
    rig.report("n1", 4_000, rig.now()).await;
    let node = until(&nodes, "n1", "lent", |node| batch_cpu(node) == Some(34_400)).await;
    let origin = node.metadata.annotations.unwrap();
    let origin = &origin["node.koordinator.sh/originExtendedAllocatable"];
    assert!(origin.contains(r#""kubernetes.io/batch-cpu":"34400""#), "{origin}");
    rig.report("n1", 10_000, rig.now()).await;
    until(&nodes, "n1", "lent less", |node| batch_cpu(node) == Some(28_400)).await;
    rig.settle().await;

    rig.wire.take_writes();
    for minute in 1..4 {
        rig.pass(SignedDuration::from_mins(minute));
        rig.report("n1", 10_000, rig.now()).await;
        rig.beat("n1").await;
        rig.settle().await;
    }
    assert_eq!(rig.wire.take_writes(), [""; 0], "nothing changed");

    // One core less is below the threshold and waits for its time.
    rig.report("n1", 11_000, rig.now()).await;
    rig.settle().await;
    assert_eq!(rig.wire.take_writes(), [""; 0], "too little changed");
    rig.pass(SignedDuration::from_secs(301));
    rig.beat("n1").await;
    until(&nodes, "n1", "lent less in time", |node| batch_cpu(node) == Some(27_400)).await;
    assert_eq!(rig.wire.take_writes(), ["PATCH /api/v1/nodes/n1/status"]);
    rig.stop().await;
}

#[tokio::test]
async fn a_stale_or_skewed_report_takes_everything_away_and_says_why() {
    let rig = rig().await;
    rig.configure(json!({"enable": true})).await;
    rig.add_node("n1").await;
    let nodes = rig.all::<Node>();
    rig.report("n1", 4_000, rig.now()).await;
    until(&nodes, "n1", "lent", |node| batch_cpu(node).is_some()).await;
    rig.pass(SignedDuration::from_mins(16));
    rig.beat("n1").await;
    let node = until(&nodes, "n1", "degraded", |node| batch_cpu(node).is_none()).await;
    assert!(!node.status.unwrap().capacity.unwrap().contains_key(BATCH_CPU));
    let standing = || {
        let (config, now) = (rig.shared.configs.latest().unwrap(), rig.now());
        let plan = rig.shared.caches.with(|w| w.plan("n1", &config, &Options::default(), now));
        plan.unwrap().why.standing
    };
    assert!(matches!(standing(), Standing::Stale { age } if age.as_mins() == 16));

    rig.report("n1", 4_000, rig.now()).await;
    until(&nodes, "n1", "lent again", |node| batch_cpu(node).is_some()).await;
    // The node's clock is an hour ahead.
    rig.report("n1", 4_000, rig.now() + SignedDuration::from_hours(1)).await;
    until(&nodes, "n1", "degraded", |node| batch_cpu(node).is_none()).await;
    assert!(matches!(standing(), Standing::Skewed { .. }));
    rig.report("n1", 4_000, rig.now() + SignedDuration::from_mins(5)).await;
    until(&nodes, "n1", "trusted within reason", |node| batch_cpu(node).is_some()).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_change_of_configuration_reaches_every_node() {
    let rig = rig().await;
    rig.configure(json!({"enable": true})).await;
    let nodes = rig.all::<Node>();
    let names: Vec<String> = (0..8).map(|number| format!("n{number}")).collect();
    for name in &names {
        rig.add_node(name).await;
        rig.report(name, 4_000, rig.now()).await;
    }
    for name in &names {
        until(&nodes, name, "lent", |node| batch_cpu(node) == Some(34_400)).await;
    }
    rig.configure(json!({"enable": true, "cpuReclaimThresholdPercent": 80})).await;
    for name in &names {
        until(&nodes, name, "lent more", |node| batch_cpu(node) == Some(47_200)).await;
    }
    rig.config_maps().delete(CONFIG, &DeleteParams::default()).await.unwrap();
    for name in &names {
        until(&nodes, name, "back to defaults", |node| batch_cpu(node).is_none()).await;
    }
    assert_eq!(rig.shared.instruments.config_present.get(), 0);
    rig.stop().await;
}

#[tokio::test]
async fn zones_of_the_topology_lend_too() {
    let rig = rig().await;
    rig.configure(json!({"enable": true})).await;
    rig.add_node("n1").await;
    let zone = |name: &str| {
        let amount = |name: &str, text: &str| json!({"name": name, "capacity": text, "allocatable": text, "available": text});
        json!({"name": name, "type": "Node", "resources": [amount("cpu", "32"), amount("memory", "128Gi")]})
    };
    let topologies = rig.all::<NodeResourceTopology>();
    let topology = json!({"metadata": {"name": "n1"}, "topologyPolicies": ["None"],
        "zones": [zone("node-0"), zone("node-1")]});
    create(&topologies, topology).await;
    rig.report("n1", 4_000, rig.now()).await;
    let lent = |topology: &NodeResourceTopology| -> Vec<i64> {
        let resources = topology.zones.iter().flat_map(|zone| &zone.resources);
        let batch = resources.filter(|resource| resource.name == BATCH_CPU);
        batch.map(|resource| resource.allocatable.value()).collect()
    };
    until(&topologies, "n1", "lent", |found| lent(found) == [17_200, 17_200]).await;
    rig.pass(SignedDuration::from_mins(16));
    rig.beat("n1").await;
    until(&topologies, "n1", "zeroed", |found| lent(found) == [0, 0]).await;
    rig.stop().await;
}

/// The product brief's ConfigMap lacks a comma in `system-config`.
#[tokio::test]
async fn the_seeds_broken_key_changes_nothing_but_its_finding() {
    const SEED: &str =
        include_str!("../../../../fixtures/wire/slo-controller-config-seed-001.yaml");
    let seed: serde_json::Value = serde_saphyr::from_str(SEED).unwrap();
    let mut good = seed["data"].clone();
    good["system-config"] = json!(r#"{"clusterStrategy":{"watermarkScaleFactor":333}}"#);
    let rig = rig().await;
    rig.configure_all(good).await;
    rig.add_node("n1").await;
    let slos = rig.all::<NodeSlo>();
    let factor = |slo: &NodeSlo| {
        slo.spec.system_strategy.as_ref().and_then(|system| system.watermark_scale_factor)
    };
    until(&slos, "n1", "told", |slo| factor(slo) == Some(333)).await;
    rig.settle().await;
    rig.wire.take_writes();

    rig.configure_all(seed["data"].clone()).await;
    let events: Api<Event> = Api::namespaced(rig.client.clone(), NAMESPACE);
    let found = testkit::wait::until("the finding is told", || async {
        let list = events.list(&Default::default()).await.unwrap().items;
        (!list.is_empty()).then_some(list)
    })
    .await;
    rig.settle().await;
    assert_eq!(rig.wire.take_writes(), [""; 0], "no node and no object of a node was written");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].reason.as_deref(), Some(event::SLO_CONFIG));
    assert!(found[0].message.as_ref().unwrap().contains("system-config"));
    let in_force = rig.shared.configs.latest().unwrap();
    let errors: Vec<_> = in_force.findings.iter().filter(|finding| finding.is_error()).collect();
    assert!(errors.iter().all(|error| error.key.as_deref() == Some("system-config")), "{errors:?}");
    let stale = &rig.shared.instruments.config_key_stale;
    assert_eq!(stale.with_label_values(&["system-config"]).get(), 1);
    assert_eq!(stale.with_label_values(&["colocation-config"]).get(), 0);
    assert_eq!(factor(&slos.get("n1").await.unwrap()), Some(333));
    rig.stop().await;
}

#[tokio::test]
async fn only_the_leader_writes() {
    let (election, held) = watch::channel(false);
    let rig = rig_with(Leadership::follow(held)).await;
    rig.configure(json!({"enable": true})).await;
    rig.add_node("n1").await;
    rig.settle().await;
    assert_eq!(rig.wire.take_writes(), [""; 0]);
    election.send_replace(true);
    rig.report("n1", 4_000, rig.now()).await;
    let nodes = rig.all::<Node>();
    until(&nodes, "n1", "lent", |node| batch_cpu(node) == Some(34_400)).await;
    rig.settle().await;
    election.send_replace(false);
    rig.wire.take_writes();
    rig.report("n1", 20_000, rig.now()).await;
    rig.settle().await;
    assert_eq!(rig.wire.take_writes(), [""; 0], "the lease went to another");
    election.send_replace(true);
    until(&nodes, "n1", "caught up", |node| batch_cpu(node) == Some(18_400)).await;
    rig.stop().await;
}
