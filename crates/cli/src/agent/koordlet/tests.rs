use agent::kubelet::{Access, Trust};

use super::*;

fn on_node() -> Environment {
    Environment { node_name: "n1".to_owned(), mode: None, cleans_up: false }
}

fn resolved(words: &str) -> anyhow::Result<(Plan, Vec<String>)> {
    resolve(parse(words)?.given(), on_node())
}

fn parse(words: &str) -> anyhow::Result<Flags> {
    let words = words.split_whitespace().map(str::to_owned);
    match Flags::parse(LINK, &[&table::flags()], Unknown::Skipped, words)? {
        Parsed::Run(flags) => Ok(flags),
        Parsed::Help(text) => panic!("nobody asked for help: {text}"),
    }
}

#[test]
fn no_flags_are_the_reference_s_defaults() {
    let (plan, warnings) = resolved("").unwrap();
    assert_eq!(warnings, [""; 0]);
    assert_eq!(plan.listen, "0.0.0.0:9316");
    assert_eq!(plan.mounts, Mounts::container());
    assert_eq!(plan.collect, CollectSettings::default());
    let checkpoints = PathBuf::from("/prediction-checkpoints");
    assert_eq!(
        plan.predict,
        PredictSettings { checkpoint_dir: Some(checkpoints), ..Default::default() }
    );
    assert_eq!(plan.report, Some(cadence::Settings::default()));
    assert_eq!(plan.gates, Gates::default());
    assert_eq!(plan.audit, audit::Settings::default());
    let kubelet = plan.kubelet.unwrap();
    assert!(kubelet.ask_config);
    assert!(matches!(kubelet.settings.access, Access::Secure { trust: Trust::Authority(_), .. }));
}

#[test]
fn the_chart_s_arguments_are_understood() {
    let (plan, warnings) = resolved(
        "-addr=:9316 -cgroup-root-dir=/host-cgroup/ -feature-gates=BECPUEvict=true,AuditEvents=true \
         -runtime-hooks-network=unix -runtime-hooks-addr=/host-var-run-koordlet/koordlet.sock \
         --logtostderr=true --v=4 --kube-api-qps=20 -tsdb-max-bytes=104857600 \
         -collect-res-used-interval=2s -enable-nri-runtime-hook -audit-log-dir /logs",
    )
    .unwrap();
    assert_eq!(warnings, [""; 0]);
    assert!(plan.gates.is_on(AgentGate::BECPUEvict));
    assert_eq!(plan.collect.usage_interval, Duration::from_secs(2));
    assert_eq!(plan.audit.log.unwrap().dir, PathBuf::from("/logs"));
}

#[test]
fn what_is_newer_than_us_is_named_and_ignored() {
    let (plan, warnings) =
        resolved("-brand-new=1 -feature-gates=BrandNew=true,CPUEvict=true -enable-pprof=true")
            .unwrap();
    assert_eq!(
        warnings,
        [
            "-brand-new is not known and ignored",
            "-feature-gates: unknown feature gate \"BrandNew\"; ignored",
            "-enable-pprof: there is no profiler to serve; ignored",
        ]
    );
    assert!(plan.gates.is_on(AgentGate::CPUEvict));
}

#[test]
fn values_out_of_their_range_stop_the_start() {
    let cases = [
        (
            "-collect-res-used-interval=500ms",
            "-collect-res-used-interval: 500ms is too short; use 1s or more",
        ),
        ("-kubelet-sync-interval=0s", "-kubelet-sync-interval: 0s must be above 0"),
        (
            "-psi-collector-interval=-1s",
            "flag --psi-collector-interval: \"-1s\" is not zero or more",
        ),
        ("-kubelet-read-only-port=70000", "-kubelet-read-only-port: 70000 is out of range"),
        ("-audit-verbose=-1", "-audit-verbose: -1 is out of range"),
        ("-kubelet-tls=maybe", "-kubelet-tls: \"maybe\" is not verified, unverified or read-only"),
        (
            "-kubelet-sync-timeout=3",
            "flag --kubelet-sync-timeout: \"3\" is not a duration such as 10s or 1m30s",
        ),
    ];
    for (words, want) in cases {
        assert_eq!(resolved(words).unwrap_err().to_string(), want);
    }
}

#[test]
fn the_kubelet_is_asked_as_told() {
    let access = |words| resolved(words).unwrap().0.kubelet.unwrap().settings.access;
    assert_eq!(access("-kubelet-insecure-tls"), Access::ReadOnly { port: 10255 });
    let port = "-kubelet-insecure-tls=true -kubelet-read-only-port=1234";
    assert_eq!(access(port), Access::ReadOnly { port: 1234 });
    let unverified = access("-kubelet-tls=unverified");
    assert!(matches!(unverified, Access::Secure { trust: Trust::Anybody, .. }), "{unverified:?}");
}

#[test]
fn the_mode_chooses_paths_and_flags_win() {
    let mounts = |mode: Option<&str>, words: &str| {
        let environment = Environment { mode: mode.map(str::to_owned), ..on_node() };
        resolve(parse(words).unwrap().given(), environment).unwrap()
    };
    assert_eq!(mounts(Some("hostMode"), "").0.mounts, Mounts::host());
    assert_eq!(mounts(Some("dsMode"), "").0.mounts, Mounts::container());
    let own = mounts(Some("hostMode"), "-proc-root-dir=/p").0.mounts;
    assert_eq!(own, Mounts { proc: "/p".into(), ..Mounts::host() });
    let (plan, warnings) = mounts(Some("other"), "");
    assert_eq!((plan.mounts, warnings.len()), (Mounts::container(), 1));
}

#[test]
fn a_nameless_node_is_refused() {
    let error = resolve(Flags::default().given(), Environment::default()).unwrap_err();
    assert!(error.to_string().starts_with("NODE_NAME is not set"), "{error}");
}

#[test]
fn reports_can_be_switched_off() {
    assert_eq!(resolved("-enable-node-metric-report=false").unwrap().0.report, None);
}

#[test]
fn no_flag_is_listed_twice() {
    let mut names: Vec<_> = table::flags().iter().map(|flag| flag.name).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}
