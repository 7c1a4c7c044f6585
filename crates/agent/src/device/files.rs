//! The files in which vendors' daemons describe their devices.

use std::collections::BTreeMap;
use std::path::Path;

use api::kind::shape::DeviceTopology;
use api::metadata::ResourceList;
use serde::Deserialize;
use serde_json::Value;
use tracing::warn;
use units::Quantity;

/// No description of the devices of one node is longer.
const MAX_FILE: u64 = 4 << 20;

/// One device as its vendor describes it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    pub vendor: String,
    pub model: String,
    pub uuid: String,
    pub minor: i32,
    pub resources: ResourceList,
    pub topology: Option<DeviceTopology>,
    pub healthy: bool,
    pub error_code: String,
    pub error_message: String,
}

#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[derive(Default)]
struct Entry {
    vendor: String,
    model: String,
    uuid: String,
    minor: Value,
    resources: BTreeMap<String, Value>,
    topology: Option<EntryTopology>,
    status: Option<EntryStatus>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct EntryTopology {
    #[serde(rename = "socketID")]
    socket: Value,
    #[serde(rename = "nodeID")]
    node: Value,
    #[serde(rename = "pcieID")]
    pcie: String,
    #[serde(rename = "busID")]
    bus: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct EntryStatus {
    healthy: bool,
    err_code: Value,
    err_message: String,
}

/// All devices in the directory's files; a file that cannot be used is named and left out.
pub(super) fn read(dir: &Path) -> Vec<Found> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut files: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "json"));
    files.sort();
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    for file in files {
        if std::fs::metadata(&file).is_ok_and(|meta| meta.len() > MAX_FILE) {
            warn!(path = %file.display(), "a description of devices is too long");
            continue;
        }
        match std::fs::read(&file)
            .map_err(|error| error.to_string())
            .and_then(|text| parse(&text).map_err(|error| error.to_string()))
        {
            Ok(devices) => found.extend(devices.into_iter().map(|d| (d.uuid.clone(), d))),
            Err(error) => {
                warn!(path = %file.display(), error, "cannot read a description of devices")
            }
        }
    }
    found.into_values().collect()
}

/// The devices of one file. A device without an id or a minor number cannot be allocated and is left out.
pub fn parse(text: &[u8]) -> Result<Vec<Found>, serde_json::Error> {
    let entries: Vec<Entry> = serde_json::from_slice(text)?;
    Ok(entries.into_iter().filter_map(found).collect())
}

fn found(entry: Entry) -> Option<Found> {
    let minor = i32::try_from(number(&entry.minor)?).ok().filter(|minor| *minor >= 0)?;
    let status = entry.status.unwrap_or_default();
    let resources = entry.resources.iter();
    let resources = resources.filter_map(|(name, value)| Some((name.clone(), quantity(value)?)));
    (!entry.uuid.is_empty()).then(|| Found {
        vendor: entry.vendor,
        model: entry.model,
        uuid: entry.uuid,
        minor,
        resources: resources.collect(),
        topology: entry.topology.map(|topology| DeviceTopology {
            socket_id: id(&topology.socket),
            node_id: id(&topology.node),
            pcie_id: topology.pcie,
            bus_id: Some(topology.bus).filter(|bus| !bus.is_empty()),
        }),
        healthy: status.healthy,
        error_code: text(&status.err_code),
        error_message: status.err_message,
    })
}

/// Vendors write numbers with and without quotes.
fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// An id on the wire is a number; -1 stands for an unknown one.
fn id(value: &Value) -> i32 {
    number(value).and_then(|id| i32::try_from(id).ok()).unwrap_or(-1)
}

fn quantity(value: &Value) -> Option<Quantity> {
    text(value).parse().ok()
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_read_with_or_without_quotes() {
        let text = br#"[
            {"vendor":"huawei","model":"910B","uuid":"u0","minor":"0",
             "resources":{"huawei.com/npu-core":"20","koordinator.sh/gpu-memory":34359738368},
             "topology":{"socketID":"0","nodeID":1,"pcieID":"p","busID":"b","p2pLinks":[{"peerMinor":"1"}]},
             "status":{"healthy":true}},
            {"uuid":"u1","minor":1,"status":{"healthy":false,"errCode":79,"errMessage":"m"}},
            {"uuid":"u2"}, {"minor":3}, {"uuid":"u4","minor":-1}
        ]"#;
        let devices = parse(text).unwrap();
        assert_eq!(devices.len(), 2, "devices that cannot be named are left out");
        assert_eq!(devices[0].resources["koordinator.sh/gpu-memory"].value(), 34_359_738_368);
        let topology = devices[0].topology.as_ref().unwrap();
        assert_eq!((topology.socket_id, topology.node_id), (0, 1));
        assert_eq!((devices[1].healthy, devices[1].error_code.as_str()), (false, "79"));
    }

    #[test]
    fn one_bad_file_does_not_hide_the_others() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.json"), "{").unwrap();
        std::fs::write(dir.path().join("b.json"), r#"[{"uuid":"u","minor":0}]"#).unwrap();
        std::fs::write(dir.path().join("c.txt"), r#"[{"uuid":"v","minor":1}]"#).unwrap();
        assert_eq!(read(dir.path()).len(), 1);
        assert_eq!(read(&dir.path().join("nowhere")), []);
    }
}
