//! Which device requests make sense together?

use std::collections::BTreeSet;

use units::{Quantity, Scale};

use crate::finding::{Code, Finding};
use crate::metadata::ResourceList;
use crate::protocol::resource::{
    AMD_GPU, FPGA, GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, GPU_SHARED, HYGON_DCU, NPU_CORE,
    NPU_CPU, NPU_DVPP, NVIDIA_GPU, RDMA,
};

const GPU_NAMES: &[&str] = &[
    NVIDIA_GPU,
    AMD_GPU,
    HYGON_DCU,
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    GPU_SHARED,
    NPU_CORE,
    NPU_CPU,
    NPU_DVPP,
];

/// Every way to ask for GPUs; fpga and rdma may be asked for beside any of them.
const COMBINATIONS: &[&[&str]] = &[
    &[NVIDIA_GPU],
    &[AMD_GPU],
    &[HYGON_DCU],
    &[GPU],
    &[GPU_MEMORY],
    &[GPU_MEMORY_RATIO],
    &[GPU_CORE, GPU_MEMORY],
    &[GPU_CORE, GPU_MEMORY_RATIO],
    &[NPU_CORE, GPU_MEMORY_RATIO],
    &[GPU_SHARED, GPU_MEMORY],
    &[GPU_SHARED, GPU_MEMORY_RATIO],
    &[GPU_SHARED, GPU_CORE, GPU_MEMORY],
    &[GPU_SHARED, GPU_CORE, GPU_MEMORY_RATIO],
    &[GPU_SHARED, NPU_CORE, NPU_CPU, GPU_MEMORY],
    &[GPU_SHARED, NPU_CORE, NPU_CPU, NPU_DVPP, GPU_MEMORY],
];

/// Resources that count in percent of one device.
const PERCENTS: &[&str] = &[GPU, GPU_CORE, GPU_MEMORY_RATIO, RDMA, FPGA];

/// What is wrong with the devices a pod asks for in total. Zero amounts do not count.
pub fn check_device_requests(requests: &ResourceList) -> Vec<Finding> {
    let asked = |name: &str| requests.get(name).copied().filter(|amount| !amount.is_zero());
    let gpus: BTreeSet<&str> =
        GPU_NAMES.iter().copied().filter(|name| asked(name).is_some()).collect();
    let mut findings = Vec::new();
    let is_known = |known: &&&[&str]| known.iter().copied().collect::<BTreeSet<_>>() == gpus;
    if !gpus.is_empty() && !COMBINATIONS.iter().any(|known| is_known(&known)) {
        let names = gpus.iter().copied().collect::<Vec<_>>().join(", ");
        findings.push(device_finding(
            format!("invalid resource device requests: [{names}]"),
            "ask for koordinator.sh/gpu alone, or for one of gpu-memory and gpu-memory-ratio \
             with gpu-core and gpu.shared as needed",
        ));
    }
    let shares = asked(GPU_SHARED);
    for name in PERCENTS {
        let Some(amount) = asked(name) else { continue };
        let shares = shares.filter(|_| [GPU_CORE, GPU_MEMORY_RATIO].contains(name));
        findings.extend(check_percent(name, amount, shares));
    }
    findings
}

/// A percentage is one part of a device or whole devices; spread over shared
/// GPUs it must divide evenly and not exceed one device each.
fn check_percent(name: &str, amount: Quantity, shares: Option<Quantity>) -> Option<Finding> {
    let percent = amount.to_int(Scale::One, units::Rounding::Up);
    let rule = match shares.map(Quantity::value) {
        Some(shares) if percent.checked_rem(shares) != Some(0) => {
            format!("must be divisible by the {shares} shared GPUs")
        }
        Some(shares) if percent.checked_div(shares).is_none_or(|each| each > 100) => {
            format!("must be at most 100 for each of the {shares} shared GPUs")
        }
        None if percent > 100 && percent % 100 != 0 => {
            "must be at most 100, or a multiple of 100".to_owned()
        }
        _ if percent < 0 => "must not be negative".to_owned(),
        _ => return None,
    };
    let rule = format!("invalid resource unit {name}: {amount}: {rule}");
    Some(device_finding(
        rule,
        "ask for a part of one device, such as 50, or for whole devices, such as 200",
    ))
}

fn device_finding(rule: String, fix: &str) -> Finding {
    Finding::error(Code::DeviceRequest, rule, fix).path("spec.containers[*].resources.requests")
}
