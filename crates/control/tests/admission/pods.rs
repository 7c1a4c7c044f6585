//! Goldens: pods before and after their mutation.

use api::protocol::gate::ManagerGate;
use serde_json::{Value, json};

use crate::world::{from_yaml, pod, world};

/// The pod of one of seed 004's Deployments, as its ReplicaSet creates it.
pub(crate) fn nginx(qos: &str, class: &str, resource: &str, amount: &str) -> Value {
    let name = format!("nginx-{}", qos.to_lowercase());
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generateName": format!("{name}-"), "namespace": "default",
            "labels": {"app": name, "koordinator.sh/qosClass": qos},
            "annotations": {
                "scheduling.koordinator.sh/resource-spec":
                    "{\"preferredCPUBindPolicy\": \"SpreadByPCPUs\"}",
            },
        },
        "spec": {
            "schedulerName": "koord-scheduler",
            "priorityClassName": class,
            "priority": if class == "koord-batch" { 5000 } else { 9000 },
            "preemptionPolicy": "PreemptLowerPriority",
            "containers": [{
                "name": "nginx", "image": "release.daocloud.io/kpanda/nginx:1.25.3-alpine",
                "resources": {"limits": {resource: amount}, "requests": {resource: amount}},
            }],
        },
    })
}

const BATCH: &str = "
metadata: {name: colocation-batch}
spec:
  selector: {matchLabels: {koordinator.sh/enable-colocation: 'true'}}
  qosClass: BE
  priorityClassName: koord-batch
  koordinatorPriority: 1000
  schedulerName: koord-scheduler
  labels: {koordinator.sh/mutated: 'true'}
  annotations: {koordinator.sh/intercepted: 'true'}
  patch: {spec: {terminationGracePeriodSeconds: 30}}
";

#[test]
fn the_four_deployments_of_seed_004() {
    let world = world(&["{metadata: {name: all}, spec: {}}"]);
    let pods = [
        nginx("LSE", "koord-prod", "cpu", "2"),
        nginx("LSR", "koord-prod", "cpu", "2"),
        nginx("LS", "koord-prod", "cpu", "2"),
        nginx("BE", "koord-batch", "kubernetes.io/batch-cpu", "2k"),
    ];
    let after: Vec<Value> = pods.iter().map(|pod| world.mutated(pod)).collect();
    for pod in &after {
        assert_eq!(world.refusal(None, pod), "admitted");
    }
    insta::assert_yaml_snapshot!(after);
}

#[test]
fn a_plain_deployment_becomes_batch_work() {
    let world = world(&[BATCH]);
    let mut before = nginx("LS", "koord-prod", "cpu", "2");
    before["metadata"]["labels"] =
        json!({"app": "nginx", "koordinator.sh/enable-colocation": "true"});
    before["spec"] = json!({"containers": [{
        "name": "nginx", "image": "nginx",
        "resources": {"limits": {"cpu": "2", "memory": "2Gi"}, "requests": {"cpu": "1500m", "memory": "1Gi"}},
    }]});
    let after = world.mutated(&before);
    assert_eq!(world.refusal(None, &after), "admitted");
    insta::assert_yaml_snapshot!(after);
}

#[test]
fn a_spark_driver_stays_online_and_its_executors_become_batch_work() {
    let world = world(&[
        "
metadata: {name: spark-driver}
spec:
  namespaceSelector: {matchLabels: {team: data}}
  selector: {matchLabels: {spark-role: driver}}
  qosClass: LS
  priorityClassName: koord-prod
  schedulerName: koord-scheduler
",
        "
metadata: {name: spark-executor}
spec:
  namespaceSelector: {matchLabels: {team: data}}
  selector: {matchLabels: {spark-role: executor}}
  qosClass: BE
  priorityClassName: koord-batch
  schedulerName: koord-scheduler
  labelKeysMapping: {spark-app-selector: quota.scheduling.koordinator.sh/name}
",
    ]);
    let spark = |role: &str, cpu: &str| -> Value {
        from_yaml(&format!(
            "
apiVersion: v1
kind: Pod
metadata:
  name: pi-{role}
  namespace: default
  labels: {{spark-role: {role}, spark-app-selector: spark-1}}
spec:
  restartPolicy: Never
  initContainers:
  - {{name: fetch, image: spark, resources: {{limits: {{cpu: 500m}}}}}}
  containers:
  - name: spark-kubernetes-{role}
    image: spark
    resources:
      requests: {{cpu: '{cpu}', memory: 1408Mi}}
      limits: {{memory: 1408Mi}}
"
        ))
    };
    let after = [world.mutated(&spark("driver", "1")), world.mutated(&spark("executor", "2500m"))];
    for pod in &after {
        assert_eq!(world.refusal(None, pod), "admitted");
    }
    insta::assert_yaml_snapshot!(after);
}

#[test]
fn the_last_of_two_profiles_wins() {
    let world = world(&[
        BATCH,
        "
metadata: {name: colocation-zz-mid}
spec:
  qosClass: LS
  priorityClassName: koord-mid
  labels: {tier: middle}
  labelSuffixes: {app: -canary}
",
    ]);
    let labels = json!({"app": "web", "koordinator.sh/enable-colocation": "true"});
    let before = pod(labels, None, json!({"cpu": "2", "memory": "2Gi"}));
    insta::assert_yaml_snapshot!(world.mutated(&before));
}

#[test]
fn vectors_of_the_translation() {
    let world = world(&[BATCH]);
    let labels = json!({"koordinator.sh/enable-colocation": "true"});
    let cases = [
        (
            "milli",
            json!({"requests": {"cpu": "1500m"}}),
            json!({"requests": {"kubernetes.io/batch-cpu": "1500"}}),
        ),
        (
            "whole cores",
            json!({"requests": {"cpu": "2"}}),
            json!({"requests": {"kubernetes.io/batch-cpu": "2k"}}),
        ),
        (
            "memory",
            json!({"requests": {"memory": "2Gi"}}),
            json!({"requests": {"kubernetes.io/batch-memory": "2Gi"}}),
        ),
        (
            "limit only",
            json!({"limits": {"cpu": "500m"}}),
            json!({"requests": {"kubernetes.io/batch-cpu": "500"},
                   "limits": {"kubernetes.io/batch-cpu": "500"}}),
        ),
        (
            "others stay",
            json!({"requests": {"ephemeral-storage": "1Gi"}}),
            json!({"requests": {"ephemeral-storage": "1Gi"}}),
        ),
    ];
    for (name, resources, want) in cases {
        let mut pod = pod(labels.clone(), None, json!({}));
        pod["spec"]["containers"][0]["resources"] = resources;
        let after = world.mutated(&pod);
        assert_eq!(after["spec"]["containers"][0]["resources"], want, "{name}");
    }
}

#[test]
fn nothing_is_renamed_when_it_should_not_be() {
    let labels = json!({"koordinator.sh/enable-colocation": "true"});
    let skips = BATCH.replace(
        "name: colocation-batch",
        "name: colocation-batch, annotations: {config.koordinator.sh/skip-update-resources: ''}",
    );
    let never = BATCH.replace("spec:\n", "spec:\n  probability: 0\n");
    let cases = [
        ("no profile matches", world(&[BATCH]), json!({}), "cpu"),
        ("the profile says so", world(&[&skips]), labels.clone(), "cpu"),
        (
            "the gate says so",
            world(&[BATCH]).with(ManagerGate::ColocationProfileSkipMutatingResources),
            labels.clone(),
            "cpu",
        ),
        ("chance passed it over, and it is no batch pod", world(&[&never]), labels.clone(), "cpu"),
        ("renamed as a neighbour", world(&[BATCH]), labels, "kubernetes.io/batch-cpu"),
    ];
    for (name, world, labels, want) in cases {
        let after = world.mutated(&pod(labels, None, json!({"cpu": "1"})));
        let requests = &after["spec"]["containers"][0]["resources"]["requests"];
        assert!(requests.get(want).is_some(), "{name}: {requests}");
    }
}

#[test]
fn a_probability_means_what_it_says() {
    let profile = BATCH.replace("spec:\n", "spec:\n  probability: 50%\n");
    let labels = json!({"koordinator.sh/enable-colocation": "true"});
    let mut applied = 0;
    for roll in 0..100 {
        let mut world = world(&[&profile]);
        world.rolls.insert("colocation-batch".to_owned(), roll);
        let after = world.mutated(&pod(labels.clone(), None, json!({"cpu": "1"})));
        applied += usize::from(after["metadata"]["labels"]["koordinator.sh/qosClass"] == "BE");
        world.rolls.insert("colocation-batch".to_owned(), 99 - roll);
        assert_eq!(world.mutated(&after), after, "the die is rolled once a pod");
    }
    assert_eq!(applied, 50);
}

#[test]
fn nobody_gets_around_a_profile_by_writing_its_mark() {
    let world = world(&["
metadata: {name: force}
spec: {qosClass: LS, priorityClassName: koord-prod, labelSuffixes: {app: -x}}
"]);
    let mut forged = pod(json!({"app": "web"}), None, json!({"cpu": "1"}));
    forged["metadata"]["annotations"] =
        json!({"config.koordinator.sh/applied-profiles": "[\"force\"]"});
    let after = world.mutated(&forged);
    assert_eq!(after["metadata"]["labels"]["koordinator.sh/qosClass"], "LS");
    assert_eq!(after["spec"]["priority"], 9000);
}

/// The second profile looks for a label that the first one sets and it changes.
#[test]
fn a_profile_that_changes_the_label_it_looks_for_is_applied_once() {
    let world = world(&[
        "{metadata: {name: a}, spec: {qosClass: BE, priorityClassName: koord-batch}}",
        "
metadata: {name: b}
spec:
  selector: {matchLabels: {koordinator.sh/qosClass: BE}}
  qosClass: LS
  priorityClassName: koord-prod
",
    ]);
    let before = pod(json!({"koordinator.sh/qosClass": "BE"}), None, json!({}));
    let once = world.mutated(&before);
    assert_eq!(once["metadata"]["labels"]["koordinator.sh/qosClass"], "LS");
    assert_eq!(world.mutated(&once), once);
}

#[test]
fn a_quota_tree_keeps_its_pods() {
    let mut world = world(&[]).with(ManagerGate::MultiQuotaTree);
    world.quotas = vec![from_yaml(
        "{metadata: {name: team, namespace: default, labels: {quota.scheduling.koordinator.sh/tree-id: t1}}, spec: {}}",
    )];
    world.quota_profiles = vec![from_yaml(
        "
metadata: {name: pool, namespace: default, labels: {quota.scheduling.koordinator.sh/tree-id: t1}}
spec:
  quotaName: root
  nodeSelector: {matchLabels: {zone: b, pool: a}, matchExpressions: [{key: gpu, operator: DoesNotExist}]}
",
    )];
    let labels = json!({"quota.scheduling.koordinator.sh/name": "team"});
    let mut before = pod(labels, None, json!({}));
    let after = world.mutated(&before);
    assert_eq!(world.mutated(&after), after);
    insta::assert_yaml_snapshot!(after["spec"]["affinity"]);
    let unlabelled = pod(json!({}), None, json!({}));
    assert_eq!(world.mutated(&unlabelled)["spec"]["affinity"], Value::Null, "nobody's");
    let listing = r#"["default"]"#.to_owned();
    let annotations = world.quotas[0].metadata.annotations.get_or_insert_default();
    annotations.insert("quota.scheduling.koordinator.sh/namespaces".to_owned(), listing);
    let found = world.mutated(&unlabelled);
    assert_eq!(found["spec"]["affinity"], after["spec"]["affinity"], "its namespace is listed");
    before["spec"]["affinity"] = json!({"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {},
        ]},
    }});
    let after = world.mutated(&before);
    let terms = after.pointer("/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms").unwrap();
    let counts: Vec<usize> = terms
        .as_array()
        .unwrap()
        .iter()
        .map(|term| term["matchExpressions"].as_array().unwrap().len())
        .collect();
    assert_eq!(counts, [4, 3], "every alternative is bound");
}
