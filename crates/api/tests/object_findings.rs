//! The finding for each row of the bad-input tables for nodes, pods and custom
//! resources, as pages that a person can tick off.

use std::collections::BTreeSet;
use std::fmt::Write;

use api::check::{
    QuotaChange, check_elastic_quota, check_elastic_quota_delete, check_migration_job, check_node,
    check_pod, check_pod_quota, check_pod_update, check_profile, check_quota_profile,
    check_reservation, probability,
};
use api::finding::{Code, Finding};
use api::kind::ElasticQuota;
use api::protocol::gate::{Gates, ManagerGate};
use serde::de::DeserializeOwned;

fn read<T: DeserializeOwned>(yaml: &str) -> T {
    serde_saphyr::from_str(yaml).unwrap_or_else(|error| panic!("{error}:\n{yaml}"))
}

/// Rows of one section, printed one after the other.
#[derive(Default)]
struct Page(String);

impl Page {
    fn row(&mut self, name: &str, input: &str, findings: &[Finding]) {
        writeln!(self.0, "## {name}\n{}", input.trim_end()).expect("a String takes text");
        assert!(!findings.is_empty(), "{name}: nothing found in\n{input}");
        for finding in findings {
            writeln!(self.0, "{finding}").expect("a String takes text");
        }
        self.0.push('\n');
    }

    /// A row in which there is nothing to find in values.
    fn run_time(&mut self, name: &str, who: &str) {
        writeln!(self.0, "## {name}\nrun time: {who}\n").expect("a String takes text");
    }

    fn node(&mut self, name: &str, metadata: &str) {
        let yaml = format!("metadata: {{name: n1, {metadata}}}\nstatus: {{capacity: {{cpu: 16}}}}");
        let yaml = yaml.replace("cpu: 16", "cpu: '16'");
        self.row(name, metadata, &check_node(&read(&yaml)));
    }

    fn pod(&mut self, name: &str, input: &str) {
        self.row(name, input, &check_pod(&pod(input)));
    }

    fn update(&mut self, name: &str, old: &str, new: &str) {
        let findings = check_pod_update(&pod(old), &pod(new), &Gates::default());
        self.row(name, &format!("{old}\n-> {new}"), &findings);
    }

    fn profile(&mut self, name: &str, spec: &str) {
        let yaml = format!("metadata: {{name: spark}}\nspec: {spec}");
        let classes = ["koord-batch".to_owned()].into();
        self.row(name, spec, &check_profile(&read(&yaml), &classes));
    }

    fn quota(&mut self, name: &str, old: Option<&str>, new: &str) {
        let input = new.trim();
        let (old, new) = (old.map(read::<ElasticQuota>), read::<ElasticQuota>(new));
        let quotas = quotas();
        let change = QuotaChange {
            old: old.as_ref(),
            new: &new,
            quotas: &quotas,
            is_known: true,
            pods: &[],
        };
        self.row(name, input, &check_elastic_quota(&change, &Gates::default()));
    }
}

/// A pod from its metadata and spec, without the parts every pod has.
fn pod(input: &str) -> k8s_openapi::api::core::v1::Pod {
    let yaml = input.replacen("metadata: {", "metadata: {namespace: default, name: web, ", 1);
    let has_containers = yaml.contains("containers:");
    let yaml = match (has_containers, yaml.contains("spec: {")) {
        (true, _) => yaml,
        (false, true) => yaml.replacen("spec: {", "spec: {containers: [], ", 1),
        (false, false) => yaml + "\nspec: {containers: []}",
    };
    read(&yaml)
}

/// A tree: parent `team` with one child `team-a`.
fn quotas() -> Vec<ElasticQuota> {
    [
        "
        metadata:
          {namespace: q, name: team, labels: {quota.scheduling.koordinator.sh/is-parent: 'true'}}
        spec: {min: {cpu: 10}, max: {cpu: 20}}",
        "
        metadata:
          namespace: q
          name: team-a
          labels: {quota.scheduling.koordinator.sh/parent: team}
          annotations: {quota.scheduling.koordinator.sh/namespaces: '[\"a\"]'}
        spec: {min: {cpu: 6}, max: {cpu: 20}}",
    ]
    .map(read)
    .into()
}

/// A quota named `team-b` below `parent`.
fn quota(parent: &str, spec: &str) -> String {
    format!(
        "metadata:\n  namespace: q\n  name: team-b\n  labels: {{quota.scheduling.koordinator.sh/parent: {parent}}}\nspec: {spec}"
    )
}

#[test]
fn section_9_3_node_metadata() {
    let mut page = Page::default();
    let strategy = "node.koordinator.sh/colocation-strategy";
    page.node(
        "colocation-strategy not JSON",
        &format!("annotations: {{{strategy}: '{{\"enable\": true'}}"),
    );
    page.node(
        "colocation-strategy of wrong types",
        &format!("annotations: {{{strategy}: '{{\"enable\": \"true\"}}'}}"),
    );
    page.node(
        "colocation-strategy out of limits",
        &format!("annotations: {{{strategy}: '{{\"degradeTimeMinutes\": 0}}'}}"),
    );
    for text in ["60%", "abc", "-0.6", "NaN", "Inf"] {
        let name = format!("cpu-reclaim-ratio {text:?}");
        page.node(&name, &format!("labels: {{node.koordinator.sh/cpu-reclaim-ratio: '{text}'}}"));
    }
    page.node(
        "cpu-reclaim-ratio given as annotation",
        "annotations: {node.koordinator.sh/cpu-reclaim-ratio: '0.6'}",
    );
    page.node(
        "thirdPartyAllocations not JSON",
        "annotations: {node.koordinator.sh/thirdPartyAllocations: 'yarn: 2'}",
    );
    let reservation = "node.koordinator.sh/reservation";
    page.node("node reservation not JSON", &format!("annotations: {{{reservation}: '0-1'}}"));
    page.node(
        "node reservation with a bad CPU list",
        &format!("annotations: {{{reservation}: '{{\"reservedCPUs\": \"0-\"}}'}}"),
    );
    page.node(
        "node reservation beyond the machine",
        &format!("annotations: {{{reservation}: '{{\"reservedCPUs\": \"0,16\"}}'}}"),
    );
    page.node(
        "network-bandwidth not a quantity",
        "annotations: {node.koordinator.sh/network-bandwidth: 10Gbit}",
    );
    page.node(
        "cpu-normalization-enabled not a bool",
        "labels: {node.koordinator.sh/cpu-normalization-enabled: 'yes'}",
    );
    page.node(
        "usage-thresholds bad JSON",
        "annotations: {scheduling.koordinator.sh/usage-thresholds: '{\"usageThresholds\": {\"cpu\": \"65%\"}}'}",
    );
    page.node(
        "beside the table: a typo in a policy, a field in another case",
        "labels: {node.koordinator.sh/cpu-bind-policy: FullPCPUOnly}, annotations: {node.koordinator.sh/system-qos-resource: '{\"cpuSet\": \"0-99\"}'}",
    );
    insta::assert_snapshot!(page.0);
}

#[test]
fn section_9_4_pods() {
    let mut page = Page::default();
    classes_of_pods(&mut page);
    profiles(&mut page);
    annotations_of_pods(&mut page);
    let gpu = |requests: &str| {
        format!(
            "spec: {{containers: [{{name: c, resources: {{requests: {{{requests}}}}}}}]}}\nmetadata: {{}}"
        )
    };
    page.pod("gpu 150", &gpu("koordinator.sh/gpu: '150'"));
    page.pod(
        "gpu and gpu.shared together",
        &gpu("koordinator.sh/gpu: '100', koordinator.sh/gpu.shared: '1'"),
    );
    page.pod(
        "gpu-memory and ratio together",
        &gpu("koordinator.sh/gpu-memory: 8Gi, koordinator.sh/gpu-memory-ratio: '50'"),
    );
    page.pod(
        "reserve-pod annotation by a user",
        "metadata: {annotations: {scheduling.koordinator.sh/reserve-pod: 'true'}}",
    );
    page.run_time(
        "batch-cpu request larger than any node",
        "the scheduler keeps the pod pending with \"Insufficient kubernetes.io/batch-cpu\"",
    );
    insta::assert_snapshot!(page.0);
}

fn classes_of_pods(page: &mut Page) {
    let qos = |class: &str, rest: &str| {
        format!("metadata: {{labels: {{koordinator.sh/qosClass: {class}}}}}\nspec: {{{rest}}}")
    };
    page.pod("qosClass in the wrong case", &qos("be", ""));
    page.pod("qosClass unknown", &qos("Guaranteed", ""));
    page.pod("BE with koord-prod", &qos("BE", "priority: 9000"));
    page.pod("BE without a Koordinator priority", &qos("BE", ""));
    let cpu = "containers: [{name: c, resources: {requests: {cpu: '2'}, limits: {cpu: '2'}}}]";
    for priority in [7000, 5000, 3000, 100] {
        let rest = format!("priority: {priority}, {cpu}");
        page.pod(&format!("LSR with priority {priority}"), &qos("LSR", &rest));
    }
    page.pod(
        "batch-* request without qosClass BE",
        &qos("LS", "priority: 9000, containers: [{name: c, resources: {requests: {kubernetes.io/batch-cpu: 2k}}}]"),
    );
    page.pod("LSE without cpu", &qos("LSE", "priority: 9000"));
    page.pod(
        "LSR with 1500m",
        &qos("LSR", "priority: 9000, containers: [{name: c, resources: {requests: {cpu: 1500m}, limits: {cpu: 1500m}}}]"),
    );
    page.pod(
        "beside the table: LSE with request below limit, and koord-batch",
        &qos("LSE", "priority: 5000, containers: [{name: c, resources: {requests: {cpu: '2'}, limits: {cpu: '4'}}}]"),
    );
    page.pod(
        "beside the table: unknown priority-class",
        "metadata: {labels: {koordinator.sh/priority-class: prod}}",
    );
    page.update("change of qosClass", &qos("LS", "priority: 9000"), &qos("BE", "priority: 9000"));
    page.update(
        "change of priority",
        "metadata: {}\nspec: {priority: 9000}",
        "metadata: {labels: {koordinator.sh/priority-class: koord-batch}}\nspec: {priority: 9000}",
    );
    page.update(
        "change of sub-priority",
        "metadata: {labels: {koordinator.sh/priority: '1'}}",
        "metadata: {labels: {koordinator.sh/priority: '2'}}",
    );
    page.update(
        "beside the table: change of quota preemptible",
        "metadata: {}",
        "metadata: {labels: {quota.scheduling.koordinator.sh/preemptible: 'false'}}",
    );
}

fn profiles(page: &mut Page) {
    page.profile("profile names a missing PriorityClass", "{priorityClassName: low-priority}");
    page.profile("profile probability 150%", "{probability: 150%}");
    page.profile("profile probability abc", "{probability: abc}");
    page.profile(
        "profile patch not applicable",
        "{patch: {spec: {containers: [{name: c, image: 5, resources: {limits: {cpu: 1}}}]}}}",
    );
    page.profile(
        "beside the table: profile with a selector that cannot be evaluated",
        "{selector: {matchExpressions: [{key: app, operator: Equals, values: [web]}]}}",
    );
}

fn annotations_of_pods(page: &mut Page) {
    let annotation =
        |key: &str, text: &str| format!("metadata: {{annotations: {{{key}: '{text}'}}}}");
    page.pod(
        "resource-spec bad JSON",
        &annotation("scheduling.koordinator.sh/resource-spec", "SpreadByPCPUs"),
    );
    page.pod(
        "numa-topology-spec bad JSON",
        &annotation("scheduling.koordinator.sh/numa-topology-spec", "{\"numaTopologyPolicy\": 1}"),
    );
    page.pod(
        "beside the table: resource-spec with a typo in a policy",
        &annotation(
            "scheduling.koordinator.sh/resource-spec",
            "{\"preferredCPUBindPolicy\": \"FullPCPU\"}",
        ),
    );
    page.pod("cpuBurst bad JSON", &annotation("koordinator.sh/cpuBurst", "{\"policy\": auto}"));
    page.pod(
        "memoryQOS bad JSON",
        &annotation("koordinator.sh/memoryQOS", "{\"policy\": \"auto\",}"),
    );
    page.pod(
        "cpuQOS groupIdentity 5",
        &annotation("koordinator.sh/cpuQOS", "{\"enable\": true, \"groupIdentity\": 5}"),
    );
    page.pod(
        "eviction-policy bad JSON",
        &annotation("koordinator.sh/eviction-policy", "BEMemoryEvict"),
    );
    page.pod("eviction-priority bad", &annotation("koordinator.sh/eviction-priority", "low"));
    page.pod("eviction-cost bad", &annotation("scheduling.koordinator.sh/eviction-cost", "+5"));
    let gang = "gang.scheduling.koordinator.sh";
    page.pod(
        "gang numbers bad",
        &format!("metadata: {{annotations: {{{gang}/name: g, {gang}/min-available: '2', {gang}/total-number: all, {gang}/waiting-time: '60'}}}}"),
    );
    page.pod("gang min-available missing", &annotation(&format!("{gang}/name"), "g"));
    page.pod(
        "gang min-available not a number",
        &format!("metadata: {{annotations: {{{gang}/name: g, {gang}/min-available: two}}}}"),
    );
}

#[test]
fn section_9_5_custom_resources() {
    let mut page = Page::default();
    let reservation = |spec: &str| {
        let yaml = format!("metadata: {{name: r1}}\nspec: {spec}");
        check_reservation(&read(&yaml))
    };
    let template = "template: {spec: {containers: []}}";
    let input = "{owners: [], template: {}}";
    page.row("Reservation without owners or template", input, &reservation(input));
    let input = format!("{{{template}, owners: [{{}}]}}");
    page.row("Reservation with an empty owner", &input, &reservation(&input));
    let input = format!(
        "{{{template}, owners: [{{labelSelector: {{matchExpressions: [{{key: app, operator: In}}]}}}}]}}"
    );
    page.row("Reservation with an invalid owner labelSelector", &input, &reservation(&input));

    page.quota("ElasticQuota min > max", None, &quota("team", "{min: {cpu: 4}, max: {cpu: 2}}"));
    page.quota(
        "ElasticQuota key sets differ",
        None,
        &quota("team", "{min: {cpu: 1, memory: 1Gi}, max: {cpu: 2, memory: 2Gi}}"),
    );
    page.quota("ElasticQuota with an unknown parent", None, &quota("teem", "{max: {cpu: 20}}"));
    page.quota(
        "ElasticQuota whose parent is not is-parent",
        None,
        &quota("team-a", "{max: {cpu: 20}}"),
    );
    page.quota(
        "ElasticQuota minimums over the parent",
        None,
        &quota("team", "{min: {cpu: 5}, max: {cpu: 20}}"),
    );
    quotas_beside(&mut page);

    let delete = |name: &str, pods: &[String]| {
        let quotas = quotas();
        let yaml = format!("metadata: {{namespace: q, name: {name}}}");
        check_elastic_quota_delete(&read(&yaml), true, &quotas, pods)
    };
    page.row("delete of a quota with children", "team", &delete("team", &[]));
    let pods = ["a/p1", "a/p2", "a/p3"].map(str::to_owned);
    page.row("delete of a quota with pods", "team-a with 3 pods", &delete("team-a", &pods));
    page.row(
        "delete of a built-in quota",
        "koordinator-default-quota",
        &delete("koordinator-default-quota", &[]),
    );

    let job =
        |spec: &str| check_migration_job(&read(&format!("metadata: {{name: j1}}\nspec: {spec}")));
    page.row("PodMigrationJob without podRef", "{podRef: {}}", &job("{podRef: {}}"));
    let input = "{podRef: {namespace: default}}";
    page.row("PodMigrationJob with podRef without name or uid", input, &job(input));
    for ratio in ["0", "1.5", "half"] {
        let spec = format!("{{quotaName: root, resourceRatio: '{ratio}', nodeSelector: {{}}}}");
        let yaml = format!("metadata: {{namespace: q, name: pool}}\nspec: {spec}");
        let findings = check_quota_profile(&read(&yaml));
        page.row(&format!("ElasticQuotaProfile ratio {ratio}"), &spec, &findings);
    }
    page.run_time(
        "NodeMetric hand-edited spec",
        "the manager writes it again at its next reconcile",
    );
    page.run_time(
        "NodeMetric status older than degradeTimeMinutes",
        "the manager takes batch and mid resources from the node; the scheduler's filterExpiredNodeMetrics decides about the node",
    );
    page.run_time(
        "load-aware args out of range",
        "the scheduler refuses to start and names plugin and field; its configuration is checked where it is loaded",
    );
    insta::assert_snapshot!(page.0);
}

fn quotas_beside(page: &mut Page) {
    let with = |extra: &str| {
        quota("team", "{min: {cpu: 1}, max: {cpu: 20}}")
            .replace("}\nspec", &format!(", {extra}}}\nspec"))
    };
    page.quota("beside the table: negative", None, &quota("team", "{max: {cpu: -1}}"));
    page.quota(
        "beside the table: another tree than the parent's",
        None,
        &with("quota.scheduling.koordinator.sh/tree-id: t2"),
    );
    let taken = "metadata: {namespace: other, name: team-a}\nspec: {max: {cpu: 1}}";
    page.quota("beside the table: name taken", None, taken);
    let claims = with("x: y").replace(
        "\nspec",
        "\n  annotations: {quota.scheduling.koordinator.sh/namespaces: '[\"a\"]'}\nspec",
    );
    page.quota("beside the table: namespace taken", None, &claims);
    let root = "metadata: {namespace: koordinator-system, name: koordinator-root-quota}\nspec: {max: {cpu: 1}}";
    page.quota(
        "beside the table: change of the root quota",
        Some(&root.replace("cpu: 1", "cpu: 2")),
        root,
    );
    let no_parent = "metadata: {namespace: q, name: team}\nspec: {min: {cpu: 10}, max: {cpu: 20}}";
    let parent = "metadata: {namespace: q, name: team, labels: {quota.scheduling.koordinator.sh/is-parent: 'true'}}\nspec: {min: {cpu: 10}, max: {cpu: 20}}";
    page.quota("beside the table: a parent with children stops being one", Some(parent), no_parent);
    let strict = "metadata: {namespace: q, name: solo, annotations: {quota.scheduling.koordinator.sh/max-strict-check-resource-keys: '[\"cpu\"]'}}\nspec: {max: {cpu: 2}}\nstatus: {used: {cpu: 3}}";
    page.quota("beside the table: max below used", None, strict);
}

fn findings_of(old: Option<&str>, new: &str, gates: &str) -> Vec<Code> {
    let (old, new) = (old.map(read::<ElasticQuota>), read::<ElasticQuota>(new));
    let (gates, errors) = Gates::<ManagerGate>::parse(gates);
    assert_eq!(errors, []);
    let (quotas, pods) = (quotas(), ["a/p".to_owned()]);
    let change =
        QuotaChange { old: old.as_ref(), new: &new, quotas: &quotas, is_known: true, pods: &pods };
    check_elastic_quota(&change, &gates).iter().map(|finding| finding.code).collect()
}

#[test]
fn a_quota_that_nobody_knows_is_neither_changed_nor_deleted() {
    let quotas = quotas();
    let ghost = |spec: &str| format!("metadata: {{namespace: q, name: ghost}}\nspec: {spec}");
    let old: ElasticQuota = read(&ghost("{max: {cpu: 20}}"));
    let codes = |new: &str| {
        let new = read(new);
        let change =
            QuotaChange { old: Some(&old), new: &new, quotas: &quotas, is_known: false, pods: &[] };
        let findings = check_elastic_quota(&change, &Gates::default());
        findings.iter().map(|finding| finding.code).collect::<Vec<_>>()
    };
    assert!(codes(&ghost("{max: {cpu: 21}}")).contains(&Code::QuotaUnknown));
    let annotated = ghost("{max: {cpu: 20}}").replace("ghost}", "ghost, annotations: {a: b}}");
    assert_eq!(codes(&annotated), [], "writers of status and annotations depend on it");
    let deleted = check_elastic_quota_delete(&old, false, &quotas, &[]);
    assert_eq!(
        deleted.iter().map(|finding| finding.code).collect::<Vec<_>>(),
        [Code::QuotaUnknown]
    );
}

#[test]
fn good_quotas_pass_and_gates_open_doors() {
    let good = quota("team", "{min: {cpu: 4}, max: {cpu: 20}}");
    let fewer = quota("team", "{max: {}}");
    let forced = quota("team", "{min: {cpu: 9}, max: {cpu: 20}}")
        .replace("}\nspec", ", quota.scheduling.koordinator.sh/allow-force-update: 'true'}\nspec");
    let free =
        "metadata: {namespace: q, name: solo}\nspec: {min: {memory: 1Gi}, max: {memory: 2Gi}}";
    let becomes_parent = "metadata: {namespace: q, name: solo, labels: {quota.scheduling.koordinator.sh/is-parent: 'true'}}\nspec: {min: {memory: 1Gi}, max: {memory: 2Gi}}";
    let guaranteed =
        good.replace("}\nspec", ", quota.scheduling.koordinator.sh/tree-id: ''}\nspec");
    type Row<'a> = (&'a str, Option<&'a str>, &'a str, &'a str, &'a [Code]);
    let cases: [Row<'_>; 9] = [
        ("within the parent", None, &good, "", &[]),
        ("without children below the root", None, free, "", &[]),
        ("unchanged, whatever it says", Some(&fewer), &fewer, "", &[]),
        ("fewer resources", None, &fewer, "", &[Code::QuotaKeys]),
        (
            "fewer resources behind the gate",
            None,
            &fewer,
            "ElasticQuotaEnableUpdateResourceKey=true",
            &[],
        ),
        ("forced over the sum", None, &forced, "", &[]),
        ("a quota with pods becomes a parent", Some(free), becomes_parent, "", &[Code::QuotaInUse]),
        ("no guarantee without a tree", None, &guaranteed, "ElasticQuotaGuaranteeUsage=true", &[]),
        (
            "a minimum outside max",
            None,
            &quota("team", "{min: {memory: 1}, max: {cpu: 20}}"),
            "",
            &[Code::QuotaBounds, Code::QuotaKeys, Code::QuotaSum],
        ),
    ];
    for (name, old, new, gates, want) in cases {
        assert_eq!(findings_of(old, new, gates), want, "{name}");
    }
}

#[test]
fn a_guarantee_needs_room_in_some_ancestor() {
    let tree = "quota.scheduling.koordinator.sh/tree-id: t1";
    let check = |guaranteed: &str| {
        let mut quotas: Vec<ElasticQuota> = quotas();
        for quota in &mut quotas {
            let labels = quota.metadata.labels.get_or_insert_default();
            labels.insert("quota.scheduling.koordinator.sh/tree-id".to_owned(), "t1".to_owned());
        }
        let annotations = quotas[0].metadata.annotations.get_or_insert_default();
        annotations
            .insert("quota.scheduling.koordinator.sh/guaranteed".to_owned(), guaranteed.to_owned());
        let new = quota("team", "{min: {cpu: 4}, max: {cpu: 20}}")
            .replace("}\nspec", &format!(", {tree}}}\nspec"));
        let new = read(&new);
        let change =
            QuotaChange { old: None, new: &new, quotas: &quotas, is_known: true, pods: &[] };
        let (gates, _) = Gates::parse("ElasticQuotaGuaranteeUsage=true");
        check_elastic_quota(&change, &gates).iter().map(|finding| finding.code).collect::<Vec<_>>()
    };
    assert_eq!(check(r#"{"cpu": "10"}"#), []);
    assert_eq!(check(r#"{"cpu": "9"}"#), [Code::QuotaGuarantee]);
}

#[test]
fn pods_do_not_count_against_parents() {
    let labelled = |quota: &str| {
        pod(&format!("metadata: {{labels: {{quota.scheduling.koordinator.sh/name: {quota}}}}}"))
    };
    let codes = |pod, gates| {
        let findings = check_pod_quota(&pod, &quotas(), &Gates::parse(gates).0);
        findings.iter().map(|finding| finding.code).collect::<Vec<_>>()
    };
    assert_eq!(codes(labelled("team"), ""), [Code::ParentQuota]);
    assert_eq!(codes(labelled("team"), "SupportParentQuotaSubmitPod=true"), []);
    assert_eq!(codes(labelled("team-a"), ""), []);
    assert_eq!(codes(labelled("unknown"), ""), []);
    let mut by_namespace = pod("metadata: {}");
    by_namespace.metadata.namespace = Some("a".to_owned());
    assert_eq!(codes(by_namespace, ""), [], "team-a lists the namespace");
}

#[test]
fn good_objects_have_no_findings() {
    let node = "metadata: {name: n1, labels: {node.koordinator.sh/cpu-reclaim-ratio: '0.6'}, annotations: {node.koordinator.sh/reservation: '{\"reservedCPUs\":\"0-15\"}'}}\nstatus: {capacity: {cpu: '16'}}";
    assert_eq!(check_node(&read(node)), []);
    let gang = "metadata: {labels: {pod-group.scheduling.sigs.k8s.io: g}, annotations: {gang.scheduling.koordinator.sh/name: g}}";
    assert_eq!(check_pod(&pod(gang)), [], "the PodGroup states the minimum");
    let same = pod("metadata: {labels: {koordinator.sh/qosClass: be}}");
    let other = pod("metadata: {labels: {koordinator.sh/qosClass: BestEffort}}");
    assert_eq!(check_pod_update(&same, &other, &Gates::default()), [], "no class to no class");
    let (gates, _) = Gates::parse("ColocationProfileSkipValidatingPriority=true");
    let (one, two) = (
        "metadata: {labels: {koordinator.sh/priority: '1'}}",
        "metadata: {labels: {koordinator.sh/priority: '2'}}",
    );
    assert_eq!(check_pod_update(&pod(one), &pod(two), &gates), []);
    let profile = "metadata: {name: p}\nspec: {selector: {}, probability: 30%, priorityClassName: koord-batch, patch: {spec: {schedulerName: x}}}";
    assert_eq!(check_profile(&read(profile), &BTreeSet::from(["koord-batch".to_owned()])), []);
    assert_eq!(
        check_reservation(&read(
            "metadata: {name: r}\nspec: {template: {spec: {containers: []}}, owners: [{labelSelector: {}}]}"
        )),
        []
    );
    assert_eq!(
        check_migration_job(&read("metadata: {name: j}\nspec: {podRef: {namespace: d, name: p}}")),
        []
    );
    assert_eq!(
        check_quota_profile(&read(
            "metadata: {name: p}\nspec: {quotaName: q, resourceRatio: '1', nodeSelector: {}}"
        )),
        []
    );
}

#[test]
fn probabilities_are_percentages() {
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::{Int, String};
    let text = |text: &str| String(text.to_owned());
    assert_eq!(probability(None).0, Some(100));
    for (value, want, is_fine) in [
        (Int(30), Some(30), true),
        (Int(0), Some(0), true),
        (text("30%"), Some(30), true),
        (text("100%"), Some(100), true),
        (text("150%"), Some(100), false),
        (Int(101), Some(100), false),
        (Int(-1), None, false),
        (text("30"), None, false),
        (text("abc"), None, false),
    ] {
        let (percent, findings) = probability(Some(&value));
        assert_eq!((percent, findings.is_empty()), (want, is_fine), "{value:?}");
    }
}
