//! Would somebody who guards a cluster let these objects in?
//!
//! What kube-linter asks of any chart, and what is true of this program in particular: ports, paths,
//! names and arguments are those of the code.

#![expect(clippy::disallowed_methods, reason = "tests read files and settings")]
#![expect(clippy::unwrap_used, reason = "an object that cannot be read fails its test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use api::protocol::endpoint;
use api::protocol::name::{self, config_map, secret};
use api::protocol::webhook::{
    FailurePolicy, MUTATING_CONFIGURATION, SERVICE, SERVICE_PORT, Stage, TIMEOUT_SECONDS,
    VALIDATING_CONFIGURATION, WEBHOOKS,
};
use chart::values::{layered, unknown};
use chart::{Chart, Manifest, Release};
use serde_json::{Value, json};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn values(name: &str) -> Value {
    let text = fs::read_to_string(root().join(format!("fixtures/chart/{name}.yaml"))).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

fn render(values: &Value) -> Vec<Manifest> {
    Chart::embedded().unwrap().render(values, &Release::default()).unwrap()
}

/// The objects of every values file, with the file's name. The definitions are left out: they are
/// the larger part by far, and there is nothing to find in them.
fn all() -> Vec<(&'static str, Vec<Manifest>)> {
    ["defaults", "koordinator", "everything-on", "everything-off", "other-namespace"]
        .map(|name| (name, render(&layered(&values(name), &json!({"crds": {"managed": false}})))))
        .into()
}

fn find<'a>(manifests: &'a [Manifest], kind: &str, name: &str) -> &'a Value {
    let found = manifests.iter().find(|object| object.kind() == kind && object.name() == name);
    &found.unwrap_or_else(|| panic!("no {kind} {name}")).object
}

fn workloads(manifests: &[Manifest]) -> impl Iterator<Item = &Manifest> {
    manifests.iter().filter(|object| ["DaemonSet", "Deployment"].contains(&object.kind()))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn container(workload: &Value) -> &Value {
    let containers = list(&workload["spec"]["template"]["spec"]["containers"]);
    assert_eq!(containers.len(), 1);
    &containers[0]
}

fn arguments(workload: &Value) -> Vec<&str> {
    list(&container(workload)["args"]).iter().map(|word| word.as_str().unwrap()).collect()
}

#[test]
fn every_container_is_bounded_watched_and_named_exactly() {
    for (file, manifests) in all() {
        for workload in workloads(&manifests) {
            let (name, container) = (workload.name(), container(&workload.object));
            for (kind, resource) in [
                ("limits", "cpu"),
                ("limits", "memory"),
                ("requests", "cpu"),
                ("requests", "memory"),
            ] {
                assert!(
                    container["resources"][kind][resource].is_string(),
                    "{file} {name} {kind} {resource}"
                );
            }
            let ports: Vec<&str> = list(&container["ports"])
                .iter()
                .map(|port| port["name"].as_str().unwrap())
                .collect();
            for probe in ["livenessProbe", "readinessProbe"] {
                let port = container[probe]["httpGet"]["port"].as_str().unwrap();
                assert!(ports.contains(&port), "{file} {name} {probe}: no port {port}");
            }
            assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/healthz");
            assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
            let image = container["image"].as_str().unwrap();
            let (_, tag) = image.rsplit_once(':').unwrap();
            assert!(!tag.is_empty() && tag != "latest" && !tag.contains('/'), "{file} {image}");
        }
    }
}

#[test]
fn only_the_agent_is_privileged() {
    for (file, manifests) in all() {
        for workload in workloads(&manifests) {
            let pod = &workload.object["spec"]["template"]["spec"];
            let own = &container(&workload.object)["securityContext"];
            assert_eq!(own["readOnlyRootFilesystem"], true, "{file} {}", workload.name());
            if workload.name() == name::AGENT {
                assert_eq!((&own["privileged"], &pod["hostPID"]), (&json!(true), &json!(true)));
                continue;
            }
            assert_eq!(own["privileged"], Value::Null, "{file} {}", workload.name());
            assert_eq!(own["allowPrivilegeEscalation"], false);
            assert_eq!(own["capabilities"], json!({"drop": ["ALL"]}));
            assert_eq!(pod["hostPID"], Value::Null);
            let security = &pod["securityContext"];
            assert_eq!(security["runAsNonRoot"], true);
            assert!(security["runAsUser"].as_u64().unwrap() >= 1000);
            assert_eq!(security["seccompProfile"]["type"], "RuntimeDefault");
            let volumes = list(&pod["volumes"]);
            assert!(volumes.iter().all(|volume| volume["hostPath"].is_null()), "{file}");
        }
    }
}

#[test]
fn what_is_referred_to_is_there() {
    for (file, manifests) in all() {
        let has = |kind: &str, name: &str| {
            // Somebody else's, then.
            let is_left_out = kind == "ConfigMap" && file == "everything-off";
            is_left_out
                || manifests.iter().any(|object| object.kind() == kind && object.name() == name)
        };
        for workload in workloads(&manifests) {
            let template = &workload.object["spec"]["template"];
            let account = template["spec"]["serviceAccountName"].as_str().unwrap();
            assert_eq!(account, workload.name());
            assert!(has("ServiceAccount", account), "{file} {account}");
            for volume in list(&template["spec"]["volumes"]) {
                if let Some(map) = volume["configMap"]["name"].as_str() {
                    assert!(has("ConfigMap", map), "{file} {map}");
                }
            }
            let mounts = list(&container(&workload.object)["volumeMounts"]);
            let volumes: BTreeSet<&str> = list(&template["spec"]["volumes"])
                .iter()
                .map(|v| v["name"].as_str().unwrap())
                .collect();
            let mounted: BTreeSet<&str> =
                mounts.iter().map(|m| m["name"].as_str().unwrap()).collect();
            assert_eq!(volumes, mounted, "{file} {}", workload.name());
            assert_selected(
                &workload.object["spec"]["selector"]["matchLabels"],
                &template["metadata"]["labels"],
            );
        }
        for object in &manifests {
            let selector = &object.object["spec"]["selector"];
            let (labels, kind) = match object.kind() {
                "Service" => (selector, "pods"),
                "PodDisruptionBudget" => (&selector["matchLabels"], "pods"),
                "ServiceMonitor" => (&selector["matchLabels"], "Service"),
                _ => continue,
            };
            let is_met = manifests.iter().any(|other| {
                let theirs = match kind {
                    "pods" => &other.object["spec"]["template"]["metadata"]["labels"],
                    _ if other.kind() == kind => &other.object["metadata"]["labels"],
                    _ => return false,
                };
                selects(labels, theirs)
            });
            assert!(is_met, "{file}: {} {} selects nothing", object.kind(), object.name());
        }
    }
}

fn selects(selector: &Value, labels: &Value) -> bool {
    let wanted = selector.as_object().unwrap();
    !wanted.is_empty() && wanted.iter().all(|(key, value)| labels[key] == *value)
}

fn assert_selected(selector: &Value, labels: &Value) {
    assert!(selects(selector, labels), "{selector} {labels}");
}

#[test]
fn a_service_monitor_selects_one_service_with_its_ports() {
    let manifests = render(&values("everything-on"));
    let monitors: Vec<_> = manifests.iter().filter(|o| o.kind() == "ServiceMonitor").collect();
    assert_eq!(monitors.len(), 3);
    for monitor in monitors {
        let selector = &monitor.object["spec"]["selector"]["matchLabels"];
        let services: Vec<&Manifest> = manifests
            .iter()
            .filter(|o| o.kind() == "Service" && selects(selector, &o.object["metadata"]["labels"]))
            // The webhooks' service has a label of the manager's, but no port of this name.
            .filter(|o| list(&o.object["spec"]["ports"]).iter().any(|p| p["name"] == "metrics"))
            .collect();
        assert_eq!(services.len(), 1, "{}", monitor.name());
        let ports = list(&services[0].object["spec"]["ports"]);
        for endpoint in list(&monitor.object["spec"]["endpoints"]) {
            assert!(ports.iter().any(|port| port["name"] == endpoint["port"]), "{endpoint}");
        }
        assert_eq!(monitor.object["metadata"]["labels"]["release"], "prometheus");
    }
}

#[test]
fn labels_say_what_belongs_together() {
    for (file, manifests) in all() {
        for object in &manifests {
            let labels = &object.object["metadata"]["labels"];
            for key in ["name", "instance", "component", "part-of", "version"] {
                let key = format!("app.kubernetes.io/{key}");
                assert!(
                    labels[&key].is_string(),
                    "{file} {} {}: {key}",
                    object.kind(),
                    object.name()
                );
            }
        }
        for workload in workloads(&manifests) {
            let of_pods = &workload.object["spec"]["template"]["metadata"]["labels"];
            assert_eq!(of_pods[name::APP_LABEL], workload.name());
            // An upgrade from Koordinator's chart keeps its selector, which cannot be changed.
            let selector = &workload.object["spec"]["selector"]["matchLabels"];
            assert_eq!(*selector, json!({ name::APP_LABEL: workload.name() }), "{file}");
        }
    }
}

#[test]
fn names_and_ports_are_those_of_the_code() {
    let manifests = render(&json!({}));
    let agent = find(&manifests, "DaemonSet", name::AGENT);
    let manager = find(&manifests, "Deployment", name::MANAGER);
    let scheduler = find(&manifests, "Deployment", name::SCHEDULER);
    let ports = |workload: &Value| -> Vec<u64> {
        list(&container(workload)["ports"])
            .iter()
            .map(|p| p["containerPort"].as_u64().unwrap())
            .collect()
    };
    let (agents, managers) = (endpoint::agent::PORT, endpoint::manager::WEBHOOK_PORT);
    assert_eq!(ports(agent), [u64::from(agents)]);
    assert_eq!(
        ports(manager),
        [managers, endpoint::manager::METRICS_PORT, endpoint::manager::HEALTH_PORT].map(u64::from)
    );
    assert_eq!(ports(scheduler), [u64::from(endpoint::scheduler::HTTP_PORT)]);
    let service = find(&manifests, "Service", SERVICE);
    assert_eq!(service["spec"]["ports"][0]["port"], SERVICE_PORT);
    assert_eq!(service["spec"]["ports"][0]["targetPort"], managers);
    let certificates = find(&manifests, "Secret", secret::WEBHOOK_CERTS);
    assert_eq!((&certificates["data"], &certificates["stringData"]), (&Value::Null, &Value::Null));
    for map in [config_map::SLO, config_map::SCHEDULER] {
        let kept = find(&manifests, "ConfigMap", map);
        assert_eq!(kept["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
    }
    for manifest in manifests.iter().filter(|object| !object.namespace().is_empty()) {
        assert_eq!(manifest.namespace(), name::NAMESPACE);
    }
    let with = |list: &[&str], word: &str| assert!(list.contains(&word), "{word}: {list:?}");
    with(&arguments(agent), "--listen=0.0.0.0:9316");
    with(&arguments(manager), "--namespace=koordinator-system");
    with(&arguments(scheduler), "--config=/config/koord-scheduler.config");
}

#[test]
fn another_namespace_is_meant_everywhere() {
    let manifests = render(&values("other-namespace"));
    let text = chart::manifest::print(&manifests);
    // The definitions describe a default.
    let others = manifests.iter().filter(|object| object.kind() != "CustomResourceDefinition");
    for object in others {
        assert!(!object.text.contains(name::NAMESPACE), "{}", object.text);
    }
    assert!(text.contains("resourceNamespace: tidepool-system"));
}

#[test]
fn priorities_are_the_reference_s() {
    let manifests = render(&json!({}));
    for (class, value) in
        [("koord-prod", 9000), ("koord-mid", 7000), ("koord-batch", 5000), ("koord-free", 3000)]
    {
        let found = find(&manifests, "PriorityClass", class);
        assert_eq!(found["value"], value);
        assert_eq!(found["globalDefault"], false);
        assert_eq!(found["preemptionPolicy"], "PreemptLowerPriority");
    }
}

#[test]
fn webhooks_are_those_that_the_manager_serves() {
    let manifests = render(&json!({}));
    for (stage, kind, name) in [
        (Stage::Mutating, "MutatingWebhookConfiguration", MUTATING_CONFIGURATION),
        (Stage::Validating, "ValidatingWebhookConfiguration", VALIDATING_CONFIGURATION),
    ] {
        let mut entries = list(&find(&manifests, kind, name)["webhooks"]).to_vec();
        for webhook in WEBHOOKS.iter().filter(|webhook| webhook.stage == stage) {
            let at = entries.iter().position(|entry| entry["name"] == webhook.name);
            let entry = entries.remove(at.unwrap_or_else(|| panic!("no {}", webhook.name)));
            let policy = match webhook.failure_policy {
                FailurePolicy::Fail => "Fail",
                FailurePolicy::Ignore => "Ignore",
            };
            assert_eq!(entry["failurePolicy"], policy, "{}", webhook.name);
            assert_eq!(entry["timeoutSeconds"], TIMEOUT_SECONDS);
            assert_eq!(entry["sideEffects"], "None");
            let service = &entry["clientConfig"]["service"];
            assert_eq!(
                (&service["path"], &service["name"]),
                (&json!(webhook.path), &json!(SERVICE))
            );
            let (group, version, resource) = webhook.resource;
            let rule = json!({"apiGroups": [group], "apiVersions": [version],
                "resources": [resource], "operations": webhook.operations});
            assert_eq!(entry["rules"], json!([rule]), "{}", webhook.name);
        }
        assert_eq!(entries, [] as [Value; 0], "entries that nobody serves");
    }
}

#[test]
fn values_of_the_reference_are_all_known() {
    let chart = Chart::embedded().unwrap();
    for name in ["defaults", "koordinator", "everything-on", "everything-off", "other-namespace"] {
        assert_eq!(unknown(chart.defaults(), &values(name)), [], "{name}");
    }
    let typo = json!({"koordlet": {"hostDir": {}}, "manger": {"replicas": 1}});
    let strays = unknown(chart.defaults(), &typo);
    let strays: Vec<&str> = strays.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(strays, ["koordlet.hostDir", "manger"]);
}

#[test]
fn every_value_has_a_remark() {
    let text = fs::read_to_string(root().join("deploy/chart/tidepool/values.yaml")).unwrap();
    let mut is_explained = false;
    let mut depth_of_group = None;
    for line in text.lines() {
        let depth = line.len() - line.trim_start().len();
        match line.trim_start() {
            "" => (is_explained, depth_of_group) = (false, None),
            remark if remark.starts_with('#') => {
                (is_explained, depth_of_group) = (true, Some(depth))
            }
            // One remark may stand over several lines of the same depth, and over what is below them.
            key => {
                let is_in_group = depth_of_group.is_some_and(|group| depth >= group);
                let opens = key.ends_with(':') || key.starts_with('-');
                assert!(is_explained || is_in_group || opens, "no remark over {line:?}");
                is_explained = false;
            }
        }
    }
}
