//! Pods ask for resources: translation, sums, replacement, devices.

use std::collections::BTreeMap;

use api::metadata::pod::ExtendedResourceSpec;
use api::metadata::{ResourceList, Wire};
use api::priority::PriorityClass;
use api::protocol::pod::EXTENDED_RESOURCE_SPEC;
use api::resources::{
    ReplaceResources, check_device_requests, extended_resource_spec, for_node_status, name_for,
    native_of, pod_requests, resolve_aliases, translate,
};
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use proptest::prelude::*;
use serde_json::{Value, json};

fn spec(value: Value) -> PodSpec {
    serde_json::from_value(value).expect("a PodSpec")
}

fn container(name: &str, requests: Value, limits: Value) -> Value {
    json!({"name": name, "resources": {"requests": requests, "limits": limits}})
}

/// What stands in the first container after translation.
fn translated(class: PriorityClass, requests: Value, limits: Value) -> Value {
    let mut spec = spec(json!({"containers": [container("c", requests, limits)]}));
    translate(&mut spec, class);
    serde_json::to_value(&spec.containers[0].resources).expect("resources are JSON")
}

#[test]
fn cpu_and_memory_move_to_the_names_of_the_class() {
    use PriorityClass::{Batch, Free, Mid, Prod};
    let (bc, bm) = ("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory");
    let cases = [
        (
            "1500m",
            Batch,
            json!({"cpu": "1500m"}),
            json!({}),
            json!({"requests": {bc: "1500"}, "limits": {}}),
        ),
        (
            "canonical thousands",
            Batch,
            json!({"cpu": "2"}),
            json!({"cpu": "2k"}),
            json!({"requests": {bc: "2k"}, "limits": {bc: "2M"}}),
        ),
        (
            "fractions of a milli round up",
            Batch,
            json!({"cpu": "100u"}),
            json!({}),
            json!({"requests": {bc: "1"}, "limits": {}}),
        ),
        (
            "memory keeps its quantity",
            Batch,
            json!({"memory": "2048Mi"}),
            json!({}),
            json!({"requests": {bm: "2048Mi"}, "limits": {}}),
        ),
        (
            "a limit alone becomes the request",
            Batch,
            json!({}),
            json!({"cpu": "500m"}),
            json!({"requests": {bc: "500"}, "limits": {bc: "500"}}),
        ),
        (
            "both keys: the native one wins",
            Batch,
            json!({"cpu": "1", bc: "7"}),
            json!({}),
            json!({"requests": {bc: "1k"}, "limits": {}}),
        ),
        (
            "mid",
            Mid,
            json!({"cpu": "1", "memory": "1Gi"}),
            json!({}),
            json!({"requests": {"kubernetes.io/mid-cpu": "1k", "kubernetes.io/mid-memory": "1Gi"}, "limits": {}}),
        ),
        (
            "prod stays",
            Prod,
            json!({"cpu": "1"}),
            json!({}),
            json!({"requests": {"cpu": "1"}, "limits": {}}),
        ),
        (
            "free stays",
            Free,
            json!({"cpu": "1"}),
            json!({}),
            json!({"requests": {"cpu": "1"}, "limits": {}}),
        ),
        (
            "others stay",
            Batch,
            json!({"ephemeral-storage": "1Gi", "koordinator.sh/gpu": "100"}),
            json!({}),
            json!({"requests": {"ephemeral-storage": "1Gi", "koordinator.sh/gpu": "100"}, "limits": {}}),
        ),
    ];
    for (name, class, requests, limits, want) in cases {
        assert_eq!(translated(class, requests, limits), want, "{name}");
    }
}

#[test]
fn init_containers_and_overhead_move_too_and_the_second_time_nothing_does() {
    let mut pod = spec(json!({
        "initContainers": [container("i", json!({"cpu": "1"}), json!({"cpu": "1"})), {"name": "bare"}],
        "containers": [container("c", json!({"cpu": "250m"}), json!({}))],
        "overhead": {"cpu": "250m", "memory": "64Mi"},
    }));
    assert!(translate(&mut pod, PriorityClass::Batch));
    let value = serde_json::to_value(&pod).unwrap();
    let key = "kubernetes.io/batch-cpu";
    assert_eq!(value["initContainers"][0]["resources"]["limits"], json!({key: "1k"}));
    assert_eq!(value["overhead"], json!({key: "250", "kubernetes.io/batch-memory": "64Mi"}));
    let before = pod.clone();
    assert!(!translate(&mut pod, PriorityClass::Batch));
    assert_eq!(pod, before);
}

/// The four Deployments of seed 004, as pods after admission's PriorityClass.
#[test]
fn the_seed_s_pods_are_as_their_authors_meant() {
    let pod = |qos: &str, priority: i32, resources: Value| -> Pod {
        serde_json::from_value(json!({
            "metadata": {
                "name": format!("nginx-{}", qos.to_lowercase()),
                "labels": {"koordinator.sh/qosClass": qos},
                "annotations": {
                    "scheduling.koordinator.sh/resource-spec": r#"{"preferredCPUBindPolicy": "SpreadByPCPUs"}"#,
                },
            },
            "spec": {
                "priority": priority,
                "containers": [{"name": "nginx", "resources": {"requests": resources, "limits": resources}}],
            },
        }))
        .unwrap()
    };
    for qos in ["LSE", "LSR", "LS"] {
        let pod = pod(qos, 9000, json!({"cpu": "2"}));
        assert_eq!(api::check::check_pod(&pod), [], "{qos}");
        let mut spec = pod.spec.clone().unwrap();
        assert!(!translate(&mut spec, api::priority::effective(&pod)), "{qos}");
        assert_eq!(extended_resource_spec(&pod), Ok(None), "{qos}");
    }
    let be = pod("BE", 5000, json!({"kubernetes.io/batch-cpu": "2k"}));
    assert_eq!(api::check::check_pod(&be), []);
    assert_eq!(api::qos::kube_qos(&be), api::qos::KubeQos::BestEffort);
    let text = extended_resource_spec(&be).unwrap().unwrap().print();
    assert_eq!(
        text,
        r#"{"containers":{"nginx":{"limits":{"kubernetes.io/batch-cpu":"2k"},"requests":{"kubernetes.io/batch-cpu":"2k"}}}}"#
    );
    let requests = pod_requests(be.spec.as_ref().unwrap());
    assert_eq!(requests["kubernetes.io/batch-cpu"].value(), 2000);
}

#[test]
fn the_annotation_follows_the_containers() {
    let batch =
        json!({"kubernetes.io/batch-cpu": "1500", "cpu": "1", "kubernetes.io/mid-cpu": "1"});
    let right = r#"{"containers":{"c":{"requests":{"kubernetes.io/batch-cpu":"1500"}}}}"#;
    type Row<'a> = (&'a str, &'a Value, Option<&'a str>, Result<Option<&'a str>, ()>);
    let cases: &[Row<'_>] = &[
        ("added", &batch, None, Ok(Some(right))),
        (
            "right already, in other words",
            &batch,
            Some(r#"{"containers":{"c":{"requests":{"kubernetes.io/batch-cpu":"1.5k"}}}}"#),
            Ok(None),
        ),
        ("corrected", &batch, Some("{}"), Ok(Some(right))),
        ("none for a native pod", &json!({"cpu": "1"}), None, Ok(None)),
        ("emptied", &json!({"cpu": "1"}), Some(right), Ok(Some("{}"))),
        ("empty already", &json!({"cpu": "1"}), Some("{}"), Ok(None)),
        ("unreadable", &batch, Some("{"), Err(())),
    ];
    for (name, requests, annotation, want) in cases {
        let mut pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p"},
            "spec": {
                "containers": [container("c", (*requests).clone(), json!({}))],
                "initContainers": [container("i", batch.clone(), json!({}))],
            },
        }))
        .unwrap();
        if let Some(text) = annotation {
            let annotations = pod.metadata.annotations.get_or_insert_default();
            annotations.insert(EXTENDED_RESOURCE_SPEC.name.to_owned(), (*text).to_owned());
        }
        let got = extended_resource_spec(&pod).map_err(|_| ());
        let got = got.map(|spec| spec.map(|spec: ExtendedResourceSpec| spec.print()));
        assert_eq!(got.as_ref().map(Option::as_deref), want.as_ref().copied(), "{name}");
    }
}

#[test]
fn sidecars_stand_in_the_annotation_and_other_init_containers_do_not() {
    let batch = json!({"kubernetes.io/batch-cpu": "1500"});
    let mut sidecar = container("s", batch.clone(), json!({}));
    sidecar["restartPolicy"] = json!("Always");
    let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {
        "containers": [container("c", json!({"cpu": "1"}), json!({}))],
        "initContainers": [container("i", batch, json!({})), sidecar],
    }}))
    .unwrap();
    let text = extended_resource_spec(&pod).unwrap().unwrap().print();
    let want = r#"{"containers":{"s":{"requests":{"kubernetes.io/batch-cpu":"1500"}}}}"#;
    assert_eq!(text, want);
}

#[test]
fn a_pod_is_charged_for_its_largest_moment() {
    let cpu = |cores: &str| json!({"cpu": cores});
    let sidecar = |cores: &str| {
        let mut container = container("s", cpu(cores), json!({}));
        container["restartPolicy"] = json!("Always");
        container
    };
    let init = |cores: &str| container("i", cpu(cores), json!({}));
    let main = [container("a", cpu("1"), json!({})), container("b", cpu("500m"), json!({}))];
    let cases = [
        ("containers add up", json!({"containers": main}), "1500m"),
        (
            "a small init step hides",
            json!({"containers": main, "initContainers": [init("1")]}),
            "1500m",
        ),
        (
            "a large one counts",
            json!({"containers": main, "initContainers": [init("4"), init("1")]}),
            "4",
        ),
        ("sidecars stay", json!({"containers": main, "initContainers": [sidecar("1")]}), "2500m"),
        (
            "init after a sidecar has both",
            json!({"containers": main, "initContainers": [sidecar("1"), init("2")]}),
            "3",
        ),
        (
            "init before a sidecar has itself",
            json!({"containers": main, "initContainers": [init("2"), sidecar("1")]}),
            "2500m",
        ),
        ("overhead on top", json!({"containers": main, "overhead": cpu("250m")}), "1750m"),
        (
            "the pod's own word",
            json!({"containers": main, "resources": {"requests": cpu("3")}, "overhead": cpu("1")}),
            "4",
        ),
        ("nothing", json!({"containers": [{"name": "c"}]}), "0"),
    ];
    for (name, value, want) in cases {
        let got = pod_requests(&spec(value)).get("cpu").copied().unwrap_or_default();
        assert_eq!(got, want.parse().unwrap(), "{name}");
    }
}

#[test]
fn replacements_erase_first_and_never_overwrite() {
    let apply = |text: &str, list: Value| {
        let mut spec = spec(json!({
            "containers": [container("c", list.clone(), list.clone())],
            "initContainers": [container("i", list.clone(), json!({}))],
            "overhead": list,
        }));
        ReplaceResources::parse(text).0.unwrap().apply(&mut spec);
        let value = serde_json::to_value(&spec).unwrap();
        let result = value["overhead"].clone();
        assert_eq!(value["containers"][0]["resources"]["requests"], result, "{text}");
        assert_eq!(value["containers"][0]["resources"]["limits"], result, "{text}");
        assert_eq!(value["initContainers"][0]["resources"]["requests"], result, "{text}");
        result
    };
    assert_eq!(apply("a:b", json!({"a": "1", "c": "2"})), json!({"b": "1", "c": "2"}));
    assert_eq!(
        apply("a:b", json!({"a": "1", "b": "2"})),
        json!({"a": "1", "b": "2"}),
        "keeps both"
    );
    assert_eq!(apply("a:b,b:", json!({"a": "1", "b": "2"})), json!({"b": "1"}), "erases first");
    assert_eq!(apply("cpu:x", json!({"cpu": "1500m"})), json!({"x": "1500"}), "counts in milli");
    assert_eq!(apply("memory:x", json!({"memory": "1Gi"})), json!({"x": "1Gi"}));
    assert_eq!(
        apply("a,b:c:d,:e", json!({"a": "1", "b": "2"})),
        json!({"a": "1", "b": "2"}),
        "malformed entries"
    );
}

#[test]
fn old_names_are_read_unless_the_new_one_is_there() {
    let mut list = BTreeMap::from([
        ("koordinator.sh/batch-cpu".to_owned(), 1),
        ("kubernetes.io/gpu-core".to_owned(), 2),
        ("koordinator.sh/gpu-core".to_owned(), 3),
        ("cpu".to_owned(), 4),
    ]);
    resolve_aliases(&mut list);
    let want = [
        ("cpu", 4),
        ("koordinator.sh/gpu-core", 3),
        ("kubernetes.io/batch-cpu", 1),
        ("kubernetes.io/gpu-core", 2),
    ];
    assert_eq!(list, want.into_iter().map(|(name, n)| (name.to_owned(), n)).collect());
}

#[test]
fn names_translate_both_ways() {
    for class in PriorityClass::ALL {
        for native in ["cpu", "memory", "nvidia.com/gpu"] {
            if let Some(name) = name_for(*class, native) {
                assert_eq!(native_of(name), Some((*class, native)));
            }
        }
    }
    assert_eq!(native_of("cpu"), None);
}

#[test]
fn node_status_holds_whole_numbers() {
    let cases = [
        ("kubernetes.io/batch-cpu", "12000", "12k"),
        ("kubernetes.io/batch-cpu", "12345", "12345"),
        ("kubernetes.io/mid-cpu", "1500.2", "1501"),
        ("kubernetes.io/batch-memory", "21474836480", "20Gi"),
        ("kubernetes.io/mid-memory", "1000000000", "1000000000"),
        ("kubernetes.io/batch-memory", "0", "0"),
    ];
    for (name, amount, want) in cases {
        assert_eq!(for_node_status(name, amount.parse().unwrap()).to_string(), want, "{amount}");
    }
}

#[test]
fn device_requests_go_together_or_not() {
    let good = [
        "",
        "nvidia.com/gpu=2",
        "amd.com/gpu=1",
        "dcu.com/gpu=1",
        "gpu=50",
        "gpu=200",
        "gpu-memory=8Gi",
        "gpu-memory-ratio=50",
        "gpu-core=50 gpu-memory=8Gi",
        "gpu-core=200 gpu-memory-ratio=200",
        "huawei.com/npu-core=4 gpu-memory-ratio=100",
        "gpu.shared=1 gpu-memory=8Gi",
        "gpu.shared=2 gpu-memory-ratio=100",
        "gpu.shared=1 gpu-core=50 gpu-memory=8Gi",
        "gpu.shared=2 gpu-core=100 gpu-memory-ratio=100",
        "gpu.shared=3 gpu-memory-ratio=150",
        "gpu.shared=1 huawei.com/npu-core=4 huawei.com/npu-cpu=2 gpu-memory=8Gi",
        "gpu.shared=1 huawei.com/npu-core=4 huawei.com/npu-cpu=2 huawei.com/npu-dvpp=100 gpu-memory=8Gi",
        "fpga=100",
        "rdma=200",
        "gpu=100 rdma=100 fpga=50",
        "gpu=100 gpu.shared=0",
    ];
    let bad = [
        ("gpu=150", "invalid resource unit koordinator.sh/gpu: 150"),
        (
            "gpu=100 gpu.shared=1",
            "invalid resource device requests: [koordinator.sh/gpu, koordinator.sh/gpu.shared]",
        ),
        ("gpu-memory=8Gi gpu-memory-ratio=50", "invalid resource device requests"),
        ("nvidia.com/gpu=1 gpu=100", "invalid resource device requests"),
        ("gpu-core=50", "invalid resource device requests"),
        ("gpu.shared=1", "invalid resource device requests"),
        ("gpu-core=50 gpu-memory-ratio=150", "koordinator.sh/gpu-memory-ratio: 150"),
        ("gpu.shared=2 gpu-memory-ratio=101", "divisible by the 2 shared"),
        ("gpu.shared=2 gpu-memory-ratio=300", "at most 100 for each"),
        ("rdma=101", "invalid resource unit koordinator.sh/rdma: 101"),
        ("fpga=250", "invalid resource unit koordinator.sh/fpga: 250"),
    ];
    let requests = |text: &str| -> ResourceList {
        let entries = text.split_whitespace().map(|entry| entry.split_once('=').unwrap());
        let full = |name: &str| match name.contains('/') {
            true => name.to_owned(),
            false => format!("koordinator.sh/{name}"),
        };
        entries.map(|(name, amount)| (full(name), amount.parse().unwrap())).collect()
    };
    for text in good {
        assert_eq!(check_device_requests(&requests(text)), [], "{text}");
    }
    for (text, want) in bad {
        let findings = check_device_requests(&requests(text));
        let [finding] = findings.as_slice() else { panic!("{text}: {findings:?}") };
        assert!(finding.rule.contains(want), "{text}: {finding}");
    }
}

proptest! {
    /// Translation conserves what is asked for: cores times a thousand, bytes as they are.
    #[test]
    fn translation_conserves_amounts(milli in 0..1_000_000_i64, bytes in 0..1_i64 << 50, limit in any::<bool>()) {
        let amounts = json!({"cpu": format!("{milli}m"), "memory": bytes.to_string()});
        let limits = if limit { amounts.clone() } else { json!({}) };
        let mut pod = spec(json!({"containers": [container("c", amounts, limits)]}));
        let before = pod_requests(&pod);
        translate(&mut pod, PriorityClass::Batch);
        let after = pod_requests(&pod);
        prop_assert_eq!(after["kubernetes.io/batch-cpu"].value(), before["cpu"].milli_value());
        prop_assert_eq!(after["kubernetes.io/batch-memory"], before["memory"]);
        prop_assert!(!after.contains_key("cpu") && !after.contains_key("memory"));
    }
}
