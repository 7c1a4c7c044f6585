//! Which GPUs and RDMA cards does the node offer?
//!
//! The agent lists a node's devices in its Device object; what the healthy ones offer together
//! becomes the node's resources. A device that broke disappears from the sum, and with the last one
//! the resource itself.

use api::protocol::device::vendor;
use api::protocol::resource::{
    GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, GPU_SHARED, NPU_CORE, NPU_CPU, NPU_DVPP, RDMA,
};
use units::{Format, Quantity, Scale};

use crate::facts::{DeviceFacts, NodeFacts};

/// What GPUs are shown as.
pub const GPU_RESOURCES: [&str; 8] =
    [GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, GPU_SHARED, NPU_CORE, NPU_CPU, NPU_DVPP];
pub const RDMA_RESOURCE: &str = RDMA;

/// Vendor, model and driver.
pub const LABELS: usize = 3;

/// One whole device, in percent.
const WHOLE: i64 = 100;

/// What is known of a node's devices.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Devices<'a> {
    /// Nothing yet: what the node shows stays.
    #[default]
    Unknown,
    /// The object, or that there is none.
    Known(Option<&'a DeviceFacts>),
}

/// What the node should show of each resource; `None` takes it away. Resources that are not named
/// stay as they are.
pub type Wanted = Vec<(&'static str, Option<Quantity>)>;

/// GPUs; `is_shared` adds the resource for shared ones.
pub fn gpus(node: &NodeFacts, devices: Devices<'_>, is_shared: bool) -> Wanted {
    let Devices::Known(device) = devices else { return Wanted::new() };
    let device = device.filter(|device| device.healthy_gpus > 0);
    let mut wanted = Wanted::new();
    for name in GPU_RESOURCES {
        let amount = device.and_then(|device| gpu(device, name, is_shared));
        let is_shown = node.devices.iter().any(|(shown, _)| *shown == name);
        let is_ours = name != GPU_SHARED || is_shared || device.is_none();
        if amount.is_some() || (is_shown && is_ours) {
            wanted.push((name, amount));
        }
    }
    wanted
}

fn gpu(device: &DeviceFacts, name: &str, is_shared: bool) -> Option<Quantity> {
    let amount = match name {
        GPU => {
            let [vendor, ..] = &device.labels;
            let is_nvidia = vendor.as_deref().is_none_or(|v| v.is_empty() || v == vendor::NVIDIA);
            device.gpu.get(GPU_CORE).copied().filter(|_| is_nvidia)
        }
        GPU_SHARED => is_shared.then(|| whole(device.healthy_gpus)),
        _ => device.gpu.get(name).copied(),
    };
    amount.map(|amount| amount.round_up(Scale::One))
}

/// RDMA cards.
pub fn rdma(node: &NodeFacts, devices: Devices<'_>) -> Wanted {
    let Devices::Known(device) = devices else { return Wanted::new() };
    let amount = device.map(|device| device.healthy_rdma).filter(|count| *count > 0).map(whole);
    let is_shown = node.devices.iter().any(|(shown, _)| *shown == RDMA);
    if amount.is_some() || is_shown { vec![(RDMA, amount)] } else { Wanted::new() }
}

fn whole(count: usize) -> Quantity {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    Quantity::from_int(count.saturating_mul(WHOLE), Format::DecimalSi)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::example::N;

    fn device(vendor: Option<&str>, entries: Value) -> DeviceFacts {
        let labels = json!({"node.koordinator.sh/gpu-vendor": vendor});
        let labels = if vendor.is_some() { labels } else { json!({}) };
        DeviceFacts::read(
            &serde_json::from_value(json!({
                "metadata": {"name": "n", "labels": labels}, "spec": {"devices": entries},
            }))
            .unwrap(),
        )
    }

    fn entry(kind: &str, health: bool) -> Value {
        json!({"type": kind, "health": health, "minor": 0, "resources": {
            GPU_CORE: "100", GPU_MEMORY: "16Gi", GPU_MEMORY_RATIO: "100", "odd": "1"}})
    }

    fn shown(wanted: &Wanted) -> Vec<(&str, String)> {
        let text = |amount: &Option<Quantity>| amount.map_or("gone".to_owned(), |a| a.to_string());
        wanted.iter().map(|(name, amount)| (*name, text(amount))).collect()
    }

    #[test]
    fn healthy_gpus_are_summed() {
        let node = N::new().node;
        let two = json!([
            entry("gpu", true),
            entry("gpu", true),
            entry("gpu", false),
            entry("rdma", true)
        ]);
        let found = device(None, two.clone());
        let want =
            [(GPU, "200"), (GPU_CORE, "200"), (GPU_MEMORY, "32Gi"), (GPU_MEMORY_RATIO, "200")];
        let want = want.map(|(name, text)| (name, text.to_owned()));
        assert_eq!(shown(&gpus(&node, Devices::Known(Some(&found)), false)), want);
        let shared = gpus(&node, Devices::Known(Some(&found)), true);
        assert!(shown(&shared).contains(&(GPU_SHARED, "200".to_owned())));
        let other = device(Some("huawei"), two);
        let names = gpus(&node, Devices::Known(Some(&other)), false);
        assert!(names.iter().all(|(name, _)| *name != GPU), "only nvidia has the shorthand");
        assert_eq!(shown(&rdma(&node, Devices::Known(Some(&found)))), [(RDMA, "100".to_owned())]);
    }

    #[test]
    fn the_last_healthy_device_takes_the_resource_along() {
        let mut node = N::new().node;
        let hundred = Some(Quantity::from_int(100, Format::DecimalSi));
        let was = crate::facts::Shown { capacity: hundred, allocatable: hundred };
        node.devices = vec![(GPU_CORE, was), (RDMA, was)];
        let broken = device(None, json!([entry("gpu", false), entry("rdma", false)]));
        for devices in [Devices::Known(None), Devices::Known(Some(&broken))] {
            assert_eq!(shown(&gpus(&node, devices, false)), [(GPU_CORE, "gone".to_owned())]);
            assert_eq!(shown(&rdma(&node, devices)), [(RDMA, "gone".to_owned())]);
        }
        assert!(gpus(&node, Devices::Unknown, false).is_empty(), "not knowing changes nothing");
        assert!(rdma(&node, Devices::Unknown).is_empty());
    }
}
