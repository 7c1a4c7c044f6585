use std::collections::BTreeMap;
use std::sync::Arc;

use api::priority::PriorityClass;
use serde_json::{Value, json};

use super::*;
use crate::load::args::Args;
use crate::load::book::{Assigned, Book, Times};
use crate::load::estimate::Subject;
use crate::model::{Names, Requests, ResourceId, Resources};
use crate::snapshot::{NodeIx, PodIx};
use crate::time::Time;

const GIB: i64 = 1 << 30;
const NODE: NodeIx = NodeIx(0);

/// Seconds of a day that begins at midnight.
fn clock(hours: i64, minutes: i64, seconds: i64) -> Time {
    Time::from_secs((hours * 60 + minutes) * 60 + seconds)
}

fn amounts(cpu: &str, memory: &str) -> Value {
    json!({"resources": {"cpu": cpu, "memory": memory}})
}

/// The report of the vectors: made at noon, the node 12 cores and 24 GiB busy.
fn metric() -> Value {
    let pod = |name, cpu, memory| {
        json!({"namespace": "default", "name": name, "priority": "koord-prod",
               "podUsage": amounts(cpu, memory)})
    };
    json!({
        "metadata": {"name": "n"},
        "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60}},
        "status": {
            "updateTime": "1970-01-01T12:00:00Z",
            "nodeMetric": {
                "nodeUsage": amounts("12", "24Gi"),
                "systemUsage": amounts("1500m", "2Gi"),
                "aggregatedNodeUsages": [
                    {"duration": "5m0s", "usage": {"p95": amounts("15", "26Gi")}},
                ],
            },
            "podsMetric": [pod("a", "2", "4Gi"), pod("b", "500m", "1Gi")],
        },
    })
}

struct Bench {
    settings: Arc<Settings>,
    book: Book,
    names: Names,
    resources: Resources,
}

fn bench(args: Value) -> Bench {
    let mut resources = Resources::default();
    let args = serde_json::from_value::<Args>(args).unwrap().completed();
    assert_eq!(args.check(), []);
    let settings = Arc::new(Settings::new(&args, &mut resources));
    resources.intern("kubernetes.io/batch-cpu");
    resources.intern("kubernetes.io/batch-memory");
    let mut book = Book::new(Arc::clone(&settings));
    book.grow(1);
    book.expire(clock(12, 0, 30), &mut Vec::new());
    Bench { settings, book, names: Names::default(), resources }
}

impl Bench {
    fn estimate(&self, class: PriorityClass, request: [i64; 2], limit: [i64; 2]) -> Estimate {
        let id = |native| match class {
            PriorityClass::Batch => {
                api::resources::name_for(class, native).and_then(|name| self.resources.find(name))
            }
            _ => self.resources.find(native),
        };
        let list = |amounts: [i64; 2]| -> Requests {
            let pairs = [("cpu", amounts[0]), ("memory", amounts[1])];
            pairs.iter().filter_map(|(name, amount)| Some((id(name)?, *amount))).collect()
        };
        let (requests, limits) = (list(request), list(limit));
        let subject = Subject { class, requests: &requests, limits: &limits };
        let amounts = subject.amounts(&self.settings.columns, &BTreeMap::new(), &self.resources);
        Estimate { amounts, is_prod: class == PriorityClass::Prod, ..Estimate::default() }
    }

    fn assign(&mut self, name: &str, at: Time, estimate: Estimate) {
        let namespace = self.names.intern("default");
        let times = Times { scheduled: Some(at), ..Times::default() };
        let pod = PodIx(u32::from(name.as_bytes()[0]));
        let estimate = Arc::new(estimate);
        self.book.attach(NODE, Assigned { pod, namespace, name: name.into(), times, estimate });
    }

    fn report(&mut self, metric: Value) {
        let metric = serde_json::from_value(metric).unwrap();
        let node = self.names.intern("n");
        self.book.set_metric(node, Some(&metric), Some(NODE), &mut self.names);
    }

    fn describe(&mut self, cpu: i64, memory: i64, annotations: &[(&str, &str)]) {
        let annotations =
            annotations.iter().map(|(k, v)| (self.names.intern(k), self.names.intern(v))).collect();
        let node = crate::model::Node {
            name: self.names.intern("n"),
            uid: "n".into(),
            labels: [].into_iter().collect(),
            annotations,
            taints: [].into(),
            unschedulable: false,
            allocatable: [(ResourceId::CPU, cpu), (ResourceId::MEMORY, memory)]
                .into_iter()
                .collect(),
            max_pods: 110,
            images: [].into(),
            conditions: [].into_iter().collect(),
            findings: Vec::new(),
        };
        self.book.set_node(NODE, &node, &self.names);
    }

    fn page(&self) -> &Page {
        self.book.page(NODE).unwrap()
    }

    /// Why the pod may not go to the node.
    fn refusal(&self, pod: &Estimate) -> Option<String> {
        filter(&self.settings, self.page(), pod).err().map(|refusal| {
            let number = refusal.number(&self.settings);
            assert_eq!(Refusal::from_number(number, &self.settings), refusal);
            refusal.text(&self.settings)
        })
    }

    fn incoming(&self) -> Estimate {
        self.estimate(PriorityClass::Prod, [2_000, 4 * GIB], [4_000, 4 * GIB])
    }
}

/// The node of the vectors with its pods A, B and C.
fn vectors(args: Value) -> Bench {
    let mut bench = bench(args);
    let a = bench.estimate(PriorityClass::Prod, [4_000, 8 * GIB], [4_000, 8 * GIB]);
    let b = bench.estimate(PriorityClass::Prod, [4_000, 8 * GIB], [8_000, 8 * GIB]);
    let c = bench.estimate(PriorityClass::Batch, [4_000, 8 * GIB], [0, 0]);
    bench.describe(32_000, 64 * GIB, &[]);
    bench.assign("a", clock(11, 30, 0), a);
    bench.assign("b", clock(11, 59, 30), b);
    bench.report(metric());
    bench.assign("c", clock(12, 0, 20), c);
    bench
}

const CPU_FULL: &str = "node(s) cpu usage exceed threshold";

#[test]
fn deltas_cover_what_is_not_measured_yet() {
    let bench = vectors(json!({}));
    let sums = &bench.page().sums;
    assert_eq!(sums.delta[..], [9_700, 10_952_166_604], "L2");
    assert_eq!(sums.prod_delta[..], [6_300, 4_939_212_390], "L2");
    assert_eq!(sums.prod_usage[..], [2_500, 5 * GIB]);
    assert_eq!(sums.estimated[0], 3_400 + 6_800 + 3_400);
    assert!(bench.book.check().is_empty());
}

#[test]
fn filters_follow_the_vectors() {
    let p95 = |duration| {
        json!({"aggregated": {"usageThresholds": {"cpu": 65}, "usageAggregationType": "p95",
                              "usageAggregatedDuration": duration}})
    };
    let aggregated = "node(s) cpu aggregated usage exceed threshold";
    let cases = [
        ("L3 plain", json!({}), Some(CPU_FULL)),
        ("L3 memory alone", json!({"usageThresholds": {"memory": 58}}), None),
        (
            "L3 memory, 58 %",
            json!({"usageThresholds": {"memory": 57}}),
            Some("node(s) memory usage exceed threshold"),
        ),
        ("L4", json!({"prodUsageThresholds": {"cpu": 50}}), None),
        ("L4, 38 %", json!({"prodUsageThresholds": {"cpu": 38}}), None),
        ("L4, below 38 %", json!({"prodUsageThresholds": {"cpu": 37}}), Some(CPU_FULL)),
        (
            "L4 system, 43 %",
            json!({"prodUsageThresholds": {"cpu": 43}, "prodUsageIncludeSys": true}),
            None,
        ),
        (
            "L4 system, below",
            json!({"prodUsageThresholds": {"cpu": 42}, "prodUsageIncludeSys": true}),
            Some(CPU_FULL),
        ),
        ("L5", p95("5m"), Some(aggregated)),
        ("L5 the longest there is", p95("0s"), Some(aggregated)),
        ("L6 no such window", p95("30m"), None),
        ("nothing is checked", json!({"usageThresholds": {"cpu": 0, "memory": 0}}), None),
    ];
    for (name, args, want) in cases {
        let bench = vectors(args);
        assert_eq!(bench.refusal(&bench.incoming()).as_deref(), want, "{name}");
    }
}

#[test]
fn a_batch_pod_is_not_held_to_prod_thresholds() {
    let bench = vectors(json!({"prodUsageThresholds": {"cpu": 99}}));
    let batch = bench.estimate(PriorityClass::Batch, [2_000, GIB], [0, 0]);
    assert_eq!(bench.refusal(&batch).as_deref(), Some(CPU_FULL));
    assert_eq!(bench.refusal(&bench.incoming()), None);
}

#[test]
fn scores_follow_the_vectors() {
    let cases = [
        ("L7", json!({}), 31),
        (
            "L7 dominant",
            json!({"dominantResourceWeight": 1, "resourceWeights": {"cpu": 1, "memory": 1}}),
            28,
        ),
        ("L7 weights", json!({"resourceWeights": {"cpu": 2, "memory": 1}}), 28),
        ("L8", json!({"scoreAccordingProdUsage": true}), 70),
        ("dominant alone", json!({"dominantResourceWeight": 1}), 21),
        (
            "a resource without a say does not count",
            json!({"dominantResourceWeight": 1, "supportedResources": ["x/y"]}),
            21,
        ),
        ("p95", json!({"aggregated": {"scoreAggregationType": "p95"}}), (12 + 39) / 2),
    ];
    for (name, args, want) in cases {
        let bench = vectors(args);
        assert_eq!(score(&bench.settings, bench.page(), &bench.incoming()), want, "{name}");
    }
}

#[test]
fn percentages_are_rounded_before_they_are_compared() {
    assert_eq!((percent(20_959, 32_000), percent(20_960, 32_000)), (65, 66), "L9");
    assert_eq!(percent(-160, 32_000), -1, "halves away from zero");
    assert_eq!(percent(i64::MAX, 1), i64::MAX);
}

#[test]
fn amplified_nodes_are_judged_by_what_they_have() {
    let mut bench = vectors(json!({}));
    bench.describe(64_000, 64 * GIB, &[]);
    assert_eq!(bench.refusal(&bench.incoming()), None, "39 %");
    let raw = [("node.koordinator.sh/raw-allocatable", r#"{"cpu":"32"}"#)];
    bench.describe(64_000, 64 * GIB, &raw);
    assert_eq!(bench.page().capacity[..], [32_000, 64 * GIB]);
    assert_eq!(bench.refusal(&bench.incoming()).as_deref(), Some(CPU_FULL), "L11");
}

#[test]
fn a_nodes_own_thresholds_count() {
    let mut bench = vectors(json!({}));
    let own = |text| [("scheduling.koordinator.sh/usage-thresholds", text)];
    bench.describe(32_000, 64 * GIB, &own(r#"{"usageThresholds":{"cpu":80}}"#));
    assert_eq!(bench.refusal(&bench.incoming()), None);
    bench.describe(32_000, 64 * GIB, &own("{"));
    assert_eq!(bench.refusal(&bench.incoming()).as_deref(), Some(CPU_FULL), "unreadable: ignored");
}

#[test]
fn old_and_missing_reports() {
    let expired = Some("node(s) nodeMetric expired");
    let late = clock(12, 3, 0);
    let cases = [
        ("just in time", json!({}), late - std::time::Duration::from_nanos(1), Some(CPU_FULL)),
        ("too old", json!({}), late, expired),
        ("too old, allowed", json!({"enableScheduleWhenNodeMetricsExpired": true}), late, None),
        (
            "too old, not looked at",
            json!({"filterExpiredNodeMetrics": false}),
            late,
            Some(CPU_FULL),
        ),
        (
            "never too old",
            json!({"nodeMetricExpirationSeconds": 0}),
            clock(23, 0, 0),
            Some(CPU_FULL),
        ),
    ];
    for (name, args, now, want) in cases {
        let mut bench = vectors(args);
        let mut touched = Vec::new();
        bench.book.expire(now, &mut touched);
        assert_eq!(bench.refusal(&bench.incoming()).as_deref(), want, "{name}");
        assert_eq!(!touched.is_empty(), bench.page().is_stale, "{name}");
        let score = score(&bench.settings, bench.page(), &bench.incoming());
        assert_eq!(score == 0, bench.page().is_stale, "{name}: a stale node scores nothing");
    }
    let mut bench = vectors(json!({"missingMetricScore": 7}));
    let mut without_time = metric();
    without_time["status"].as_object_mut().unwrap().remove("updateTime");
    bench.report(without_time);
    assert_eq!(bench.refusal(&bench.incoming()).as_deref(), expired, "no time at all");
    bench.report(json!({"metadata": {"name": "n"}, "spec": {},
                        "status": {"updateTime": "1970-01-01T12:00:00Z"}}));
    assert_eq!(bench.refusal(&bench.incoming()), None, "nothing measured");
    assert_eq!(score(&bench.settings, bench.page(), &bench.incoming()), 0);
    let node = bench.names.intern("n");
    bench.book.set_metric(node, None, Some(NODE), &mut bench.names);
    assert_eq!(bench.refusal(&bench.incoming()), None, "no report");
    assert_eq!(score(&bench.settings, bench.page(), &bench.incoming()), 7);
}

#[test]
fn a_new_report_makes_a_stale_node_fresh() {
    let mut bench = vectors(json!({}));
    bench.book.expire(clock(12, 5, 0), &mut Vec::new());
    assert!(bench.page().is_stale);
    let mut fresh = metric();
    fresh["status"]["updateTime"] = json!("1970-01-01T12:04:30Z");
    bench.report(fresh);
    assert!(!bench.page().is_stale);
    let mut touched = Vec::new();
    bench.book.expire(clock(12, 7, 29), &mut touched);
    assert!(touched.is_empty());
    bench.book.expire(clock(12, 7, 30), &mut touched);
    assert_eq!(touched, [NODE]);
}
