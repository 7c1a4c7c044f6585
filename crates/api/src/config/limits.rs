//! Which values are allowed in each key?
//!
//! These are the limits of the admission webhook together with those of the
//! NodeSLO's schema, whichever is narrower: a value that passes here can be
//! stored, and the agent can use it.

use std::fmt;

use super::Key;

/// A rule for every field that the pattern reaches. A pattern is names joined
/// by dots; `*` stands for any name and `[]` for any item of a list.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    pub pattern: &'static str,
    pub rule: Rule,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    Between(i64, i64),
    AtLeast(i64),
    /// A number above the first and up to the second.
    AboveUpTo(f64, f64),
    /// A ratio within these bounds.
    Ratio(f64, f64),
    NotEmpty,
    /// One of these words, in any case.
    OneOf(&'static [&'static str]),
    /// One of these names; any other acts as `default` and is only warned about.
    Policy {
        known: &'static [&'static str],
        default: &'static str,
    },
}

impl Rule {
    /// What is allowed, for the reference page.
    pub fn allowed(&self) -> String {
        match self {
            Self::Policy { known, .. } => format!("one of {}", known.join(", ")),
            _ => self.to_string().trim_start_matches("must be ").to_owned(),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Between(min, max) => write!(f, "must be between {min} and {max}"),
            Self::AtLeast(min) => write!(f, "must be at least {min}"),
            Self::AboveUpTo(min, max) => write!(f, "must be above {min} and at most {max}"),
            Self::Ratio(min, max) if *max == f64::MAX => write!(f, "must be at least {min}"),
            Self::Ratio(min, max) => write!(f, "must be between {min} and {max}"),
            Self::NotEmpty => f.write_str("must not be empty"),
            Self::OneOf(words) => write!(f, "must be one of {}", words.join(", ")),
            Self::Policy { known, default } => {
                write!(f, "not one of {}; acts as {default}", known.join(", "))
            }
        }
    }
}

/// Two fields of which the first must stay below the second.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    pub lower: &'static str,
    pub upper: &'static str,
}

pub fn limits(key: Key) -> &'static [Limit] {
    match key {
        Key::Colocation => COLOCATION,
        Key::Threshold => THRESHOLD,
        Key::Qos => QOS,
        Key::Burst => BURST,
        Key::System => SYSTEM,
        Key::HostApplication => HOST_APPLICATION,
        Key::Normalization => NORMALIZATION,
        Key::Amplification => AMPLIFICATION,
        Key::Kernel => KERNEL,
        Key::Reaction => REACTION,
        Key::Switch => SWITCH,
    }
}

/// Pairs of `key`, relative to the strategy; `*` is a class name.
pub fn pairs(key: Key) -> &'static [Pair] {
    match key {
        Key::Threshold => THRESHOLD_PAIRS,
        Key::Qos => QOS_PAIRS,
        _ => &[],
    }
}

const fn percent(pattern: &'static str) -> Limit {
    between(pattern, 0, 100)
}

const fn between(pattern: &'static str, min: i64, max: i64) -> Limit {
    Limit { pattern, rule: Rule::Between(min, max) }
}

const fn at_least(pattern: &'static str, min: i64) -> Limit {
    Limit { pattern, rule: Rule::AtLeast(min) }
}

const fn policy(
    pattern: &'static str,
    known: &'static [&'static str],
    default: &'static str,
) -> Limit {
    Limit { pattern, rule: Rule::Policy { known, default } }
}

pub(super) const MEMORY_POLICIES: &[&str] =
    &["usageWithoutPageCache", "usageWithHotPageCache", "usageWithPageCache"];

const COLOCATION: &[Limit] = &[
    at_least("metricAggregateDurationSeconds", 1),
    at_least("metricReportIntervalSeconds", 1),
    Limit { pattern: "metricMemoryCollectPolicy", rule: Rule::NotEmpty },
    policy("metricMemoryCollectPolicy", MEMORY_POLICIES, "usageWithoutPageCache"),
    at_least("cpuReclaimThresholdPercent", 0),
    policy("cpuCalculatePolicy", &["usage", "maxUsageRequest"], "usage"),
    at_least("memoryReclaimThresholdPercent", 0),
    policy("memoryCalculatePolicy", &["usage", "request", "maxUsageRequest"], "usage"),
    at_least("degradeTimeMinutes", 1),
    at_least("updateTimeThresholdSeconds", 1),
    Limit { pattern: "resourceDiffThreshold", rule: Rule::AboveUpTo(0.0, 1.0) },
    policy("midReclaimMode", &["static", "dynamic"], "dynamic"),
    percent("midCPUThresholdPercent"),
    percent("midMemoryThresholdPercent"),
    percent("midUnallocatedPercent"),
    percent("midStaticCPUReservedPercent"),
    percent("midStaticMemoryReservedPercent"),
    at_least("batchCPUThresholdPercent", 0),
    at_least("batchMemoryThresholdPercent", 0),
];

const THRESHOLD: &[Limit] = &[
    percent("cpuSuppressThresholdPercent"),
    percent("cpuSuppressMinPercent"),
    policy("cpuSuppressPolicy", &["cpuset", "cfsQuota"], "cpuset"),
    percent("memoryEvictThresholdPercent"),
    percent("memoryEvictLowerPercent"),
    percent("cpuEvictBESatisfactionUpperPercent"),
    percent("cpuEvictBESatisfactionLowerPercent"),
    percent("cpuEvictBEUsageThresholdPercent"),
    at_least("cpuEvictTimeWindowSeconds", 1),
    policy("cpuEvictPolicy", &["evictByRealLimit", "evictByAllocatable"], "evictByRealLimit"),
    percent("cpuEvictThresholdPercent"),
    percent("cpuEvictLowerPercent"),
    at_least("memoryAllocatableEvictThresholdPercent", 0),
    at_least("memoryAllocatableEvictLowerPercent", 0),
    at_least("cpuAllocatableEvictThresholdPercent", 0),
    at_least("cpuAllocatableEvictLowerPercent", 0),
    between("allocatableEvictPriorityThreshold", 0, 7999),
];

const THRESHOLD_PAIRS: &[Pair] = &[
    Pair { lower: "memoryEvictLowerPercent", upper: "memoryEvictThresholdPercent" },
    Pair {
        lower: "cpuEvictBESatisfactionLowerPercent",
        upper: "cpuEvictBESatisfactionUpperPercent",
    },
    Pair { lower: "cpuEvictLowerPercent", upper: "cpuEvictThresholdPercent" },
    Pair {
        lower: "memoryAllocatableEvictLowerPercent",
        upper: "memoryAllocatableEvictThresholdPercent",
    },
    Pair { lower: "cpuAllocatableEvictLowerPercent", upper: "cpuAllocatableEvictThresholdPercent" },
];

const QOS: &[Limit] = &[
    policy("policies.cpuPolicy", &["groupIdentity", "coreSched"], "groupIdentity"),
    policy("policies.netQOSPolicy", &["tc", "terway-qos"], "tc"),
    between("*.cpuQOS.groupIdentity", -1, 2),
    between("*.cpuQOS.schedIdle", 0, 1),
    percent("*.memoryQOS.minLimitPercent"),
    percent("*.memoryQOS.lowLimitPercent"),
    percent("*.memoryQOS.throttlingPercent"),
    percent("*.memoryQOS.wmarkRatio"),
    between("*.memoryQOS.wmarkScalePermill", 1, 1000),
    between("*.memoryQOS.wmarkMinAdj", -25, 50),
    between("*.memoryQOS.priorityEnable", 0, 1),
    between("*.memoryQOS.priority", 0, 12),
    between("*.memoryQOS.oomKillGroup", 0, 1),
    percent("*.memoryQOS.pageCacheLimitPercent"),
    at_least("*.memoryQOS.pageCacheLimitSize", 0),
    percent("*.resctrlQOS.catRangeStartPercent"),
    percent("*.resctrlQOS.catRangeEndPercent"),
    percent("*.resctrlQOS.mbaPercent"),
    policy("*.blkioQOS.blocks.[].type", &["device", "volumegroup", "podvolume"], "device"),
    at_least("*.blkioQOS.blocks.[].ioCfg.readIOPS", 0),
    at_least("*.blkioQOS.blocks.[].ioCfg.writeIOPS", 0),
    at_least("*.blkioQOS.blocks.[].ioCfg.readBPS", 0),
    at_least("*.blkioQOS.blocks.[].ioCfg.writeBPS", 0),
    between("*.blkioQOS.blocks.[].ioCfg.ioWeightPercent", 1, 100),
    percent("*.blkioQOS.blocks.[].ioCfg.readLatencyPercent"),
    percent("*.blkioQOS.blocks.[].ioCfg.writeLatencyPercent"),
    at_least("*.blkioQOS.blocks.[].ioCfg.modelReadBPS", 1),
    at_least("*.blkioQOS.blocks.[].ioCfg.modelWriteBPS", 1),
    at_least("*.blkioQOS.blocks.[].ioCfg.modelReadSeqIOPS", 1),
    at_least("*.blkioQOS.blocks.[].ioCfg.modelWriteSeqIOPS", 1),
    at_least("*.blkioQOS.blocks.[].ioCfg.modelReadRandIOPS", 1),
    at_least("*.blkioQOS.blocks.[].ioCfg.modelWriteRandIOPS", 1),
];

const QOS_PAIRS: &[Pair] = &[Pair {
    lower: "*.resctrlQOS.catRangeStartPercent",
    upper: "*.resctrlQOS.catRangeEndPercent",
}];

const BURST: &[Limit] = &[
    policy("policy", &["none", "cpuBurstOnly", "cfsQuotaBurstOnly", "auto"], "none"),
    between("cpuBurstPercent", 1, 10_000),
    at_least("cfsQuotaBurstPercent", 100),
    at_least("cfsQuotaBurstPeriodSeconds", -1),
    percent("sharePoolThresholdPercent"),
];

const SYSTEM: &[Limit] = &[
    at_least("minFreeKbytesFactor", 1),
    between("watermarkScaleFactor", 1, 400),
    between("memcgReapBackGround", 0, 1),
    between("pageCacheLimitEnabled", 0, 1),
];

const HOST_APPLICATION: &[Limit] = &[
    Limit { pattern: "applications.[].name", rule: Rule::NotEmpty },
    policy("applications.[].qos", &["LSE", "LSR", "LS", "BE", "SYSTEM"], "no QoS class"),
    policy(
        "applications.[].priority",
        &["koord-prod", "koord-mid", "koord-batch", "koord-free"],
        "no priority",
    ),
    policy(
        "applications.[].cgroupPath.base",
        &["CgroupRoot", "Kubepods", "KubepodsBurstable", "KubepodsBesteffort"],
        "CgroupRoot",
    ),
];

const NORMALIZATION: &[Limit] = &[
    Limit { pattern: "defaultRatio", rule: Rule::Ratio(1.0, 5.0) },
    Limit { pattern: "ratioModel.*.*", rule: Rule::Ratio(1.0, 5.0) },
];

const KERNEL: &[Limit] = &[Limit { pattern: "mode", rule: Rule::OneOf(&["auto", "W", "P", "C"]) }];

const REACTION: &[Limit] = &[between("freeze.maxSeconds", 1, 10)];

const SWITCH: &[Limit] = &[Limit { pattern: "mode", rule: Rule::OneOf(&["on", "off"]) }];

const AMPLIFICATION: &[Limit] =
    &[Limit { pattern: "resourceAmplificationRatio.*", rule: Rule::Ratio(1.0, f64::MAX) }];
