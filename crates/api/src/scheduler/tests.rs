//! Whole files.

use proptest::prelude::*;

use super::args::{DefaultingType, ScoringStrategyType};
use super::*;
use crate::finding::Finding;
use crate::metadata::node::Aggregation;

/// The example of the specification, unchanged.
const EXAMPLE: &str = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, resourceLock: leases, resourceName: koord-scheduler, resourceNamespace: koordinator-system}
profiles:
- schedulerName: koord-scheduler
  pluginConfig:
  - name: LoadAwareScheduling
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: LoadAwareSchedulingArgs
      usageThresholds: {cpu: 65, memory: 95}
      prodUsageThresholds: {cpu: 55}
      aggregated: {usageThresholds: {cpu: 70}, usageAggregationType: p95, usageAggregatedDuration: 5m}
  - name: ElasticQuota
    args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: ElasticQuotaArgs, monitorAllQuotas: true, revokePodInterval: 5s, delayEvictTime: 30s}
  plugins:
    preEnqueue: {enabled: [{name: Coscheduling}]}
    score: {enabled: [{name: LoadAwareScheduling, weight: 1}, {name: Reservation, weight: 5000}]}
";

fn brief(findings: &[Finding]) -> Vec<String> {
    let place = |finding: &Finding| {
        let at = finding.at.map_or(String::new(), |at| format!("{}:{} ", at.line, at.column));
        format!("{} {at}{}", finding.code, finding.path.as_deref().unwrap_or_default())
    };
    findings.iter().map(place).collect()
}

#[test]
fn the_example_loads_unchanged() {
    let (configuration, findings) = load("file", EXAMPLE);
    let configuration = configuration.unwrap();
    let not_yet: Vec<&str> = findings.iter().filter_map(|f| f.value.as_deref()).collect();
    assert_eq!(not_yet, ["Reservation", "Coscheduling", "ElasticQuota"]);
    assert!(findings.iter().all(|f| f.code == crate::finding::Code::NotImplemented));
    assert_eq!(configuration.lease, Some(Lease::default()));
    let [profile] = configuration.profiles.as_slice() else { panic!("one profile") };
    assert_eq!(profile.scheduler_name, "koord-scheduler");
    let load = &profile.arguments.load_aware;
    assert_eq!(load.usage_thresholds["cpu"], 65);
    assert_eq!(load.prod_usage_thresholds["cpu"], 55);
    let aggregated = load.aggregated.as_ref().unwrap();
    assert_eq!(aggregated.usage_aggregation_type, Some(Aggregation::P95));
    assert_eq!(aggregated.usage_aggregated_duration, Some(units::GoDuration::from_secs(300)));
    assert_eq!(load.estimated_scaling_factors["memory"], 70, "the default");
    let scores = profile.points.names(Point::Score);
    assert_eq!(scores[scores.len() - 2..], ["LoadAwareScheduling", "Reservation"]);
    let active: Vec<&str> =
        profile.points.active(Point::PreEnqueue).map(|own| own.plugin.name).collect();
    assert_eq!(active, ["SchedulingGates", "DefaultPreemption"]);
}

#[test]
fn json_and_the_older_version_are_read_alike() {
    let text = r#"{"apiVersion": "kubescheduler.config.k8s.io/v1beta3",
        "kind": "KubeSchedulerConfiguration", "podMaxBackoffSeconds": 20,
        "leaderElection": {"leaderElect": false}}"#;
    let (configuration, findings) = load("file", text);
    assert_eq!(findings, []);
    let want = Configuration {
        lease: None,
        max_backoff: Duration::from_secs(20),
        ..Configuration::default()
    };
    assert_eq!(configuration, Some(want));
}

/// The head of every file below.
const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

fn args(plugin: &str, args: &str) -> String {
    format!("{HEAD}profiles:\n- pluginConfig:\n  - name: {plugin}\n    args: {args}\n")
}

#[test]
fn what_the_reference_ships_loads() {
    let fit = "{apiVersion: kubescheduler.config.k8s.io/v1, kind: NodeResourcesFitArgs, \
        scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 1}, \
        {name: memory, weight: 1}, {name: kubernetes.io/batch-cpu, weight: 1}, \
        {name: kubernetes.io/batch-memory, weight: 1}]}}";
    let (configuration, findings) = load("file", &args("NodeResourcesFit", fit));
    assert_eq!(findings, []);
    let fit = &configuration.unwrap().profiles[0].arguments.fit;
    assert_eq!(fit.scoring_strategy.r#type, ScoringStrategyType::LeastAllocated);
    assert_eq!(fit.scoring_strategy.resources.len(), 4);

    let load_aware = "{filterExpiredNodeMetrics: false, nodeMetricExpirationSeconds: 300, \
        resourceWeights: {cpu: 1, memory: 1}, usageThresholds: {cpu: 0, memory: 0}, \
        estimatedScalingFactors: {cpu: 85, memory: 70}}";
    let (configuration, findings) = load("file", &args("LoadAwareScheduling", load_aware));
    assert_eq!(findings, []);
    let args = &configuration.unwrap().profiles[0].arguments.load_aware;
    assert!(!args.filter_expired_node_metrics);
    assert_eq!(args.usage_thresholds["cpu"], 0, "said, so not the default");
}

#[test]
fn defaults_hold_where_nothing_is_said() {
    let (configuration, _) = load("file", HEAD);
    assert_eq!(configuration, Some(Configuration::default()));
    let arguments = args::Arguments::default();
    assert_eq!(arguments.load_aware.usage_thresholds["memory"], 95);
    assert_eq!(arguments.load_aware.resource_weights.len(), 2);
    assert_eq!(arguments.spread.defaulting_type, DefaultingType::System);
    assert_eq!(arguments.volume_binding.bind_timeout_seconds, 600);
}

#[test]
fn dominant_weight_alone_leaves_the_others_out() {
    let text = args("LoadAwareScheduling", "{dominantResourceWeight: 5}");
    let (configuration, _) = load("file", &text);
    let load = configuration.unwrap().profiles.remove(0).arguments.load_aware;
    assert!(load.resource_weights.is_empty());
}

#[test]
fn everything_wrong_is_said_with_its_line() {
    struct Case {
        name: &'static str,
        text: String,
        want: &'static [&'static str],
    }
    let top = |line: &str| format!("{HEAD}{line}\n");
    let cases = [
        Case { name: "no YAML", text: "a: [".into(), want: &["TP1001 "] },
        Case { name: "no JSON", text: "{".into(), want: &["TP1001 1:2 "] },
        Case { name: "another kind", text: "kind: Pod\n".into(), want: &["TP1401 1:1 "] },
        Case {
            name: "another version",
            text: HEAD.replace("/v1", "/v1beta1"),
            want: &["TP1401 1:1 "],
        },
        Case {
            name: "an unknown field",
            text: top("podMaxBackofSeconds: 5"),
            want: &["TP1007 3:1 podMaxBackofSeconds"],
        },
        Case {
            name: "a field in another case",
            text: top("Parallelism: 5"),
            want: &["TP1017 3:1 Parallelism"],
        },
        Case {
            name: "another type",
            text: top("parallelism: many"),
            want: &["TP1002 3:14 parallelism"],
        },
        Case {
            name: "a duration without a unit",
            text: top("leaderElection: {leaseDuration: 15}"),
            want: &["TP1003 3:33 leaderElection.leaseDuration"],
        },
        Case {
            name: "times in the wrong order",
            text: top("leaderElection: {leaseDuration: 5s}"),
            want: &["TP1005 3:17 leaderElection"],
        },
        Case {
            name: "another lock",
            text: top("leaderElection: {resourceLock: endpoints}"),
            want: &["TP1003 3:32 leaderElection.resourceLock"],
        },
        Case {
            name: "numbers out of range",
            text: top("parallelism: 0\npodInitialBackoffSeconds: 0\npodMaxBackoffSeconds: -1"),
            want: &[
                "TP1004 3:14 parallelism",
                "TP1004 4:27 podInitialBackoffSeconds",
                "TP1004 5:23 podMaxBackoffSeconds",
            ],
        },
        Case {
            name: "two profiles of one name",
            text: top("profiles: [{schedulerName: a}, {schedulerName: a}]"),
            want: &["TP1405 3:48 profiles[1].schedulerName"],
        },
        Case {
            name: "two profiles, one without a name",
            text: top("profiles: [{schedulerName: a}, {}]"),
            want: &["TP1405 3:32 profiles[1].schedulerName"],
        },
        Case {
            name: "an unknown plugin is configured",
            text: args("NodeFit", "{}"),
            want: &["TP1402 5:11 profiles[0].pluginConfig[0].name"],
        },
        Case {
            name: "a plugin without arguments",
            text: args("NodeName", "{x: 1}"),
            want: &["TP1404 6:11 profiles[0].pluginConfig[0].args"],
        },
        Case {
            name: "arguments of another kind",
            text: args("NodeResourcesFit", "{kind: NodeAffinityArgs}"),
            want: &["TP1401 6:18 profiles[0].pluginConfig[0].args.kind"],
        },
        Case {
            name: "an unknown argument",
            text: args("LoadAwareScheduling", "{usageThreshold: {cpu: 1}}"),
            want: &["TP1007 6:12 profiles[0].pluginConfig[0].args.usageThreshold"],
        },
        Case {
            name: "arguments out of range",
            text: args(
                "LoadAwareScheduling",
                "{usageThresholds: {cpu: 101}, resourceWeights: {gpu: 0}}",
            ),
            want: &[
                "TP1004 6:64 profiles[0].pluginConfig[0].args.resourceWeights.gpu",
                "TP1004 6:35 profiles[0].pluginConfig[0].args.usageThresholds.cpu",
                "TP1405 6:64 profiles[0].pluginConfig[0].args.resourceWeights.gpu",
            ],
        },
        Case {
            name: "a word that is none",
            text: args("NodeResourcesFit", "{scoringStrategy: {type: Least}}"),
            want: &["TP1006 6:36 profiles[0].pluginConfig[0].args.scoringStrategy.type"],
        },
        Case {
            name: "a strategy without its curve",
            text: args("NodeResourcesFit", "{scoringStrategy: {type: RequestedToCapacityRatio}}"),
            want: &[
                "TP1405 6:29 profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.shape",
            ],
        },
        Case {
            name: "constraints that contradict the type",
            text: args(
                "PodTopologySpread",
                "{defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}",
            ),
            want: &["TP1405 6:32 profiles[0].pluginConfig[0].args.defaultConstraints"],
        },
        Case {
            name: "preemption that tries nobody",
            text: args(
                "DefaultPreemption",
                "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}",
            ),
            want: &["TP1004 6:71 profiles[0].pluginConfig[0].args.minCandidateNodesAbsolute"],
        },
        Case {
            name: "a policy of another plugin",
            text: args("NodeNUMAResource", "{defaultCPUBindPolicy: Spread}"),
            want: &["TP1006 6:34 profiles[0].pluginConfig[0].args.defaultCPUBindPolicy"],
        },
    ];
    for Case { name, text, want } in cases {
        let (configuration, findings) = load("file", &text);
        assert_eq!(brief(&findings), want, "{name}");
        assert_eq!(configuration, None, "{name}");
    }
}

#[test]
fn what_has_no_effect_is_said_and_loads() {
    let text = format!(
        "{HEAD}percentageOfNodesToScore: 30\nprofiles: [{{percentageOfNodesToScore: 0}}]\n"
    );
    let (configuration, findings) = load("file", &text);
    assert!(configuration.is_some());
    assert_eq!(brief(&findings), ["TP1014 3:27 percentageOfNodesToScore"]);
}

#[test]
fn extenders_are_read_and_judged() {
    let load = |text: &str| load("file", &format!("{HEAD}extenders:\n{text}"));
    let good = "- {urlPrefix: 'http://x:1/y', filterVerb: filter, bindVerb: bind, ignorable: true}
- urlPrefix: https://z
  prioritizeVerb: rank
  weight: 2
  httpTimeout: 300ms
  enableHTTPS: true
  tlsConfig: {insecure: true, keyData: c2VjcmV0}
  nodeCacheCapable: true
  managedResources: [{name: example.com/a, ignoredByScheduler: true}]
";
    let (configuration, findings) = load(good);
    assert_eq!(findings, []);
    let extenders = configuration.unwrap().extenders;
    assert_eq!((extenders[0].bind_verb.as_str(), extenders[0].ignorable), ("bind", true));
    assert_eq!(extenders[1].managed_resources[0].name, "example.com/a");
    assert!(!format!("{extenders:?}").contains("c2VjcmV0"), "keys are not shown");
    let cases = [
        ("no address", "- {filterVerb: f}", "extenders[0].urlPrefix"),
        ("no host", "- {urlPrefix: 'http:///f'}", "extenders[0].urlPrefix"),
        (
            "a score that counts nothing",
            "- {urlPrefix: 'http://x', prioritizeVerb: p}",
            "extenders[0].weight",
        ),
        (
            "two binders",
            "- {urlPrefix: 'http://x', bindVerb: b}\n- {urlPrefix: 'http://y', bindVerb: b}",
            "extenders[1].bindVerb",
        ),
        (
            "a resource of Kubernetes",
            "- {urlPrefix: 'http://x', managedResources: [{name: cpu}]}",
            "extenders[0].managedResources[0].name",
        ),
        (
            "a resource twice",
            "- {urlPrefix: 'http://x', managedResources: [{name: a.b/c}, {name: a.b/c}]}",
            "extenders[0].managedResources[1].name",
        ),
        ("a typo", "- {urlPrefix: 'http://x', ignorabel: true}", "extenders[0].ignorabel"),
    ];
    for (name, text, want) in cases {
        let (configuration, findings) = load(text);
        assert_eq!(configuration, None, "{name}");
        let found: Vec<String> = brief(&findings);
        assert!(found.len() == 1 && found[0].ends_with(want), "{name}: {found:?}");
    }
}

proptest! {
    #[test]
    fn nothing_makes_it_panic(text in ".{0,120}") {
        let _ = load("file", &text);
    }

    #[test]
    fn near_misses_do_not_either(at in 0usize..EXAMPLE.len(), with in ".{0,3}") {
        let mut text: Vec<char> = EXAMPLE.chars().collect();
        text.splice(at..at, with.chars());
        let (configuration, findings) = load("file", &text.into_iter().collect::<String>());
        prop_assert_eq!(configuration.is_none(), findings.iter().any(Finding::is_error));
    }
}
