//! A setting of a control group.
//!
//! What is written goes back in the very words in which it was found: shares, for one, lose a little on their
//! way to a weight.

use groups::{CgroupPath, Controller, Knob, Limit, ParseError, Setting, Shares, Version};
use host::Reading;
use host::cgroup::Tree;
use qos::claim::Value;
use qos::wish::Target;
use qos::writes::Nature;

use super::{Aim, Announcer, Backend, Job, Observation, ReadFailure, Refusal};
use crate::act::ledger::{Entry, OriginalValue, SharedLedger};
use crate::object::chain;

/// The weight of a disk that nobody set.
const NEUTRAL_WEIGHT: u64 = 100;

#[derive(Debug)]
pub(in crate::act) struct KnobBackend {
    tree: Tree,
    ledger: SharedLedger,
}

/// One setting of one group.
#[derive(Debug, Clone, Copy)]
pub(in crate::act) struct KnobRef<'t> {
    group: &'t CgroupPath,
    knob: Knob,
}

impl KnobBackend {
    pub(in crate::act) fn new(tree: Tree, ledger: SharedLedger) -> Self {
        Self { tree, ledger }
    }

    fn knob<'t>(&self, target: &'t Target) -> Result<KnobRef<'t>, ReadFailure> {
        KnobRef::of(target).ok_or_else(|| ReadFailure::Unsupported("no knob".to_owned()))
    }

    /// What to write, in order.
    fn words(&self, knob: KnobRef<'_>, job: &Job<'_>) -> Result<Vec<String>, Refusal> {
        let version = self.tree.version();
        let (text, value) = (&job.now.text, job.value);
        let now = knob.read(version, text).map_err(|error| Refusal::of(&error))?;
        let kind = || Refusal::Refused("the file holds another kind of value".to_owned());
        let setting = knob.setting(version, &now, value).ok_or_else(kind)?;
        if !matches!(value, Value::Text(_))
            && let Some(Entry { original: OriginalValue::Text(original), .. }) = job.entry
            && let Ok(found) = knob.read(version, original)
            && knob.value(version, &found) == *value
        {
            return Ok(vec![original.clone()]);
        }
        knob.knob.encode(version, &setting).map_err(|error| Refusal::of(&error))
    }
}

impl Backend for KnobBackend {
    fn serves(&self, target: &Target) -> bool {
        matches!(target, Target::Knob { .. })
    }

    fn read(&mut self, target: &Target, _aim: Aim<'_>) -> Result<Observation, ReadFailure> {
        let knob = self.knob(target)?;
        match self.tree.get_text(knob.group, knob.knob) {
            Ok(Reading::Value((text, setting))) => {
                let value = knob.value(self.tree.version(), &setting);
                Ok(Observation::of_text(text, value))
            }
            Ok(Reading::Unsupported) => {
                Err(ReadFailure::Unsupported("this kernel has no such file".to_owned()))
            }
            // Some files say so while their group is still there; the original must not be lost.
            Ok(Reading::Gone) if self.tree.exists(knob.group) => {
                Err(ReadFailure::Refused("the file says that its group is gone".to_owned()))
            }
            Ok(Reading::Gone) => Err(ReadFailure::Gone),
            Err(error) => Err(ReadFailure::Refused(chain(&error))),
        }
    }

    fn write(&mut self, job: &Job<'_>, log: &Announcer<'_>) -> Result<(), Refusal> {
        let Some(knob) = KnobRef::of(job.target) else { return Ok(()) };
        let words = self.words(knob, job)?;
        log.announce(&words.join("\n"))?;
        for words in words {
            match self.tree.set_text(knob.group, knob.knob, &words) {
                Ok(Reading::Value(())) => {}
                Ok(Reading::Unsupported) => {
                    return Err(Refusal::Unsupported("this kernel has no such file".to_owned()));
                }
                Ok(Reading::Gone) => return Err(Refusal::Refused("the group is gone".to_owned())),
                Err(error) => match knob.instead(&self.tree, job.value) {
                    Some(words) if self.tree.set_text(knob.group, knob.knob, &words).is_ok() => {}
                    _ => return Err(Refusal::of(&error)),
                },
            }
        }
        Ok(())
    }

    fn original(&self, target: &Target, original: &OriginalValue) -> Option<Value> {
        let (knob, version) = (KnobRef::of(target)?, self.tree.version());
        let OriginalValue::Text(text) = original else { return None };
        Some(knob.value(version, &knob.read(version, text).ok()?))
    }

    fn is_original(&self, target: &Target, original: &OriginalValue, now: &Observation) -> bool {
        match (KnobRef::of(target), original) {
            (Some(knob), OriginalValue::Text(text)) => {
                knob.is_as_found(&self.tree, &now.text, text)
            }
            _ => false,
        }
    }

    fn is_ours(&self, target: &Target, entry: &Entry, now: &Observation) -> bool {
        let Some(knob) = KnobRef::of(target) else { return false };
        let mut ours = entry.ours.iter();
        ours.any(|ours| knob.is_same(self.tree.version(), ours, &now.text))
            || self.is_original(target, &entry.original, now)
    }

    /// On v1 a new group starts with the CPUs of its parent; one that has what we gave an ancestor would have
    /// had the ancestor's original.
    fn inherited(&self, target: &Target, now: &Observation) -> Option<OriginalValue> {
        let KnobRef { group, knob } = KnobRef::of(target)?;
        if knob != Knob::CpusetCpus || self.tree.version() != Version::V1 {
            return None;
        }
        let ledger = self.ledger.lock();
        let mut above = group.parent();
        while let Some(group) = above {
            if let Some(entry) = ledger.entry(&Target::knob(group.clone(), knob)) {
                let ancestor = KnobRef { group: &group, knob };
                let mut ours = entry.ours.iter();
                return ours
                    .any(|ours| ancestor.is_same(Version::V1, ours, &now.text))
                    .then(|| entry.original.clone());
            }
            above = group.parent();
        }
        None
    }
}

/// How deep below the root a target's group is, and how its setting binds those below.
pub(in crate::act) fn place_in_order(target: &Target, to: &Value) -> (usize, Nature) {
    match KnobRef::of(target) {
        Some(knob) => (knob.group.parts().count(), knob.nature_towards(to)),
        None => (0, Nature::Free),
    }
}

impl<'t> KnobRef<'t> {
    fn of(target: &'t Target) -> Option<Self> {
        match target {
            Target::Knob { group, knob } => Some(Self { group, knob: *knob }),
            _ => None,
        }
    }

    /// How the setting of a parent binds those of its children.
    fn nature(self) -> Nature {
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
    fn nature_towards(self, target: &Value) -> Nature {
        match (self.knob, target) {
            (Knob::CpuIdle, Value::Number(Some(0))) => Nature::Fitted,
            _ => self.nature(),
        }
    }

    /// What a setting means to the fold of wishes.
    fn value(self, version: Version, setting: &Setting) -> Value {
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
    fn without_neutral(self, setting: &Setting) -> Setting {
        let mut plain = setting.clone();
        match &mut plain {
            Setting::Rates(rates) => rates.retain(|_, rate| *rate != Limit::Max),
            Setting::Weights(weights) => weights.retain(|_, weight| *weight != NEUTRAL_WEIGHT),
            Setting::Words(words) => words.retain(|_, words| !words.contains(self.neutral_words())),
            _ => {}
        }
        plain
    }

    fn neutral_words(self) -> &'static str {
        if self.knob == Knob::IoCostModel { "ctrl=auto" } else { "enable=0" }
    }

    /// With devices that are to lose what they have now: the kernel forgets nobody by itself.
    fn with_losers(self, now: &Setting, mut target: Setting) -> Setting {
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
    fn setting(self, version: Version, now: &Setting, value: &Value) -> Option<Setting> {
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
    fn instead(self, tree: &Tree, value: &Value) -> Option<String> {
        let is_none = matches!(value, Value::Cpus(cpus) if cpus.is_empty());
        if self.knob != Knob::CpusetCpus || tree.version() != Version::V2 || !is_none {
            return None;
        }
        let dir = tree.dir(Controller::Cpuset, &CgroupPath::root())?;
        let all = tree.fs().read(&dir.join("cpuset.cpus.effective")).ok()?;
        Some(String::from_utf8_lossy(all.trim_ascii()).into_owned())
    }

    /// Whether what the file says now is what was found in it, or does the same.
    fn is_as_found(self, tree: &Tree, now: &str, found: &str) -> bool {
        let version = tree.version();
        let (Ok(now), Ok(found)) = (self.read(version, now), self.read(version, found)) else {
            return now == found;
        };
        let value = self.value(version, &found);
        self.value(version, &now) == value
            || self
                .instead(tree, &value)
                .is_some_and(|all| self.read(version, &all).is_ok_and(|all| all == now))
    }

    /// Whether a text that was written is what the file shows now: whole pages of memory, for one.
    fn is_same(self, version: Version, written: &str, now: &str) -> bool {
        let (Ok(written), Ok(now)) = (self.read(version, written), self.read(version, now)) else {
            return false;
        };
        match (&written, &now) {
            (Setting::Limit(Limit::At(written)), Setting::Limit(Limit::At(now)))
                if self.is_in_pages() =>
            {
                let page = i64::try_from(rustix::param::page_size()).unwrap_or(i64::MAX);
                written.div_euclid(page) == now.div_euclid(page)
            }
            _ => written == now,
        }
    }

    fn is_in_pages(self) -> bool {
        matches!(
            self.knob,
            Knob::MemoryLimit | Knob::MemoryMin | Knob::MemoryLow | Knob::MemoryHigh
        )
    }

    /// What a text that was once read from the file means.
    fn read(self, version: Version, text: &str) -> Result<Setting, ParseError> {
        self.knob.decode(version, text.as_bytes())
    }
}
