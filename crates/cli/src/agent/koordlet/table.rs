//! The reference's flags, and the two of ours that its link takes besides.

use crate::go_flags::{Flag, Kind};

const BOOLS: &[&str] = &[
    "enable-pprof",
    "kubelet-insecure-tls",
    "disable-query-kubelet-config",
    "enable-node-metric-report",
    "enable-pod-taskids",
    "xpu-enforce-collect-from-device-infos",
    "enable-pagecache-collector",
    "enable-resctrl-collector",
    "tsdb-enable-prometheus-metric",
    "only-evict-by-api",
    "disable-unset-cpu-quota",
    "enable-nri-runtime-hook",
    // klog's.
    "logtostderr",
    "alsologtostderr",
    "skip_headers",
    "skip_log_headers",
    "add_dir_header",
    "one_output",
    "legacy_stderr_threshold_behavior",
];

const INTS: &[&str] = &[
    "kube-api-burst",
    "kubelet-read-only-port",
    "metric-gc-interval-seconds",
    "metric-expire-seconds",
    "tsdb-stripe-size",
    "reconcile-interval-seconds",
    "cpu-suppress-interval-seconds",
    "cpu-evict-interval-seconds",
    "memory-evict-interval-seconds",
    "memory-evict-cool-time-seconds",
    "cpu-evict-cool-time-seconds",
    "runtime-hooks-nri-backoff-steps",
    "resource-force-update-seconds",
    "audit-verbose",
    "audit-max-disk-space-mb",
    "audit-max-concurrent-readers",
    "audit-max-events-limit",
    "prediction-safety-margin-percent",
    "prediction-model-checkpoint-max-per-step",
    // klog's.
    "v",
    "log_file_max_size",
];

const FLOATS: &[&str] = &["kube-api-qps", "runtime-hooks-nri-backoff-factor"];

const DURATIONS: &[&str] = &[
    "kubelet-sync-interval",
    "kubelet-sync-timeout",
    "node-topology-sync-interval",
    "report-interval",
    "collect-res-used-interval",
    "collect-sys-metric-outdated-interval",
    "collect-node-cpu-info-interval",
    "collect-node-storage-info-interval",
    "cpi-collector-interval",
    "collect-cpi-timewindow",
    "psi-collector-interval",
    "coldpage-collector-interval",
    "resctrl-collector-interval",
    "tsdb-retention-duration",
    "tsdb-min-block-duration",
    "tsdb-max-block-duration",
    "runtime-hooks-reconcile-interval",
    "runtime-hooks-nri-connect-timeout",
    "runtime-hooks-nri-backoff-duration",
    "runtime-hooks-nri-backoff-cap",
    "prediction-cold-start-duration",
    "prediction-memory-histogram-decay-halflife",
    "prediction-cpu-histogram-decay-halflife",
    "prediction-training-interval",
    "prediction-model-expiration-duration",
    "prediction-model-checkpoint-interval",
];

const SIZES: &[&str] = &[
    "tsdb-max-bytes",
    "tsdb-wal-segment-size",
    "tsdb-max-block-chunk-segment-size",
    "tsdb-head-chunks-write-buffer-size",
];

const TEXTS: &[&str] = &[
    "addr",
    "pprof-addr",
    "configmap-name",
    "configmap-namespace",
    // Entries are judged one by one, so that a bad one does not hide the others.
    "feature-gates",
    "cgroup-root-dir",
    "sys-root-dir",
    "sys-fs-root-dir",
    "proc-root-dir",
    "var-run-root-dir",
    "var-lib-kubelet-dir",
    "run-root-dir",
    "containerd-endpoint",
    "docker-endpoint",
    "pouch-endpoint",
    "default-runtime-type",
    "hami-core-library-directory-path",
    "pod-resources-proxy-path",
    "xpu-device-infos-dir",
    "kubelet-preferred-address-type",
    "tsdb-path",
    "runtime-hooks-network",
    "runtime-hooks-addr",
    "runtime-hooks-host-endpoint",
    "runtime-hooks-failure-policy",
    "runtime-hooks-plugin-failure-policy",
    "runtime-hooks-config-path",
    "runtime-hooks-disable-stages",
    "runtime-hooks-nri-socket-path",
    "runtime-hooks-nri-plugin-name",
    "runtime-hooks-nri-plugin-index",
    "audit-log-dir",
    "prediction-checkpoint-filepath",
    // klog's.
    "vmodule",
    "stderrthreshold",
    "log_dir",
    "log_file",
    "log_backtrace_at",
    // Ours.
    "kubelet-tls",
    "kubelet-ca-file",
];

const MAPS: &[&str] = &["qos-extension-plugins"];

pub(super) fn flags() -> Vec<Flag> {
    let groups = [
        (Kind::Bool, BOOLS),
        (Kind::Int, INTS),
        (Kind::Float, FLOATS),
        (Kind::Duration, DURATIONS),
        (Kind::Size, SIZES),
        (Kind::Text, TEXTS),
        (Kind::Map, MAPS),
    ];
    let flags = groups
        .into_iter()
        .flat_map(|(kind, names)| names.iter().map(move |name| Flag::new(name, kind, "", "")));
    flags.collect()
}
