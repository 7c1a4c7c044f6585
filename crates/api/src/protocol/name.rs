//! Names of objects, workloads, leases, files and environment variables.
//!
//! Everything lives in one namespace and keeps the reference's names, so that
//! a replica of either program takes the other's place.

pub const NAMESPACE: &str = "koordinator-system";

pub const AGENT: &str = "koordlet";
pub const MANAGER: &str = "koord-manager";
pub const SCHEDULER: &str = "koord-scheduler";
pub const DESCHEDULER: &str = "koord-descheduler";
pub const DEVICE_DAEMON: &str = "koord-device-daemon";
pub const RUNTIME_PROXY: &str = "koord-runtime-proxy";

/// Pod label that carries the workload's name. The reference's kustomize base
/// puts `koordlet` on the device daemon too, so select the agent by more than this.
pub const APP_LABEL: &str = "koord-app";
/// The scheduler profile pods ask for in `schedulerName`.
pub const SCHEDULER_PROFILE: &str = SCHEDULER;
pub const MANAGER_USER_AGENT: &str = "koordinator-manager";
pub const AGENT_USER_AGENT: &str = AGENT;

pub mod lease {
    //! Leader election: `leases`, 15 s long, renewed every 10 s, retried every 2 s.

    pub const MANAGER: &str = "koordinator-manager";
    pub const SCHEDULER: &str = super::SCHEDULER;
    pub const DESCHEDULER: &str = super::DESCHEDULER;
    pub const DURATION_SECONDS: u32 = 15;
    pub const RENEW_SECONDS: u32 = 10;
    pub const RETRY_SECONDS: u32 = 2;
}

pub mod config_map {
    //! ConfigMaps and the keys of their data, where a key is not the ConfigMap's own name.

    pub const SLO: &str = "slo-controller-config";
    pub const COLOCATION: &str = "colocation-config";
    pub const RESOURCE_THRESHOLD: &str = "resource-threshold-config";
    pub const RESOURCE_QOS: &str = "resource-qos-config";
    pub const CPU_BURST: &str = "cpu-burst-config";
    pub const SYSTEM: &str = "system-config";
    pub const HOST_APPLICATION: &str = "host-application-config";
    pub const CPU_NORMALIZATION: &str = "cpu-normalization-config";
    pub const RESOURCE_AMPLIFICATION: &str = "resource-amplification-config";

    /// Keys that begin so are ours, in [`SLO`] and in the NodeSLO's `extensions`.
    pub const OWN_PREFIX: &str = "tidepool-";
    pub const KERNEL: &str = "tidepool-kernel-config";
    pub const REACTION: &str = "tidepool-reaction-config";
    pub const SWITCH: &str = "tidepool-switch-config";

    /// Name and data key.
    pub const SCHEDULER: &str = "koord-scheduler-config";
    /// Name and data key.
    pub const DESCHEDULER: &str = "koord-descheduler-config";
    pub const AGENT: &str = "koordlet-config";
    pub const AGENT_QOS_PLUGINS: &str = "qos-plugin-extra-configs";
    pub const GPU_TEMPLATES: &str = "gpu-shared-resource-templates";
    pub const GPU_TEMPLATES_DATA: &str = "data.yaml";
    pub const ENHANCED_VALIDATOR: &str = "pod-enhanced-validator-config";
    pub const ENHANCED_VALIDATOR_ENABLE: &str = "enable";
    pub const ENHANCED_VALIDATOR_RULES: &str = "rules";
}

pub mod secret {
    //! The webhook's certificates.

    pub const WEBHOOK_CERTS: &str = "koordinator-webhook-certs";
    pub const CA_KEY: &str = "ca-key.pem";
    pub const CA_CERT: &str = "ca-cert.pem";
    pub const KEY: &str = "key.pem";
    pub const CERT: &str = "cert.pem";
    pub const TLS_KEY: &str = "tls.key";
    pub const TLS_CERT: &str = "tls.crt";
}

pub mod env {
    //! Environment variables existing manifests set.

    pub const POD_NAMESPACE: &str = "POD_NAMESPACE";
    pub const SECRET_NAME: &str = "SECRET_NAME";
    pub const SERVICE_NAME: &str = "SERVICE_NAME";
    pub const MUTATING_WEBHOOK_NAME: &str = "MUTATING_WEBHOOK_NAME";
    pub const VALIDATING_WEBHOOK_NAME: &str = "VALIDATING_WEBHOOK_NAME";
    pub const WEBHOOK_HOST: &str = "WEBHOOK_HOST";
    pub const WEBHOOK_PORT: &str = "WEBHOOK_PORT";
    pub const WEBHOOK_CERT_DIR: &str = "WEBHOOK_CERT_DIR";
    pub const WEBHOOK_CERT_WRITER: &str = "WEBHOOK_CERT_WRITER";
    pub const NODE_NAME: &str = "NODE_NAME";
    /// Lower case on the wire, unlike its neighbours.
    pub const AGENT_MODE: &str = "agent_mode";
    /// The value of [`AGENT_MODE`] that makes host paths the defaults.
    pub const HOST_MODE: &str = "hostMode";
}

pub mod quota {
    //! Quotas that always exist, in the quota namespace.

    pub const ROOT: &str = "koordinator-root-quota";
    pub const SYSTEM: &str = "koordinator-system-quota";
    pub const DEFAULT: &str = "koordinator-default-quota";

    /// `spec.max` of a quota that a profile maintains: (2^63 - 1) / 2000.
    pub const PROFILE_MAX: i64 = i64::MAX / 2000;
}

/// The only ClusterNetworkTopology that counts.
pub const NETWORK_TOPOLOGY: &str = "default";
pub const CLUSTER_TOPOLOGY_LAYER: &str = "ClusterTopologyLayer";
pub const NODE_TOPOLOGY_LAYER: &str = "NodeTopologyLayer";

/// Type of a NodeResourceTopology zone that stands for a NUMA node.
pub const NUMA_ZONE_TYPE: &str = "Node";
/// A NUMA node's zone is called `node-<id>`.
pub const NUMA_ZONE_PREFIX: &str = "node-";

/// Condition type of a usable device in a Device object.
pub const DEVICE_HEALTHY: &str = "Healthy";

/// CRDs in `*.k8s.io` groups are refused without it.
pub const CRD_APPROVED: &str = "api-approved.kubernetes.io";
pub const CRD_APPROVED_SCHEDULING: &str =
    "https://github.com/kubernetes-sigs/scheduler-plugins/pull/52";
pub const CRD_APPROVED_TOPOLOGY: &str = "https://github.com/kubernetes/enhancements/pull/1870";
