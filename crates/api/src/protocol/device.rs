//! Labels and annotations of Device objects, written by the agent as a whole.

use super::keys;
use crate::metadata::device::{GpuPartitionPolicy, GpuPartitionTable};

keys! {
    annotation GPU_PARTITIONS: GpuPartitionTable = "scheduling.koordinator.sh/gpu-partitions";
    /// One of [`vendor`]; the manager copies this and the two below to the Node.
    label GPU_VENDOR: String = "node.koordinator.sh/gpu-vendor";
    label GPU_MODEL: String = "node.koordinator.sh/gpu-model";
    label GPU_DRIVER_VERSION: String = "node.koordinator.sh/gpu-driver-version";
    label GPU_PARTITION_POLICY: GpuPartitionPolicy = "node.koordinator.sh/gpu-partition-policy";
    label SECONDARY_WELL_PLANNED: bool = "node.koordinator.sh/secondary-device-well-planned";
}

/// Values of [`GPU_VENDOR`].
pub mod vendor {
    pub const NVIDIA: &str = "nvidia";
    pub const HUAWEI: &str = "huawei";
    pub const CAMBRICON: &str = "cambricon";
    pub const METAX: &str = "metax";
    pub const BAIDU: &str = "baidu";
}

/// Values of a device's `type`.
pub mod kind {
    pub const GPU: &str = "gpu";
    pub const FPGA: &str = "fpga";
    pub const RDMA: &str = "rdma";
}
