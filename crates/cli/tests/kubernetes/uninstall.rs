//! Uninstalled: what is left of us?

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use serde_json::Value;

use crate::kernel::Kernel;
use crate::rig::{NODE, Rig, SYSTEM};
use crate::seen::{ready, until};
use crate::{classes, existing, guides, rbac};

/// What stays with the namespace, as the guide says.
const KEPT: [&str; 2] = [r#""Lease" "koord-scheduler""#, r#""Lease" "koordinator-manager""#];

/// The values of each file, whichever container of the pod has it: containers come and go.
fn by_name(settings: &BTreeMap<String, String>) -> BTreeMap<String, BTreeSet<String>> {
    let id = Regex::new("[0-9a-f]{64}").unwrap();
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, value) in settings {
        let path = id.replace_all(path, "<id>").into_owned();
        all.entry(path).or_default().insert(value.clone());
    }
    all
}

pub(crate) fn nothing_left(rig: &Rig) {
    rbac::nobody_was_denied(rig);
    // Work that runs on while everything around it goes.
    classes::deploy(rig);
    classes::until_arranged(rig);
    guides::follow(rig, "docs/guides/turn-it-off.md");
    until(rig, "no object of ours is left", || {
        let left = left(rig)?;
        if left == KEPT { Ok(()) } else { Err(left.join("\n")) }
    });
    let node = rig.get(&["node", NODE]).unwrap();
    for map in
        ["/status/allocatable", "/status/capacity", "/metadata/labels", "/metadata/annotations"]
    {
        let map = node.pointer(map).and_then(Value::as_object).cloned().unwrap_or_default();
        let is_ours = |name: &&String| {
            name.contains("koordinator")
                || name.contains("tidepool")
                || name.contains("/batch-")
                || name.contains("/mid-")
        };
        let ours: Vec<_> = map.keys().filter(is_ours).collect();
        assert!(ours.is_empty(), "{ours:?}");
    }
    classes::deploy(rig);
    let bystander = ready(rig, "default", "app=bystander", 1).remove(0);
    let kernel = Kernel::of(rig);
    let now = kernel.settings(&kernel.pod(&bystander));
    assert_eq!(by_name(&now), by_name(&rig.before.borrow()));
    existing::survives_but(rig, "colocation-config");
    rig.clear();
    existing::remove(rig);
}

/// Everything in the cluster that the install has brought and that is not its users'.
fn left(rig: &Rig) -> Result<Vec<String>, String> {
    let kinds = "clusterroles,clusterrolebindings,mutatingwebhookconfigurations,\
                 validatingwebhookconfigurations,priorityclasses";
    let namespaced = "deployments,daemonsets,pods,services,serviceaccounts,roles,rolebindings,\
                      secrets,leases";
    let names = |list: Value| -> Vec<String> {
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let name = |item: &Value| format!("{} {}", item["kind"], item["metadata"]["name"]);
        items.iter().map(name).collect()
    };
    let is_ours =
        |name: &String| ["koord", "tidepool"].iter().any(|word| name.to_lowercase().contains(word));
    let mut left = names(rig.get(&[kinds])?);
    left.extend(names(rig.get(&[namespaced, "-n", SYSTEM])?));
    left.retain(is_ours);
    Ok(left)
}
