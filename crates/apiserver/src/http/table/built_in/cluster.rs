//! What a cluster is made of: nodes, namespaces and the rules between them.

use serde_json::{Value, json};

use super::{Sheet, boolean, created, int_at, list_at, name, number, or_none, str_at, text, wide};
use crate::http::meta;

pub(super) const NODES: Sheet = Sheet {
    columns: &[
        text("Name"),
        text("Status"),
        text("Roles"),
        text("Age"),
        text("Version"),
        wide("Internal-IP"),
        wide("External-IP"),
        wide("OS-Image"),
        wide("Kernel-Version"),
        wide("Container-Runtime"),
    ],
    cells: |node, now| {
        let info = |field: &str| match str_at(node, &format!("/status/nodeInfo/{field}")) {
            "" => json!("<unknown>"),
            known => json!(known),
        };
        vec![
            name(node),
            json!(node_status(node)),
            or_none(roles(node).join(",")),
            created(node, now),
            json!(str_at(node, "/status/nodeInfo/kubeletVersion")),
            address(node, "InternalIP"),
            address(node, "ExternalIP"),
            info("osImage"),
            info("kernelVersion"),
            info("containerRuntimeVersion"),
        ]
    },
};

fn node_status(node: &Value) -> String {
    let ready = list_at(node, "/status/conditions").iter().find(|c| str_at(c, "/type") == "Ready");
    let word = match ready.map(|condition| str_at(condition, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    match node.pointer("/spec/unschedulable").and_then(Value::as_bool) {
        Some(true) => format!("{word},SchedulingDisabled"),
        _ => word.to_owned(),
    }
}

fn roles(node: &Value) -> Vec<String> {
    let labels = meta::metadata(node).get("labels").and_then(Value::as_object);
    let mut roles: Vec<String> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role.to_owned()),
            None if key == "kubernetes.io/role" => value.as_str().map(str::to_owned),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort();
    roles.dedup();
    roles
}

fn address(node: &Value, kind: &str) -> Value {
    let found = list_at(node, "/status/addresses").iter().find(|a| str_at(a, "/type") == kind);
    or_none(found.map_or("", |address| str_at(address, "/address")))
}

pub(super) const NAMESPACES: Sheet = Sheet {
    columns: &[text("Name"), text("Status"), text("Age")],
    cells: |object, now| {
        vec![name(object), json!(str_at(object, "/status/phase")), created(object, now)]
    },
};

pub(super) const DISRUPTION_BUDGETS: Sheet = Sheet {
    columns: &[
        text("Name"),
        text("Min Available"),
        text("Max Unavailable"),
        number("Allowed Disruptions"),
        text("Age"),
    ],
    cells: |object, now| {
        let bound = |field: &str| match object.pointer(&format!("/spec/{field}")) {
            Some(Value::String(text)) => json!(text),
            Some(Value::Number(number)) => json!(number.to_string()),
            _ => json!("N/A"),
        };
        vec![
            name(object),
            bound("minAvailable"),
            bound("maxUnavailable"),
            json!(int_at(object, "/status/disruptionsAllowed")),
            created(object, now),
        ]
    },
};

pub(super) const PRIORITY_CLASSES: Sheet = Sheet {
    columns: &[
        text("Name"),
        number("Value"),
        boolean("Global-Default"),
        text("Age"),
        text("PreemptionPolicy"),
    ],
    cells: |object, now| {
        vec![
            name(object),
            json!(int_at(object, "/value")),
            json!(object.get("globalDefault").and_then(Value::as_bool) == Some(true)),
            created(object, now),
            json!(str_at(object, "/preemptionPolicy")),
        ]
    },
};

pub(super) const LEASES: Sheet = Sheet {
    columns: &[text("Name"), text("Holder"), text("Age")],
    cells: |object, now| {
        vec![name(object), json!(str_at(object, "/spec/holderIdentity")), created(object, now)]
    },
};

pub(super) const WEBHOOKS: Sheet = Sheet {
    columns: &[text("Name"), number("Webhooks"), text("Age")],
    cells: |object, now| {
        vec![name(object), json!(list_at(object, "/webhooks").len()), created(object, now)]
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_show_status_and_roles() {
        let node = json!({
            "metadata": {"labels": {
                "node-role.kubernetes.io/worker": "",
                "node-role.kubernetes.io/batch": "",
                "kubernetes.io/role": "worker",
            }},
            "spec": {"unschedulable": true},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        assert_eq!(node_status(&node), "Ready,SchedulingDisabled");
        assert_eq!(roles(&node), ["batch", "worker"]);
        assert_eq!(node_status(&json!({})), "Unknown");
    }
}
