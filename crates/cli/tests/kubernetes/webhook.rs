//! The manager is away: what can still be done, and what is refused?

use std::collections::BTreeMap;

use api::protocol::gate::Gate;
use api::protocol::webhook::WEBHOOKS;
use serde_json::Value;

use crate::batch;
use crate::rig::{Rig, SYSTEM, WORK};
use crate::seen::{pods, ready, until};

/// A configuration that the webhook guards, with a percentage that is none.
const WRONG: &str = "
apiVersion: v1
kind: ConfigMap
metadata:
  name: guarded
  namespace: work
  labels: {koordinator.sh/configmap-type: slo-controller-config}
data:
  colocation-config: '{\"enable\": true, \"degradeTimeMinutes\": -5}'
";

const QUOTA: &str = "
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: reports, namespace: work}
spec: {min: {cpu: 1}, max: {cpu: 2}}
";

fn policies(rig: &Rig) -> BTreeMap<String, String> {
    let kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations";
    let list = rig.get(&[kinds]).unwrap();
    let all = list["items"].as_array().into_iter().flatten();
    let entries = all.filter_map(|one| one["webhooks"].as_array()).flatten();
    let word = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let entries = entries.filter(|entry| word(entry, "name").ends_with(".koordinator.sh"));
    entries.map(|entry| (word(entry, "name"), word(entry, "failurePolicy"))).collect()
}

fn pod(name: &str, label: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: {WORK}, labels: {{{label}}}}}, \
         spec: {{terminationGracePeriodSeconds: 1, containers: [{{name: c, \
         image: 'localhost/busybox:dev', command: [sleep, '100000']}}]}}}}"
    )
}

fn scale(rig: &Rig, replicas: usize) {
    let count = format!("--replicas={replicas}");
    rig.kubectl(&["scale", "deployment/koord-manager", "-n", SYSTEM, &count]).done();
    if replicas > 0 {
        ready(rig, SYSTEM, "koord-app=koord-manager", replicas);
        return;
    }
    until(rig, "no manager answers", || {
        let left = pods(rig, SYSTEM, "koord-app=koord-manager")?;
        if left.is_empty() { Ok(()) } else { Err(format!("{} are left", left.len())) }
    });
}

pub(crate) fn down(rig: &Rig) {
    rig.clear();
    let policies = policies(rig);
    for webhook in WEBHOOKS {
        let Some(policy) = policies.get(webhook.name) else {
            assert!(!webhook.gate.is_on_by_default(), "{} is not registered", webhook.name);
            continue;
        };
        assert_eq!(*policy, format!("{:?}", webhook.failure_policy), "{}", webhook.name);
    }
    rig.apply(batch::PROFILE);
    let deployment = rig.get(&["deployment", "koord-manager", "-n", SYSTEM]).unwrap();
    let replicas = usize::try_from(deployment["spec"]["replicas"].as_u64().unwrap()).unwrap();

    scale(rig, 0);
    // Pods pass: a failing manager must not stop a cluster.
    rig.apply(&pod("outside", "team: web"));
    rig.apply(&pod("inside", "team: reports"));
    let inside = rig.get(&["pod", "inside", "-n", WORK]).unwrap();
    assert_eq!(inside["metadata"]["labels"]["made-by"], Value::Null, "nobody changed it");
    rig.apply(QUOTA);
    if policies.contains_key("vconfigmap.koordinator.sh") {
        let why = rig.with_file(&["create"], WRONG).refused();
        assert!(why.contains("vconfigmap.koordinator.sh"), "{why}");
    }
    ready(rig, WORK, "team=web", 1);

    scale(rig, replicas);
    rig.kubectl(&["delete", "pod", "inside", "outside", "-n", WORK, "--grace-period=1"]).done();
    until(rig, "profiles work again", || batch::turned(rig));
    let wrong = pod("wrong", "koordinator.sh/qosClass: BE");
    until(rig, "what contradicts itself is refused again", || {
        let said = rig.with_file(&["create", "--dry-run=server"], &wrong);
        if said.err.contains("TP1203") { Ok(()) } else { Err(said.out + &said.err) }
    });
    if policies.contains_key("vconfigmap.koordinator.sh") {
        let why = rig.with_file(&["create"], WRONG).refused();
        assert!(why.contains("degradeTimeMinutes"), "{why}");
    }
    rig.kubectl(&["delete", "elasticquota", "reports", "-n", WORK]).done();
    rig.kubectl(&["delete", "clustercolocationprofile", "nightly"]).done();
}
