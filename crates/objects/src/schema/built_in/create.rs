//! What creation decides, once the object has its name and uid.
//!
//! Defaults do not know these: a new object starts with a fresh status whatever the client sent, a Job gets
//! the selector that ties it to its pods, a Namespace the finalizer that empties it before it goes.

use serde_json::{Value, json};
use units::Quantity;

use crate::schema::Gvk;
use crate::schema::object::{child, entries, get, list, open, put, text};

/// Prepares a new object of a built-in kind.
pub(in crate::schema) fn prepare(gvk: &Gvk, object: &mut Value) {
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Pod") => {
            let class = qos_class(get(object, "spec"));
            put(object, "status", json!({"phase": "Pending", "qosClass": class}));
        }
        ("", "Namespace") => namespace(object),
        ("", "PersistentVolume" | "PersistentVolumeClaim") => {
            put(object, "status", json!({"phase": "Pending"}));
        }
        ("batch", "Job") => {
            job_selector(object);
            put(object, "status", json!({}));
        }
        ("apps", "Deployment" | "DaemonSet" | "ReplicaSet" | "StatefulSet")
        | ("batch", "CronJob")
        | ("policy", "PodDisruptionBudget") => put(object, "status", json!({})),
        ("", "Service") => put(object, "status", json!({"loadBalancer": {}})),
        _ => {}
    }
}

fn namespace(object: &mut Value) {
    let Some(spec) = open(object, "spec") else { return };
    let own = json!("kubernetes");
    if !list(spec, "finalizers").contains(&own) {
        let finalizers: Vec<Value> =
            list(spec, "finalizers").iter().cloned().chain([own]).collect();
        put(spec, "finalizers", finalizers);
    }
    put(object, "status", json!({"phase": "Active"}));
}

fn job_selector(object: &mut Value) {
    let metadata = get(object, "metadata");
    let (name, uid) = (text(metadata, "name").to_owned(), text(metadata, "uid").to_owned());
    let Some(spec) = child(object, "spec") else { return };
    if get(spec, "manualSelector") == &Value::Bool(true) {
        return;
    }
    let template = open(spec, "template").and_then(|template| open(template, "metadata"));
    if let Some(labels) = template.and_then(|metadata| open(metadata, "labels")) {
        for (key, value) in [
            ("batch.kubernetes.io/controller-uid", &uid),
            ("batch.kubernetes.io/job-name", &name),
            ("controller-uid", &uid),
            ("job-name", &name),
        ] {
            put(labels, key, value.as_str());
        }
    }
    if let Some(labels) = open(spec, "selector").and_then(|selector| open(selector, "matchLabels"))
    {
        put(labels, "batch.kubernetes.io/controller-uid", uid.as_str());
    }
}

/// The quality-of-service class of a pod with defaults: guaranteed when every container limits cpu and
/// memory and asks for exactly that, best effort when none asks for anything.
pub fn qos_class(spec: &Value) -> &'static str {
    let amounts = |resources: &Value, field: &str| -> Vec<(String, Quantity)> {
        entries(resources, field)
            .filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory"))
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.parse().ok()?)))
            .filter(|(_, amount): &(String, Quantity)| amount.sign().is_gt())
            .collect()
    };
    let pod_level = get(spec, "resources");
    let containers = list(spec, "containers").iter().chain(list(spec, "initContainers"));
    let each: Vec<&Value> = if pod_level.is_object() {
        vec![pod_level]
    } else {
        containers.map(|container| get(container, "resources")).collect()
    };
    let asks_nothing = |resources: &&Value| {
        amounts(resources, "requests").is_empty() && amounts(resources, "limits").is_empty()
    };
    let is_fixed = |resources: &&Value| {
        let limits = amounts(resources, "limits");
        limits.len() == 2 && limits == amounts(resources, "requests")
    };
    if each.iter().all(asks_nothing) {
        "BestEffort"
    } else if each.iter().all(is_fixed) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_classes_follow_requests_and_limits() {
        let pod = |containers: Value| json!({"containers": containers});
        let both = json!({"cpu": "1", "memory": "1Gi"});
        let cases = [
            (pod(json!([{}])), "BestEffort"),
            (pod(json!([{"resources": {"requests": {"cpu": "0"}}}])), "BestEffort"),
            (pod(json!([{"resources": {"requests": {"example.com/gpu": "1"}}}])), "BestEffort"),
            (pod(json!([{"resources": {"requests": {"cpu": "1"}}}])), "Burstable"),
            (pod(json!([{"resources": {"requests": both, "limits": both}}])), "Guaranteed"),
            (pod(json!([{"resources": {"requests": both, "limits": both}}, {}])), "Burstable"),
            (
                pod(
                    json!([{"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": both}}]),
                ),
                "Burstable",
            ),
        ];
        for (spec, want) in cases {
            assert_eq!(qos_class(&spec), want, "{spec}");
        }
    }

    #[test]
    fn a_job_selects_its_own_pods() {
        let gvk = Gvk::new("batch", "v1", "Job");
        let mut job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {}});
        prepare(&gvk, &mut job);
        let selector = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}});
        assert_eq!(job["spec"]["selector"], selector);
        assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "j");
        let mut manual = json!({"metadata": {"name": "j"}, "spec": {"manualSelector": true}});
        prepare(&gvk, &mut manual);
        assert_eq!(manual["spec"], json!({"manualSelector": true}));
    }

    #[test]
    fn a_namespace_is_active_and_guarded() {
        let mut namespace = json!({"metadata": {"name": "n"}});
        prepare(&Gvk::new("", "v1", "Namespace"), &mut namespace);
        assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
        assert_eq!(namespace["status"]["phase"], "Active");
    }
}
