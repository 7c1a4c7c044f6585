//! Resource names.
//!
//! Names under `kubernetes.io/` are native to the API server: a request may be
//! lower than its limit, and a pod that has only such requests is BestEffort
//! to Kubernetes. That is why batch and mid resources live there.

pub const CPU: &str = "cpu";
pub const MEMORY: &str = "memory";
pub const HUGEPAGES_PREFIX: &str = "hugepages-";
pub const HUGEPAGES_2MI: &str = "hugepages-2Mi";
pub const HUGEPAGES_1GI: &str = "hugepages-1Gi";

/// In milli-cores: one core is 1000.
pub const BATCH_CPU: &str = "kubernetes.io/batch-cpu";
/// In bytes.
pub const BATCH_MEMORY: &str = "kubernetes.io/batch-memory";
/// In milli-cores: one core is 1000.
pub const MID_CPU: &str = "kubernetes.io/mid-cpu";
/// In bytes.
pub const MID_MEMORY: &str = "kubernetes.io/mid-memory";

/// In percent of one GPU; shorthand for core and memory ratio together.
pub const GPU: &str = "koordinator.sh/gpu";
/// In percent of one GPU's compute.
pub const GPU_CORE: &str = "koordinator.sh/gpu-core";
/// In bytes.
pub const GPU_MEMORY: &str = "koordinator.sh/gpu-memory";
/// In percent of one GPU's memory.
pub const GPU_MEMORY_RATIO: &str = "koordinator.sh/gpu-memory-ratio";
/// How many shared GPUs a pod wants; on a Node 100 for each healthy GPU.
pub const GPU_SHARED: &str = "koordinator.sh/gpu.shared";
/// In percent of one network card.
pub const RDMA: &str = "koordinator.sh/rdma";
/// In percent of one FPGA.
pub const FPGA: &str = "koordinator.sh/fpga";

/// In whole cards.
pub const NVIDIA_GPU: &str = "nvidia.com/gpu";
/// In whole cards.
pub const AMD_GPU: &str = "amd.com/gpu";
/// In whole cards.
pub const HYGON_DCU: &str = "dcu.com/gpu";
pub const NPU_CORE: &str = "huawei.com/npu-core";
pub const NPU_CPU: &str = "huawei.com/npu-cpu";
pub const NPU_DVPP: &str = "huawei.com/npu-dvpp";

/// Old names that are still read: old, new. The new one wins when both stand
/// in one list.
pub const ALIASES: &[(&str, &str)] = &[
    ("koordinator.sh/batch-cpu", BATCH_CPU),
    ("koordinator.sh/batch-memory", BATCH_MEMORY),
    ("kubernetes.io/rdma", RDMA),
    ("kubernetes.io/fpga", FPGA),
    ("kubernetes.io/gpu", GPU),
    ("kubernetes.io/gpu-core", GPU_CORE),
    ("kubernetes.io/gpu-memory", GPU_MEMORY),
    ("kubernetes.io/gpu-memory-ratio", GPU_MEMORY_RATIO),
];
