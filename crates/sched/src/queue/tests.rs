//! Rules of the queue, case by case; `model` compares it with a naive one.

mod model;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use super::flight::LOG_LIMIT;
use super::*;

/// A plugin of the table below.
fn plugin(index: usize) -> PluginId {
    PluginId::new(index).unwrap()
}

const FIT: usize = 0;
const AFFINITY: usize = 1;
const SILENT: usize = 2;
const EAGER: usize = 3;
const GATES: usize = 4;
const GANG: usize = 5;

const TABLE: [Interest; 6] = [
    Interest::Only(&[
        Wake::new(Resource::Pod, Actions::DELETE.or(Actions::POD_SCALE_DOWN)),
        Wake::new(Resource::OwnPod, Actions::POD_SCALE_DOWN),
        Wake::new(Resource::Node, Actions::ADD.or(Actions::NODE_ALLOCATABLE)),
    ]),
    Interest::Only(&[Wake::new(Resource::Node, Actions::ADD.or(Actions::NODE_LABEL))]),
    Interest::Only(&[]),
    Interest::Every,
    Interest::Only(&[
        Wake::new(Resource::OwnPod, Actions::POD_GATES_ELIMINATED),
        Wake::new(Resource::Pod, Actions::DELETE),
    ]),
    Interest::Only(&[Wake::new(Resource::PodGroup, Actions::ADD)]),
];

/// Events carry a number. `FIT` is helped by numbers with its group's parity, `EAGER` by even
/// ones, `GATES` by 3, the others by all. Closed gates are listed by uid.
#[derive(Debug, Default)]
struct Rules {
    groups: RefCell<std::collections::HashMap<Uid, u64>>,
    gated: BTreeSet<Uid>,
    asked: RefCell<usize>,
}

impl Policy for Rules {
    type Subject = u64;

    fn gate(&self, pod: &Uid, _first: Option<PluginId>) -> Option<PluginId> {
        self.gated.contains(pod).then(|| plugin(GATES))
    }

    fn hint(&self, by: PluginId, pod: &Uid, event: &Event<u64>) -> Hint {
        *self.asked.borrow_mut() += 1;
        let number = event.subject.unwrap();
        let group = self.groups.borrow().get(pod).copied().unwrap_or_default();
        Hint::queue_if(match by.index() {
            FIT => number % 2 == group % 2,
            EAGER => number.is_multiple_of(2),
            GATES => number == 3,
            _ => true,
        })
    }
}

struct Rig {
    queue: Queue<u64>,
    rules: Rules,
    now: Time,
}

impl Rig {
    fn new() -> Self {
        let queue = Queue::new(Interests::new(TABLE), Backoff::default());
        Self { queue, rules: Rules::default(), now: Time::from_secs(1_000) }
    }

    fn ticket(&self, name: &str, priority: i32, group: u64) -> Ticket {
        let uid: Uid = name.into();
        self.rules.groups.borrow_mut().insert(uid.clone(), group);
        Ticket { uid, priority, group }
    }

    fn add(&mut self, name: &str) {
        let ticket = self.ticket(name, 0, 0);
        self.queue.add(ticket, &self.rules, self.now);
    }

    fn pop(&mut self) -> Option<String> {
        self.queue.pop(self.now).map(|uid| uid.to_string())
    }

    fn fail(&mut self, name: &str, by: &[usize]) {
        let failure = Failure::rejected(by.iter().map(|index| plugin(*index)).collect());
        self.queue.fail(&name.into(), failure, &self.rules, self.now);
    }

    /// A pod that was tried once and rejected.
    fn rejected(&mut self, name: &str, by: &[usize]) {
        self.add(name);
        assert!(self.queue.take(&name.into(), self.now));
        self.fail(name, by);
    }

    fn fire(&mut self, resource: Resource, actions: Actions, number: u64) -> usize {
        self.queue.fire(Event::new(resource, actions, number), &self.rules, self.now)
    }

    fn update(&mut self, name: &str, group: u64, actions: Actions) {
        let ticket = self.ticket(name, 0, group);
        let own = Event::new(Resource::OwnPod, actions, 0);
        self.queue.update(ticket, own, &self.rules, self.now);
    }

    fn advance(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
        self.queue.tick(&self.rules, self.now);
    }

    fn place(&self, name: &str) -> Option<Place> {
        self.queue.get(&name.into()).map(|record| record.place)
    }
}

const PAUSING: Option<Place> = Some(Place::Backoff { is_error: false });
const ERRED: Option<Place> = Some(Place::Backoff { is_error: true });
const PARKED: Option<Place> = Some(Place::Unschedulable);
const ACTIVE: Option<Place> = Some(Place::Active);

fn gated() -> Option<Place> {
    Some(Place::Gated(plugin(GATES)))
}

/// Vector F1.
#[test]
fn pauses_double_up_to_the_limit() {
    let pauses: Vec<u64> = (0..8).map(|n| Backoff::default().pause(n).as_secs()).collect();
    assert_eq!(pauses, [0, 1, 2, 4, 8, 10, 10, 10]);
    assert_eq!(Backoff::default().pause(u32::MAX), Duration::from_secs(10));
    let off = Backoff { max: Duration::ZERO, ..Backoff::default() };
    assert_eq!(off.pause(3), Duration::ZERO);
}

/// Vector F2.
#[test]
fn errors_count_before_rejections() {
    let mut rig = Rig::new();
    rig.rejected("a", &[FIT]);
    for _ in 0..3 {
        rig.queue.take(&"a".into(), rig.now);
        rig.queue.fail(&"a".into(), Failure::ERROR, &rig.rules, rig.now);
    }
    let record = rig.queue.get(&"a".into()).unwrap();
    assert_eq!((record.consecutive_errors, record.rejections), (3, 1));
    assert_eq!(rig.place("a"), ERRED);
    rig.advance(4_000);
    assert_eq!(rig.place("a"), ERRED, "four seconds must be over, not begun");
    rig.advance(1_000);
    assert_eq!(rig.place("a"), ACTIVE);
}

/// Vector F6.
#[test]
fn permit_ends_with_the_first_deadline() {
    struct Case {
        name: &'static str,
        waits: &'static [(usize, u64)],
        allowed: &'static [usize],
        want: Option<(usize, u64)>,
    }
    let cases = [
        Case { name: "capped", waits: &[(0, 20)], allowed: &[], want: Some((0, 15)) },
        Case { name: "shortest", waits: &[(0, 10), (1, 20)], allowed: &[], want: Some((0, 10)) },
        Case { name: "allowed", waits: &[(0, 10), (1, 20)], allowed: &[0], want: Some((1, 15)) },
        Case { name: "all allowed", waits: &[(0, 10), (1, 20)], allowed: &[1, 0], want: None },
    ];
    for Case { name, waits, allowed, want } in cases {
        let start = Time::from_secs(50);
        let mut wait = PermitWait::new(start);
        for (by, minutes) in waits {
            wait.ask(plugin(*by), Duration::from_secs(minutes * 60));
        }
        for by in allowed {
            wait.allow(plugin(*by));
        }
        assert_eq!(wait.is_allowed(), want.is_none(), "{name}");
        let Some((by, minutes)) = want else { continue };
        let after = Duration::from_secs(minutes * 60);
        assert_eq!(wait.expired(start + after - Duration::from_nanos(1)), None, "{name}");
        assert_eq!(wait.expired(start + after), Some((plugin(by), after)), "{name}");
    }
}

#[test]
fn active_is_ordered_by_priority_then_waiting_time() {
    let mut rig = Rig::new();
    for (name, priority, after) in [("old", 0, 0), ("high", 5, 1), ("young", 0, 1), ("twin", 0, 0)]
    {
        rig.advance(after);
        let ticket = rig.ticket(name, priority, 0);
        rig.queue.add(ticket, &rig.rules, rig.now);
    }
    let order: Vec<_> = std::iter::from_fn(|| rig.pop()).collect();
    assert_eq!(order, ["high", "old", "young", "twin"]);
}

#[test]
fn a_new_priority_reorders_in_place() {
    let mut rig = Rig::new();
    rig.add("a");
    rig.add("b");
    let ticket = rig.ticket("b", 9, 0);
    rig.queue.update(ticket, Event::vague(Resource::OwnPod, Actions::OTHER), &rig.rules, rig.now);
    assert_eq!(rig.pop().as_deref(), Some("b"));
}

#[test]
fn events_wake_those_whose_rejector_says_so() {
    struct Case {
        name: &'static str,
        by: &'static [usize],
        event: (Resource, Actions, u64),
        want: Option<Place>,
    }
    let node = Resource::Node;
    let cases = [
        Case {
            name: "registered and helpful",
            by: &[FIT],
            event: (node, Actions::ADD, 2),
            want: PAUSING,
        },
        Case {
            name: "registered, no help",
            by: &[FIT],
            event: (node, Actions::ADD, 1),
            want: PARKED,
        },
        Case {
            name: "another action",
            by: &[FIT],
            event: (node, Actions::NODE_LABEL, 2),
            want: PARKED,
        },
        Case {
            name: "one of two changes",
            by: &[FIT],
            event: (node, Actions::NODE_LABEL.or(Actions::NODE_ALLOCATABLE), 2),
            want: PAUSING,
        },
        Case {
            name: "another resource",
            by: &[FIT],
            event: (Resource::CsiNode, Actions::ADD, 2),
            want: PARKED,
        },
        Case {
            name: "one of two rejectors is enough",
            by: &[FIT, AFFINITY],
            event: (node, Actions::NODE_LABEL, 1),
            want: PAUSING,
        },
        Case {
            name: "no registration, no event",
            by: &[SILENT],
            event: (node, Actions::ADD, 2),
            want: PARKED,
        },
        Case {
            name: "woken by everything",
            by: &[EAGER],
            event: (Resource::CsiNode, Actions::ADD, 2),
            want: PAUSING,
        },
        Case {
            name: "everything, with a hint",
            by: &[EAGER],
            event: (Resource::CsiNode, Actions::ADD, 1),
            want: PARKED,
        },
    ];
    for Case { name, by, event: (resource, actions, number), want } in cases {
        let mut rig = Rig::new();
        rig.rejected("a", by);
        assert_eq!(rig.place("a"), PARKED, "{name}");
        let moved = rig.fire(resource, actions, number);
        assert_eq!((rig.place("a"), moved == 1), (want, want == PAUSING), "{name}");

        let mut rig = Rig::new();
        rig.add("a");
        rig.pop();
        rig.fire(resource, actions, number);
        rig.fail("a", by);
        assert_eq!(rig.place("a"), want, "{name}, while in flight");
    }
}

#[test]
fn a_wildcard_wakes_all_but_the_gated() {
    let mut rig = Rig::new();
    rig.rejected("silent", &[SILENT]);
    rig.rules.gated.insert("held".into());
    rig.add("held");
    rig.queue.fire(Event::wildcard(), &rig.rules, rig.now);
    assert_eq!((rig.place("silent"), rig.place("held")), (PAUSING, gated()));
}

#[test]
fn an_event_nobody_asked_for_asks_nobody() {
    let mut rig = Rig::new();
    for n in 0..100 {
        rig.rejected(&format!("p{n}"), &[AFFINITY]);
    }
    rig.fire(Resource::Pod, Actions::DELETE, 0);
    rig.fire(Resource::Node, Actions::NODE_TAINT, 0);
    assert_eq!(*rig.rules.asked.borrow(), 0);
    rig.fire(Resource::Node, Actions::NODE_LABEL, 0);
    assert_eq!(*rig.rules.asked.borrow(), 1, "one group, one question");
    assert_eq!(rig.queue.depth().backoff, 100);
}

#[test]
fn a_pending_plugin_skips_the_pause() {
    let mut rig = Rig::new();
    rig.add("a");
    rig.pop();
    let failure = Failure {
        rejected_by: PluginSet::EMPTY.with(plugin(FIT)),
        pending_on: PluginSet::EMPTY.with(plugin(GANG)),
    };
    rig.queue.fail(&"a".into(), failure, &rig.rules, rig.now);
    assert_eq!(rig.place("a"), PARKED);
    rig.fire(Resource::PodGroup, Actions::ADD, 1);
    assert_eq!(rig.place("a"), ACTIVE);
}

#[test]
fn idle_schedulers_take_pausing_pods_early_but_not_erred_ones() {
    let mut rig = Rig::new();
    rig.add("erred");
    rig.pop();
    rig.queue.fail(&"erred".into(), Failure::ERROR, &rig.rules, rig.now);
    rig.rejected("woken", &[FIT]);
    rig.fire(Resource::Node, Actions::ADD, 0);
    rig.add("fresh");
    assert_eq!(rig.pop().as_deref(), Some("fresh"));
    assert_eq!(rig.pop().as_deref(), Some("woken"));
    assert_eq!(rig.pop(), None);
    assert_eq!(rig.place("erred"), ERRED);
}

#[test]
fn gates_open_by_own_update_or_activation_only() {
    let mut rig = Rig::new();
    for name in ["a", "b", "c"] {
        rig.rules.gated.insert(name.into());
        rig.add(name);
        assert_eq!(rig.place(name), gated());
    }
    rig.fire(Resource::Node, Actions::ADD, 0);
    rig.queue.activate([&"a".into()], &rig.rules, rig.now);
    assert_eq!(rig.place("a"), gated(), "activation does not open a gate");
    rig.update("b", 0, Actions::OTHER);
    assert_eq!(rig.place("b"), gated());
    rig.rules.gated.clear();
    rig.queue.activate([&"a".into()], &rig.rules, rig.now);
    rig.update("b", 0, Actions::POD_GATES_ELIMINATED);
    assert_eq!((rig.place("a"), rig.place("b"), rig.place("c")), (ACTIVE, ACTIVE, gated()));
    rig.advance(331_000);
    assert_eq!(rig.place("c"), ACTIVE, "the flush asks gates again");
}

#[test]
fn a_gated_preemptor_is_woken_through_its_first_rejector() {
    let mut rig = Rig::new();
    rig.add("a");
    rig.pop();
    rig.fire(Resource::Node, Actions::ADD, 0);
    rig.rules.gated.insert("a".into());
    rig.fail("a", &[FIT]);
    assert_eq!(rig.place("a"), gated());
    rig.rules.gated.clear();
    rig.fire(Resource::Node, Actions::ADD, 0);
    assert_eq!(rig.place("a"), gated(), "its gate knows nothing of nodes");
    rig.fire(Resource::Pod, Actions::DELETE, 0);
    assert_eq!(rig.place("a"), PAUSING);
}

#[test]
fn parked_pods_are_tried_again_after_five_minutes() {
    let mut rig = Rig::new();
    rig.rejected("a", &[SILENT]);
    let parked = rig.now;
    while rig.place("a") == PARKED {
        rig.now = rig.queue.wake_at(rig.now).unwrap();
        rig.queue.tick(&rig.rules, rig.now);
        assert!(rig.now.since(parked) <= MAX_PARKED + FLUSH_EVERY);
    }
    assert!(rig.now.since(parked) > MAX_PARKED);
    assert_eq!(rig.place("a"), ACTIVE);
}

#[test]
fn a_pod_deleted_in_flight_does_not_come_back() {
    let mut rig = Rig::new();
    rig.add("a");
    rig.pop();
    rig.queue.delete(&"a".into());
    rig.fail("a", &[FIT]);
    assert_eq!(rig.place("a"), None);
    assert_eq!(rig.queue.depth(), Depth::default());

    rig.add("b");
    rig.pop();
    rig.queue.delete(&"b".into());
    rig.add("b");
    rig.fail("b", &[FIT]);
    assert_eq!(rig.place("b"), PARKED, "added again, it lives");
}

#[test]
fn a_failed_binding_keeps_its_counters() {
    let mut rig = Rig::new();
    rig.add("a");
    rig.pop();
    rig.queue.done(&"a".into());
    assert_eq!(rig.place("a"), Some(Place::Binding));
    rig.queue.fail(&"a".into(), Failure::ERROR, &rig.rules, rig.now);
    assert_eq!(rig.place("a"), ERRED);
    assert_eq!(rig.queue.get(&"a".into()).unwrap().attempts, 1);
    rig.fail("a", &[FIT]);
    assert_eq!(rig.place("a"), ERRED, "a verdict without an attempt is ignored");

    rig.add("b");
    rig.pop();
    rig.queue.done(&"b".into());
    rig.queue.delete(&"b".into());
    rig.fail("b", &[FIT]);
    assert_eq!(rig.place("b"), None);
}

#[test]
fn own_updates_count_while_parked_and_in_flight() {
    let mut rig = Rig::new();
    rig.rejected("a", &[FIT]);
    rig.update("a", 0, Actions::POD_LABEL);
    assert_eq!(rig.place("a"), PARKED, "labels mean nothing to the one that rejected it");
    rig.update("a", 0, Actions::POD_SCALE_DOWN);
    assert_eq!(rig.place("a"), PAUSING);

    rig.add("b");
    rig.queue.take(&"b".into(), rig.now);
    rig.update("b", 0, Actions::POD_SCALE_DOWN);
    rig.fail("b", &[FIT]);
    assert_eq!(rig.place("b"), PAUSING);

    rig.rejected("c", &[FIT]);
    rig.update("c", 7, Actions::OTHER);
    assert_eq!(rig.place("c"), PAUSING, "another class is another question");

    rig.add("d");
    rig.queue.take(&"d".into(), rig.now);
    rig.update("d", 7, Actions::OTHER);
    rig.fail("d", &[FIT]);
    assert_eq!(rig.place("d"), PAUSING);
}

#[test]
fn activation_in_flight_survives_the_verdict() {
    let mut rig = Rig::new();
    rig.add("a");
    rig.pop();
    rig.queue.activate([&"a".into()], &rig.rules, rig.now);
    rig.fail("a", &[SILENT]);
    assert_eq!(rig.place("a"), ACTIVE);
}

#[test]
fn permit_waiters_keep_kinds_of_events() {
    let mut rig = Rig::new();
    for name in ["one", "many", "none"] {
        rig.add(name);
        rig.queue.take(&name.into(), rig.now);
        rig.queue.wait_on_permit(&name.into());
        if name == "many" {
            rig.fire(Resource::Node, Actions::ADD, 1);
        }
        if name == "one" {
            for _ in 0..10 * LOG_LIMIT {
                rig.fire(Resource::Pod, Actions::DELETE, 1);
            }
        }
    }
    rig.fire(Resource::Node, Actions::ADD, 1);
    assert!(rig.queue.held_events() <= 2);
    rig.fail("none", &[FIT]);
    assert_eq!(rig.place("none"), PARKED, "its only event was not for its group");
    rig.fail("many", &[FIT]);
    assert_eq!(rig.place("many"), PAUSING, "of two events the particulars are gone");
    rig.fail("one", &[AFFINITY]);
    assert_eq!(rig.place("one"), PAUSING);
    assert_eq!(rig.queue.held_events(), 0);
}

#[test]
fn the_log_of_events_is_bounded_and_loses_no_wake() {
    let mut rig = Rig::new();
    rig.add("slow");
    rig.pop();
    rig.fire(Resource::Node, Actions::ADD, 0);
    for _ in 0..2 * LOG_LIMIT {
        rig.fire(Resource::Pod, Actions::DELETE, 1);
        assert!(rig.queue.held_events() <= LOG_LIMIT + 2);
    }
    rig.fail("slow", &[AFFINITY]);
    assert_eq!(rig.place("slow"), PAUSING);
}

#[test]
fn nominations_follow_pod_and_node() {
    let mut nominator = Nominator::default();
    let (a, b, c): (Uid, Uid, Uid) = ("a".into(), "b".into(), "c".into());
    nominator.nominate(&a, 10, "n1");
    nominator.nominate(&b, 5, "n1");
    nominator.nominate(&c, 5, "n2");
    nominator.nominate(&c, 5, "n1");
    assert_eq!(nominator.on(&"n2").count(), 0, "a pod is promised one node");
    assert_eq!(nominator.ahead_of(&b, 5, &"n1").collect::<Vec<_>>(), [&a, &c]);
    assert_eq!(nominator.below(10, &"n1").collect::<Vec<_>>(), [&b, &c]);
    assert_eq!(nominator.withdraw(&a), Some("n1"));
    assert_eq!(nominator.withdraw(&a), None);
    assert_eq!(nominator.node_of(&b), Some(&"n1"));
    nominator.withdraw(&b);
    nominator.withdraw(&c);
    assert!(nominator.is_empty());
}

#[test]
fn every_rejector_set_says_whether_events_can_help() {
    let interests = Interests::new(TABLE);
    let set = |by: &[usize]| by.iter().map(|index| plugin(*index)).collect();
    assert!(interests.can_wake(set(&[FIT])));
    assert!(interests.can_wake(set(&[SILENT, EAGER])));
    assert!(!interests.can_wake(set(&[SILENT])));
    assert_eq!(PluginId::new(PluginId::LIMIT), None);
    assert_eq!(format!("{:?}", Actions::ADD.or(Actions::OTHER)), "Add|Update");
}
