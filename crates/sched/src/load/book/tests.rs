use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::load::args::Args;

const NODE: NodeIx = NodeIx(0);

fn book(names: &mut Names) -> Book {
    let args = Args::default().completed();
    let mut book = Book::new(Arc::new(Settings::new(&args, &mut Resources::default())));
    book.grow(2);
    names.intern("default");
    book
}

fn metric(updated: i64, pods: &[(u32, i64, bool)]) -> NodeMetric {
    let pods: Vec<_> = pods
        .iter()
        .map(|(pod, milli, is_prod)| {
            json!({"namespace": "default", "name": format!("pod-{pod}"),
                   "priority": if *is_prod { "koord-prod" } else { "koord-batch" },
                   "podUsage": {"resources": {"cpu": format!("{milli}m"), "memory": "1"}}})
        })
        .collect();
    let time = jiff::Timestamp::from_second(updated).unwrap().to_string();
    serde_json::from_value(json!({
        "metadata": {"name": "n"}, "spec": {},
        "status": {"updateTime": time, "nodeMetric": {}, "podsMetric": pods},
    }))
    .unwrap()
}

fn assigned(names: &mut Names, pod: u32, times: Times, estimate: Estimate) -> Assigned {
    Assigned {
        pod: PodIx(pod),
        namespace: names.intern("default"),
        name: format!("pod-{pod}").into(),
        times,
        estimate: Arc::new(estimate),
    }
}

fn prod(milli: i64) -> Estimate {
    Estimate { amounts: [milli, 0].into(), is_prod: true, ..Estimate::default() }
}

fn at(seconds: i64) -> Times {
    Times { scheduled: Some(Time::from_secs(seconds)), ..Times::default() }
}

#[test]
fn a_pod_is_estimated_until_reports_cover_it() {
    let after = |estimate: Estimate, scheduled: Option<u64>, initialized: Option<u64>| Estimate {
        after_scheduled: scheduled.map(Duration::from_secs),
        after_initialized: initialized.map(Duration::from_secs),
        ..estimate
    };
    let initialized = |seconds| Times { initialized: Some(Time::from_secs(seconds)), ..at(900) };
    let assigned_at =
        |seconds| Times { assigned: Some(Time::from_secs(seconds)), ..Times::default() };
    // The report of 1000 s covers the minute before.
    let cases = [
        ("measured", at(940), prod(1_000), 0),
        ("scheduled inside the window", at(941), prod(1_000), 600),
        ("placed by us", assigned_at(990), prod(1_000), 600),
        ("just placed", Times::default(), prod(1_000), 600),
        ("uses more than estimated", at(990), prod(300), 0),
        ("still within its grace", at(900), after(prod(1_000), Some(101), None), 600),
        ("its grace is over", at(900), after(prod(1_000), Some(100), None), 0),
        ("initialised lately", initialized(950), after(prod(1_000), Some(1), Some(51)), 600),
        ("initialised long ago", initialized(950), after(prod(1_000), Some(900), Some(50)), 0),
        ("not initialised", at(900), after(prod(1_000), Some(101), Some(1)), 600),
    ];
    for (name, times, estimate, want) in cases {
        let mut names = Names::default();
        let mut book = book(&mut names);
        let pod = assigned(&mut names, 1, times, estimate);
        book.attach(NODE, pod);
        let node = names.intern("n");
        book.set_metric(node, Some(&metric(1_000, &[(1, 400, true)])), Some(NODE), &mut names);
        let sums = &book.page(NODE).unwrap().sums;
        assert_eq!((sums.delta[0], sums.prod_delta[0]), (want, want), "{name}");
        assert_eq!(sums.prod_usage[0], 400, "{name}");
    }
}

#[test]
fn a_prod_pod_the_node_does_not_count_as_prod_counts_in_full() {
    let mut names = Names::default();
    let mut book = book(&mut names);
    let pod = assigned(&mut names, 1, at(0), prod(1_000));
    book.attach(NODE, pod);
    let node = names.intern("n");
    book.set_metric(node, Some(&metric(1_000, &[(1, 400, false)])), Some(NODE), &mut names);
    let sums = &book.page(NODE).unwrap().sums;
    assert_eq!((sums.delta[0], sums.prod_usage[0], sums.prod_delta[0]), (0, 0, 1_000));
}

#[test]
fn a_report_may_come_before_its_node_and_outlive_it() {
    let mut names = Names::default();
    let mut book = book(&mut names);
    let node = names.intern("n");
    book.set_metric(node, Some(&metric(1_000, &[])), None, &mut names);
    assert!(book.page(NODE).unwrap().report.is_none());
    let object = Node {
        name: node,
        uid: "n".into(),
        labels: [].into_iter().collect(),
        annotations: [].into_iter().collect(),
        taints: [].into(),
        unschedulable: false,
        allocatable: [].into_iter().collect(),
        max_pods: 1,
        images: [].into(),
        conditions: [].into_iter().collect(),
        findings: Vec::new(),
    };
    book.set_node(NODE, &object, &names);
    assert!(book.page(NODE).unwrap().report.is_some());
    book.remove_node(NODE);
    assert!(book.page(NODE).unwrap().report.is_none());
    book.set_node(NodeIx(1), &object, &names);
    assert!(book.page(NodeIx(1)).unwrap().report.is_some(), "back under another index");
}

proptest! {
    /// Whatever happened in whatever order, the sums are those of what is there.
    #[test]
    fn incremental_sums_equal_recounted_ones(
        steps in prop::collection::vec((0..5_u8, 0..6_u32, 0..2_000_i64, any::<bool>()), 0..60),
    ) {
        let mut names = Names::default();
        let mut book = book(&mut names);
        let node = names.intern("n");
        let mut on: BTreeSet<u32> = BTreeSet::new();
        for (kind, pod, amount, is_prod) in steps {
            match kind {
                0 if on.insert(pod) => {
                    let estimate = Estimate { is_prod, ..prod(amount) };
                    let pod = assigned(&mut names, pod, at(amount), estimate);
                    book.attach(NODE, pod);
                }
                1 if on.remove(&pod) => book.detach(NODE, PodIx(pod)),
                2 => {
                    let before = book.page(NODE).unwrap().sums.clone();
                    let is_changed = book.set_times(NODE, PodIx(pod), at(amount));
                    prop_assert!(is_changed || before == book.page(NODE).unwrap().sums);
                }
                3 => {
                    let metric = metric(amount, &[(pod, amount, is_prod), (pod + 1, 5, !is_prod)]);
                    book.set_metric(node, Some(&metric), Some(NODE), &mut names);
                }
                4 if is_prod => book.set_metric(node, None, Some(NODE), &mut names),
                _ => {}
            }
            prop_assert_eq!(book.check(), Vec::<String>::new());
        }
        for pod in on {
            book.detach(NODE, PodIx(pod));
        }
        prop_assert_eq!(&book.page(NODE).unwrap().sums, &Sums::zero(2));
    }
}
