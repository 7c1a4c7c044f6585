//! Every label and annotation: read, printed, read again; and a text that is not taken.

use std::collections::BTreeSet;
use std::fmt::Debug;

use api::metadata::{Key, Wire};
use api::protocol::{device, eviction, gang, node, object, pod, quota, reservation, topology};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Which keys a test has read.
#[derive(Default)]
struct Seen(BTreeSet<(api::metadata::Place, &'static str)>);

impl Seen {
    /// `text` is read without a finding and printed as it stands; each of `bad` gives no value
    /// and a finding that names the key.
    fn row<T: Wire + Debug>(&mut self, key: &Key<T>, text: &str, bad: &[&str]) {
        self.printed(key, text, text, bad);
    }

    /// As `row`, for texts that are printed in another form.
    fn printed<T: Wire + Debug>(&mut self, key: &Key<T>, text: &str, printed: &str, bad: &[&str]) {
        let mut meta = ObjectMeta::default();
        assert!(key.get(&meta).is_none() && key.read(&meta).1.is_empty(), "{key:?}: absent");
        put(key, &mut meta, text);
        let (value, findings) = key.read(&meta);
        assert_eq!(findings, [], "{key:?}: {text}");
        let value = value.unwrap_or_else(|| panic!("{key:?} reads {text}"));
        key.set(&mut meta, &value);
        assert_eq!(key.raw(&meta), Some(printed), "{key:?}");
        for bad in bad {
            put(key, &mut meta, bad);
            let (value, findings) = key.read(&meta);
            assert!(value.is_none(), "{key:?} takes {bad}: {value:?}");
            assert!(!findings.is_empty(), "{key:?} says nothing about {bad}");
            let names = findings.iter().all(|finding| finding.key.as_deref() == Some(key.name));
            assert!(names, "{key:?}: {findings:?}");
        }
        assert!(key.remove(&mut meta) && !key.is_present(&meta), "{key:?}");
        self.0.insert((key.place, key.name));
    }
}

fn put<T>(key: &Key<T>, meta: &mut ObjectMeta, text: &str) {
    let map = match key.place {
        api::metadata::Place::Label => &mut meta.labels,
        api::metadata::Place::Annotation => &mut meta.annotations,
    };
    map.get_or_insert_default().insert(key.name.to_owned(), text.to_owned());
}

const NOT_JSON: &str = "{";

fn pods(seen: &mut Seen) {
    seen.row(&pod::QOS_CLASS, "LSE", &["lse", "BestEffort"]);
    seen.printed(&pod::SUB_PRIORITY, "0x10", "16", &["high", "4294967296"]);
    seen.row(&pod::PRIORITY_CLASS, "koord-mid", &["mid"]);
    seen.row(&pod::PREEMPTION_POLICY, "Never", &["never"]);
    seen.row(&pod::SCHEDULER_NAME, "koord-scheduler", &[]);
    seen.row(&pod::ORIGINAL_SCHEDULER_NAME, "default-scheduler", &[]);
    seen.row(&pod::MUTATING_UPDATE, "true", &["True", "1", ""]);
    seen.row(&pod::SKIP_ENHANCED_VALIDATION, "true", &["yes"]);
    seen.row(&pod::BINDING_ADMISSION_BYPASS, "", &[]);
    seen.printed(
        &pod::EXTENDED_RESOURCE_SPEC,
        r#"{"containers":{"main":{"requests":{"kubernetes.io/batch-cpu":2000},"limits":{}}}}"#,
        r#"{"containers":{"main":{"requests":{"kubernetes.io/batch-cpu":"2k"}}}}"#,
        &[NOT_JSON, r#"{"containers":[]}"#],
    );
    seen.row(&pod::CPU_BURST, r#"{"policy":"auto","cpuBurstPercent":1000}"#, &["auto"]);
    seen.row(
        &pod::MEMORY_QOS,
        r#"{"policy":"auto","minLimitPercent":50,"wmarkRatio":95}"#,
        &[r#"{"minLimitPercent":"50"}"#],
    );
    seen.row(&pod::CPU_QOS, r#"{"enable":true,"groupIdentity":2}"#, &[NOT_JSON]);
    seen.row(
        &pod::BLKIO_QOS,
        r#"{"blocks":[{"name":"/dev/sda","type":"device","ioCfg":{"readIOPS":100}}]}"#,
        &[r#"{"blocks":{}}"#],
    );
    seen.row(
        &pod::NETWORK_QOS,
        r#"{"ingressLimit":"10M","egressLimit":"1G"}"#,
        &[r#"{"ingressLimit":"fast"}"#],
    );
    seen.row(
        &pod::RESCTRL,
        r#"{"llc":{"schemata":{"range":[0,30]},"schemataPerCache":[{"cacheID":1,"percent":20}]},"mb":{"schemata":{"percent":50}}}"#,
        &[r#"{"llc":{"schemata":{"percent":"50%"}}}"#],
    );
    seen.row(&pod::OOM_SCORE_ADJ, "-500", &["-1001", "1001", "low"]);
    seen.row(&pod::OOM_SCORE_ADJ_SPEC, r#"{"main":-500,"sidecar":0}"#, &[r#"{"main":"0"}"#]);
    seen.row(&pod::CORE_SCHED_GROUP, "6b0b1f1e-0000-4000-8000-000000000000", &[]);
    seen.row(&pod::CORE_SCHED_POLICY, "exclusive", &["shared"]);
    seen.printed(&pod::REPLACE_RESOURCES, "e: , a : b,x,c:d:f", "a:b,e:", &[]);
    seen.row(&pod::SKIP_HOOK_SERVER, "true", &["on"]);
    seen.printed(
        &pod::RESOURCE_SPEC,
        r#"{"preferredCPUBindPolicy": "SpreadByPCPUs"}"#,
        r#"{"preferredCPUBindPolicy":"SpreadByPCPUs"}"#,
        &["SpreadByPCPUs", r#"["SpreadByPCPUs"]"#],
    );
    seen.row(
        &pod::RESOURCE_STATUS,
        r#"{"cpuset":"0-3,8","numaNodeResources":[{"node":0,"resources":{"cpu":"4"}}]}"#,
        &[r#"{"cpuset":"3-0"}"#],
    );
    seen.row(
        &pod::NUMA_TOPOLOGY_SPEC,
        r#"{"numaTopologyPolicy":"SingleNUMANode","singleNUMANodeExclusive":"Required"}"#,
        &[NOT_JSON],
    );
    seen.row(&pod::GPU_ISOLATION_PROVIDER, "HAMi-core", &["hami-core"]);
    seen.row(&pod::HAMI_NODE, "n1", &[]);
    seen.row(&pod::LOAD_SCALING_FACTORS, r#"{"cpu":85,"memory":70}"#, &[r#"{"cpu":0.85}"#]);
    seen.row(&pod::LOAD_SECONDS_AFTER_SCHEDULED, "60", &["1m"]);
    seen.row(&pod::LOAD_SECONDS_AFTER_INITIALIZED, "30", &["30s"]);
    let hint = r#"{"nodeNames":["n1"],"preferredNodeNames":["n2"],"extensions":{"NodeNUMAResource":{"x":1}}}"#;
    seen.row(&pod::SCHEDULING_HINT, hint, &[r#"{"nodeNames":"n1"}"#]);
    seen.row(&pod::OLD_SCHEDULING_HINT, hint, &[NOT_JSON]);
    seen.row(&pod::BIND_TIMESTAMP, "1748144198000000001", &["now"]);
    seen.row(&pod::PREDICATE_TIME, "1748144198000000001", &["1e18"]);
    seen.row(&pod::NPU_CORE, "0-vir04", &[]);
    seen.row(&pod::ASCEND_310P, "Ascend310P-0", &[]);
    seen.row(&pod::CAMBRICON_ASSIGNED, "false", &[]);
    seen.row(&pod::CAMBRICON_PROFILE, "0_10_4", &[]);
    seen.row(&pod::METAX_ALLOCATED, "[[]]", &[]);
    seen.row(&pod::HANDS_OFF, "true", &["yes"]);
    seen.row(&pod::OLD_HANDS_OFF, "true", &["yes"]);
    seen.row(&pod::HOLLOW_START_SECONDS, "0.5", &[]);
    seen.row(&pod::HOLLOW_RUN_SECONDS, "30", &[]);
    seen.row(&pod::HOLLOW_EXIT_CODE, "3", &["three"]);
    seen.row(&pod::HOLLOW_USAGE, "cpu=200m..1500m/24h", &[]);
}

fn devices(seen: &mut Seen) {
    seen.row(
        &pod::DEVICE_ALLOCATED,
        r#"{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100"},"id":"GPU-1","extension":{"vfs":[{"minor":-1,"busID":"0000:1f:00.2"}],"gpuSharedResourceTemplate":"t"}}]}"#,
        &[r#"{"gpu":{"minor":0}}"#],
    );
    seen.row(
        &pod::DEVICE_ALLOCATE_HINT,
        r#"{"rdma":{"selector":{"matchLabels":{"type":"roce"}},"vfSelector":{},"allocateStrategy":"ApplyForAll","requiredTopologyScope":"PCIe","exclusivePolicy":"DeviceLevel"}}"#,
        &[r#"{"rdma":[]}"#],
    );
    seen.row(
        &pod::DEVICE_JOINT_ALLOCATE,
        r#"{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}"#,
        &[NOT_JSON],
    );
    seen.row(
        &pod::GPU_PARTITION_SPEC,
        r#"{"allocatePolicy":"Restricted","ringBusBandwidth":"400Gi"}"#,
        &[r#"{"ringBusBandwidth":"wide"}"#],
    );
    seen.row(&pod::GPU_MINORS, "0,1", &["0;1", ""]);
    seen.row(
        &device::GPU_PARTITIONS,
        r#"{"2":[{"minors":[0,1],"gpuLinkType":"NVLink","ringBusBandwidth":"400Gi","allocationScore":1}]}"#,
        &[r#"{"2":{}}"#],
    );
    seen.row(&device::GPU_VENDOR, device::vendor::NVIDIA, &[]);
    seen.row(&device::GPU_MODEL, "H800", &[]);
    seen.row(&device::GPU_DRIVER_VERSION, "550.54", &[]);
    seen.row(&device::GPU_PARTITION_POLICY, "Honor", &["Maybe"]);
    seen.row(&device::SECONDARY_WELL_PLANNED, "false", &["no"]);
}

fn gangs(seen: &mut Seen) {
    seen.row(&gang::POD_GROUP, "train", &[]);
    seen.row(&gang::OLD_NAME, "train", &[]);
    seen.row(&gang::OLD_MIN_AVAILABLE, "3", &["three"]);
    seen.row(&gang::NAME, "train", &[]);
    seen.row(&gang::MIN_AVAILABLE, "3", &["3.0"]);
    seen.row(&gang::TOTAL_NUMBER, "5", &[""]);
    seen.printed(&gang::WAITING_TIME, "90s", "1m30s", &["90", "soon"]);
    seen.row(&gang::MODE, "NonStrict", &["nonstrict"]);
    seen.row(&gang::MATCH_POLICY, "only-waiting", &["OnlyWaiting"]);
    seen.row(&gang::MATCH_POLICY_ALIAS, "waiting-and-running", &["all"]);
    seen.row(&gang::GROUPS, r#"["default/a","default/b"]"#, &["default/a", r#"[1]"#]);
    seen.row(
        &gang::NETWORK_TOPOLOGY_SPEC,
        r#"{"gatherStrategy":[{"layer":"spine","strategy":"PreferGather","podCountMultiple":2}]}"#,
        &[r#"{"gatherStrategy":"spine"}"#],
    );
    seen.row(&gang::NETWORK_TOPOLOGY_INDEX, "7", &["last"]);
    seen.row(&gang::NETWORK_TOPOLOGY_SELECTOR, "x", &[]);
    seen.row(&gang::TIMEOUT, "10m", &[]);
    seen.row(&gang::BIND_GROUP_ID, "default/a,default/b", &[]);
    seen.row(&gang::BIND_MEMBER_COUNT, "4", &["many"]);
    seen.row(&gang::OLD_BIND_GROUP_ID, "default/a", &[]);
    seen.row(&gang::OLD_BIND_MEMBER_COUNT, "4", &["many"]);
}

fn quotas(seen: &mut Seen) {
    seen.row(&quota::NAME, "team-a", &[]);
    seen.row(&quota::PREEMPTIBLE, "false", &["no"]);
    seen.row(&quota::PARENT, "koordinator-root-quota", &[]);
    seen.row(&quota::IS_PARENT, "true", &["TRUE"]);
    seen.row(&quota::IS_ROOT, "true", &["yes"]);
    seen.row(&quota::TREE_ID, "13778220790914240367", &[]);
    seen.row(&quota::PROFILE, "pool-a", &[]);
    seen.row(&quota::ALLOW_LENT_RESOURCE, "false", &["0"]);
    seen.row(&quota::ALLOW_FORCE_UPDATE, "true", &["1"]);
    seen.row(&quota::IGNORE_DEFAULT_TREE, "true", &["t"]);
    seen.row(&quota::NAMESPACES, r#"["a","b"]"#, &["a,b"]);
    seen.row(&quota::RESOURCE_KEYS, r#"["cpu"]"#, &["cpu"]);
    seen.row(&quota::MAX_STRICT_CHECK_KEYS, r#"["cpu"]"#, &[r#"{"cpu":1}"#]);
    for key in [
        quota::SHARED_WEIGHT,
        quota::TOTAL_RESOURCE,
        quota::UNSCHEDULABLE_RESOURCE,
        quota::RUNTIME,
        quota::REQUEST,
        quota::CHILD_REQUEST,
        quota::GUARANTEED,
        quota::ALLOCATED,
        quota::NON_PREEMPTIBLE_REQUEST,
        quota::NON_PREEMPTIBLE_USED,
        quota::ADMISSION,
    ] {
        let canonical = r#"{"cpu":"1500m","memory":"2Gi"}"#;
        seen.printed(&key, r#"{"memory":"2048Mi","cpu":1.5}"#, canonical, &[r#"{"cpu":"many"}"#]);
    }
}

fn reservations(seen: &mut Seen) {
    seen.row(&reservation::IGNORED, "true", &["yes"]);
    seen.row(&reservation::PRE_ALLOCATION_REQUIRED, "true", &["yes"]);
    seen.row(&reservation::ORDER, "1748144198000", &["first"]);
    seen.row(&reservation::ALLOCATED, r#"{"name":"r","uid":"u"}"#, &["r"]);
    seen.row(
        &reservation::AFFINITY,
        r#"{"requiredDuringSchedulingIgnoredDuringExecution":{"reservationSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Exists"}]}]},"reservationSelector":{"k":"v"},"tolerations":[{"key":"t"}]}"#,
        &["any"],
    );
    seen.printed(&reservation::AFFINITY, "", "{}", &[]);
    seen.row(&reservation::RESTRICTED_OPTIONS, r#"{"resources":["cpu"]}"#, &[r#"["cpu"]"#]);
    seen.row(&reservation::EXACT_MATCH, r#"{"resourceNames":["cpu"]}"#, &[NOT_JSON]);
    seen.row(
        &reservation::RESIZE_ALLOCATABLE,
        r#"{"resources":{"cpu":"4"}}"#,
        &[r#"{"resources":4}"#],
    );
    seen.row(&reservation::OPERATING_MODE, "Reservation", &["reservation"]);
    seen.row(
        &reservation::OWNERS,
        r#"[{"labelSelector":{"matchLabels":{"app":"web"}}},{"object":{"name":"p","namespace":"d"}}]"#,
        &[r#"{"labelSelector":{}}"#],
    );
    seen.row(&reservation::CURRENT_OWNER, r#"{"name":"p","namespace":"d","uid":"u"}"#, &["p"]);
    seen.row(&reservation::RESERVE_POD, "true", &[]);
    seen.row(&reservation::NAME, "r", &[]);
    seen.row(&reservation::NODE, "n1", &[]);
    seen.row(&reservation::IS_PRE_ALLOCATION, "true", &[]);
    seen.row(&reservation::DISABLE_PREEMPTIBLE, "true", &["yes"]);
    seen.row(&reservation::IS_PRE_ALLOCATABLE, "true", &["yes"]);
    seen.row(&reservation::PRE_ALLOCATABLE_PRIORITY, "1.5", &["high", "inf"]);
}

fn evictions(seen: &mut Seen) {
    seen.row(&eviction::ENABLED, "true", &["True"]);
    seen.row(&eviction::POLICY, r#"["BEMemoryEvict"]"#, &["BEMemoryEvict"]);
    seen.row(&eviction::PRIORITY, "-5", &["low"]);
    seen.row(&eviction::COST, "2147483647", &["+1", "01", "-01", "-0", "2147483648", "1.5", ""]);
    seen.row(
        &eviction::SOFT,
        r#"{"timestamp":"2025-05-25T03:36:38Z","deleteOptions":{"gracePeriodSeconds":30},"initiator":"koord-descheduler","reason":"high load"}"#,
        &[NOT_JSON],
    );
    seen.row(
        &eviction::NOTICE,
        r#"{"feature":"BEMemoryEvict","reason":"node memory 81 % > 70 %","since":"2025-05-25T03:36:38Z","due":"2025-05-25T03:36:48Z"}"#,
        &[NOT_JSON],
    );
    seen.row(&eviction::EVICT_POLICY, "SoftEviction", &["soft"]);
    seen.row(&eviction::EVICT_REASON, "high load", &[]);
    seen.row(&eviction::EVICT_TRIGGER, "LowNodeLoad", &[]);
    seen.row(&eviction::JOB_CREATED_BY, "6b0b", &[]);
    seen.row(&eviction::PASSED_ARBITRATION, "true", &["yes"]);
    seen.row(&eviction::POD_ARBITRATING, "true", &["yes"]);
    seen.row(&eviction::FORCE, "", &[]);
    seen.row(&eviction::POD_DELETION_COST, "-100", &["cheap"]);
    seen.row(&eviction::QUESTIONED_OBJECT, "default/job", &[]);
    seen.row(&eviction::TOPOLOGY_KEY_TO_EXPLAIN, "rack", &[]);
}

fn nodes(seen: &mut Seen) {
    seen.row(
        &node::COLOCATION_STRATEGY,
        r#"{"enable":true,"cpuReclaimThresholdPercent":70}"#,
        &[r#"{"enable":1}"#],
    );
    for key in [
        node::CPU_RECLAIM_RATIO,
        node::MEMORY_RECLAIM_RATIO,
        node::MID_STATIC_CPU_RATIO,
        node::MID_STATIC_MEMORY_RATIO,
    ] {
        seen.printed(&key, "0.6", "0.60", &["60%", "abc", "-0.1", "NaN", "inf"]);
        // Truncated in binary, as the reference reads it.
        seen.printed(&key, "0.29", "0.28", &[]);
    }
    let reservation =
        r#"{"resources":{"memory":"2Gi"},"reservedCPUs":"0-1","applyPolicy":"ReservedCPUsOnly"}"#;
    seen.row(&node::RESERVATION, reservation, &[r#"{"reservedCPUs":"0-"}"#]);
    seen.printed(&node::SYSTEM_QOS_RESOURCE, r#"{"cpuset":null}"#, "{}", &[r#"{"cpuset":[0]}"#]);
    seen.row(&node::ENABLE_NUMA_RESERVATION, "true", &["yes"]);
    seen.row(&node::NETWORK_BANDWIDTH, "10G", &["10Gbit"]);
    let lent =
        r#"{"resources":{"kubernetes.io/batch-cpu":"12k","kubernetes.io/batch-memory":"20Gi"}}"#;
    seen.row(&node::ORIGIN_ALLOCATABLE, lent, &[NOT_JSON]);
    seen.row(
        &node::THIRD_PARTY_ALLOCATIONS,
        r#"{"allocations":[{"name":"yarn","priority":"koord-batch","resources":{"kubernetes.io/batch-cpu":"2k"}}]}"#,
        &[r#"{"allocations":[{"name":"yarn"}]}"#],
    );
    seen.printed(&node::CPU_NORMALIZATION_RATIO, "1.2", "1.20", &["-1", "fast"]);
    seen.printed(&node::CPU_NORMALIZATION_ENABLED, "T", "true", &["yes", "tRUE", ""]);
    seen.printed(
        &node::AMPLIFICATION_RATIO,
        r#"{"memory": 1, "cpu": 1.2}"#,
        r#"{"cpu":1.20,"memory":1.00}"#,
        &[r#"{"cpu":"1.2"}"#, r#"{"cpu":-1}"#],
    );
    seen.row(&node::RAW_ALLOCATABLE, r#"{"cpu":"62","memory":"248Gi"}"#, &["62"]);
    seen.row(&node::CPU_BIND_POLICY, "FullPCPUsOnly", &["FullPCPUs"]);
    seen.row(&node::NUMA_ALLOCATE_STRATEGY, "DistributeEvenly", &["even"]);
    seen.row(&node::NUMA_TOPOLOGY_POLICY, "SingleNUMANode", &["single"]);
    seen.printed(
        &node::USAGE_THRESHOLDS,
        r#"{"usageThresholds":{"cpu":65},"prodUsageThresholds":{},"aggregatedUsage":{"usageThresholds":{"cpu":60},"usageAggregationType":"p95","usageAggregatedDuration":"5m"}}"#,
        r#"{"usageThresholds":{"cpu":65},"aggregatedUsage":{"usageThresholds":{"cpu":60},"usageAggregationType":"p95","usageAggregatedDuration":"5m0s"}}"#,
        &[r#"{"usageThresholds":{"cpu":"65"}}"#],
    );
    seen.row(&node::GPU_VENDOR, "nvidia", &[]);
    seen.row(&node::GPU_MODEL, "H800", &[]);
    seen.row(&node::GPU_DRIVER_VERSION, "550", &[]);
    seen.row(&node::GPU_PARTITION_POLICY, "Prefer", &["prefer"]);
    seen.row(&node::OLD_GPU_DRIVER, "550", &[]);
    seen.row(&node::OLD_GPU_MODEL, "H800", &[]);
    seen.row(&node::HAMI_LOCK, "2025-05-25T03:36:38Z,default,web", &[]);
    seen.row(&node::CAMBRICON_LOCK, "2025-05-25T03:36:38Z", &[]);
    seen.row(&node::SWITCH, "off", &["OFF"]);
    seen.row(&node::SWITCH_REASON, "incident 7", &[]);
    seen.row(&node::CGROUP, "v2", &[]);
    seen.row(&node::MISSING, "memory: not mounted", &[]);
    seen.row(&node::HOLLOW, "true", &["yes"]);
}

fn topologies(seen: &mut Seen) {
    seen.row(
        &topology::CPU_TOPOLOGY,
        r#"{"detail":[{"id":0,"core":0,"socket":0,"node":0},{"id":1,"core":0,"socket":0,"node":0}]}"#,
        &[r#"{"detail":{}}"#],
    );
    let pools = r#"[{"socket":0,"node":0,"cpuset":"4-15"}]"#;
    seen.row(&topology::CPU_SHARED_POOLS, pools, &[r#"[{"cpuset":"x"}]"#]);
    seen.row(&topology::BE_CPU_SHARED_POOLS, pools, &["{}"]);
    seen.row(
        &topology::POD_CPU_ALLOCS,
        r#"[{"namespace":"d","name":"p","uid":"u","cpuset":"2-3","managedByKubelet":true}]"#,
        &["{}"],
    );
    seen.row(&topology::POD_CPU_ALLOCS, "null", &[]);
    seen.printed(&topology::POD_CPU_ALLOCS, "[]", "null", &[]);
    seen.row(
        &topology::CPU_MANAGER_POLICY,
        r#"{"policy":"static","options":{"full-pcpus-only":"true"},"reservedCPUs":"0-1"}"#,
        &["static"],
    );
    seen.printed(
        &topology::CPU_BASIC_INFO,
        r#"{"cpuModel":"XEON","hyperThreadEnabled":true,"turboEnabled":false,"catL3CbmMask":"fff","vendorID":"GenuineIntel"}"#,
        r#"{"cpuModel":"XEON","hyperThreadEnabled":true,"catL3CbmMask":"fff","vendorID":"GenuineIntel"}"#,
        &[r#"{"turboEnabled":"false"}"#],
    );
    seen.row(&topology::RESERVATION, "{}", &[NOT_JSON]);
    seen.row(
        &topology::SYSTEM_QOS_RESOURCE,
        r#"{"cpuset":"0-1","cpusetExclusive":false}"#,
        &[NOT_JSON],
    );
    seen.row(&topology::MANAGED_BY, topology::MANAGER, &[]);
}

fn objects(seen: &mut Seen) {
    seen.row(&object::SKIP_UPDATE_RESOURCES, "", &[]);
    seen.row(&object::CONTROLLER_MANAGED, "true", &["yes"]);
    seen.row(&object::CONFIG_MAP_TYPE, "slo-controller-config", &[]);
    seen.row(&object::CREATED_BY, "koord-descheduler", &[]);
    seen.row(&object::CONFIGURED, "true", &[]);
    seen.row(&object::WEBHOOK_TEMPLATE, "[]", &[]);
    seen.row(&object::WEBHOOK_FINGERPRINT, "6f1c", &[]);
    seen.row(&object::APPLIED_PROFILES, r#"["first","second"]"#, &["first", r#"{"first":true}"#]);
    seen.row(&object::CONTROL_PLANE, "koordinator", &[]);
    seen.row(&object::NAMESPACE_NAME, "koordinator-system", &[]);
}

#[test]
fn every_key_is_read_and_printed() {
    let mut seen = Seen::default();
    pods(&mut seen);
    devices(&mut seen);
    gangs(&mut seen);
    quotas(&mut seen);
    reservations(&mut seen);
    evictions(&mut seen);
    nodes(&mut seen);
    topologies(&mut seen);
    objects(&mut seen);
    let all = [
        pod::ALL,
        device::ALL,
        gang::ALL,
        quota::ALL,
        reservation::ALL,
        eviction::ALL,
        node::ALL,
        topology::ALL,
        object::ALL,
    ];
    let all: BTreeSet<_> = all.into_iter().flatten().copied().collect();
    assert_eq!(all.difference(&seen.0).collect::<Vec<_>>(), Vec::<&_>::new(), "without a row");
}

#[test]
fn a_barrier_s_time_keeps_its_nanoseconds() {
    let text = "2025-05-25T03:36:38.000000001Z";
    let (time, findings) = jiff::Timestamp::parse(text);
    assert_eq!(findings, []);
    assert_eq!(time.unwrap().print(), text);
    assert!(jiff::Timestamp::parse("yesterday").0.is_none());
}
