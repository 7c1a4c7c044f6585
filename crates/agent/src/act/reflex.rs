//! How is best-effort held back within a tenth of a second?
//!
//! Twenty times a second two files are read: the CPU time of all pods, and that of the best-effort tier.
//! What lies between them is the online side's, and [`qos::frame`] says what it leaves. The answer is
//! the quota of the tier, a wish like any other.
//!
//! While best-effort does nothing there is nothing to hold back, its last limit stands, and four looks a
//! second are enough to see it begin: waking up is most of what a look costs.
//!
//! v1 refuses a parent's quota below a child's, so the children that have one are held to the same.

use std::time::Duration;

use groups::{CgroupPath, Knob};
use host::cgroup::{CgroupReader, Tree};
use host::fs::Buffer;
use host::{FileError, Reading};
use qos::claim::{Bound, Rank, Value};
use qos::frame::{self, Sample, Settings, State, Step, Why};
use qos::wish::{Target, Wish};
use units::{Micros, MilliCpu, Percent, Rounding};

use super::Sum;

/// How often it looks.
pub const TICK: Duration = Duration::from_millis(50);

/// How often it looks while best-effort is idle.
pub const IDLE_TICK: Duration = Duration::from_millis(250);

/// Best-effort that uses less of the machine is idle.
const IDLE: Percent = Percent(1);

/// The period the quota is for.
const PERIOD: Micros = Micros(100_000);

#[derive(Debug)]
pub struct Reflex {
    tier: CgroupPath,
    all_pods: CgroupReader,
    best_effort: CgroupReader,
    buffer: Buffer,
    last: Option<Moment>,
    state: Option<State>,
    written: Option<MilliCpu>,
    is_idle: bool,
}

/// CPU time at one moment.
#[derive(Debug, Clone, Copy)]
struct Moment {
    at: Duration,
    all_pods: Duration,
    best_effort: Duration,
}

/// What the online side of this moment means for best-effort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    pub granted: MilliCpu,
    /// What all work together may use.
    pub allowed: MilliCpu,
    pub why: Why,
}

impl Grant {
    /// The same for people. It changes with every look, so the sentence is about the rule and the
    /// amounts are about the moment.
    pub fn explain(&self) -> super::Why {
        let frame::Why { protected, leaves, jump, step } = self.why;
        let mut sum = Sum::default().plus(self.allowed, "allowed in total", "").minus(
            protected,
            "used above best-effort, lately at most",
            "",
        );
        if leaves > self.allowed - protected {
            sum = sum.then(leaves, "never less", "");
        }
        sum = sum.equals(leaves, "left by that", "");
        match step {
            Step::Shrink if jump > MilliCpu::ZERO => {
                sum = sum.minus(jump, "kept free while online load rises", "");
                if self.granted > leaves - jump {
                    sum = sum.then(self.granted, "never less", "");
                }
            }
            Step::Hold | Step::Grow if self.granted < leaves => {
                sum = sum.then(self.granted, "grows when load stays low", "");
            }
            Step::Shrink | Step::Hold | Step::Grow => {}
        }
        super::Why {
            about: super::NODE.to_owned(),
            resource: super::Resource::Cpu,
            headline: "the fast quota of best-effort follows online load, twenty times a second"
                .to_owned(),
            bound_by: "online load".to_owned(),
            sum: sum.equals(self.granted, "granted at this moment", "quota"),
        }
    }
}

impl Reflex {
    pub fn new(tree: &Tree, all_pods: CgroupPath, tier: CgroupPath) -> Self {
        Self {
            all_pods: tree.reader(all_pods),
            best_effort: tree.reader(tier.clone()),
            tier,
            buffer: Buffer::new(),
            last: None,
            state: None,
            written: None,
            is_idle: false,
        }
    }

    /// When to look again.
    pub fn pause(&self) -> Duration {
        if self.is_idle { IDLE_TICK } else { TICK }
    }

    /// Looks at the machine; a grant when it differs enough from the last one. `system` is what is used
    /// outside of pods, which changes slowly and is measured elsewhere.
    pub fn look(
        &mut self,
        settings: &Settings,
        system: MilliCpu,
        now: Duration,
    ) -> Result<Option<Grant>, FileError> {
        let all_pods = self.all_pods.cpu_usage(&mut self.buffer)?;
        let best_effort = self.best_effort.cpu_usage(&mut self.buffer)?;
        let (Reading::Value(all_pods), Reading::Value(best_effort)) = (all_pods, best_effort)
        else {
            self.last = None;
            return Ok(None);
        };
        let reading = Moment { at: now, all_pods, best_effort };
        let Some(sample) =
            self.last.replace(reading).and_then(|last| sample(last, reading, system))
        else {
            return Ok(None);
        };
        self.is_idle = sample.best_effort < IDLE.apply(settings.capacity, Rounding::Up);
        let state = self.state.take().unwrap_or_else(|| State::new(settings));
        let (state, why) = frame::decide(settings, &state, &sample);
        let granted = state.granted;
        self.state = Some(state);
        let is_news = self
            .written
            .is_none_or(|written| frame::is_worth_writing(written, granted, settings.capacity));
        Ok(is_news.then(|| {
            self.written = Some(granted);
            let allowed = settings.threshold.apply(settings.capacity, Rounding::Down);
            Grant { granted, allowed, why }
        }))
    }

    /// The grant as wishes: for the tier, and for children with a quota of their own.
    pub fn wishes(&self, grant: &Grant, limited_children: &[CgroupPath]) -> Vec<Wish> {
        let quota = grant.granted.0.saturating_mul(PERIOD.0 / 1_000).max(1_000);
        let mut why = format!(
            "the online side used up to {} and leaves {}",
            grant.why.protected, grant.why.leaves
        );
        if grant.why.jump > MilliCpu::ZERO {
            why += &format!(", of which {} are kept free while it rises", grant.why.jump);
        }
        [&self.tier]
            .into_iter()
            .chain(limited_children)
            .map(|group| Wish {
                target: Target::knob(group.clone(), Knob::CfsQuota),
                rank: Rank::SUPPRESSION,
                bound: Bound::Max(Value::Number(Some(quota))),
                why: why.clone(),
            })
            .collect()
    }
}

/// What was used in between; `None` when a counter or the clock went back.
fn sample(last: Moment, this: Moment, system: MilliCpu) -> Option<Sample> {
    let elapsed = this.at.checked_sub(last.at).filter(|elapsed| !elapsed.is_zero())?;
    let rate = |from: Duration, to: Duration| {
        let used = to.checked_sub(from)?.as_nanos().saturating_mul(1_000);
        let rate = used.checked_div(elapsed.as_nanos())?;
        Some(MilliCpu(i64::try_from(rate).unwrap_or(i64::MAX)))
    };
    let best_effort = rate(last.best_effort, this.best_effort)?;
    let node = rate(last.all_pods, this.all_pods)? + system;
    Some(Sample { node, best_effort, elapsed })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use host::fs::FakeFs;

    use super::*;

    const SETTINGS: Settings =
        Settings { capacity: MilliCpu(8_000), threshold: Percent(65), floor: MilliCpu(1_000) };

    struct Rig {
        fake: FakeFs,
        reflex: Reflex,
        now: Duration,
        /// CPU time of all pods and of best-effort.
        spent: (Duration, Duration),
    }

    impl Rig {
        fn new() -> Self {
            let fake = FakeFs::from_fixture(
                "-- sys/fs/cgroup/cgroup.controllers --\ncpu\n\
                 -- sys/fs/cgroup/cgroup.subtree_control --\ncpu\n",
            )
            .unwrap();
            let tree = Tree::find(Arc::new(fake.clone())).unwrap();
            let (all, tier) = (CgroupPath::new("pods"), CgroupPath::new("pods/be"));
            tree.make(&all).unwrap();
            tree.make(&tier).unwrap();
            let reflex = Reflex::new(&tree, all, tier);
            Self { fake, reflex, now: Duration::ZERO, spent: Default::default() }
        }

        /// A tick in which the online side and best-effort used this many CPUs.
        fn tick(&mut self, online: u32, best_effort: u32) -> Option<MilliCpu> {
            self.grant(online, best_effort, MilliCpu(200)).map(|grant| grant.granted)
        }

        fn grant(&mut self, online: u32, best_effort: u32, system: MilliCpu) -> Option<Grant> {
            self.now += TICK;
            self.spent.0 += TICK * (online + best_effort);
            self.spent.1 += TICK * best_effort;
            let stat = |spent: Duration| {
                format!("usage_usec {}\nuser_usec 0\nsystem_usec 0\n", spent.as_micros())
            };
            self.fake.set("sys/fs/cgroup/pods/cpu.stat", stat(self.spent.0));
            self.fake.set("sys/fs/cgroup/pods/be/cpu.stat", stat(self.spent.1));
            self.reflex.look(&SETTINGS, system, self.now).unwrap()
        }
    }

    #[test]
    fn a_step_of_the_online_side_is_answered_at_the_next_look() {
        let mut rig = Rig::new();
        assert_eq!(rig.tick(1, 4), None, "one reading is no rate");
        assert_eq!(rig.tick(1, 4), Some(MilliCpu(4_000)));
        assert_eq!(rig.tick(1, 4), None, "nothing new");
        assert_eq!(rig.tick(3, 2), Some(MilliCpu(1_000)), "a jump is kept free twice");
    }

    #[test]
    fn an_idle_tier_is_looked_at_less_often() {
        let mut rig = Rig::new();
        assert_eq!(rig.reflex.pause(), TICK, "nothing is known yet");
        rig.tick(1, 0);
        rig.tick(1, 0);
        assert_eq!(rig.reflex.pause(), IDLE_TICK);
        rig.tick(1, 1);
        assert_eq!(rig.reflex.pause(), TICK, "it has begun");
    }

    #[test]
    fn a_counter_that_goes_back_is_no_usage() {
        let mut rig = Rig::new();
        rig.tick(1, 4);
        rig.tick(1, 4);
        rig.spent = Default::default();
        assert_eq!(rig.tick(1, 1), None);
        assert_eq!(rig.tick(1, 4), None);
        assert_eq!(rig.tick(3, 4), Some(MilliCpu(1_000)));
    }

    #[test]
    fn a_tier_that_is_gone_is_waited_for() {
        let mut rig = Rig::new();
        rig.tick(1, 4);
        rig.fake.remove("sys/fs/cgroup/pods/be");
        assert_eq!(rig.reflex.look(&SETTINGS, MilliCpu(0), rig.now + TICK).unwrap(), None);
    }

    #[test]
    fn the_sum_of_a_grant_adds_up() {
        let mut rig = Rig::new();
        let mut steps = Vec::new();
        for round in 0..400_u32 {
            let system = MilliCpu(i64::from(round % 7) * 10);
            let Some(grant) = rig.grant(round / 60 * 5 % 9, 3, system) else { continue };
            let why = grant.explain();
            assert_eq!(why.sum.mistake(), None, "{why:?}");
            assert_eq!(why.sum.result(), Some(grant.granted.0));
            steps.push(grant.why.step);
        }
        for step in [Step::Shrink, Step::Grow] {
            assert!(steps.contains(&step), "{step:?} is not in {steps:?}");
        }
    }

    #[test]
    fn wishes_cover_children_with_quotas() {
        let mut rig = Rig::new();
        rig.tick(1, 4);
        rig.now += TICK;
        let grant = Grant {
            granted: MilliCpu(1_500),
            allowed: MilliCpu(5_200),
            why: Why {
                protected: MilliCpu(3_700),
                leaves: MilliCpu(1_500),
                jump: MilliCpu::ZERO,
                step: frame::Step::Shrink,
            },
        };
        let wishes = rig.reflex.wishes(&grant, &[CgroupPath::new("pods/be/a")]);
        let bounds: Vec<_> = wishes.iter().map(|wish| wish.bound.clone()).collect();
        assert_eq!(bounds, vec![Bound::Max(Value::Number(Some(150_000))); 2]);
        assert_eq!(wishes[0].why, "the online side used up to 3700m and leaves 1500m");
    }
}
