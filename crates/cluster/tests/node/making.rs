//! What a container is made of: environment, volumes, user.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{LogParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::rig::{Rig, status};

async fn objects(rig: &Rig) {
    let map: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "m"}, "data": {"colour": "blue"}}))
            .unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(rig.client.clone());
    maps.create(&PostParams::default(), &map).await.unwrap();
    let secret: Secret =
        serde_json::from_value(json!({"metadata": {"name": "s"}, "data": {"token": "c2VjcmV0"}}))
            .unwrap();
    let secrets: Api<Secret> = Api::default_namespaced(rig.client.clone());
    secrets.create(&PostParams::default(), &secret).await.unwrap();
}

/// What a script prints.
async fn printed(rig: &Rig, name: &str, script: &str, fields: Value) -> String {
    rig.run(name, script, fields).await;
    rig.until_phase(name, "Succeeded").await;
    rig.logs(name, LogParams::default()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_environment_comes_from_everywhere() {
    let rig = Rig::new().await;
    objects(&rig).await;
    let fields = json!({"containers": {
        "resources": {"limits": {"cpu": "1500m", "memory": "64Mi"}},
        "args": ["unused"],
        "env": [
            {"name": "A", "value": "1"},
            {"name": "B", "value": "$(A)-$(COLOUR_colour)"},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
        ],
        "envFrom": [{"prefix": "COLOUR_", "configMapRef": {"name": "m"}}],
    }});
    let script = "echo $B $TOKEN $POD $IP $CPU $HOSTNAME; env | grep -c CARGO; true";
    let log = printed(&rig, "env", script, fields).await;
    assert_eq!(log, "1-blue secret env 127.0.0.1 1500 env\n0\n", "nothing of ours is inherited");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_config_map_is_waited_for() {
    let rig = Rig::new().await;
    let fields = json!({"containers": {"envFrom": [{"configMapRef": {"name": "m"}}]}});
    rig.run("early", "echo $colour", fields).await;
    let pod = rig
        .until("early", "waiting for its config map", |pod| {
            let statuses =
                pod.status.iter().flat_map(|own| own.container_statuses.iter().flatten());
            let mut waiting = statuses.filter_map(|own| own.state.as_ref()?.waiting.as_ref());
            waiting.any(|own| own.message.as_deref() == Some("configmap \"m\" not found"))
        })
        .await;
    let reason = status(&pod).state.unwrap().waiting.unwrap().reason;
    assert_eq!(reason.as_deref(), Some("CreateContainerConfigError"));
    objects(&rig).await;
    rig.until_phase("early", "Succeeded").await;
    assert_eq!(rig.logs("early", LogParams::default()).await, "blue\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_hold_what_the_manifest_says() {
    let rig = Rig::new().await;
    objects(&rig).await;
    let host = tempfile::tempdir().unwrap();
    std::fs::write(host.path().join("file"), "from the host\n").unwrap();
    let volumes = json!([
        {"name": "map", "configMap": {"name": "m"}},
        {"name": "secret", "secret": {"secretName": "s", "defaultMode": 256}},
        {"name": "down", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"name": "all", "projected": {"sources": [
            {"configMap": {"name": "m", "items": [{"key": "colour", "path": "a/b"}]}},
            {"secret": {"name": "s"}},
        ]}},
        {"name": "host", "hostPath": {"path": host.path(), "type": "Directory"}},
        {"name": "scratch", "emptyDir": {}},
    ]);
    let mounts: Vec<Value> = ["map", "secret", "down", "all", "host", "scratch"]
        .iter()
        .map(|name| json!({"name": name, "mountPath": format!("/tidepool-test-volumes/{name}")}))
        .collect();
    let script = "cat $TIDEPOOL_VOLUME_MAP/colour; echo; cat $TIDEPOOL_VOLUME_SECRET/token; echo; \
        cat $TIDEPOOL_VOLUME_DOWN/name; echo; cat $TIDEPOOL_VOLUME_ALL/a/b $TIDEPOOL_VOLUME_ALL/token; echo; \
        cat $TIDEPOOL_VOLUME_HOST/file; touch $TIDEPOOL_VOLUME_SCRATCH/x && echo writable";
    let fields = json!({"containers": {"volumeMounts": mounts}, "volumes": volumes});
    let log = printed(&rig, "volumes", script, fields).await;
    assert_eq!(log, "blue\nsecret\nvolumes\nbluesecret\nfrom the host\nwritable\n");
    assert!(!std::path::Path::new("/tidepool-test-volumes").exists(), "the machine is not touched");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_cannot_be_had_holds_the_pod_back() {
    let rig = Rig::new().await;
    let volumes = json!([{"name": "claim", "persistentVolumeClaim": {"claimName": "x"}}]);
    rig.run("claims", "true", json!({"volumes": volumes})).await;
    let note = rig.until_event("claims", "FailedMount").await;
    assert_eq!(note, "volume \"claim\": persistentVolumeClaim is not supported on this node");
    let pod = rig.pods().get("claims").await.unwrap();
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Pending"));
    rig.delete("claims").await;
    rig.until_gone("claims").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_can_be_asked_for_in_parts() {
    let rig = Rig::new().await;
    rig.run("lines", "for i in 1 2 3 4 5; do echo line $i; done", json!({})).await;
    rig.until_phase("lines", "Succeeded").await;
    let none = LogParams::default;
    let cases = [
        (LogParams { tail_lines: Some(2), ..none() }, "line 4\nline 5\n"),
        (LogParams { limit_bytes: Some(10), ..none() }, "line 1\nlin"),
        (LogParams { follow: true, tail_lines: Some(1), ..none() }, "line 5\n"),
    ];
    for (params, want) in cases {
        assert_eq!(rig.logs("lines", params.clone()).await, want, "{params:?}");
    }
    let stamped =
        rig.logs("lines", LogParams { timestamps: true, tail_lines: Some(1), ..none() }).await;
    let (time, rest) = stamped.split_once(' ').unwrap();
    assert!(time.parse::<jiff::Timestamp>().is_ok() && rest == "line 5\n", "{stamped}");
    let previous = LogParams { previous: true, ..none() };
    let refused = rig.pods().logs("lines", &previous).await.unwrap_err().to_string();
    assert!(refused.contains("previous terminated container"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_label_change_does_not_disturb_the_container() {
    let rig = Rig::new().await;
    rig.run("steady", "exec sleep 600", json!({})).await;
    let before = status(&rig.until_ready("steady").await);
    let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    rig.pods().patch("steady", &PatchParams::default(), &patch).await.unwrap();
    rig.delete("steady").await;
    rig.until_gone("steady").await;
    assert_eq!(before.restart_count, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_may_run_as_another_user() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can become somebody else");
        return;
    }
    let rig = Rig::new().await;
    let fields = json!({"securityContext": {"runAsUser": 12345, "runAsGroup": 23456, "supplementalGroups": [34567]}});
    assert_eq!(
        printed(&rig, "nobody", "id -u; id -g; id -G", fields).await,
        "12345\n23456\n23456 34567\n"
    );
}

/// A directory with a shell and what it needs, to be a container's root.
fn small_root() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let needs = std::process::Command::new("ldd").arg("/bin/sh").output().unwrap();
    let needs = String::from_utf8(needs.stdout).unwrap();
    let files = needs.split_whitespace().filter(|word| word.starts_with('/')).chain(["/bin/sh"]);
    for file in files {
        let target = root.path().join(&file[1..]);
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(file, target).unwrap();
    }
    root
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_can_be_the_image() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can have another root directory");
        return;
    }
    let rig = Rig::new().await;
    let root = small_root();
    let fields = json!({
        "containers": {
            "image": root.path(),
            "volumeMounts": [
                {"name": "data", "mountPath": "/srv/data"},
                {"name": "data", "mountPath": "/srv/fixed", "readOnly": true},
            ],
            "lifecycle": {"postStart": {"exec": {"command": ["/bin/sh", "-c", "echo hook > /srv/data/hook"]}}},
        },
        "volumes": [{"name": "data", "emptyDir": {}}],
    });
    // There is no /dev/null inside.
    let script = "while ! test -s /srv/data/hook; do :; done; read word < /srv/data/hook; \
        echo $word; test -e /etc/passwd || echo no passwd; \
        { echo x > /srv/fixed/x; } 2>&- || echo fixed";
    assert_eq!(printed(&rig, "rooted", script, fields).await, "hook\nno passwd\nfixed\n");
    assert!(!root.path().join("srv").exists(), "the directory is not touched");

    let missing = json!({"containers": {"image": "/no/such/root"}});
    rig.run("rootless", "true", missing).await;
    let note = rig.until_event("rootless", "Failed").await;
    assert_eq!(note, "Error: image /no/such/root is no directory");
}
