//! The queue against a list of pods that is searched from end to end.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Add { pod: u8, priority: i32, group: u64 },
    Update { pod: u8, priority: i32, group: u64, actions: Actions },
    Delete(u8),
    Pop,
    Take(u8),
    Wait(u8),
    Done(u8),
    Fail { pod: u8, rejected: Vec<usize>, is_pending: bool },
    Fire(Event<u64>),
    Activate(u8),
    Gate(u8),
    Advance(u64),
}

/// A pod as the naive queue keeps it: everything, and every event it saw in flight.
#[derive(Debug, Clone)]
struct Pod {
    priority: i32,
    group: u64,
    place: Place,
    rejections: u32,
    errors: u32,
    failure: Failure,
    timestamp: Time,
    parked: Time,
    arrival: usize,
    seen: Vec<Event<u64>>,
    waits: bool,
    forced: bool,
    other: bool,
    poisoned: bool,
}

#[derive(Debug, Default)]
struct Naive {
    pods: BTreeMap<u8, Pod>,
    gated: BTreeSet<u8>,
    arrivals: usize,
    flushed: i64,
}

impl Pod {
    fn expiry(&self) -> i64 {
        let failures = if self.errors > 0 { self.errors } else { self.rejections };
        let pause = match failures {
            0 => return i64::MIN,
            1..=4 => 1 << (failures - 1),
            _ => 10,
        };
        (self.timestamp + Duration::from_secs(pause)).whole_secs()
    }

    fn waits(&self) -> bool {
        !matches!(self.place, Place::InFlight | Place::Binding)
    }

    /// What it should make of these events: `None`, after its pause, or at once.
    fn verdict(&self, events: &[Event<u64>]) -> Option<bool> {
        let helps = |event: &Event<u64>, by: usize| {
            let covered = event.resource == Resource::Any
                || Interests::new(TABLE)
                    .covering(event.resource, event.actions)
                    .contains(plugin(by));
            covered
                && match (event.subject, by) {
                    (None, _) => true,
                    (Some(number), FIT) => number % 2 == self.group % 2,
                    (Some(number), EAGER) => number % 2 == 0,
                    (Some(number), GATES) => number == 3,
                    _ => true,
                }
        };
        let woken = |set: PluginSet| {
            (0..TABLE.len())
                .filter(|by| set.contains(plugin(*by)))
                .any(|by| events.iter().any(|event| helps(event, by)))
        };
        if woken(self.failure.pending_on) {
            return Some(true);
        }
        let gate: PluginSet = match self.place {
            Place::Gated(gate) => [gate].into_iter().collect(),
            _ => PluginSet::EMPTY,
        };
        woken(self.failure.rejected_by.or(gate)).then_some(false)
    }

    /// What it remembers of its flight.
    fn memory(&self) -> Vec<Event<u64>> {
        if !self.waits {
            return self.seen.clone();
        }
        let own = self.seen.iter().filter(|event| event.resource == Resource::OwnPod).cloned();
        let mut kinds: BTreeMap<_, Vec<&Event<u64>>> = BTreeMap::new();
        for event in self.seen.iter().filter(|event| event.resource != Resource::OwnPod) {
            kinds.entry((event.resource, event.actions)).or_default().push(event);
        }
        let merged = kinds.into_values().filter_map(|events| match &events[..] {
            [only] => Some((*only).clone()),
            [.., last] => Some(Event::vague(last.resource, last.actions)),
            [] => None,
        });
        own.chain(merged).collect()
    }
}

impl Naive {
    fn enter(&mut self, name: u8, at_once: bool, now: Time) {
        let is_gated = self.gated.contains(&name);
        let Some(pod) = self.pods.get_mut(&name) else { return };
        if is_gated {
            pod.place = Place::Gated(plugin(GATES));
            pod.parked = now;
        } else if at_once || pod.expiry() < now.whole_secs() {
            pod.place = Place::Active;
        } else {
            pod.place = Place::Backoff { is_error: pod.failure.is_error() };
        }
    }

    fn fly(&mut self, name: u8) {
        let Some(pod) = self.pods.get_mut(&name) else { return };
        pod.place = Place::InFlight;
        pod.failure = Failure::default();
        pod.seen.clear();
        (pod.waits, pod.forced, pod.other, pod.poisoned) = (false, false, false, false);
    }

    fn head(&self) -> Option<u8> {
        let rank = |pod: &Pod| (Reverse(pod.priority), pod.timestamp, pod.arrival);
        let active = self.pods.iter().filter(|(_, pod)| pod.place == Place::Active);
        let pausing = Place::Backoff { is_error: false };
        let pausing = self.pods.iter().filter(|(_, pod)| pod.place == pausing);
        let head = active.min_by_key(|(_, pod)| rank(pod));
        let head = head.or_else(|| pausing.min_by_key(|(_, pod)| (pod.expiry(), rank(pod))));
        head.map(|(name, _)| *name)
    }

    fn add(&mut self, name: u8, priority: i32, group: u64, now: Time) {
        if let Some(pod) = self.pods.get_mut(&name) {
            (pod.priority, pod.group, pod.poisoned) = (priority, group, false);
            return;
        }
        self.arrivals += 1;
        let pod = Pod {
            priority,
            group,
            place: Place::Active,
            rejections: 0,
            errors: 0,
            failure: Failure::default(),
            timestamp: now,
            parked: now,
            arrival: self.arrivals,
            seen: Vec::new(),
            waits: false,
            forced: false,
            other: false,
            poisoned: false,
        };
        self.pods.insert(name, pod);
        self.enter(name, true, now);
    }

    fn update(&mut self, name: u8, priority: i32, group: u64, own: Event<u64>, now: Time) {
        let Some(old) = self.pods.get(&name).cloned() else {
            return self.add(name, priority, group, now);
        };
        self.add(name, priority, group, now);
        let is_other = old.group != group;
        let is_gated = self.gated.contains(&name);
        let Some(pod) = self.pods.get_mut(&name) else { return };
        match pod.place {
            Place::InFlight => {
                pod.other |= is_other;
                pod.seen.push(own);
            }
            Place::Gated(_) if !is_gated => self.enter(name, false, now),
            Place::Unschedulable => {
                let verdict = pod.verdict(&[own]).or(is_other.then_some(false));
                if let Some(at_once) = verdict {
                    self.enter(name, at_once, now);
                }
            }
            _ => {}
        }
    }

    fn delete(&mut self, name: u8) {
        match self.pods.get_mut(&name) {
            Some(pod) if pod.place == Place::InFlight => pod.poisoned = true,
            _ => {
                self.pods.remove(&name);
            }
        }
    }

    fn done(&mut self, name: u8) {
        let Some(pod) = self.pods.get_mut(&name) else { return };
        if pod.place == Place::InFlight {
            pod.place = Place::Binding;
            if pod.poisoned {
                self.pods.remove(&name);
            }
        }
    }

    fn fail(&mut self, name: u8, failure: Failure, now: Time) {
        let Some(pod) = self.pods.get_mut(&name).filter(|pod| !pod.waits()) else { return };
        if pod.place == Place::InFlight && pod.poisoned {
            self.pods.remove(&name);
            return;
        }
        if failure.is_error() {
            pod.errors += 1;
        } else {
            (pod.rejections, pod.errors) = (pod.rejections + 1, 0);
        }
        (pod.failure, pod.timestamp) = (failure, now);
        let is_known = pod.place == Place::InFlight && !failure.is_error() && !pod.other;
        let verdict = if pod.place == Place::InFlight && pod.forced {
            Some(true)
        } else if is_known {
            pod.verdict(&pod.memory())
        } else {
            Some(false)
        };
        match verdict {
            Some(at_once) => self.enter(name, at_once, now),
            None => (pod.place, pod.parked) = (Place::Unschedulable, now),
        }
    }

    fn fire(&mut self, event: &Event<u64>, now: Time) {
        let interested = Interests::new(TABLE).covering(event.resource, event.actions);
        for name in self.pods.keys().copied().collect::<Vec<_>>() {
            let Some(pod) = self.pods.get_mut(&name) else { continue };
            let verdict = match pod.place {
                Place::InFlight => {
                    pod.seen.push(event.clone());
                    None
                }
                Place::Unschedulable => pod.verdict(std::slice::from_ref(event)),
                Place::Gated(gate)
                    if interested.contains(gate) && event.resource != Resource::Any =>
                {
                    pod.verdict(std::slice::from_ref(event))
                }
                _ => None,
            };
            if let Some(at_once) = verdict {
                self.enter(name, at_once, now);
            }
        }
    }

    fn activate(&mut self, name: u8, now: Time) {
        let Some(pod) = self.pods.get_mut(&name) else { return };
        match pod.place {
            Place::InFlight => pod.forced = true,
            Place::Binding => {}
            _ => self.enter(name, true, now),
        }
    }

    fn tick(&mut self, now: Time) {
        let window = now.whole_secs().div_euclid(30);
        let flushes = window > self.flushed;
        self.flushed = window;
        for name in self.pods.keys().copied().collect::<Vec<_>>() {
            let Some(pod) = self.pods.get_mut(&name) else { continue };
            match pod.place {
                Place::Backoff { .. } if pod.expiry() < now.whole_secs() => {
                    pod.place = Place::Active;
                }
                Place::Unschedulable | Place::Gated(_)
                    if flushes && now.since(pod.parked) > MAX_PARKED =>
                {
                    self.enter(name, false, now);
                }
                _ => {}
            }
        }
    }
}

fn uid(pod: u8) -> Uid {
    format!("p{pod}").into()
}

/// Does to both what the step says.
fn apply(step: &Step, rig: &mut Rig, naive: &mut Naive) -> Result<(), TestCaseError> {
    let now = rig.now;
    match step {
        Step::Add { pod, priority, group } => {
            let ticket = rig.ticket(&uid(*pod), *priority, *group);
            rig.queue.add(ticket, &rig.rules, now);
            naive.add(*pod, *priority, *group, now);
        }
        Step::Update { pod, priority, group, actions } => {
            let ticket = rig.ticket(&uid(*pod), *priority, *group);
            let own = Event::new(Resource::OwnPod, *actions, *group);
            rig.queue.update(ticket, own.clone(), &rig.rules, now);
            naive.update(*pod, *priority, *group, own, now);
        }
        Step::Delete(pod) => {
            rig.queue.delete(&uid(*pod));
            naive.delete(*pod);
        }
        Step::Pop => {
            let want = naive.head();
            prop_assert_eq!(rig.queue.pop(now), want.map(uid));
            want.into_iter().for_each(|pod| naive.fly(pod));
        }
        Step::Take(pod) => {
            let want = naive.pods.get(pod).is_some_and(Pod::waits);
            prop_assert_eq!(rig.queue.take(&uid(*pod), now), want);
            if want {
                naive.fly(*pod);
            }
        }
        Step::Wait(pod) => {
            rig.queue.wait_on_permit(&uid(*pod));
            naive.pods.get_mut(pod).into_iter().for_each(|pod| pod.waits = true);
        }
        Step::Done(pod) => {
            rig.queue.done(&uid(*pod));
            naive.done(*pod);
        }
        Step::Fail { pod, rejected, is_pending } => {
            let pending = is_pending.then(|| plugin(GANG));
            let failure = Failure {
                rejected_by: rejected.iter().map(|by| plugin(*by)).collect(),
                pending_on: pending.into_iter().collect(),
            };
            rig.queue.fail(&uid(*pod), failure, &rig.rules, now);
            naive.fail(*pod, failure, now);
        }
        Step::Fire(event) => {
            rig.queue.fire(event.clone(), &rig.rules, now);
            naive.fire(event, now);
        }
        Step::Activate(pod) => {
            rig.queue.activate([&uid(*pod)], &rig.rules, now);
            naive.activate(*pod, now);
        }
        Step::Gate(pod) => {
            if !rig.rules.gated.remove(&uid(*pod)) {
                rig.rules.gated.insert(uid(*pod));
            }
            if !naive.gated.remove(pod) {
                naive.gated.insert(*pod);
            }
        }
        Step::Advance(millis) => {
            rig.advance(*millis);
            naive.tick(rig.now);
        }
    }
    Ok(())
}

fn compare(rig: &Rig, naive: &Naive) -> Result<(), TestCaseError> {
    for pod in 0..8 {
        let found = rig.queue.get(&uid(pod)).map(|one| (one.place, one.rejections, one.failure));
        let want = naive.pods.get(&pod).map(|one| (one.place, one.rejections, one.failure));
        prop_assert_eq!(found, want, "pod {}", pod);
    }
    let mut depth = Depth::default();
    for pod in naive.pods.values() {
        match pod.place {
            Place::Active => depth.active += 1,
            Place::Backoff { .. } => depth.backoff += 1,
            Place::Unschedulable => depth.unschedulable += 1,
            Place::Gated(_) => depth.gated += 1,
            Place::InFlight => depth.in_flight += 1,
            Place::Binding => {}
        }
    }
    prop_assert_eq!(rig.queue.depth(), depth);
    if depth.in_flight == 0 {
        prop_assert_eq!(rig.queue.held_events(), 0);
    }
    Ok(())
}

fn event() -> impl Strategy<Value = Event<u64>> {
    let resource = prop_oneof![
        4 => Just(Resource::Node),
        4 => Just(Resource::Pod),
        2 => Just(Resource::PodGroup),
        1 => Just(Resource::CsiNode),
        1 => Just(Resource::Any),
    ];
    let actions = prop_oneof![
        Just(Actions::ADD),
        Just(Actions::DELETE),
        Just(Actions::NODE_LABEL),
        Just(Actions::NODE_LABEL.or(Actions::NODE_ALLOCATABLE)),
    ];
    (resource, actions, 0..4u64).prop_map(|(resource, actions, number)| match resource {
        Resource::Any => Event::wildcard(),
        _ => Event::new(resource, actions, number),
    })
}

fn step() -> impl Strategy<Value = Step> {
    let pod = 0..8u8;
    let own = prop_oneof![
        Just(Actions::OTHER),
        Just(Actions::POD_SCALE_DOWN),
        Just(Actions::POD_GATES_ELIMINATED),
    ];
    let rejected = proptest::collection::vec(prop_oneof![0..4usize, Just(GANG)], 0..3);
    prop_oneof![
        3 => (pod.clone(), 0..3, 0..3u64)
            .prop_map(|(pod, priority, group)| Step::Add { pod, priority, group }),
        2 => (pod.clone(), 0..3, 0..3u64, own).prop_map(|(pod, priority, group, actions)| {
            Step::Update { pod, priority, group, actions }
        }),
        1 => pod.clone().prop_map(Step::Delete),
        6 => Just(Step::Pop),
        1 => pod.clone().prop_map(Step::Take),
        1 => pod.clone().prop_map(Step::Wait),
        1 => pod.clone().prop_map(Step::Done),
        8 => (pod.clone(), rejected, proptest::bool::weighted(0.2)).prop_map(
            |(pod, rejected, is_pending)| Step::Fail { pod, rejected, is_pending }
        ),
        5 => event().prop_map(Step::Fire),
        1 => pod.clone().prop_map(Step::Activate),
        1 => pod.prop_map(Step::Gate),
        3 => prop_oneof![0..3_000u64, 100_000..400_000u64].prop_map(Step::Advance),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Every step leaves both with the same pods in the same places.
    #[test]
    fn the_queue_equals_a_naive_one(steps in proptest::collection::vec(step(), 1..150)) {
        let (mut rig, mut naive) = (Rig::new(), Naive::default());
        for step in &steps {
            apply(step, &mut rig, &mut naive)?;
            compare(&rig, &naive)?;
        }
    }

    /// Doing what `wake_at` says empties every pause and every parking place in time.
    #[test]
    fn nobody_waits_for_ever(steps in proptest::collection::vec(step(), 1..60)) {
        let (mut rig, mut naive) = (Rig::new(), Naive::default());
        for step in &steps {
            apply(step, &mut rig, &mut naive)?;
        }
        rig.rules.gated.clear();
        let limit = rig.now + MAX_PARKED + FLUSH_EVERY + Duration::from_secs(12);
        while let Some(next) = rig.queue.wake_at(rig.now) {
            prop_assert!(next <= limit, "asleep until {next:?}");
            rig.now = next.max(rig.now + Duration::from_nanos(1));
            rig.queue.tick(&rig.rules, rig.now);
        }
        let depth = rig.queue.depth();
        prop_assert_eq!((depth.backoff, depth.unschedulable, depth.gated), (0, 0, 0));
    }
}
