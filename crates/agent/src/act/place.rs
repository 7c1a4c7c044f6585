//! Which file is meant, and what kind of value does it hold?

use groups::{CgroupPath, Controller, Knob, Limit, ParseError, Setting, Shares, Version};
use host::cgroup::Tree;
use qos::claim::Value;
use qos::wish::Target;
use qos::writes::Nature;

/// The weight of a disk that nobody set.
const NEUTRAL_WEIGHT: u64 = 100;

/// One setting of one group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KnobRef {
    pub(super) group: CgroupPath,
    pub(super) knob: Knob,
}

impl From<KnobRef> for Target {
    fn from(KnobRef { group, knob }: KnobRef) -> Self {
        Self::knob(group, knob)
    }
}

impl KnobRef {
    pub(super) fn new(group: CgroupPath, knob: Knob) -> Self {
        Self { group, knob }
    }

    pub(super) fn depth(&self) -> usize {
        self.group.parts().count()
    }

    /// How the setting of a parent binds those of its children.
    pub(super) fn nature(&self) -> Nature {
        match self.knob {
            Knob::CfsQuota
            | Knob::CpusetCpus
            | Knob::CpusetMems
            | Knob::MemoryLimit
            | Knob::MemoryMin
            | Knob::MemoryLow
            | Knob::MemoryHigh => Nature::Nested,
            Knob::CfsBurst => Nature::Fitted,
            _ => Nature::Free,
        }
    }

    /// As its nature, except that a group stops being idle before its weight can be set again.
    pub(super) fn nature_towards(&self, target: &Value) -> Nature {
        match (self.knob, target) {
            (Knob::CpuIdle, Value::Number(Some(0))) => Nature::Fitted,
            _ => self.nature(),
        }
    }

    /// What a setting means to the fold of wishes.
    pub(super) fn value(&self, version: Version, setting: &Setting) -> Value {
        match setting {
            Setting::Number(number) => Value::Number(Some(*number)),
            Setting::Shares(shares) => {
                Value::Number(Some(i64::try_from(shares.get()).unwrap_or(i64::MAX)))
            }
            Setting::Limit(limit) => Value::Number(limit.at()),
            Setting::Cpus(cpus) => Value::Cpus(cpus.clone()),
            Setting::Rates(_) | Setting::Weights(_) | Setting::Words(_) => {
                let plain = self.without_neutral(setting);
                let lines = self.knob.encode(version, &plain).unwrap_or_default();
                Value::Text(lines.join("\n"))
            }
        }
    }

    /// Without devices that have what every device starts with: some kernels list them, some do not.
    fn without_neutral(&self, setting: &Setting) -> Setting {
        let mut plain = setting.clone();
        match &mut plain {
            Setting::Rates(rates) => rates.retain(|_, rate| *rate != Limit::Max),
            Setting::Weights(weights) => weights.retain(|_, weight| *weight != NEUTRAL_WEIGHT),
            Setting::Words(words) => words.retain(|_, words| !words.contains(self.neutral_words())),
            _ => {}
        }
        plain
    }

    fn neutral_words(&self) -> &'static str {
        if self.knob == Knob::IoCostModel { "ctrl=auto" } else { "enable=0" }
    }

    /// With devices that are to lose what they have now: the kernel forgets nobody by itself.
    fn with_losers(&self, now: &Setting, mut target: Setting) -> Setting {
        match (now, &mut target) {
            (Setting::Rates(now), Setting::Rates(target)) => {
                for device in now.keys() {
                    target.entry(*device).or_insert(Limit::Max);
                }
            }
            (Setting::Weights(now), Setting::Weights(target)) => {
                for device in now.keys() {
                    target.entry(*device).or_insert(NEUTRAL_WEIGHT);
                }
            }
            (Setting::Words(now), Setting::Words(target)) => {
                for device in now.keys() {
                    target.entry(*device).or_insert_with(|| self.neutral_words().to_owned());
                }
            }
            _ => {}
        }
        target
    }

    /// What to write for a value, in the form the setting now has; `None` when it is another kind.
    pub(super) fn setting(
        &self,
        version: Version,
        now: &Setting,
        value: &Value,
    ) -> Option<Setting> {
        Some(match (now, value) {
            (Setting::Number(_), Value::Number(Some(number))) => Setting::Number(*number),
            (Setting::Shares(_), Value::Number(Some(shares))) => {
                let shares = u64::try_from(*shares).unwrap_or_default();
                Setting::Shares(Shares::new(shares.clamp(Shares::LEAST, Shares::MOST))?)
            }
            (Setting::Limit(_), Value::Number(limit)) => {
                Setting::Limit(limit.map_or(Limit::Max, Limit::At))
            }
            (Setting::Cpus(_), Value::Cpus(cpus)) => Setting::Cpus(cpus.clone()),
            (Setting::Rates(_) | Setting::Weights(_) | Setting::Words(_), Value::Text(text)) => {
                self.with_losers(now, self.knob.decode(version, text.as_bytes()).ok()?)
            }
            _ => return None,
        })
    }

    /// What does the same where the kernel refuses a value. v2 lets a group with processes have no
    /// CPUs of its own only until it is given some; all CPUs of the machine are as good as none.
    pub(super) fn instead(&self, tree: &Tree, value: &Value) -> Option<String> {
        let is_none = matches!(value, Value::Cpus(cpus) if cpus.is_empty());
        if self.knob != Knob::CpusetCpus || tree.version() != Version::V2 || !is_none {
            return None;
        }
        let dir = tree.dir(Controller::Cpuset, &CgroupPath::root())?;
        let all = tree.fs().read(&dir.join("cpuset.cpus.effective")).ok()?;
        Some(String::from_utf8_lossy(all.trim_ascii()).into_owned())
    }

    /// Whether what the file says now is what was found in it, or does the same.
    pub(super) fn is_as_found(&self, tree: &Tree, now: &str, found: &str) -> bool {
        let version = tree.version();
        match (self.read(version, now), self.read(version, found)) {
            (Ok(one), Ok(other)) => {
                one == other
                    || self
                        .instead(tree, &self.value(version, &other))
                        .is_some_and(|all| self.read(version, &all).is_ok_and(|all| all == one))
            }
            _ => now == found,
        }
    }

    /// What a text that was once read from the file means.
    pub(super) fn read(&self, version: Version, text: &str) -> Result<Setting, ParseError> {
        self.knob.decode(version, text.as_bytes())
    }
}
