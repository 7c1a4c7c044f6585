//! Pages for people: does everything print what they say?

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use testkit::kubectl::{Session, Step, steps};

use crate::existing;
use crate::rig::{Rig, SYSTEM, TIDEPOOL, repository};

pub(crate) fn first_batch_job(rig: &Rig) {
    rig.clear();
    follow(rig, "docs/guides/first-batch-job.md");
}

pub(crate) fn install_on_a_cluster(rig: &Rig) {
    start_over(rig);
    follow(rig, "docs/guides/install-on-a-cluster.md");
}

/// Over a release that has what Koordinator's chart makes, and that somebody has worked with.
pub(crate) fn migrate_from_koordinator(rig: &Rig) {
    start_over(rig);
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubernetes/koordinator");
    let set = ["--set", "manager.replicas=2"];
    rig.helm(&[&["install", "koordinator", chart.to_str().unwrap()], &set[..]].concat()).done();
    rig.configure("colocation-config", r#"{"enable": true, "cpuReclaimThresholdPercent": 55}"#);
    follow(rig, "docs/guides/migrate-from-koordinator.md");
    let descheduler = rig.get(&["configmap", "koord-descheduler-config", "-n", SYSTEM]).unwrap();
    assert!(descheduler["data"]["koord-descheduler-config"].is_string(), "{descheduler}");
}

/// Takes away the installation, and what it leaves to its users.
fn start_over(rig: &Rig) {
    for namespace in [SYSTEM, "default"] {
        rig.helm(&["uninstall", "tidepool", "-n", namespace, "--ignore-not-found"]).done();
    }
    existing::remove(rig);
}

/// What the operator of this cluster writes into a values file.
fn site(rig: &Rig) -> String {
    let root = rig.cgroup_root();
    format!(
        "image: {{host: localhost, tag: dev}}\n\
         koordlet: {{cgroup: {{driver: cgroupfs, root: {root}}}}}\n"
    )
}

/// Images of the pages that stand for one that the rig has.
const IMAGES: [(&str, &str); 1] = [("busybox:stable", "localhost/busybox:dev")];

/// Types what a page says, and reads what it prints.
pub(crate) fn follow(rig: &Rig, page: &str) {
    let page = repository().join(page);
    let steps = steps(&fs::read_to_string(&page).unwrap());
    assert!(!steps.is_empty(), "{} has no commands", page.display());
    let examples = examples();
    let site = rig.home().join("site.yaml");
    fs::write(&site, self::site(rig)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let config = fs::read_to_string(rig.kubeconfig()).unwrap();
        let mut session = Session::start(&rig.program("kubectl"), &config, &page).await;
        session.link(examples.path(), "examples");
        session.link(&repository().join("deploy"), "deploy");
        session.link(Path::new(TIDEPOOL), "bin/tidepool");
        session.link(&helm(rig), "bin/helm");
        session.link(&site, "site.yaml");
        // A release is where it was installed, not where the page's pods are.
        session.set("HELM_NAMESPACE", "default");
        for Step { command, output } in &steps {
            let step = Step { command: here(command), output: here(output) };
            let difference = session.check(&step).await;
            assert!(difference.is_none(), "{}", difference.unwrap());
        }
        session.tidy().await;
    });
}

/// Helm without what it tells the authors of charts: that links in one were followed.
fn helm(rig: &Rig) -> PathBuf {
    let (script, program) = (rig.home().join("helm"), rig.program("helm"));
    let quiet = "2>&1 >&3 | grep -v '^walk.go:' >&2";
    let text = format!("#!/bin/sh\n{{ {} \"$@\" {quiet}; }} 3>&1\n", program.display());
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script
}

fn here(text: &str) -> String {
    let replace = |text: String, (theirs, ours): (&str, &str)| text.replace(theirs, ours);
    IMAGES.into_iter().fold(text.to_owned(), replace)
}

/// The examples, with images that are here.
fn examples() -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(repository().join("examples")).unwrap().flatten() {
        if let Ok(text) = fs::read_to_string(entry.path()) {
            fs::write(copy.path().join(entry.file_name()), here(&text)).unwrap();
        }
    }
    copy
}
