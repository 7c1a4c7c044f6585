use proptest::prelude::*;
use units::Ratio;

use super::*;
use crate::numa::topology::tests::machine;

const GIB: i64 = 1 << 30;

pub(crate) fn zone(cpu: i64, memory: i64) -> Requests {
    [(ResourceId::CPU, cpu), (ResourceId::MEMORY, memory)].into_iter().collect()
}

/// One socket, two NUMA nodes with four cores of two threads and 16 GiB each.
pub(crate) fn described() -> Machine {
    Machine {
        topology: Some(machine(1, 2, 4, 2)),
        zones: vec![(0, zone(8_000, 16 * GIB)), (1, zone(8_000, 16 * GIB))],
        ..Machine::default()
    }
}

fn amplified(hundredths: u32) -> Settings {
    let ratios = Ratios::Known(vec![(ResourceId::CPU, Ratio::from_hundredths(hundredths))]);
    Settings { ratios, ..Settings::default() }
}

fn cpus(list: &str) -> Allocation {
    Allocation { cpus: list.parse().unwrap(), ..Allocation::default() }
}

fn cpu_room(state: &State) -> Vec<(i64, i64)> {
    let room = |zone: &Zone| {
        let amount = zone.amount(ResourceId::CPU).unwrap();
        (amount.capacity, state.used(zone, amount))
    };
    state.zones().iter().map(room).collect()
}

#[test]
fn allocations_count_once_the_machine_is_known() {
    let mut state = State::default();
    assert!(state.hold("a".into(), cpus("0,8")));
    assert_eq!((state.bound(), state.free().len()), (2, 0));
    assert!(state.describe(Arc::new(described())));
    assert_eq!(state.bound(), 2);
    assert_eq!(*state.free(), "1-7,9-15".parse().unwrap());
    assert!(state.describe(Arc::default()), "forgotten");
    assert_eq!((state.bound(), state.free().len()), (2, 0));
}

#[test]
fn a_cpu_two_pods_claim_is_free_when_both_are_gone() {
    let mut state = State::default();
    state.describe(Arc::new(described()));
    state.hold("a".into(), cpus("0-1"));
    state.hold("b".into(), cpus("1-2"));
    assert_eq!(state.bound(), 3);
    assert!(state.release("a"));
    assert_eq!(*state.free(), "0,3-15".parse().unwrap());
    assert!(state.release("b"));
    assert!(!state.release("b"), "twice is once");
    assert_eq!(state.free().len(), 16);
}

#[test]
fn holding_twice_is_holding_once() {
    let mut state = State::default();
    state.describe(Arc::new(described()));
    assert!(state.hold("a".into(), cpus("0-1")));
    assert!(!state.hold("a".into(), cpus("0-1")));
    assert!(state.hold("a".into(), cpus("2-3")), "moved");
    assert_eq!(*state.free(), "0-1,4-15".parse().unwrap());
    assert!(state.hold("a".into(), Allocation::default()), "nothing held is nothing recorded");
    assert_eq!(state.pods().count(), 0);
}

#[test]
fn reserved_cpus_shrink_their_numa_node() {
    let mut state = State::default();
    state.configure(amplified(150));
    state.describe(Arc::new(Machine { reserved: "0,8".parse().unwrap(), ..described() }));
    assert_eq!(cpu_room(&state), [(9_000, 0), (12_000, 0)]);
    assert_eq!(state.free_counts(), FreeCpus { any: 14, whole: 14, spread: 7 });
    state.hold("a".into(), cpus("1,4-5"));
    assert_eq!(cpu_room(&state), [(9_000, 1_500), (12_000, 3_000)], "bound CPUs cost more");
    assert_eq!(state.free_counts(), FreeCpus { any: 11, whole: 8, spread: 7 });
}

#[test]
fn zones_that_are_amplified_already_stay() {
    let mut state = State::default();
    state.configure(amplified(150));
    state.describe(Arc::new(Machine { is_amplified: true, ..described() }));
    assert_eq!(cpu_room(&state), [(8_000, 0), (8_000, 0)]);
}

#[test]
fn shares_count_unless_cpus_do() {
    let share = |cpu, memory| vec![(1, zone(cpu, memory))];
    let mut state = State::default();
    state.describe(Arc::new(described()));
    state.hold("ls".into(), Allocation { shares: share(1_500, GIB), ..Allocation::default() });
    state.hold("lsr".into(), Allocation { shares: share(2_000, GIB), ..cpus("4,12") });
    assert_eq!(cpu_room(&state), [(8_000, 0), (8_000, 3_500)]);
    let memory = state.zones()[1].amount(ResourceId::MEMORY).unwrap();
    assert_eq!(memory.used, 2 * GIB);
}

#[test]
fn occupancy_tells_pods_that_span_from_those_that_do_not() {
    let mut state = State::default();
    state.describe(Arc::new(described()));
    let seen = |state: &State| state.zones().iter().map(|zone| zone.occupancy).collect::<Vec<_>>();
    assert_eq!(seen(&state), [Occupancy::Idle, Occupancy::Idle]);
    state.hold("a".into(), cpus("0-1"));
    assert_eq!(seen(&state), [Occupancy::Single, Occupancy::Idle]);
    state.hold("b".into(), cpus("2,4"));
    assert_eq!(seen(&state), [Occupancy::Shared, Occupancy::Shared]);
    state.release("b");
    assert_eq!(seen(&state), [Occupancy::Single, Occupancy::Idle]);
}

#[test]
fn the_kubelets_whole_cores_outrank_a_label() {
    let mut state = State::default();
    let label = |bind| Settings { bind: Some(bind), ..Settings::default() };
    assert_eq!(state.forced_bind(), None);
    state.configure(label(NodeCpuBindPolicy::SpreadByPcpus));
    assert_eq!(state.forced_bind(), Some(Bind::Spread));
    state.describe(Arc::new(Machine { is_full_pcpus_only: true, ..described() }));
    assert_eq!(state.forced_bind(), Some(Bind::Full));
}

proptest! {
    /// Whatever came and went, the sums are those of what is there now.
    #[test]
    fn sums_equal_a_rebuild(
        steps in prop::collection::vec((0..6_u8, 0..4_u8, any::<u16>(), 0..3_000_i64), 0..40),
    ) {
        let mut state = State::default();
        state.describe(Arc::new(described()));
        for (pod, kind, bits, amount) in steps {
            let uid: Arc<str> = format!("pod-{pod}").into();
            let cpus: CpuSet = (0..16).filter(|cpu| bits >> cpu & 1 == 1).collect();
            let shares = vec![(u16::from(pod % 2), zone(amount, amount))];
            match kind {
                0 => { state.release(&uid); }
                1 => { state.hold(uid, Allocation { cpus, ..Allocation::default() }); }
                2 => { state.hold(uid, Allocation { shares, ..Allocation::default() }); }
                _ => { state.hold(uid, Allocation { cpus, shares, ..Allocation::default() }); }
            }
        }
        let mut fresh = State::default();
        for (uid, held) in state.pods() {
            fresh.hold(uid.into(), held.clone());
        }
        fresh.describe(Arc::new(described()));
        prop_assert_eq!(fresh.free(), state.free());
        prop_assert_eq!(fresh.zones(), state.zones());
        prop_assert_eq!((fresh.bound(), fresh.free_counts()), (state.bound(), state.free_counts()));

        let uids: Vec<String> = state.pods().map(|(uid, _)| uid.to_owned()).collect();
        for uid in uids {
            state.release(&uid);
        }
        let mut blank = State::default();
        blank.describe(Arc::new(described()));
        prop_assert_eq!(state.zones(), blank.zones());
        prop_assert_eq!(state.free(), blank.free());
    }
}
