//! What may a container know about its own pod?

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};
use units::{Bytes, MilliCpu, Quantity, Rounding, Scale};

/// Facts about the node that a pod may ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) node: String,
    pub(crate) address: IpAddr,
    /// What a container without a limit is told its limit is.
    pub(crate) cpu: MilliCpu,
    pub(crate) memory: Bytes,
    pub(crate) storage: Bytes,
}

/// The value of a field path such as `metadata.labels['app']`; an absent label is empty.
pub(crate) fn field(pod: &Pod, path: &str, facts: &Facts) -> Result<String, String> {
    let meta = &pod.metadata;
    let spec = pod.spec.as_ref();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    if let Some((map, key)) = subscript(path) {
        let map = match map {
            "metadata.labels" => meta.labels.as_ref(),
            "metadata.annotations" => meta.annotations.as_ref(),
            _ => return Err(format!("unsupported fieldPath: {path}")),
        };
        return Ok(map.and_then(|map| map.get(key)).cloned().unwrap_or_default());
    }
    Ok(match path {
        "metadata.name" => text(&meta.name),
        "metadata.namespace" => text(&meta.namespace),
        "metadata.uid" => text(&meta.uid),
        "metadata.labels" => lines(meta.labels.as_ref()),
        "metadata.annotations" => lines(meta.annotations.as_ref()),
        "spec.nodeName" => facts.node.clone(),
        "spec.serviceAccountName" => {
            spec.and_then(|spec| spec.service_account_name.clone()).unwrap_or_default()
        }
        "status.hostIP" | "status.hostIPs" | "status.podIP" | "status.podIPs" => {
            facts.address.to_string()
        }
        _ => return Err(format!("unsupported fieldPath: {path}")),
    })
}

/// `a['b']` is (`a`, `b`).
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, key) = path.strip_suffix("']")?.split_once("['")?;
    Some((map, key))
}

/// One line for each entry, its value quoted.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let lines: Vec<String> =
        map.into_iter().flatten().map(|(key, value)| format!("{key}={}", quoted(value))).collect();
    lines.join("\n")
}

/// As Go's `%q` quotes.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\u{b}' => out.push_str("\\v"),
            char if char.is_ascii_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(char));
            }
            char if char.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(char));
            }
            char => out.push(char),
        }
    }
    out.push('"');
    out
}

/// The value of a `resourceFieldRef`, in units of its divisor and rounded up.
pub(crate) fn resource(
    pod: &Pod,
    own: Option<&Container>,
    selector: &ResourceFieldSelector,
    facts: &Facts,
) -> Result<String, String> {
    let container = match &selector.container_name {
        Some(name) => find(pod, name),
        None => own,
    };
    let container = container.ok_or("resourceFieldRef names no container of the pod")?;
    let resources = container.resources.as_ref();
    let (amounts, name, default) = match selector.resource.split_once('.') {
        Some(("limits", name)) => {
            (resources.and_then(|own| own.limits.as_ref()), name, allocatable(name, facts))
        }
        Some(("requests", name)) => {
            (resources.and_then(|own| own.requests.as_ref()), name, Some(Quantity::ZERO))
        }
        _ => return Err(format!("unsupported container resource: {}", selector.resource)),
    };
    let stated = amounts.and_then(|amounts| amounts.get(name)?.0.parse().ok());
    let amount: Quantity = stated
        .filter(|amount: &Quantity| !amount.is_zero())
        .or(default)
        .ok_or_else(|| format!("unsupported container resource: {}", selector.resource))?;
    let divisor = selector.divisor.as_ref().map(|divisor| divisor.0.parse::<Quantity>());
    let divisor = divisor.transpose().map_err(|error| format!("bad divisor: {error}"))?;
    let divisor = divisor.filter(|divisor| !divisor.is_zero());
    let divisor = divisor.unwrap_or(Quantity::from_int(1, units::Format::DecimalSi));
    let scale = if name == "cpu" { Scale::Milli } else { Scale::One };
    let count = |quantity: Quantity| quantity.to_int(scale, Rounding::Up);
    let (amount, divisor) = (i128::from(count(amount)), i128::from(count(divisor).max(1)));
    Ok(((amount + divisor - 1) / divisor).to_string())
}

fn allocatable(name: &str, facts: &Facts) -> Option<Quantity> {
    match name {
        "cpu" => Some(facts.cpu.to_quantity()),
        "memory" => Some(facts.memory.to_quantity()),
        "ephemeral-storage" => Some(facts.storage.to_quantity()),
        _ => None,
    }
}

fn find<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let spec = pod.spec.as_ref()?;
    let mut all = spec.init_containers.iter().flatten().chain(&spec.containers);
    all.find(|container| container.name == name)
}

#[cfg(test)]
pub(crate) fn facts() -> Facts {
    Facts {
        node: "n1".into(),
        address: "127.0.0.1".parse().unwrap(),
        cpu: MilliCpu(3_500),
        memory: Bytes::from_gib(8),
        storage: Bytes::from_gib(100),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Pod {
        serde_json::from_value(json!({
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "u-1",
                "labels": {"app": "web", "tier": "a\"b"},
                "annotations": {"note": "two\nlines\u{1}"},
            },
            "spec": {"serviceAccountName": "robot", "containers": [{
                "name": "c",
                "resources": {
                    "requests": {"cpu": "250m"},
                    "limits": {"cpu": "1500m", "memory": "100Mi", "hugepages-2Mi": "4Mi"},
                },
            }, {"name": "bare"}]},
        }))
        .unwrap()
    }

    #[test]
    fn fields() {
        let cases = [
            ("metadata.name", "web"),
            ("metadata.namespace", "shop"),
            ("metadata.uid", "u-1"),
            ("metadata.labels['app']", "web"),
            ("metadata.labels['none']", ""),
            ("metadata.annotations['note']", "two\nlines\u{1}"),
            ("metadata.labels", "app=\"web\"\ntier=\"a\\\"b\""),
            ("metadata.annotations", "note=\"two\\nlines\\x01\""),
            ("spec.nodeName", "n1"),
            ("spec.serviceAccountName", "robot"),
            ("status.podIP", "127.0.0.1"),
            ("status.hostIP", "127.0.0.1"),
        ];
        for (path, want) in cases {
            assert_eq!(field(&pod(), path, &facts()).as_deref(), Ok(want), "{path}");
        }
        for path in ["", "metadata", "spec.containers", "metadata.finalizers['x']"] {
            assert!(field(&pod(), path, &facts()).is_err(), "{path}");
        }
    }

    #[test]
    fn resources() {
        let cases = [
            ("c", "limits.cpu", None, Ok("2")),
            ("c", "limits.cpu", Some("1m"), Ok("1500")),
            ("c", "requests.cpu", Some("1m"), Ok("250")),
            ("c", "requests.memory", None, Ok("0")),
            ("c", "limits.memory", Some("1Mi"), Ok("100")),
            ("c", "limits.memory", Some("1Gi"), Ok("1")),
            ("c", "limits.hugepages-2Mi", None, Ok("4194304")),
            ("bare", "limits.cpu", Some("1m"), Ok("3500")),
            ("bare", "limits.memory", Some("1Gi"), Ok("8")),
            ("bare", "limits.hugepages-2Mi", None, Err(())),
            ("bare", "cpu", None, Err(())),
            ("none", "limits.cpu", None, Err(())),
            ("c", "limits.cpu", Some("x"), Err(())),
        ];
        for (container, resource_name, divisor, want) in cases {
            let selector = json!({
                "containerName": container, "resource": resource_name, "divisor": divisor,
            });
            let selector = serde_json::from_value(selector).unwrap();
            let got = resource(&pod(), None, &selector, &facts()).map_err(drop);
            let want = want.map(str::to_owned);
            assert_eq!(got, want, "{container} {resource_name} {divisor:?}");
        }
    }
}
