//! Services.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::container::check_target_port;
use super::{maybe_one_of, named, one_of, port_range};
use crate::schema::cause::{Causes, Path};
use crate::schema::object::{get, has, int, list, text};
use crate::schema::{meta, names};

pub(super) fn check(new: &Value, old: Option<&Value>, causes: &mut Causes) {
    let (spec, path) = (get(new, "spec"), Path::ROOT.field("spec"));
    let kind = text(spec, "type");
    let headless = text(spec, "clusterIP") == "None";
    if list(spec, "ports").is_empty() && !headless && kind != "ExternalName" {
        causes.required(&path.field("ports"), "");
    }
    check_ports(spec, kind, &path, causes);
    meta::labels(spec.get("selector"), &path.field("selector"), causes);
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    one_of(spec, "type", &kinds, &path, causes);
    one_of(spec, "sessionAffinity", &["ClientIP", "None"], &path, causes);
    maybe_one_of(spec, "internalTrafficPolicy", &["Cluster", "Local"], &path, causes);
    if kind == "ExternalName" {
        external_name(spec, &path, causes);
    }
    check_addresses(spec, &path, causes);
    if let Some(old) = old {
        check_change(spec, get(old, "spec"), &path, causes);
    }
}

fn external_name(spec: &Value, path: &Path<'_>, causes: &mut Causes) {
    let name = text(spec, "externalName");
    if name.is_empty() {
        causes.required(&path.field("externalName"), "");
    } else {
        let bare = name.strip_suffix('.').unwrap_or(name);
        named(&names::dns_subdomain(bare), name, &path.field("externalName"), causes);
    }
    if !matches!(text(spec, "clusterIP"), "" | "None") {
        let detail = "may not be set when type is ExternalName";
        causes.forbidden(&path.field("clusterIP"), detail);
    }
}

fn check_ports(spec: &Value, kind: &str, path: &Path<'_>, causes: &mut Causes) {
    let ports = list(spec, "ports");
    let list_path = path.field("ports");
    let (mut names_seen, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for (index, port) in ports.iter().enumerate() {
        let path = list_path.index(index);
        let name = text(port, "name");
        if name.is_empty() {
            if ports.len() > 1 {
                causes.required(&path.field("name"), "");
            }
        } else {
            named(&names::dns_label(name), name, &path.field("name"), causes);
            if !names_seen.insert(name) {
                causes.duplicate(&path.field("name"), &json!(name));
            }
        }
        let number = int(port, "port").unwrap_or_default();
        port_range(number, &path.field("port"), causes);
        one_of(port, "protocol", &["SCTP", "TCP", "UDP"], &path, causes);
        check_target_port(get(port, "targetPort"), &path.field("targetPort"), causes);
        if !seen.insert((number, text(port, "protocol"))) {
            let key = json!({"port": number, "protocol": text(port, "protocol")});
            causes.duplicate(&path, &key);
        }
        if let Some(number) = int(port, "nodePort").filter(|number| *number != 0) {
            if matches!(kind, "ClusterIP" | "ExternalName") {
                let detail = format!("may not be used when `type` is '{kind}'");
                causes.forbidden(&path.field("nodePort"), &detail);
            } else {
                port_range(number, &path.field("nodePort"), causes);
            }
        }
    }
}

fn check_addresses(spec: &Value, path: &Path<'_>, causes: &mut Causes) {
    const RULE: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    let address = text(spec, "clusterIP");
    if !matches!(address, "" | "None") && address.parse::<IpAddr>().is_err() {
        causes.invalid_text(&path.field("clusterIPs").index(0), address, RULE);
    }
    let list_path = path.field("externalIPs");
    for (index, address) in list(spec, "externalIPs").iter().enumerate() {
        let address = address.as_str().unwrap_or_default();
        if address.parse::<IpAddr>().is_err() {
            causes.invalid_text(&list_path.index(index), address, RULE);
        }
    }
}

/// A service keeps its address for as long as it has one.
fn check_change(new: &Value, old: &Value, path: &Path<'_>, causes: &mut Causes) {
    let was = text(old, "clusterIP");
    let stays = text(old, "type") != "ExternalName" && text(new, "type") != "ExternalName";
    if stays && !was.is_empty() && has(new, "clusterIP") && text(new, "clusterIP") != was {
        let at = path.field("clusterIPs");
        let value = json!([text(new, "clusterIP")]);
        causes.invalid(&at.index(0), &value, "may not change once set");
    }
}
