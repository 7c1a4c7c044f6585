//! Which settings can be written, where, and in which words?
//!
//! A [`Setting`] has one meaning on both versions: weights are [`Shares`], a quota is microseconds or
//! none, a memory limit is bytes or none, device limits are by device. The knob turns it into what the
//! kernel of this version wants to read, and back. Ranges are the kernel's.

mod device;
mod table;

use units::CpuSet;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::limit::parse_memory_limit;
use crate::{
    Controller, DeviceNumber, Limit, ParseError, Shares, Version, Weight, WeightMap, scan,
};

/// A file of a cgroup that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Knob {
    CpuShares,
    CfsQuota,
    CfsPeriod,
    CfsBurst,
    /// Anolis: -1 for those who wait, 2 for those who never do.
    BvtWarp,
    CpuIdle,
    CpusetCpus,
    CpusetMems,
    MemoryLimit,
    MemoryMin,
    MemoryLow,
    MemoryHigh,
    /// Asks the kernel to take memory away now; cannot be read.
    MemoryReclaim,
    WmarkRatio,
    WmarkScaleFactor,
    WmarkMinAdj,
    MemoryPriority,
    UsePriorityOom,
    OomGroup,
    PagecacheLimitEnable,
    PagecacheLimitSize,
    PagecacheLimitSync,
    ReadBps,
    WriteBps,
    ReadIops,
    WriteIops,
    IoWeight,
    IoCostQos,
    IoCostModel,
    NetClassId,
    /// Whether the group's processes are stopped where they are.
    Frozen,
}

/// What a knob is set to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    Number(i64),
    Shares(Shares),
    /// Microseconds of quota, bytes of memory.
    Limit(Limit<i64>),
    /// CPUs, or memory nodes.
    Cpus(CpuSet),
    /// Bytes or operations a second for each device.
    Rates(BTreeMap<DeviceNumber, Limit<u64>>),
    /// Weights of each device.
    Weights(BTreeMap<DeviceNumber, u64>),
    /// `key=value` words of each device.
    Words(BTreeMap<DeviceNumber, String>),
}

/// Where a knob is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnobFile {
    pub controller: Controller,
    pub name: &'static str,
}

/// Why a setting cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum KnobError {
    #[error("{knob:?} = {value}: must be within {min}..{max}")]
    Range { knob: Knob, value: i64, min: i64, max: i64 },

    #[error("{knob:?} does not take {setting:?}")]
    Kind { knob: Knob, setting: Setting },
}

/// The form of a knob's value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    Number(RangeInclusive<i64>),
    Shares,
    Quota,
    Period,
    Cpus,
    Memory,
    /// The word of `io.max`.
    Rate(&'static str),
    Weight,
    Words,
    /// 0 or 1, which v1 has words for.
    Frozen,
}

const LEAST_QUOTA: i64 = 1_000;
const PERIODS: RangeInclusive<i64> = 1_000..=1_000_000;
const WEIGHTS: RangeInclusive<i64> = 1..=100;

impl Knob {
    /// Every knob there is.
    pub const ALL: [Self; 31] = [
        Self::CpuShares,
        Self::CfsQuota,
        Self::CfsPeriod,
        Self::CfsBurst,
        Self::BvtWarp,
        Self::CpuIdle,
        Self::CpusetCpus,
        Self::CpusetMems,
        Self::MemoryLimit,
        Self::MemoryMin,
        Self::MemoryLow,
        Self::MemoryHigh,
        Self::MemoryReclaim,
        Self::WmarkRatio,
        Self::WmarkScaleFactor,
        Self::WmarkMinAdj,
        Self::MemoryPriority,
        Self::UsePriorityOom,
        Self::OomGroup,
        Self::PagecacheLimitEnable,
        Self::PagecacheLimitSize,
        Self::PagecacheLimitSync,
        Self::ReadBps,
        Self::WriteBps,
        Self::ReadIops,
        Self::WriteIops,
        Self::IoWeight,
        Self::IoCostQos,
        Self::IoCostModel,
        Self::NetClassId,
        Self::Frozen,
    ];

    /// The name in ledgers, audit records and journals. It outlives programs: never change one.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CpuShares => "cpu-shares",
            Self::CfsQuota => "cfs-quota",
            Self::CfsPeriod => "cfs-period",
            Self::CfsBurst => "cfs-burst",
            Self::BvtWarp => "bvt-warp",
            Self::CpuIdle => "cpu-idle",
            Self::CpusetCpus => "cpuset-cpus",
            Self::CpusetMems => "cpuset-mems",
            Self::MemoryLimit => "memory-limit",
            Self::MemoryMin => "memory-min",
            Self::MemoryLow => "memory-low",
            Self::MemoryHigh => "memory-high",
            Self::MemoryReclaim => "memory-reclaim",
            Self::WmarkRatio => "wmark-ratio",
            Self::WmarkScaleFactor => "wmark-scale-factor",
            Self::WmarkMinAdj => "wmark-min-adj",
            Self::MemoryPriority => "memory-priority",
            Self::UsePriorityOom => "use-priority-oom",
            Self::OomGroup => "oom-group",
            Self::PagecacheLimitEnable => "pagecache-limit-enable",
            Self::PagecacheLimitSize => "pagecache-limit-size",
            Self::PagecacheLimitSync => "pagecache-limit-sync",
            Self::ReadBps => "read-bps",
            Self::WriteBps => "write-bps",
            Self::ReadIops => "read-iops",
            Self::WriteIops => "write-iops",
            Self::IoWeight => "io-weight",
            Self::IoCostQos => "io-cost-qos",
            Self::IoCostModel => "io-cost-model",
            Self::NetClassId => "net-class-id",
            Self::Frozen => "frozen",
        }
    }

    /// The knob of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|knob| knob.name() == name)
    }

    /// The file on this version; `None` where it cannot exist.
    pub fn file(self, version: Version) -> Option<KnobFile> {
        let row = table::row(self);
        let name = match version {
            Version::V1 => row.v1,
            Version::V2 => row.v2,
        };
        name.map(|name| KnobFile { controller: row.controller, name })
    }

    /// The values to write, in order; a write takes one device.
    pub fn encode(self, version: Version, setting: &Setting) -> Result<Vec<String>, KnobError> {
        let form = table::row(self).form;
        let one = |text: String| Ok(vec![text]);
        match (form, setting) {
            (Form::Number(range), Setting::Number(value)) => {
                self.check(*value, range)?;
                one(value.to_string())
            }
            (Form::Period, Setting::Number(value)) => {
                self.check(*value, PERIODS)?;
                match version {
                    Version::V1 => one(value.to_string()),
                    // There is no way to write the period without the quota.
                    Version::V2 => Err(self.kind(setting)),
                }
            }
            (Form::Shares, Setting::Shares(shares)) => one(match version {
                Version::V1 => shares.get().to_string(),
                Version::V2 => shares.to_weight(WeightMap::Linear).get().to_string(),
            }),
            (Form::Quota, Setting::Limit(quota)) => match (quota, version) {
                (Limit::Max, Version::V1) => one("-1".to_owned()),
                (Limit::Max, Version::V2) => one("max".to_owned()),
                (Limit::At(quota), _) => {
                    self.check(*quota, LEAST_QUOTA..=i64::MAX)?;
                    one(quota.to_string())
                }
            },
            (Form::Memory, Setting::Limit(limit)) => match (limit, version, self) {
                (Limit::Max, Version::V1, Self::MemoryLimit) => one("-1".to_owned()),
                (Limit::Max, Version::V1, _) => one(i64::MAX.to_string()),
                (Limit::Max, Version::V2, _) => one("max".to_owned()),
                (Limit::At(bytes), ..) => {
                    self.check(*bytes, 0..=i64::MAX)?;
                    one(bytes.to_string())
                }
            },
            (Form::Cpus, Setting::Cpus(cpus)) => one(cpus.to_string()),
            (Form::Rate(word), Setting::Rates(rates)) => {
                Ok(device::encode_rates(version, word, rates))
            }
            (Form::Weight, Setting::Weights(weights)) => {
                for weight in weights.values() {
                    self.check(i64::try_from(*weight).unwrap_or(i64::MAX), WEIGHTS)?;
                }
                Ok(weights.iter().map(|(device, weight)| format!("{device} {weight}")).collect())
            }
            (Form::Words, Setting::Words(words)) => {
                Ok(words.iter().map(|(device, words)| format!("{device} {words}")).collect())
            }
            (Form::Frozen, Setting::Number(value)) => {
                self.check(*value, 0..=1)?;
                one(frozen(version, *value))
            }
            (_, setting) => Err(self.kind(setting)),
        }
    }

    /// What the file says.
    pub fn decode(self, version: Version, text: &[u8]) -> Result<Setting, ParseError> {
        let word = text.trim_ascii();
        match table::row(self).form {
            Form::Number(_) => scan::only_signed(text).map(Setting::Number),
            Form::Shares => decode_shares(version, text).map(Setting::Shares),
            Form::Quota | Form::Period => {
                let is_quota = self == Self::CfsQuota;
                let word = match version {
                    Version::V1 => word,
                    Version::V2 => {
                        scan::words(word).nth(usize::from(!is_quota)).unwrap_or_default()
                    }
                };
                match (is_quota, word) {
                    (true, b"max" | b"-1") => Ok(Setting::Limit(Limit::Max)),
                    (true, word) => positive(word).map(|quota| Setting::Limit(Limit::At(quota))),
                    (false, word) => positive(word).map(Setting::Number),
                }
            }
            Form::Memory => {
                parse_memory_limit(text).map(|limit| Setting::Limit(limit.map(|bytes| bytes.0)))
            }
            Form::Cpus => str::from_utf8(text)
                .ok()
                .and_then(|text| text.parse().ok())
                .map(Setting::Cpus)
                .ok_or_else(|| ParseError::new(1, "a list", word)),
            Form::Rate(key) => device::decode_rates(version, key, text).map(Setting::Rates),
            Form::Weight => device::decode_weights(text).map(Setting::Weights),
            Form::Words => device::decode_words(text).map(Setting::Words),
            Form::Frozen => match (version, word) {
                // While the last of its processes is being stopped, v1 says so.
                (Version::V1, b"FROZEN" | b"FREEZING") => Ok(Setting::Number(1)),
                (Version::V1, b"THAWED") => Ok(Setting::Number(0)),
                (Version::V1, word) => Err(ParseError::new(1, "FROZEN or THAWED", word)),
                (Version::V2, _) => scan::only_signed(text).map(Setting::Number),
            },
        }
    }

    fn check(self, value: i64, range: RangeInclusive<i64>) -> Result<(), KnobError> {
        let (min, max) = (*range.start(), *range.end());
        if range.contains(&value) {
            Ok(())
        } else {
            Err(KnobError::Range { knob: self, value, min, max })
        }
    }

    fn kind(self, setting: &Setting) -> KnobError {
        KnobError::Kind { knob: self, setting: setting.clone() }
    }
}

fn frozen(version: Version, value: i64) -> String {
    match (version, value) {
        (Version::V1, 1) => "FROZEN".to_owned(),
        (Version::V1, _) => "THAWED".to_owned(),
        (Version::V2, value) => value.to_string(),
    }
}

fn positive(word: &[u8]) -> Result<i64, ParseError> {
    let value = scan::number(word).and_then(|value| value.try_into().ok());
    value.ok_or_else(|| ParseError::new(1, "microseconds", word))
}

fn decode_shares(version: Version, text: &[u8]) -> Result<Shares, ParseError> {
    let value = scan::only_number(text)?;
    let shares = match version {
        Version::V1 => Shares::new(value),
        // A group with `cpu.idle` shows a weight of zero.
        Version::V2 => {
            Weight::new(value.max(Weight::LEAST)).map(|weight| weight.to_shares(WeightMap::Linear))
        }
    };
    shares.ok_or_else(|| ParseError::new(1, "shares or a weight within range", text.trim_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is in the ledgers of machines.
    const NAMES: &str = "cpu-shares cfs-quota cfs-period cfs-burst bvt-warp cpu-idle cpuset-cpus cpuset-mems memory-limit memory-min memory-low memory-high memory-reclaim wmark-ratio wmark-scale-factor wmark-min-adj memory-priority use-priority-oom oom-group pagecache-limit-enable pagecache-limit-size pagecache-limit-sync read-bps write-bps read-iops write-iops io-weight io-cost-qos io-cost-model net-class-id frozen";

    #[test]
    fn names_that_are_on_disk_stay() {
        let names: Vec<&str> = Knob::ALL.iter().map(|knob| knob.name()).collect();
        assert_eq!(names, NAMES.split(' ').collect::<Vec<_>>());
        for knob in Knob::ALL {
            assert_eq!(Knob::from_name(knob.name()), Some(knob));
        }
        assert_eq!(Knob::from_name("CfsQuota"), None);
    }
}
