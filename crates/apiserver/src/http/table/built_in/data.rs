//! Kinds that only hold data.

use serde_json::{Value, json};

use super::{
    Sheet, boolean, created, date, joined, list_at, name, number, or_none, str_at, text, wide,
};
use crate::http::meta;

fn count(object: &Value, field: &str) -> usize {
    object.get(field).and_then(Value::as_object).map_or(0, serde_json::Map::len)
}

pub(super) const CONFIG_MAPS: Sheet = Sheet {
    columns: &[text("Name"), text("Data"), text("Age")],
    cells: |object, now| {
        let entries = count(object, "data") + count(object, "binaryData");
        vec![name(object), json!(entries), created(object, now)]
    },
};

pub(super) const SECRETS: Sheet = Sheet {
    columns: &[text("Name"), text("Type"), text("Data"), text("Age")],
    cells: |object, now| {
        vec![
            name(object),
            json!(str_at(object, "/type")),
            json!(count(object, "data")),
            created(object, now),
        ]
    },
};

pub(super) const CREATED_AT: Sheet = Sheet {
    columns: &[text("Name"), date("Created At")],
    cells: |object, _| vec![name(object), json!(str_at(object, "/metadata/creationTimestamp"))],
};

pub(super) const RESOURCE_QUOTAS: Sheet = Sheet {
    columns: &[text("Name"), text("Request"), text("Limit"), text("Age")],
    cells: |object, now| {
        let used = |resource: &str| {
            let value = object.pointer("/status/used").and_then(|used| used.get(resource));
            value.map_or_else(|| "0".to_owned(), amount)
        };
        let hard = object.pointer("/status/hard").and_then(Value::as_object);
        let (limits, requests): (Vec<_>, Vec<_>) =
            hard.into_iter().flatten().partition(|(name, _)| name.starts_with("limits."));
        let show = |list: Vec<(&String, &Value)>| {
            let parts: Vec<String> = list
                .iter()
                .map(|(name, hard)| format!("{name}: {}/{}", used(name), amount(hard)))
                .collect();
            json!(parts.join(", "))
        };
        vec![name(object), show(requests), show(limits), created(object, now)]
    },
};

fn amount(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn access_modes(object: &Value, path: &str) -> String {
    joined(list_at(object, path).iter().filter_map(Value::as_str).map(|mode| match mode {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        other => other,
    }))
}

fn phase(object: &Value) -> &str {
    if meta::is_deleting(object) { "Terminating" } else { str_at(object, "/status/phase") }
}

fn unset(text: &str) -> Value {
    if text.is_empty() { json!("<unset>") } else { json!(text) }
}

pub(super) const PERSISTENT_VOLUMES: Sheet = Sheet {
    columns: &[
        text("Name"),
        text("Capacity"),
        text("Access Modes"),
        text("Reclaim Policy"),
        text("Status"),
        text("Claim"),
        text("StorageClass"),
        text("VolumeAttributesClass"),
        text("Reason"),
        text("Age"),
        wide("VolumeMode"),
    ],
    cells: |object, now| {
        let claim = match (
            str_at(object, "/spec/claimRef/namespace"),
            str_at(object, "/spec/claimRef/name"),
        ) {
            (_, "") => String::new(),
            (namespace, name) => format!("{namespace}/{name}"),
        };
        vec![
            name(object),
            json!(str_at(object, "/spec/capacity/storage")),
            json!(access_modes(object, "/spec/accessModes")),
            json!(str_at(object, "/spec/persistentVolumeReclaimPolicy")),
            json!(phase(object)),
            json!(claim),
            json!(str_at(object, "/spec/storageClassName")),
            unset(str_at(object, "/spec/volumeAttributesClassName")),
            json!(str_at(object, "/status/reason")),
            created(object, now),
            unset(str_at(object, "/spec/volumeMode")),
        ]
    },
};

pub(super) const PERSISTENT_VOLUME_CLAIMS: Sheet = Sheet {
    columns: &[
        text("Name"),
        text("Status"),
        text("Volume"),
        text("Capacity"),
        text("Access Modes"),
        text("StorageClass"),
        text("VolumeAttributesClass"),
        text("Age"),
        wide("VolumeMode"),
    ],
    cells: |object, now| {
        vec![
            name(object),
            json!(phase(object)),
            json!(str_at(object, "/spec/volumeName")),
            json!(str_at(object, "/status/capacity/storage")),
            json!(access_modes(object, "/status/accessModes")),
            json!(str_at(object, "/spec/storageClassName")),
            unset(str_at(object, "/spec/volumeAttributesClassName")),
            created(object, now),
            unset(str_at(object, "/spec/volumeMode")),
        ]
    },
};

pub(super) const ROLE_BINDINGS: Sheet = Sheet {
    columns: &[
        text("Name"),
        text("Role"),
        text("Age"),
        wide("Users"),
        wide("Groups"),
        wide("ServiceAccounts"),
    ],
    cells: |object, now| {
        let role =
            format!("{}/{}", str_at(object, "/roleRef/kind"), str_at(object, "/roleRef/name"));
        let subjects = |kind: &str| {
            let list: Vec<String> = list_at(object, "/subjects")
                .iter()
                .filter(|subject| str_at(subject, "/kind") == kind)
                .map(|subject| match str_at(subject, "/namespace") {
                    "" => str_at(subject, "/name").to_owned(),
                    namespace => format!("{namespace}/{}", str_at(subject, "/name")),
                })
                .collect();
            json!(list.join(", "))
        };
        vec![
            name(object),
            json!(role),
            created(object, now),
            subjects("User"),
            subjects("Group"),
            subjects("ServiceAccount"),
        ]
    },
};

pub(super) const STORAGE_CLASSES: Sheet = Sheet {
    columns: &[
        text("Name"),
        text("Provisioner"),
        text("ReclaimPolicy"),
        text("VolumeBindingMode"),
        text("AllowVolumeExpansion"),
        text("Age"),
    ],
    cells: |object, now| {
        let default = "storageclass.kubernetes.io/is-default-class";
        let title = match meta::annotation(object, default) {
            Some("true") => format!("{} (default)", meta::name(object)),
            _ => meta::name(object).to_owned(),
        };
        vec![
            json!(title),
            json!(str_at(object, "/provisioner")),
            or_none(str_at(object, "/reclaimPolicy")),
            or_none(str_at(object, "/volumeBindingMode")),
            json!(object.get("allowVolumeExpansion").and_then(Value::as_bool) == Some(true)),
            created(object, now),
        ]
    },
};

pub(super) const CSI_NODES: Sheet = Sheet {
    columns: &[text("Name"), number("Drivers"), text("Age")],
    cells: |object, now| {
        vec![name(object), json!(list_at(object, "/spec/drivers").len()), created(object, now)]
    },
};

pub(super) const CSI_DRIVERS: Sheet = Sheet {
    columns: &[
        text("Name"),
        boolean("AttachRequired"),
        boolean("PodInfoOnMount"),
        boolean("StorageCapacity"),
        text("TokenRequests"),
        boolean("RequiresRepublish"),
        text("Modes"),
        text("Age"),
    ],
    cells: |object, now| {
        let flag = |field: &str, default: bool| {
            let value = object.pointer(&format!("/spec/{field}")).and_then(Value::as_bool);
            json!(value.unwrap_or(default))
        };
        let audiences = list_at(object, "/spec/tokenRequests");
        let audiences = joined(audiences.iter().map(|request| str_at(request, "/audience")));
        let modes = list_at(object, "/spec/volumeLifecycleModes");
        vec![
            name(object),
            flag("attachRequired", true),
            flag("podInfoOnMount", false),
            flag("storageCapacity", false),
            if audiences.is_empty() { json!("<unset>") } else { json!(audiences) },
            flag("requiresRepublish", false),
            or_none(joined(modes.iter().filter_map(Value::as_str))),
            created(object, now),
        ]
    },
};

pub(super) const VOLUME_ATTACHMENTS: Sheet = Sheet {
    columns: &[
        text("Name"),
        text("Attacher"),
        text("PV"),
        text("Node"),
        boolean("Attached"),
        text("Age"),
    ],
    cells: |object, now| {
        let attached = object.pointer("/status/attached").and_then(Value::as_bool);
        vec![
            name(object),
            json!(str_at(object, "/spec/attacher")),
            json!(str_at(object, "/spec/source/persistentVolumeName")),
            json!(str_at(object, "/spec/nodeName")),
            json!(attached == Some(true)),
            created(object, now),
        ]
    },
};
