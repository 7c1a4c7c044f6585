//! Which accelerators does this node have? The Device object.
//!
//! Daemons of accelerator vendors leave JSON files in a directory; each file is a list of devices.
//! The object is made when there are devices, and empties when they go; a node that never had any
//! gets none. A device whose daemon calls it healthy again is healthy again.

mod files;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use api::kind::Device;
use api::kind::device::DeviceSpec;
use api::kind::shape::DeviceInfo;
use api::protocol::node::{GPU_MODEL, GPU_VENDOR};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::Client;
use kube::api::ObjectMeta;
use reconcile::key::Key;
use reconcile::write::{WriteError, Writer};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::health::Part;
use crate::object::{Seen, chain};
pub use files::{Found, parse};
use qos::topology::object::owner;

/// Devices that are alike enough to be counted together.
const GPU: &str = "gpu";
const HEALTHY: &str = "Healthy";

/// What the task needs.
#[derive(Debug)]
pub struct Publishing {
    pub node_name: String,
    pub interval: Duration,
    /// `--xpu-device-infos-dir`.
    pub dir: PathBuf,
    pub node: watch::Receiver<Seen<Node>>,
    pub object: watch::Receiver<Seen<Device>>,
    pub part: Part,
}

/// What the object should say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wanted {
    pub labels: BTreeMap<&'static str, String>,
    pub devices: Vec<DeviceInfo>,
}

/// Publishes until shutdown.
pub async fn follow(publishing: Publishing, client: Client, shutdown: CancellationToken) {
    let writer = Writer::alone(client);
    let mut told = false;
    publishing.part.ready();
    loop {
        publishing.part.beat(publishing.interval, Instant::now());
        let dir = publishing.dir.clone();
        let found =
            tokio::task::spawn_blocking(move || files::read(&dir)).await.unwrap_or_default();
        let seen = publishing.object.borrow().clone();
        let written = write(&publishing, &writer, &seen, &found).await;
        match written {
            Ok(true) => info!(devices = found.len(), "the node's devices were reported"),
            Ok(false) => told = false,
            Err(error) => {
                if !std::mem::replace(&mut told, true) {
                    warn!(error = chain(&error), "cannot report devices; will retry");
                }
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(publishing.interval) => {}
        }
    }
}

/// Says whether something was written.
async fn write(
    publishing: &Publishing,
    writer: &Writer,
    seen: &Seen<Device>,
    found: &[Found],
) -> Result<bool, WriteError> {
    let name = &publishing.node_name;
    let result = match seen {
        Seen::Waiting => return Ok(false),
        Seen::Absent { .. } if found.is_empty() => return Ok(false),
        Seen::Absent { .. } => {
            let node = publishing.node.borrow().clone();
            let Some(owner) = node.present().and_then(|node| owner(node)) else { return Ok(false) };
            let wanted = want(found, &[], Timestamp::now());
            let labels = wanted.labels.into_iter().map(|(key, value)| (key.to_owned(), value));
            let mut device = Device::new(name, DeviceSpec { devices: wanted.devices });
            device.metadata = ObjectMeta {
                labels: Some(labels.collect()),
                owner_references: Some(vec![owner]),
                ..device.metadata
            };
            writer.create(&device).await.map(drop)
        }
        Seen::Present(known) => {
            let wanted = want(found, &known.spec.devices, Timestamp::now());
            let Some(patch) = patch(known, &wanted) else { return Ok(false) };
            writer.patch::<Device>(&Key::new("", name), &patch).await.map(drop)
        }
    };
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.is_conflict() => {
            debug!("the Device object has changed meanwhile");
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// The devices as reported, given what was reported before.
pub fn want(found: &[Found], before: &[DeviceInfo], now: Timestamp) -> Wanted {
    let mut devices: Vec<DeviceInfo> = found
        .iter()
        .map(|found| {
            let known =
                before.iter().find(|known| known.id.as_deref() == Some(found.uuid.as_str()));
            info_of(found, known, now)
        })
        .collect();
    devices.sort_by(|a, b| (&a.type_, a.minor, &a.id).cmp(&(&b.type_, b.minor, &b.id)));
    let mut labels = BTreeMap::new();
    let mut same = |key: &'static str, of: fn(&Found) -> &str| {
        let first = found.first().map(of).filter(|value| !value.is_empty());
        if let Some(value) = first.filter(|value| found.iter().all(|found| of(found) == *value)) {
            labels.insert(key, label_text(value));
        }
    };
    same(GPU_VENDOR.name, |found| &found.vendor);
    same(GPU_MODEL.name, |found| &found.model);
    Wanted { labels, devices }
}

/// A model's name as a label may hold it.
fn label_text(name: &str) -> String {
    let name = name.strip_prefix("NVIDIA ").unwrap_or(name);
    name.trim().replace(' ', "-")
}

fn info_of(found: &Found, known: Option<&DeviceInfo>, now: Timestamp) -> DeviceInfo {
    let status = if found.healthy { "True" } else { "False" };
    let reason = match (found.healthy, found.error_code.as_str()) {
        (true, _) => "DeviceHealthy",
        (false, "") => "Unknown",
        (false, code) => code,
    };
    let before = known.and_then(|known| known.conditions.iter().find(|c| c.type_ == HEALTHY));
    let since = before.filter(|before| before.status == status);
    let condition = Condition {
        type_: HEALTHY.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: if found.healthy { String::new() } else { found.error_message.clone() },
        last_transition_time: since.map_or(Time(now), |since| since.last_transition_time.clone()),
        observed_generation: None,
    };
    DeviceInfo {
        type_: Some(GPU.to_owned()),
        id: Some(found.uuid.clone()),
        minor: Some(found.minor),
        health: found.healthy,
        resources: found.resources.clone(),
        topology: found.topology.clone(),
        conditions: vec![condition],
        ..DeviceInfo::default()
    }
}

/// A merge patch that makes the object say it; `None` when it already does.
fn patch(known: &Device, wanted: &Wanted) -> Option<Value> {
    let labels = known.metadata.labels.clone().unwrap_or_default();
    let mut wrong = serde_json::Map::new();
    for (key, value) in &wanted.labels {
        if labels.get(*key) != Some(value) {
            wrong.insert((*key).to_owned(), json!(value));
        }
    }
    // Labels of devices that are gone, or no longer alike, go too.
    for key in [GPU_VENDOR.name, GPU_MODEL.name] {
        if labels.contains_key(key) && !wanted.labels.contains_key(key) {
            wrong.insert(key.to_owned(), Value::Null);
        }
    }
    if wrong.is_empty() && known.spec.devices == wanted.devices {
        return None;
    }
    Some(json!({
        "metadata": { "resourceVersion": known.metadata.resource_version, "labels": wrong },
        "spec": { "devices": wanted.devices },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(uuid: &str, minor: i32, healthy: bool) -> Found {
        Found {
            vendor: "huawei".to_owned(),
            model: "NVIDIA A 100".to_owned(),
            uuid: uuid.to_owned(),
            minor,
            healthy,
            error_code: "Xid79".to_owned(),
            error_message: "fell off the bus".to_owned(),
            ..Found::default()
        }
    }

    #[test]
    fn devices_are_sorted_and_labelled() {
        let wanted = want(&[found("b", 1, true), found("a", 0, false)], &[], Timestamp::UNIX_EPOCH);
        let minors: Vec<_> = wanted.devices.iter().map(|device| device.minor).collect();
        assert_eq!(minors, [Some(0), Some(1)]);
        assert_eq!(wanted.labels[GPU_MODEL.name], "A-100");
        let condition = &wanted.devices[0].conditions[0];
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "Xid79"));
        assert_eq!(wanted.devices[1].conditions[0].reason, "DeviceHealthy");
    }

    #[test]
    fn models_that_differ_are_not_a_label() {
        let mut other = found("b", 1, true);
        other.model = "B".to_owned();
        let wanted = want(&[found("a", 0, true), other], &[], Timestamp::UNIX_EPOCH);
        assert_eq!(wanted.labels.get(GPU_MODEL.name), None);
        assert_eq!(wanted.labels[GPU_VENDOR.name], "huawei");
    }

    #[test]
    fn health_changes_have_a_time_and_come_back() {
        let [early, late] = [10, 20].map(|second| Timestamp::from_second(second).unwrap());
        let first = want(&[found("a", 0, true)], &[], early);
        let same = want(&[found("a", 0, true)], &first.devices, late);
        assert_eq!(first, same, "nothing changed, so nothing is written");
        let broken = want(&[found("a", 0, false)], &same.devices, late);
        assert_eq!(broken.devices[0].conditions[0].last_transition_time, Time(late));
        let healed = want(&[found("a", 0, true)], &broken.devices, late);
        assert!(healed.devices[0].health);
    }

    #[test]
    fn only_differences_are_patched() {
        let wanted = want(&[found("a", 0, true)], &[], Timestamp::UNIX_EPOCH);
        let mut known = Device::new("n1", DeviceSpec { devices: wanted.devices.clone() });
        let labels = wanted.labels.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        known.metadata.labels = Some(labels.collect());
        assert_eq!(patch(&known, &wanted), None);
        let gone = patch(&known, &Wanted::default()).unwrap();
        assert_eq!(gone["spec"]["devices"], json!([]));
        assert_eq!(gone["metadata"]["labels"][GPU_MODEL.name], Value::Null);
    }
}
