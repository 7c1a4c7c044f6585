use proptest::prelude::*;

use super::*;
use crate::numa::topology::tests::machine;

fn set(list: &str) -> CpuSet {
    list.parse().unwrap()
}

fn full(count: usize) -> Ask {
    Ask {
        count,
        bind: Bind::Full,
        required: false,
        exclusive: Exclusive::None,
        strategy: Fill::Least,
    }
}

fn spread(count: usize) -> Ask {
    Ask { bind: Bind::Spread, ..full(count) }
}

fn most(ask: Ask) -> Ask {
    Ask { strategy: Fill::Most, ..ask }
}

/// One row: what is used, what is asked for, what comes out.
struct Row {
    name: &'static str,
    used: &'static str,
    marked: &'static str,
    ask: Ask,
    want: Result<&'static str, Shortage>,
}

fn row(name: &'static str, used: &'static str, ask: Ask, want: &'static str) -> Row {
    Row { name, used, marked: "", ask, want: Ok(want) }
}

/// Two sockets with two NUMA nodes of four cores with two threads each.
fn check(rows: impl IntoIterator<Item = Row>) {
    let topology = machine(2, 2, 4, 2);
    for Row { name, used, marked, ask, want } in rows {
        let available = topology.all().difference(&set(used));
        let got = take(&topology, &available, &set(marked), &ask);
        assert_eq!(got, want.map(set), "{name}");
    }
}

#[test]
fn an_empty_machine_is_filled_from_the_front() {
    for strategy in [Fill::Most, Fill::Least] {
        let with = |ask: Ask| Ask { strategy, ..ask };
        check([
            row("C1", "", with(full(4)), "0-1,16-17"),
            row("C2", "", with(spread(4)), "0-3"),
            row("C3", "", with(spread(6)), "0-3,16-17"),
            row("C4", "", with(full(3)), "0-1,16"),
            row("C5 one socket", "", with(full(12)), "0-5,16-21"),
            row("C6 socket 0 whole and cores 8, 9", "", with(full(20)), "0-9,16-25"),
            row("nothing asked", "", with(full(0)), ""),
            row("everything", "", with(spread(32)), "0-31"),
        ]);
    }
}

#[test]
fn the_strategy_chooses_between_places() {
    let c1 = "0-1,16-17";
    let cores = "0,4,8,12,16,20,24,28";
    check([
        row("C7 most", c1, most(full(2)), "2,18"),
        row("C7 least", c1, full(2), "8,24"),
        row("C8 most", c1, most(full(6)), "4-6,20-22"),
        row("C8 least", c1, full(6), "8-10,24-26"),
        row("C9", c1, spread(4), "8-11"),
        row("C10 no NUMA node has 8", cores, full(8), "1-3,5,17-19,21"),
        row("C10 most", cores, most(full(8)), "1-3,5,17-19,21"),
        row("C11", cores, full(13), "1-3,5-7,9,17-19,21-23"),
        row("C12", cores, full(18), "1-3,5-7,9-11,17-19,21-23,25-27"),
        row("C13 most", "2-3", most(spread(5)), "0-1,16,18-19"),
        row("C13 least", "2-3", spread(5), "8-11,24"),
        row("C14", "2-3", most(spread(8)), "4-7,20-23"),
        row("C15", "2-3", most(full(6)), "4-6,20-22"),
        row("C16 falls to single CPUs", "16-31", full(4), "0-3"),
    ]);
}

#[test]
fn exclusive_places_are_passed_over_first() {
    let core = |ask: Ask| Ask { exclusive: Exclusive::Core, ..ask };
    let node = |ask: Ask| Ask { exclusive: Exclusive::Node, ..ask };
    let marked = |marked, row: Row| Row { marked, ..row };
    check([
        row("C18 the first", "", core(spread(2)), "0-1"),
        marked("0-1", row("C18 most", "0-1", most(core(spread(4))), "4-7")),
        marked("0-1", row("C18 least", "0-1", core(spread(4)), "8-11")),
        row("C19 without the wish", "0-1", most(spread(4)), "2-3,16-17"),
        row("C20 the first", "", node(full(2)), "0,16"),
        marked("0,16", row("C20", "0,16", most(node(full(2))), "4,20")),
        row("C20 without the wish", "0,16", most(full(2)), "1,17"),
        marked("0-31", row("a wish that cannot be met", "0", core(spread(1)), "8")),
    ]);
}

#[test]
fn a_shortage_is_said() {
    let required = |ask: Ask| Ask { required: true, ..ask };
    let short =
        |name, used, ask| Row { name, used, marked: "", ask, want: Err(Shortage::NotEnough) };
    check([
        short("C17 one whole core", "16-30", required(full(4))),
        row("C17 what is there", "16-30", required(full(2)), "15,31"),
        short("C21", "", full(33)),
        short("one thread of each core", "", required(spread(17))),
        row("one thread of every core", "", required(spread(16)), "0-15"),
    ]);
}

#[test]
fn an_odd_wish_on_three_sockets_gets_no_more_than_it_asked_for() {
    let topology = machine(3, 1, 2, 2);
    let got = take(&topology, &topology.all(), &CpuSet::new(), &full(7)).unwrap();
    assert_eq!(got.len(), 7);
}

fn asks() -> impl Strategy<Value = Ask> {
    let exclusive =
        prop_oneof![Just(Exclusive::None), Just(Exclusive::Core), Just(Exclusive::Node)];
    let strategy = prop_oneof![Just(Fill::Most), Just(Fill::Least)];
    let bind = prop_oneof![Just(Bind::Full), Just(Bind::Spread)];
    (0..40_usize, bind, any::<bool>(), exclusive, strategy).prop_map(
        |(count, bind, required, exclusive, strategy)| Ask {
            count,
            bind,
            required,
            exclusive,
            strategy,
        },
    )
}

proptest! {
    /// What is taken was free, is as much as was asked for, and keeps a required policy.
    #[test]
    fn taken_cpus_are_free_and_as_many_as_asked(
        shape in (1..=3_i32, 1..=2_i32, 1..=4_i32, 1..=2_i32),
        free in any::<u64>(),
        marked in any::<u64>(),
        ask in asks(),
    ) {
        let topology = machine(shape.0, shape.1, shape.2, shape.3);
        let pick = |bits: u64| topology.all().iter().filter(|id| bits >> id & 1 == 1).collect();
        let (available, marked): (CpuSet, CpuSet) = (pick(free), pick(marked));
        let got = take(&topology, &available, &marked, &ask);
        prop_assert_eq!(&got, &take(&topology, &available, &marked, &ask), "not deterministic");

        let whole = |core: &&Vec<usize>| {
            core.iter().all(|cpu| available.contains(topology.cpus()[*cpu].id))
        };
        let usable: usize = match (ask.required, ask.bind) {
            (false, _) => available.len(),
            (true, Bind::Full) => topology.cores().iter().filter(whole).map(Vec::len).sum(),
            (true, Bind::Spread) => {
                let open = |core: &&Vec<usize>| {
                    core.iter().any(|cpu| available.contains(topology.cpus()[*cpu].id))
                };
                topology.cores().iter().filter(open).count()
            }
        };
        prop_assert_eq!(got.is_ok(), ask.count <= usable, "{:?} of {}", &got, usable);
        let Ok(got) = got else { return Ok(()) };
        prop_assert_eq!(got.len(), ask.count);
        prop_assert!(got.is_subset(&available));
        let touched: Vec<usize> = topology
            .cores()
            .iter()
            .map(|core| core.iter().filter(|cpu| got.contains(topology.cpus()[**cpu].id)).count())
            .collect();
        match ask.bind {
            Bind::Full if ask.required && ask.count.is_multiple_of(topology.cpus_per_core()) => {
                let is_whole = |count: &usize| *count == 0 || *count == topology.cpus_per_core();
                prop_assert!(touched.iter().all(is_whole));
            }
            Bind::Spread if ask.required => {
                prop_assert!(touched.iter().all(|count| *count <= 1));
            }
            _ => {}
        }
    }
}
