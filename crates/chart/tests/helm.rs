//! Does Helm say the same? Object by object, for every values file in `fixtures/chart`.

#![expect(clippy::disallowed_methods, reason = "tests read files and settings")]
#![expect(clippy::unwrap_used, reason = "a comparison that cannot be made fails its test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use chart::values::{Reading, set};
use chart::{Chart, Manifest, Release};
use serde_json::{Value, json};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The program named by `TIDEPOOL_HELM`, or the one on the path.
fn find() -> Option<PathBuf> {
    let named = std::env::var_os("TIDEPOOL_HELM").map(PathBuf::from);
    let found = named.or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|dir| dir.join("helm")).find(|file| file.is_file())
    });
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "no helm, and CI must not go without");
        println!("SKIPPED: no helm; name one with TIDEPOOL_HELM");
    }
    found
}

fn helm(program: &Path, words: &[&str]) -> Output {
    let home = std::env::temp_dir().join("tidepool-helm-home");
    Command::new(program)
        .args(words)
        // What Helm assumes without a cluster depends on how it was built.
        .args(["--kube-version", "1.35.0"])
        .current_dir(root().join("deploy/chart"))
        // Nothing of the user's own Helm, and no cluster.
        .env("HELM_CONFIG_HOME", home.join("config"))
        .env("HELM_CACHE_HOME", home.join("cache"))
        .env("HELM_DATA_HOME", home.join("data"))
        .env("KUBECONFIG", "/dev/null")
        .output()
        .unwrap()
}

type Objects = BTreeMap<(String, String, String), Value>;

fn keyed(objects: impl IntoIterator<Item = Value>) -> Objects {
    let mut keyed = Objects::new();
    for object in objects {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let meta = &object["metadata"];
        let key = (text(&object["kind"]), text(&meta["namespace"]), text(&meta["name"]));
        assert!(keyed.insert(key.clone(), object).is_none(), "twice: {key:?}");
    }
    keyed
}

fn theirs(program: &Path, words: &[&str]) -> Objects {
    let output = helm(program, &[&["template", "tidepool", "tidepool"], words].concat());
    let problems = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {problems}");
    let text = String::from_utf8(output.stdout).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    keyed(documents.into_iter().filter(|document| !document.is_null()))
}

fn ours(values: &Value, release: &Release) -> Objects {
    let manifests = Chart::embedded().unwrap().render(values, release).unwrap();
    keyed(manifests.into_iter().map(|Manifest { object, .. }| object))
}

fn assert_same(name: &str, ours: &Objects, theirs: &Objects) {
    let (our, their): (Vec<_>, Vec<_>) = (ours.keys().collect(), theirs.keys().collect());
    assert_eq!(our, their, "{name}");
    for (key, object) in ours {
        assert_eq!(
            serde_json::to_string_pretty(object).unwrap(),
            serde_json::to_string_pretty(&theirs[key]).unwrap(),
            "{name}: {key:?}"
        );
    }
}

#[test]
fn helm_makes_the_same_objects() {
    let Some(program) = find() else { return };
    let mut files: Vec<PathBuf> = fs::read_dir(root().join("fixtures/chart"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        let file = file.canonicalize().unwrap();
        let values: Value = serde_saphyr::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let path = file.display().to_string();
        let theirs = theirs(&program, &["-f", &path]);
        assert_same(&path, &ours(&values, &Release::default()), &theirs);
    }
}

#[test]
fn helm_reads_arguments_the_same_way() {
    let Some(program) = find() else { return };
    let arguments = [
        r"featureGates=A=true\,B=false",
        r"manager.nodeSelector.kubernetes\.io/os=linux,manager.replicas=1",
        "koordlet.extraArgs={--a,--b=c}",
        "crds.managed=false,manager.priorityClassName=null",
        "image.tag=007,scheduler.enabled=false",
    ];
    for argument in arguments {
        let mut values = json!({});
        set(&mut values, argument, Reading::Typed).unwrap();
        let theirs = theirs(&program, &["--set", argument]);
        assert_same(argument, &ours(&values, &Release::default()), &theirs);
    }
}

#[test]
fn a_release_in_the_namespace_does_not_make_it() {
    let release =
        Release { name: "koordinator".to_owned(), namespace: "koordinator-system".to_owned() };
    let ours = ours(&json!({}), &release);
    assert!(ours.keys().all(|(kind, ..)| kind != "Namespace"));
    let Some(program) = find() else { return };
    let output = helm(
        &program,
        &["template", "koordinator", "tidepool", "--namespace", "koordinator-system"],
    );
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap();
    assert_same("namespace", &ours, &keyed(documents.into_iter().filter(|d| !d.is_null())));
}

#[test]
fn helm_finds_nothing_to_complain_about() {
    let Some(program) = find() else { return };
    for values in ["koordinator", "everything-on", "everything-off", "other-namespace"] {
        let file = root().join(format!("fixtures/chart/{values}.yaml")).canonicalize().unwrap();
        let output =
            helm(&program, &["lint", "--strict", "tidepool", "-f", &file.display().to_string()]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{values}: {said}");
        assert!(!said.contains("[WARNING]") && !said.contains("[ERROR]"), "{values}: {said}");
    }
}
