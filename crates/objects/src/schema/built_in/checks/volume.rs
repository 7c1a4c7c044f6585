//! Volumes of a pod: one source each, and that source complete.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::container::relative;
use super::{maybe_one_of, named, not_empty};
use crate::schema::cause::{Causes, Path};
use crate::schema::names;
use crate::schema::object::{get, has, int, list, text};

/// Checks the list and returns the names.
pub(super) fn check_all<'a>(
    spec: &'a Value,
    path: &Path<'_>,
    causes: &mut Causes,
) -> BTreeSet<&'a str> {
    let list_path = path.field("volumes");
    let mut seen = BTreeSet::new();
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        let path = list_path.index(index);
        let name = text(volume, "name");
        let at = path.field("name");
        if name.is_empty() {
            causes.required(&at, "");
        } else {
            named(&names::dns_label(name), name, &at, causes);
            if !seen.insert(name) {
                causes.duplicate(&at, &json!(name));
            }
        }
        check_source(volume, &path, causes);
    }
    seen
}

fn check_source(volume: &Value, path: &Path<'_>, causes: &mut Causes) {
    let sources: Vec<&str> = volume
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, source)| *name != "name" && !source.is_null())
        .map(|(name, _)| name.as_str())
        .collect();
    if sources.is_empty() {
        causes.required(path, "must specify a volume type");
    }
    for extra in sources.iter().skip(1) {
        causes.forbidden(&path.field(extra), "may not specify more than 1 volume type");
    }
    if let Some(name) = sources.first() {
        check_one(name, get(volume, name), &path.field(name), causes);
    }
}

fn check_one(kind: &str, source: &Value, path: &Path<'_>, causes: &mut Causes) {
    match kind {
        "hostPath" => host_path(source, path, causes),
        "secret" => {
            not_empty(source, "secretName", path, causes);
            check_files(source, path, causes);
        }
        "configMap" => {
            not_empty(source, "name", path, causes);
            check_files(source, path, causes);
        }
        "downwardAPI" => check_files(source, path, causes),
        "projected" => {
            check_mode(source, "defaultMode", path, causes);
            projections(source, path, causes);
        }
        "persistentVolumeClaim" => not_empty(source, "claimName", path, causes),
        "csi" => not_empty(source, "driver", path, causes),
        "nfs" => {
            not_empty(source, "server", path, causes);
            not_empty(source, "path", path, causes);
        }
        "ephemeral" if !has(source, "volumeClaimTemplate") => {
            causes.required(&path.field("volumeClaimTemplate"), "");
        }
        "image" => {
            not_empty(source, "reference", path, causes);
            let policies = ["Always", "IfNotPresent", "Never"];
            maybe_one_of(source, "pullPolicy", &policies, path, causes);
        }
        _ => {}
    }
}

fn host_path(source: &Value, path: &Path<'_>, causes: &mut Causes) {
    let target = text(source, "path");
    if target.is_empty() {
        causes.required(&path.field("path"), "");
    } else if target.split('/').any(|part| part == "..") {
        causes.invalid_text(&path.field("path"), target, "must not contain '..'");
    }
    const TYPES: [&str; 8] = [
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ];
    maybe_one_of(source, "type", &TYPES, path, causes);
}

fn projections(source: &Value, path: &Path<'_>, causes: &mut Causes) {
    let list_path = path.field("sources");
    for (index, projection) in list(source, "sources").iter().enumerate() {
        let path = list_path.index(index);
        for kind in ["secret", "configMap"] {
            if has(projection, kind) {
                not_empty(get(projection, kind), "name", &path.field(kind), causes);
            }
        }
        if let Some(seconds) = int(get(projection, "serviceAccountToken"), "expirationSeconds")
            && seconds < 600
        {
            let at = path.field("serviceAccountToken");
            let detail = "may not specify a duration less than 10 minutes";
            causes.invalid(&at.field("expirationSeconds"), &json!(seconds), detail);
        }
    }
}

fn check_files(source: &Value, path: &Path<'_>, causes: &mut Causes) {
    check_mode(source, "defaultMode", path, causes);
    let list_path = path.field("items");
    for (index, item) in list(source, "items").iter().enumerate() {
        let path = list_path.index(index);
        let target = text(item, "path");
        if target.is_empty() {
            causes.required(&path.field("path"), "");
        }
        relative(target, &path.field("path"), causes);
        check_mode(item, "mode", &path, causes);
    }
}

fn check_mode(value: &Value, field: &str, path: &Path<'_>, causes: &mut Causes) {
    if let Some(mode) = int(value, field).filter(|mode| !(0..=0o777).contains(mode)) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        causes.invalid(&path.field(field), &json!(mode), detail);
    }
}
