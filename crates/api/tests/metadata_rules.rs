//! What follows from labels and annotations: which one counts, and what holds without it.

use std::collections::BTreeMap;

use api::metadata::Wire;
use api::metadata::eviction::{EvictPolicy, evict_policy, may_evict};
use api::metadata::gang::{self, GangMatchPolicy, GangMode, GangOptions, gang_of, min_available};
use api::metadata::node::{SystemQosResource, ThirdPartyAllocations};
use api::metadata::pod::{CpuBindPolicy, ResourceSpec, ResourceStatus};
use api::metadata::quota::{parent_of, quota_of};
use api::metadata::topology::CpuManagerPolicy;
use api::protocol::{gang as gang_key, pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use units::GoDuration;

type Pairs<'a> = &'a [(&'a str, &'a str)];

fn map(pairs: Pairs<'_>) -> Option<BTreeMap<String, String>> {
    Some(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
}

fn meta(labels: Pairs<'_>, annotations: Pairs<'_>) -> ObjectMeta {
    ObjectMeta {
        namespace: Some("ns".to_owned()),
        name: Some("web".to_owned()),
        labels: map(labels),
        annotations: map(annotations),
        ..ObjectMeta::default()
    }
}

const GROUP: &str = "pod-group.scheduling.sigs.k8s.io";
const OLD: &str = "pod-group.scheduling.sigs.k8s.io/name";
const NAME: &str = "gang.scheduling.koordinator.sh/name";

#[test]
fn a_gang_s_name_is_looked_up_in_order() {
    let cases: [(&str, Pairs<'_>, Pairs<'_>, Option<&str>); 5] = [
        ("the PodGroup label first", &[(GROUP, "a"), (OLD, "b")], &[(NAME, "c")], Some("ns/a")),
        ("then the old label", &[(OLD, "b")], &[(NAME, "c")], Some("ns/b")),
        ("then the annotation", &[], &[(NAME, "c")], Some("ns/c")),
        ("an empty name is none", &[(GROUP, "")], &[(NAME, "c")], Some("ns/c")),
        ("no gang", &[], &[], None),
    ];
    for (name, labels, annotations, want) in cases {
        let gang = gang_of(&meta(labels, annotations)).map(|gang| gang.to_string());
        assert_eq!(gang.as_deref(), want, "{name}");
    }
}

#[test]
fn a_gang_s_minimum_is_read_from_the_annotation_then_the_old_label() {
    let (new, old) = (gang_key::MIN_AVAILABLE.name, gang_key::OLD_MIN_AVAILABLE.name);
    assert_eq!(min_available(&meta(&[(old, "2")], &[(new, "3")])).0, Some(3));
    assert_eq!(min_available(&meta(&[(old, "2")], &[])).0, Some(2));
    let (min, findings) = min_available(&meta(&[(old, "2")], &[(new, "x")]));
    assert_eq!((min, findings.len()), (None, 1), "an unreadable annotation hides the label");
    assert_eq!(min_available(&meta(&[], &[])), (None, Vec::new()));
}

#[test]
fn a_gang_s_options_have_defaults() {
    let bare = GangOptions {
        total: 3,
        waiting_time: None,
        mode: GangMode::Strict,
        match_policy: None,
        groups: Vec::new(),
    };
    let read = |annotations: Pairs<'_>| gang::options(&meta(&[], annotations), 3);
    assert_eq!(read(&[]), (bare.clone(), Vec::new()));
    let prefix = "gang.scheduling.koordinator.sh";
    let key = |suffix: &str| format!("{prefix}/{suffix}");
    let (total, time, mode) = (key("total-number"), key("waiting-time"), key("mode"));
    let (policy, groups) = (key("match-policy"), key("groups"));
    let (options, findings) = read(&[
        (&total, "5"),
        (&time, "30s"),
        (&mode, "NonStrict"),
        (&policy, "only-waiting"),
        (&groups, r#"["ns/a","ns/b"]"#),
    ]);
    assert_eq!(findings, []);
    assert_eq!((options.total, options.mode), (5, GangMode::NonStrict));
    assert_eq!(options.waiting_time, Some(GoDuration::from_secs(30)));
    assert_eq!(options.match_policy, Some(GangMatchPolicy::OnlyWaiting));
    assert_eq!(options.groups, ["ns/a", "ns/b"]);
    let (options, findings) =
        read(&[(&total, "1"), (&time, "-1s"), (&mode, "strict"), (&groups, "ns/a")]);
    assert_eq!(options, bare, "too small, negative, unknown and unreadable fall back");
    assert_eq!(findings.len(), 2, "{findings:?}");
    let alias = "pod-group.scheduling.sigs.k8s.io/match-policy";
    assert_eq!(
        read(&[(alias, "once-satisfied")]).0.match_policy,
        Some(GangMatchPolicy::OnceSatisfied)
    );
}

#[test]
fn an_eviction_policy_names_who_may_evict() {
    let key = "koordinator.sh/eviction-policy";
    let cases = [
        (None, true),
        (Some(r#"["BEMemoryEvict","CPUEvict"]"#), true),
        (Some(r#"["CPUEvict"]"#), false),
        (Some("[]"), false),
        (Some("BEMemoryEvict"), false),
    ];
    for (text, want) in cases {
        let pairs: Vec<_> = text.map(|text| (key, text)).into_iter().collect();
        assert_eq!(may_evict(&meta(&[], &pairs), "BEMemoryEvict"), want, "{text:?}");
    }
}

#[test]
fn the_pod_s_evict_policy_counts_over_the_job_s() {
    let key = "koordinator.sh/evict-policy";
    let labelled = |word| meta(&[(key, word)], &[]);
    let bare = meta(&[], &[]);
    let configured = EvictPolicy::Eviction;
    let policy = |pod: &ObjectMeta, job: &ObjectMeta| evict_policy(pod, job, configured);
    assert_eq!(policy(&labelled("Delete"), &labelled("SoftEviction")), EvictPolicy::Delete);
    assert_eq!(policy(&bare, &labelled("SoftEviction")), EvictPolicy::SoftEviction);
    assert_eq!(policy(&labelled("delete"), &bare), configured, "an unknown word is none");
}

#[test]
fn a_pod_s_quota_is_found_by_label_namespace_and_list() {
    let quota = |namespace: &str, name: &str, namespaces: &str| ObjectMeta {
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        annotations: map(&[("quota.scheduling.koordinator.sh/namespaces", namespaces)]),
        ..ObjectMeta::default()
    };
    let pod = meta(&[], &[]);
    let labelled = meta(&[("quota.scheduling.koordinator.sh/name", "mine")], &[]);
    let (own, lists) = (quota("ns", "ns", "[]"), quota("q", "team", r#"["ns"]"#));
    let other = quota("q", "ns", "[");
    assert_eq!(quota_of(&labelled, [&own, &lists]), "mine");
    assert_eq!(quota_of(&pod, [&lists, &own]), "ns");
    assert_eq!(quota_of(&pod, [&other, &lists]), "team");
    assert_eq!(quota_of(&pod, [&other]), "koordinator-default-quota");
    assert_eq!(parent_of(&own), "koordinator-root-quota");
}

#[test]
fn an_unknown_word_in_json_counts_as_absent_and_is_mentioned() {
    let text = r#"{"preferredCPUBindPolicy":"FullPcpus","requiredCPUBindPolicy":"SpreadByPCPUs"}"#;
    let (spec, findings) = ResourceSpec::parse(text);
    let spec = spec.expect("the rest is readable");
    assert_eq!(spec.preferred_cpu_bind_policy, None);
    assert_eq!(spec.required_cpu_bind_policy, Some(CpuBindPolicy::SpreadByPcpus));
    let [finding] = findings.as_slice() else { panic!("{findings:?}") };
    assert!(!finding.is_error());
    assert_eq!(finding.fix, "did you mean FullPCPUs?");
    let empty = ResourceSpec::parse(r#"{"preferredCPUBindPolicy":""}"#);
    assert_eq!(empty, (Some(ResourceSpec::default()), Vec::new()), "an empty word is unset");
}

#[test]
fn null_is_absent_and_names_match_in_any_case() {
    assert_eq!(ResourceStatus::parse("null"), (None, Vec::new()));
    let (status, findings) = ResourceStatus::parse(r#"{"CPUSet":"0-1","numaNodeResources":null}"#);
    assert_eq!(status.map(|status| status.cpuset.to_string()).as_deref(), Some("0-1"));
    assert_eq!(findings.len(), 1, "{findings:?}");
}

#[test]
fn one_map_is_enough_to_read_a_key() {
    let annotations =
        map(&[(pod::RESOURCE_STATUS.name, r#"{"cpuset":"0-1"}"#)]).unwrap_or_default();
    let (status, _) = pod::RESOURCE_STATUS.read_map(&annotations);
    assert_eq!(status.map(|status| status.cpuset.len()), Some(2));
    assert_eq!(pod::RESOURCE_STATUS.read_map(&BTreeMap::new()), (None, Vec::new()));
}

#[test]
fn only_batch_allocations_of_others_are_summed() {
    let text = r#"{"allocations":[
        {"name":"yarn","priority":"koord-batch","resources":{"kubernetes.io/batch-cpu":"2k"}},
        {"name":"yarn2","priority":"koord-batch","resources":{"kubernetes.io/batch-cpu":"500"}},
        {"name":"other","priority":"koord-mid","resources":{"kubernetes.io/batch-cpu":"7"}}]}"#;
    let allocations = ThirdPartyAllocations::parse(text).0.expect("readable");
    let total = allocations.total("koord-batch");
    assert_eq!(
        total.get("kubernetes.io/batch-cpu").map(ToString::to_string).as_deref(),
        Some("2500")
    );
}

#[test]
fn small_values_answer_questions() {
    let system = |text| SystemQosResource::parse(text).0.expect("readable");
    assert!(system(r#"{"cpuset":"0"}"#).is_exclusive());
    assert!(!system(r#"{"cpuset":"0","cpusetExclusive":false}"#).is_exclusive());
    let policy = |text| CpuManagerPolicy::parse(text).0.expect("readable").is_full_pcpus_only();
    assert!(policy(r#"{"policy":"static","options":{"full-pcpus-only":"true"}}"#));
    assert!(!policy(r#"{"policy":"none","options":{"full-pcpus-only":"true"}}"#));
}
