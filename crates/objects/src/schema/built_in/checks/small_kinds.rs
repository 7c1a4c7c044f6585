//! The small kinds of the core group.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{maybe_one_of, named, not_empty, one_of, quantity, unchanged};
use crate::schema::cause::{Causes, Path};
use crate::schema::names;
use crate::schema::object::{entries, flag, get, has, list, text};

/// Values of a ConfigMap or Secret together.
const DATA_LIMIT: u64 = 1024 * 1024;

pub(super) fn config_map(new: &Value, old: Option<&Value>, causes: &mut Causes) {
    let data = Path::ROOT.field("data");
    let mut size = 0_u64;
    for (key, value) in entries(new, "data") {
        let path = data.key(key);
        named(&names::config_key(key), key, &path, causes);
        if get(new, "binaryData").get(key).is_some() {
            causes.invalid_text(&path, key, "duplicate of key present in binaryData");
        }
        size += value.as_str().map_or(0, str::len) as u64;
    }
    let binary = Path::ROOT.field("binaryData");
    for (key, value) in entries(new, "binaryData") {
        named(&names::config_key(key), key, &binary.key(key), causes);
        size += decoded_size(value);
    }
    if size > DATA_LIMIT {
        causes.too_long(&Path::ROOT.key(""), DATA_LIMIT);
    }
    frozen(new, old, &["data", "binaryData"], causes);
}

pub(super) fn secret(new: &Value, old: Option<&Value>, causes: &mut Causes) {
    let data = Path::ROOT.field("data");
    let mut size = 0_u64;
    for (key, value) in entries(new, "data") {
        named(&names::config_key(key), key, &data.key(key), causes);
        size += decoded_size(value);
    }
    if size > DATA_LIMIT {
        causes.too_long(&data, DATA_LIMIT);
    }
    secret_type(new, causes);
    if let Some(old) = old {
        unchanged(get(new, "type"), get(old, "type"), &Path::ROOT.field("type"), causes);
    }
    frozen(new, old, &["data"], causes);
}

/// Size of a base64 text once decoded.
fn decoded_size(value: &Value) -> u64 {
    let text = value.as_str().unwrap_or_default();
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding) as u64
}

/// Types that promise certain keys.
fn secret_type(new: &Value, causes: &mut Causes) {
    let data = get(new, "data");
    let path = Path::ROOT.field("data");
    let required: &[&str] = match text(new, "type") {
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/basic-auth" => {
            if data.get("username").is_none() && data.get("password").is_none() {
                &["username", "password"]
            } else {
                &[]
            }
        }
        "kubernetes.io/service-account-token" => {
            const NAME: &str = "kubernetes.io/service-account.name";
            let annotations = get(get(new, "metadata"), "annotations");
            if text(annotations, NAME).is_empty() {
                let path = Path::ROOT.field("metadata");
                causes.required(&path.field("annotations").key(NAME), "");
            }
            &[]
        }
        _ => &[],
    };
    for key in required {
        if data.get(key).is_none() {
            causes.required(&path.key(key), "");
        }
    }
}

/// `immutable` can be set once and then holds.
fn frozen(new: &Value, old: Option<&Value>, fields: &[&str], causes: &mut Causes) {
    let Some(old) = old.filter(|old| flag(old, "immutable")) else { return };
    let detail = "field is immutable when `immutable` is set";
    if !flag(new, "immutable") {
        causes.forbidden(&Path::ROOT.field("immutable"), detail);
    }
    for field in fields {
        if get(new, field) != get(old, field) {
            causes.forbidden(&Path::ROOT.field(field), detail);
        }
    }
}

pub(super) fn node(new: &Value, old: Option<&Value>, causes: &mut Causes) {
    let (spec, path) = (get(new, "spec"), Path::ROOT.field("spec"));
    let list_path = path.field("taints");
    let mut seen = BTreeSet::new();
    for (index, taint) in list(spec, "taints").iter().enumerate() {
        let path = list_path.index(index);
        let (key, value, effect) =
            (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        named(&names::qualified_name(key), key, &path.field("key"), causes);
        named(&names::label_value(value), value, &path.field("value"), causes);
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        one_of(taint, "effect", &effects, &path, causes);
        if !seen.insert((key, effect)) {
            causes.duplicate(&path, taint);
        }
    }
    let status = Path::ROOT.field("status");
    for field in ["capacity", "allocatable"] {
        quantity::check_list(get(new, "status"), field, &status, causes);
    }
    let Some(old) = old else { return };
    let (was, is) = (text(get(old, "spec"), "providerID"), text(spec, "providerID"));
    if !was.is_empty() && was != is {
        let detail = "node updates may not change providerID except from \"\" to valid";
        causes.forbidden(&path.field("providerID"), detail);
    }
}

pub(super) fn event(new: &Value, causes: &mut Causes) {
    let namespace = text(get(new, "metadata"), "namespace");
    let involved = text(get(new, "involvedObject"), "namespace");
    let path = Path::ROOT.field("involvedObject");
    let path = path.field("namespace");
    if involved.is_empty() {
        if !matches!(namespace, "" | "default" | "kube-system") {
            let detail = "does not match event.namespace";
            causes.invalid_text(&path, involved, detail);
        }
    } else if involved != namespace {
        causes.invalid_text(&path, involved, "does not match event.namespace");
    }
}

const ACCESS_MODES: [&str; 4] =
    ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

fn access_modes(spec: &Value, path: &Path<'_>, causes: &mut Causes) {
    let list_path = path.field("accessModes");
    let modes = list(spec, "accessModes");
    if modes.is_empty() {
        causes.required(&list_path, "at least 1 access mode is required");
    }
    for mode in modes {
        if !ACCESS_MODES.contains(&mode.as_str().unwrap_or_default()) {
            causes.not_supported(&list_path, mode, &ACCESS_MODES);
        }
    }
    maybe_one_of(spec, "volumeMode", &["Block", "Filesystem"], path, causes);
}

pub(super) fn claim(new: &Value, old: Option<&Value>, causes: &mut Causes) {
    let (spec, path) = (get(new, "spec"), Path::ROOT.field("spec"));
    access_modes(spec, &path, causes);
    let resources = path.field("resources");
    let storage = get(get(get(spec, "resources"), "requests"), "storage");
    match quantity::parse(storage) {
        None => causes.required(&resources.key("storage"), ""),
        Some(amount) if !amount.sign().is_gt() => {
            let requests = resources.field("requests");
            causes.invalid(&requests.key("storage"), storage, "must be greater than zero");
        }
        Some(_) => {}
    }
    let Some(old) = old else { return };
    let fixed = |spec: &Value| {
        let mut spec = spec.clone();
        if let Some(fields) = spec.as_object_mut() {
            for field in ["resources", "volumeAttributesClassName"] {
                fields.remove(field);
            }
        }
        spec
    };
    let mut fixed_old = fixed(get(old, "spec"));
    let fixed_new = fixed(spec);
    // Binding sets the volume's name once.
    if text(&fixed_old, "volumeName").is_empty()
        && let Some(fields) = fixed_old.as_object_mut()
        && has(&fixed_new, "volumeName")
    {
        fields.insert("volumeName".to_owned(), get(&fixed_new, "volumeName").clone());
    }
    if fixed_new != fixed_old {
        let detail = "spec is immutable after creation except resources.requests and \
                      volumeAttributesClassName for bound claims";
        causes.forbidden(&path, detail);
    }
}

pub(super) fn volume(new: &Value, causes: &mut Causes) {
    let (spec, path) = (get(new, "spec"), Path::ROOT.field("spec"));
    access_modes(spec, &path, causes);
    if !has(get(spec, "capacity"), "storage") {
        let supported = ["storage"];
        let at = path.field("capacity");
        causes.not_supported(&at, get(spec, "capacity"), &supported);
    }
    quantity::check_list(spec, "capacity", &path, causes);
    let policies = ["Delete", "Recycle", "Retain"];
    maybe_one_of(spec, "persistentVolumeReclaimPolicy", &policies, &path, causes);
    const SOURCES: [&str; 22] = [
        "awsElasticBlockStore",
        "azureDisk",
        "azureFile",
        "cephfs",
        "cinder",
        "csi",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "glusterfs",
        "hostPath",
        "iscsi",
        "local",
        "nfs",
        "photonPersistentDisk",
        "portworxVolume",
        "quobyte",
        "rbd",
        "scaleIO",
        "storageos",
        "vsphereVolume",
    ];
    let given: Vec<&&str> = SOURCES.iter().filter(|source| has(spec, source)).collect();
    if given.is_empty() {
        causes.required(&path, "must specify a volume type");
    }
    for extra in given.iter().skip(1) {
        causes.forbidden(&path.field(extra), "may not specify more than 1 volume type");
    }
}

pub(super) fn resource_quota(new: &Value, causes: &mut Causes) {
    let path = Path::ROOT.field("spec");
    let hard = path.field("hard");
    for (name, value) in entries(get(new, "spec"), "hard") {
        let at = hard.key(name);
        named(&names::qualified_name(name), name, &at, causes);
        quantity::check_amount("", value, &at, causes);
    }
}

pub(super) fn limit_range(new: &Value, causes: &mut Causes) {
    let path = Path::ROOT.field("spec");
    let list_path = path.field("limits");
    for (index, item) in list(get(new, "spec"), "limits").iter().enumerate() {
        let path = list_path.index(index);
        not_empty(item, "type", &path, causes);
        let (low, high) = (get(item, "min"), get(item, "max"));
        for (name, value) in entries(item, "min") {
            if let (Some(low), Some(high)) =
                (quantity::parse(value), quantity::parse(get(high, name)))
                && low > high
            {
                let detail = format!("min value {low} is greater than max value {high}");
                let at = path.field("min");
                causes.invalid(&at.key(name), &json!(low.to_string()), &detail);
            }
        }
        for (name, value) in entries(item, "default") {
            let bounds = [quantity::parse(get(low, name)), quantity::parse(get(high, name))];
            let Some(default) = quantity::parse(value) else { continue };
            if let [_, Some(high)] = bounds
                && default > high
            {
                let detail = format!("default value {default} is greater than max value {high}");
                let at = path.field("default");
                causes.invalid(&at.key(name), &json!(default.to_string()), &detail);
            }
        }
    }
}

pub(super) fn binding(new: &Value, causes: &mut Causes) {
    let (target, path) = (get(new, "target"), Path::ROOT.field("target"));
    let kind = text(target, "kind");
    if !matches!(kind, "" | "Node") {
        causes.not_supported(&path.field("kind"), &json!(kind), &["Node", "<empty>"]);
    }
    not_empty(target, "name", &path, causes);
}
