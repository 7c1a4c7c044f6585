//! What is in a cluster before anyone writes to it?
//!
//! Four namespaces, a service account in each, and the two priority classes of the system itself.
//! On a store that has them nothing happens.

use serde_json::{Value, json};

use super::server::ApiServer;
use super::write::{fresh, put_quietly};
use crate::store::{Collection, Key};

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Priority classes that always exist, with value and purpose.
pub(super) const SYSTEM_CLASSES: [(&str, i64, &str); 2] = [
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another \
         node if necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
];

/// Creates what is missing.
pub(super) async fn fill(server: &ApiServer) {
    for name in NAMESPACES {
        let mut namespace = fresh(server, "v1", "Namespace", "", name);
        namespace["metadata"]["labels"] = json!({"kubernetes.io/metadata.name": name});
        namespace["spec"] = json!({"finalizers": ["kubernetes"]});
        namespace["status"] = json!({"phase": "Active"});
        add(server, "", "namespaces", "", name, namespace).await;
        default_account(server, name).await;
    }
    for (name, value, description) in SYSTEM_CLASSES {
        let mut class = fresh(server, "scheduling.k8s.io/v1", "PriorityClass", "", name);
        class["metadata"]["generation"] = json!(1);
        class["value"] = json!(value);
        class["description"] = json!(description);
        class["preemptionPolicy"] = json!("PreemptLowerPriority");
        add(server, "scheduling.k8s.io", "priorityclasses", "", name, class).await;
    }
}

/// Every namespace has an account that pods use when they name none.
pub(super) async fn default_account(server: &ApiServer, namespace: &str) {
    let account = fresh(server, "v1", "ServiceAccount", namespace, "default");
    add(server, "", "serviceaccounts", namespace, "default", account).await;
}

async fn add(
    server: &ApiServer,
    group: &str,
    resource: &str,
    namespace: &str,
    name: &str,
    object: Value,
) {
    let key = Key::new(&Collection::new(group, resource), namespace, name);
    if server.store().get(&key).is_none() {
        put_quietly(server, key, object, None).await;
    }
}
