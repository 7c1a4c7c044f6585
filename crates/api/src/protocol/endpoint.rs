//! Where each component listens and what it serves.

pub mod agent {
    pub const PORT: u16 = 9316;
    pub const PPROF_PORT: u16 = 9317;
    /// Internal and external metrics merged.
    pub const METRICS: &str = "/metrics";
    pub const INTERNAL_METRICS: &str = "/internal-metrics";
    pub const EXTERNAL_METRICS: &str = "/external-metrics";
    /// Audit records: `?size=`, `?pageToken=`.
    pub const EVENTS: &str = "/events";
    /// [`Page`](crate::decisions::Page): what the agent decided, and why. Ours.
    pub const DECISIONS: &str = "/decisions";

    pub const KUBELET_READ_ONLY_PORT: u16 = 10255;
    /// The hook server as the container sees it.
    pub const HOOK_SOCKET: &str = "/host-var-run-koordlet/koordlet.sock";
    /// The same socket on the host.
    pub const HOOK_SOCKET_ON_HOST: &str = "/var/run/koordlet/koordlet.sock";
    /// Below the host's `/var/run`.
    pub const NRI_SOCKET: &str = "nri/nri.sock";
    pub const NRI_PLUGIN: &str = "koordlet_nri";
    pub const NRI_INDEX: &str = "00";
    pub const POD_RESOURCES_DIR: &str = "/var/run/koordlet/pod-resources";
    /// Where the device daemon leaves JSON files about accelerators.
    pub const DEVICE_INFO_DIR: &str = "/var/run/koordlet/xpu-device-infos/";
    pub const AUDIT_DIR: &str = "/var/log/koordlet";
}

pub mod manager {
    pub const METRICS_PORT: u16 = 8080;
    pub const HEALTH_PORT: u16 = 8000;
    pub const WEBHOOK_PORT: u16 = 9876;
    pub const PPROF_PORT: u16 = 8090;
    /// Only the controller runtime's own registry; see [`ALL_METRICS`].
    pub const METRICS: &str = "/metrics";
    pub const ALL_METRICS: &str = "/all-metrics";
    pub const INTERNAL_METRICS: &str = "/internal-metrics";
    pub const EXTERNAL_METRICS: &str = "/external-metrics";
    /// Before a node's name: where its batch and mid resources come from. Ours.
    pub const DEBUG_NODE_RESOURCE: &str = "/debug/noderesource/";
    /// Which profiles mean a pod, and what they change. Ours.
    pub const DEBUG_ADMISSION: &str = "/debug/admission/explain";
    pub const HEALTHZ: &str = "/healthz";
    pub const READYZ: &str = "/readyz";
    pub const WEBHOOK_READY_CHECK: &str = "webhook-ready";
    pub const CONVERT: &str = "/convert";
    /// Dump of the quota tree, for people.
    pub const QUOTA_DUMP: &str = "/elasticQuota";
}

pub mod scheduler {
    pub const HTTP_PORT: u16 = 10251;
    pub const HTTPS_PORT: u16 = 10259;
    pub const HEALTHZ: &str = "/healthz";
    pub const METRICS: &str = "/metrics";
    pub const METRICS_RESOURCES: &str = "/metrics/resources";
    pub const METRICS_SLIS: &str = "/metrics/slis";
    pub const CONFIGZ: &str = "/configz";
    pub const PPROF: &str = "/debug/pprof";
    pub const DEBUG_FLAGS: &str = "/debug/flags";

    pub const SERVICES: &str = "/apis/v1/__services__";
    pub const NODE: &str = "/apis/v1/nodes/:nodeName";
    pub const GANG: &str = "/apis/v1/plugins/Coscheduling/gang/:namespace/:name";
    pub const GANGS: &str = "/apis/v1/plugins/Coscheduling/gangs";
    pub const LOAD_AWARE_NODE: &str = "/apis/v1/plugins/LoadAwareScheduling/node/:nodeName";
    pub const NUMA_NODE: &str = "/apis/v1/plugins/NodeNUMAResource/nodes/:nodeName";
    pub const DEVICES: &str = "/apis/v1/plugins/DeviceShare/nodeDeviceSummaries";
    pub const DEVICES_OF_NODE: &str = "/apis/v1/plugins/DeviceShare/nodeDeviceSummaries/:name";
    pub const RESERVATIONS: &str = "/apis/v1/plugins/Reservation/nodeReservations/:nodeName";
    pub const RESERVATION_INDEX: &str = "/apis/v1/plugins/Reservation/reservationSelectorIndex";
    pub const QUOTAS: &str = "/apis/v1/plugins/ElasticQuota/quotas";
    pub const QUOTA: &str = "/apis/v1/plugins/ElasticQuota/quotas/:name";
}

pub mod descheduler {
    pub const HTTP_PORT: u16 = 10251;
    pub const HTTPS_PORT: u16 = 10258;
    pub const HEALTHZ: &str = "/healthz";
    pub const METRICS: &str = "/metrics";
    pub const CONFIGZ: &str = "/configz";
}

pub mod runtime_proxy {
    pub const SOCKET: &str = "/var/run/koord-runtimeproxy/runtimeproxy.sock";
    pub const HOOK_SERVER_DIR: &str = "/etc/runtime/hookserver.d/";
    pub const HOOK_SERVICE: &str = "runtime.v1alpha1.RuntimeHookService";
}
