//! What claims, volumes, classes and drivers allow, case by case.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1 as storage;
use serde_json::{Value, json};

use super::*;
use crate::plugin::Plugin;
use crate::plugins::rig::{Rig, labels, pod};
use crate::plugins::{ArgsError, Build};
use crate::read::Reader;

/// Two zones, one node each, and a node without a zone.
const NODES: [&str; 3] = [
    "a kubernetes.io/hostname=a topology.kubernetes.io/zone=z1",
    "b kubernetes.io/hostname=b topology.kubernetes.io/zone=z2",
    "c kubernetes.io/hostname=c",
];

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn reader(rig: &mut Rig) -> Reader<'_> {
    Reader { names: &mut rig.snapshot.names, resources: &mut rig.snapshot.resources }
}

/// Claim `name` of namespace `default`: `spec` with the usual fields filled in.
fn claim(rig: &mut Rig, name: &str, meta: &Value, spec: &Value, status: &Value) {
    let mut full = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "late",
        "resources": {"requests": {"storage": "5Gi"}},
    });
    for (key, value) in spec.as_object().unwrap() {
        full[key] = value.clone();
    }
    let object: PersistentVolumeClaim =
        object(json!({"metadata": meta, "spec": full, "status": status}));
    let read = reader(rig).claim(&object);
    let key = reader(rig).claim_key("default", name);
    rig.snapshot.extras.storage.claims.insert(key, read.into());
}

fn waiting(rig: &mut Rig, name: &str, spec: Value) {
    claim(rig, name, &json!({}), &spec, &json!({"phase": "Pending"}));
}

fn bound(rig: &mut Rig, name: &str, volume: &str) {
    claim(rig, name, &json!({}), &json!({"volumeName": volume}), &json!({"phase": "Bound"}));
}

fn volume(rig: &mut Rig, name: &str, text: &str, spec: &Value) {
    let mut full = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "late",
        "capacity": {"storage": "10Gi"},
    });
    for (key, value) in spec.as_object().unwrap() {
        full[key] = value.clone();
    }
    let object: PersistentVolume = object(json!({
        "metadata": {"labels": labels(text)}, "spec": full, "status": {"phase": "Available"},
    }));
    let read = reader(rig).volume_object(&object);
    let name = rig.snapshot.names.intern(name);
    rig.snapshot.extras.storage.volumes.insert(name, read.into());
}

fn class(rig: &mut Rig, name: &str, value: Value) {
    let object: storage::StorageClass = object(value);
    let read = reader(rig).storage_class(&object);
    let name = rig.snapshot.names.intern(name);
    rig.snapshot.extras.storage.classes.insert(name, read);
}

/// `late` waits and is served by volumes only, `made` waits and is provisioned, `now` does not wait.
fn classes(rig: &mut Rig) {
    let waits = "WaitForFirstConsumer";
    let none = "kubernetes.io/no-provisioner";
    class(rig, "late", json!({"provisioner": none, "volumeBindingMode": waits}));
    class(rig, "made", json!({"provisioner": "csi.x", "volumeBindingMode": waits}));
    class(rig, "now", json!({"provisioner": "csi.x", "volumeBindingMode": "Immediate"}));
    class(
        rig,
        "near",
        json!({"provisioner": "csi.x", "volumeBindingMode": waits,
        "allowedTopologies": [{"matchLabelExpressions":
            [{"key": "topology.kubernetes.io/zone", "values": ["z1"]}]}]}),
    );
}

fn at_node(name: &str) -> Value {
    json!({"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions":
        [{"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]}]}}})
}

/// A pod that uses these claims.
fn user(claims: &[&str]) -> Value {
    let volumes: Vec<Value> = claims
        .iter()
        .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
        .collect();
    pod("app=db", json!({"volumes": volumes}))
}

fn ask(rig: &mut Rig, build: Build, pod: &Value) -> Vec<String> {
    let plugin: Result<Box<dyn Plugin>, ArgsError> = build(&Value::Null, &mut rig.snapshot);
    let class = rig.class(pod);
    let prepared = rig.prepare(&*plugin.unwrap(), &class);
    rig.reasons(&prepared)
}

struct Case {
    name: &'static str,
    given: fn(&mut Rig),
    pod: Value,
    want: [&'static str; 3],
}

fn check(build: Build, cases: Vec<Case>) {
    for Case { name, given, pod, want } in cases {
        let mut rig = Rig::new(&NODES);
        classes(&mut rig);
        given(&mut rig);
        assert_eq!(ask(&mut rig, build, &pod), want, "{name}");
    }
}

const AFFINITY: &str = "!node(s) didn't match PersistentVolume's node affinity";
const UNMATCHED: &str = "!node(s) didn't find available persistent volumes to bind";
const SPACE: &str = "!node(s) did not have enough free storage";
const UNBOUND: &str = "!pod has unbound immediate PersistentVolumeClaims";

#[test]
fn binding_finds_volumes_for_every_claim() {
    let cases = vec![
        Case { name: "no claims", given: |_| {}, pod: user(&[]), want: ["", "", ""] },
        Case {
            name: "no such claim",
            given: |_| {},
            pod: user(&["data"]),
            want: ["!persistentvolumeclaim \"data\" not found"; 3],
        },
        Case {
            name: "a lost claim",
            given: |rig| {
                let spec = json!({"volumeName": "v"});
                claim(rig, "data", &json!({}), &spec, &json!({"phase": "Lost"}));
            },
            pod: user(&["data"]),
            want: ["!persistentvolumeclaim \"data\" bound to non-existent persistentvolume \"v\"";
                3],
        },
        Case {
            name: "a claim on its way out",
            given: |rig| {
                let meta = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
                claim(rig, "data", &meta, &json!({}), &json!({}));
            },
            pod: user(&["data"]),
            want: ["!persistentvolumeclaim \"data\" is being deleted"; 3],
        },
        Case {
            name: "a claim that should be bound already",
            given: |rig| waiting(rig, "data", json!({"storageClassName": "now"})),
            pod: user(&["data"]),
            want: [UNBOUND; 3],
        },
        Case {
            name: "a claim of no class",
            given: |rig| waiting(rig, "data", json!({"storageClassName": ""})),
            pod: user(&["data"]),
            want: [UNBOUND; 3],
        },
        Case {
            name: "a claim that names its volume and is not bound yet",
            given: |rig| waiting(rig, "data", json!({"volumeName": "v"})),
            pod: user(&["data"]),
            want: [UNBOUND; 3],
        },
        Case {
            name: "bound, usable everywhere",
            given: |rig| {
                bound(rig, "data", "v");
                volume(rig, "v", "", &json!({}));
            },
            pod: user(&["data"]),
            want: ["", "", ""],
        },
        Case {
            name: "bound to a volume of one node",
            given: |rig| {
                bound(rig, "data", "v");
                volume(rig, "v", "", &at_node("b"));
            },
            pod: user(&["data"]),
            want: [AFFINITY, "", AFFINITY],
        },
        Case {
            name: "bound to a volume that is gone",
            given: |rig| bound(rig, "data", "v"),
            pod: user(&["data"]),
            want: ["!node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"; 3],
        },
        Case {
            name: "a free volume of one node",
            given: |rig| {
                waiting(rig, "data", json!({}));
                volume(rig, "v", "", &at_node("a"));
            },
            pod: user(&["data"]),
            want: ["", UNMATCHED, UNMATCHED],
        },
        Case {
            name: "too small",
            given: |rig| {
                waiting(rig, "data", json!({"resources": {"requests": {"storage": "11Gi"}}}));
                volume(rig, "v", "", &json!({}));
            },
            pod: user(&["data"]),
            want: [UNMATCHED; 3],
        },
        Case {
            name: "another class",
            given: |rig| {
                waiting(rig, "data", json!({}));
                volume(rig, "v", "", &json!({"storageClassName": "made"}));
            },
            pod: user(&["data"]),
            want: [UNMATCHED; 3],
        },
        Case {
            name: "another access mode",
            given: |rig| {
                waiting(rig, "data", json!({"accessModes": ["ReadWriteMany"]}));
                volume(rig, "v", "", &json!({}));
            },
            pod: user(&["data"]),
            want: [UNMATCHED; 3],
        },
        Case {
            name: "another mode",
            given: |rig| {
                waiting(rig, "data", json!({"volumeMode": "Block"}));
                volume(rig, "v", "", &json!({}));
            },
            pod: user(&["data"]),
            want: [UNMATCHED; 3],
        },
        Case {
            name: "labels that the claim does not select",
            given: |rig| {
                waiting(rig, "data", json!({"selector": {"matchLabels": {"tier": "1"}}}));
                volume(rig, "v", "tier=2", &json!({}));
            },
            pod: user(&["data"]),
            want: [UNMATCHED; 3],
        },
        Case {
            name: "labels that it does",
            given: |rig| {
                waiting(rig, "data", json!({"selector": {"matchLabels": {"tier": "1"}}}));
                volume(rig, "v", "tier=1", &json!({}));
            },
            pod: user(&["data"]),
            want: ["", "", ""],
        },
        Case {
            name: "a volume meant for another claim",
            given: |rig| {
                waiting(rig, "data", json!({}));
                let other = json!({"claimRef": {"namespace": "default", "name": "other"}});
                volume(rig, "v", "", &other);
            },
            pod: user(&["data"]),
            want: [UNMATCHED; 3],
        },
        Case {
            name: "a volume meant for this claim",
            given: |rig| {
                waiting(rig, "data", json!({}));
                let own = json!({"claimRef": {"namespace": "default", "name": "data"}});
                volume(rig, "v", "", &own);
            },
            pod: user(&["data"]),
            want: ["", "", ""],
        },
        Case {
            name: "two claims, one volume",
            given: |rig| {
                waiting(rig, "data", json!({}));
                waiting(rig, "logs", json!({}));
                volume(rig, "v", "", &json!({}));
            },
            pod: user(&["data", "logs"]),
            want: [UNMATCHED; 3],
        },
        Case {
            name: "the smaller claim takes the smaller volume",
            given: |rig| {
                waiting(rig, "big", json!({"resources": {"requests": {"storage": "9Gi"}}}));
                waiting(rig, "small", json!({}));
                volume(rig, "v", "", &json!({"capacity": {"storage": "6Gi"}}));
                volume(rig, "w", "", &json!({}));
            },
            pod: user(&["big", "small"]),
            want: ["", "", ""],
        },
        Case {
            name: "provisioned anywhere",
            given: |rig| waiting(rig, "data", json!({"storageClassName": "made"})),
            pod: user(&["data"]),
            want: ["", "", ""],
        },
        Case {
            name: "provisioned in one zone",
            given: |rig| waiting(rig, "data", json!({"storageClassName": "near"})),
            pod: user(&["data"]),
            want: ["", UNMATCHED, UNMATCHED],
        },
        Case {
            name: "being provisioned for a node",
            given: |rig| {
                let meta = json!({"annotations": {"volume.kubernetes.io/selected-node": "b"}});
                let spec = json!({"storageClassName": "made"});
                claim(rig, "data", &meta, &spec, &json!({}));
            },
            pod: user(&["data"]),
            want: [UNMATCHED, "", UNMATCHED],
        },
        Case {
            name: "capacity is published for one zone only",
            given: |rig| {
                waiting(rig, "data", json!({"storageClassName": "made"}));
                capacity(rig, "1Ti", None);
            },
            pod: user(&["data"]),
            want: ["", SPACE, SPACE],
        },
        Case {
            name: "capacity is too small",
            given: |rig| {
                waiting(rig, "data", json!({"storageClassName": "made"}));
                capacity(rig, "4Gi", None);
            },
            pod: user(&["data"]),
            want: [SPACE; 3],
        },
        Case {
            name: "the largest volume counts, not the sum",
            given: |rig| {
                waiting(rig, "data", json!({"storageClassName": "made"}));
                capacity(rig, "1Ti", Some("4Gi"));
            },
            pod: user(&["data"]),
            want: [SPACE; 3],
        },
    ];
    check(binding::build, cases);
}

fn capacity(rig: &mut Rig, total: &str, largest: Option<&str>) {
    let zone = json!({"matchLabels": {"topology.kubernetes.io/zone": "z1"}});
    let object: storage::CSIStorageCapacity = object(json!({
        "metadata": {}, "storageClassName": "made", "nodeTopology": zone, "capacity": total,
        "maximumVolumeSize": largest,
    }));
    let read = reader(rig).capacity(&object);
    let key = reader(rig).claim_key("kube-system", "c");
    let driver = rig.snapshot.names.intern("csi.x");
    rig.snapshot.extras.storage.capacities.insert(key, read);
    rig.snapshot.extras.storage.counted_drivers.insert(driver);
}

#[test]
fn an_ephemeral_claim_must_be_the_pods_own() {
    let ephemeral = |rig: &mut Rig, owners: Value| {
        let spec = json!({"storageClassName": "made"});
        claim(rig, "-scratch", &json!({"ownerReferences": owners}), &spec, &json!({}));
    };
    let user = pod("app=db", json!({"volumes": [{"name": "scratch", "ephemeral": {}}]}));
    let mut rig = Rig::new(&NODES);
    classes(&mut rig);
    let missing = "!waiting for ephemeral volume controller to create the persistentvolumeclaim \
                   \"-scratch\"";
    assert_eq!(ask(&mut rig, binding::build, &user), [missing; 3]);
    ephemeral(&mut rig, json!([]));
    let foreign = "!persistentvolumeclaim \"-scratch\" was not created for the pod";
    assert_eq!(ask(&mut rig, binding::build, &user), [foreign; 3]);
    let owner =
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "", "uid": "1", "controller": true}]);
    ephemeral(&mut rig, owner);
    assert_eq!(ask(&mut rig, binding::build, &user), [""; 3]);
}

#[test]
fn a_promised_volume_is_nobody_elses_until_given_back() {
    let mut rig = Rig::new(&NODES);
    classes(&mut rig);
    waiting(&mut rig, "data", json!({}));
    waiting(&mut rig, "more", json!({"storageClassName": "made"}));
    waiting(&mut rig, "other", json!({}));
    volume(&mut rig, "v", "", &json!({}));
    let plugin = binding::build(&Value::Null, &mut rig.snapshot).unwrap();
    let first = rig.wait(&user(&["data", "more"]));
    let node = rig.snapshot.find_node("b").unwrap();
    plugin.reserve(&mut rig.snapshot, first, node).unwrap();
    let promise = rig.snapshot.extras.storage.promised(first).unwrap();
    assert_eq!((promise.bind.len(), promise.provision.len()), (1, 1));

    assert_eq!(ask(&mut rig, binding::build, &user(&["other"])), [UNMATCHED; 3]);
    assert_eq!(ask(&mut rig, binding::build, &user(&["more"])), [UNMATCHED, "", UNMATCHED]);
    let second = rig.wait(&user(&["other"]));
    let refusal = plugin.reserve(&mut rig.snapshot, second, node).unwrap_err();
    assert_eq!(refusal.reason, "node(s) didn't find available persistent volumes to bind");

    plugin.unreserve(&mut rig.snapshot, first, node);
    plugin.unreserve(&mut rig.snapshot, first, node);
    assert_eq!(ask(&mut rig, binding::build, &user(&["other"])), [""; 3]);
    assert_eq!(ask(&mut rig, binding::build, &user(&["more"])), [""; 3]);
}

#[test]
fn zones_of_bound_volumes_hold() {
    const ZONE: &str = "!node(s) had no available volume zone";
    let zone = "topology.kubernetes.io/zone";
    let cases: [(&str, String, [&str; 3]); 6] = [
        ("no labels", String::new(), ["", "", ""]),
        ("one zone; a node without zones is free", format!("{zone}=z1"), ["", ZONE, ""]),
        ("two zones", format!("{zone}=z1__z2"), ["", "", ""]),
        ("a zone nobody is in", format!("{zone}=z9"), [ZONE, ZONE, ""]),
        (
            "the old name of the label",
            "failure-domain.beta.kubernetes.io/zone=z2".to_owned(),
            [ZONE, "", ""],
        ),
        (
            "a region the nodes do not tell",
            "topology.kubernetes.io/region=r1".to_owned(),
            [ZONE, ZONE, ""],
        ),
    ];
    for (name, text, want) in cases {
        let mut rig = Rig::new(&NODES);
        classes(&mut rig);
        bound(&mut rig, "data", "v");
        volume(&mut rig, "v", &text, &json!({}));
        assert_eq!(ask(&mut rig, zone::build, &user(&["data"])), want, "{name}");
    }
    let mut rig = Rig::new(&NODES);
    classes(&mut rig);
    waiting(&mut rig, "data", json!({}));
    assert_eq!(ask(&mut rig, zone::build, &user(&["data"])), [""; 3], "it waits");
    waiting(&mut rig, "data", json!({"storageClassName": "now"}));
    assert_eq!(ask(&mut rig, zone::build, &user(&["data"])), ["!PersistentVolume had no name"; 3]);
}

#[test]
fn drivers_limit_the_volumes_of_a_node() {
    const FULL: &str = "node(s) exceed max volume count";
    let given = |limit: i64| {
        let mut rig = Rig::new(&NODES);
        classes(&mut rig);
        for name in ["one", "two", "three"] {
            bound(&mut rig, name, name);
            let csi = json!({"csi": {"driver": "csi.x", "volumeHandle": name}});
            volume(&mut rig, name, "", &csi);
        }
        waiting(&mut rig, "new", json!({"storageClassName": "made"}));
        let node: storage::CSINode = object(json!({"metadata": {}, "spec": {"drivers": [
            {"name": "csi.x", "nodeID": "a", "allocatable": {"count": limit}},
            {"name": "csi.y", "nodeID": "a"},
        ]}}));
        let limits = reader(&mut rig).limits(&node);
        let name = rig.snapshot.names.intern("a");
        rig.snapshot.extras.storage.limits.insert(name, limits.into_iter().collect());
        rig.run("a", &user(&["one"]));
        rig
    };
    for (name, limit, claims, want) in [
        ("room for one more", 2, &["two"][..], ["", "", ""]),
        ("no room", 1, &["two"], [FULL, "", ""]),
        ("the same volume again", 1, &["one"], ["", "", ""]),
        ("two more are too many", 2, &["two", "three"], [FULL, "", ""]),
        ("one that is still to be made", 1, &["new"], [FULL, "", ""]),
        ("one that is still to be made fits", 2, &["new"], ["", "", ""]),
    ] {
        let mut rig = given(limit);
        assert_eq!(ask(&mut rig, limits::build, &user(claims)), want, "{name}");
    }
    let mut rig = given(2);
    let object: storage::VolumeAttachment = object(json!({"metadata": {}, "spec": {
        "attacher": "csi.x", "nodeName": "a", "source": {"persistentVolumeName": "three"}}}));
    let attachment = reader(&mut rig).attachment(&object);
    let name = rig.snapshot.names.intern("va");
    rig.snapshot.extras.storage.attachments.insert(name, attachment);
    assert_eq!(ask(&mut rig, limits::build, &user(&["two"])), [FULL, "", ""], "left attached");
    assert_eq!(ask(&mut rig, limits::build, &user(&["three"])), ["", "", ""], "attached already");
}

#[test]
fn disks_are_not_shared_by_writers() {
    const DISK: &str = "node(s) had no available disk";
    let with = |volume: Value| pod("app=db", json!({"volumes": [volume]}));
    let gce = |name: &str, read_only: bool| {
        with(json!({"name": "v", "gcePersistentDisk": {"pdName": name, "readOnly": read_only}}))
    };
    let aws = |id: &str| {
        with(json!({"name": "v", "awsElasticBlockStore": {"volumeID": id, "readOnly": true}}))
    };
    let iscsi = |lun: i32, read_only: bool| {
        with(json!({"name": "v", "iscsi": {"iqn": "iqn.x", "lun": lun, "targetPortal": "t",
            "readOnly": read_only}}))
    };
    let rbd = |monitor: &str, image: &str| {
        with(json!({"name": "v", "rbd": {"monitors": [monitor, "m9"], "image": image}}))
    };
    for (name, running, pod, want) in [
        ("gce, both write", gce("d", false), gce("d", false), DISK),
        ("gce, one writes", gce("d", false), gce("d", true), DISK),
        ("gce, both read", gce("d", true), gce("d", true), ""),
        ("gce, two disks", gce("d", false), gce("e", false), ""),
        ("aws, even when both read", aws("d"), aws("d"), DISK),
        ("aws, two disks", aws("d"), aws("e"), ""),
        ("iscsi, one target, two units", iscsi(0, false), iscsi(1, false), DISK),
        ("iscsi, both read", iscsi(0, true), iscsi(0, true), ""),
        ("rbd, one shared monitor", rbd("m1", "i"), rbd("m2", "i"), DISK),
        ("rbd, two images", rbd("m1", "i"), rbd("m1", "j"), ""),
        ("two kinds", gce("d", false), aws("d"), ""),
    ] {
        let mut rig = Rig::new(&NODES);
        rig.run("b", &running);
        assert_eq!(ask(&mut rig, restrictions::build, &pod), ["", want, ""], "{name}");
    }
}

#[test]
fn a_claim_for_one_pod_is_taken_wherever_its_user_runs() {
    const TAKEN: &str = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod \
                         access mode already in-use by another pod";
    let mut rig = Rig::new(&NODES);
    let once = json!({"accessModes": ["ReadWriteOncePod"]});
    waiting(&mut rig, "data", once);
    waiting(&mut rig, "shared", json!({}));
    assert_eq!(ask(&mut rig, restrictions::build, &user(&["data"])), [""; 3]);
    let running = rig.run("b", &user(&["data", "shared"]));
    assert_eq!(ask(&mut rig, restrictions::build, &user(&["data"])), [TAKEN; 3]);
    assert_eq!(ask(&mut rig, restrictions::build, &user(&["shared"])), [""; 3]);
    rig.snapshot.detach(running);
    assert_eq!(ask(&mut rig, restrictions::build, &user(&["data"])), [""; 3]);
    let missing = "!persistentvolumeclaim \"none\" not found";
    assert_eq!(ask(&mut rig, restrictions::build, &user(&["none"])), [missing; 3]);
}

#[test]
fn resource_claims_are_refused_in_words() {
    let mut rig = Rig::new(&NODES);
    let claims = json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]});
    let build = crate::plugins::dynamic_resources::build;
    let refused = "!pod has resource claims, which this scheduler does not allocate";
    assert_eq!(ask(&mut rig, build, &pod("app=a", claims)), [refused; 3]);
    assert_eq!(ask(&mut rig, build, &pod("app=a", json!({}))), [""; 3]);
}

#[test]
fn only_own_claims_wake_a_pod() {
    use crate::plugin::{Event, Subject};
    use crate::queue::{Actions, Hint, Resource};
    let mut rig = Rig::new(&NODES);
    let plugin = binding::build(&Value::Null, &mut rig.snapshot).unwrap();
    let class = rig.class(&user(&["data"]));
    let hint = |rig: &mut Rig, namespace: &str, name: &str| {
        let key = reader(rig).claim_key(namespace, name);
        let event: Event =
            Event::new(Resource::PersistentVolumeClaim, Actions::ADD, Subject::Claim(key));
        plugin.hint(&rig.snapshot, &class, &event)
    };
    assert_eq!(hint(&mut rig, "default", "data"), Hint::Queue);
    assert_eq!(hint(&mut rig, "default", "logs"), Hint::Skip);
    assert_eq!(hint(&mut rig, "other", "data"), Hint::Skip);
}
