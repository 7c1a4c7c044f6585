//! Pages for people: does everything print what they say?

use std::fs;
use std::path::Path;

use testkit::kubectl::{Session, Step, steps};

use crate::rig::{Rig, SYSTEM, TIDEPOOL, repository};

pub(crate) fn first_batch_job(rig: &Rig) {
    follow(rig, "docs/guides/first-batch-job.md");
}

pub(crate) fn turn_it_off(rig: &Rig) {
    follow(rig, "docs/guides/turn-it-off.md");
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
    let changed = r#"{"data":{"colocation-config":"{\"enable\": true, \"cpuReclaimThresholdPercent\": 55}"}}"#;
    let words = ["patch", "configmap", "slo-controller-config", "-n", SYSTEM, "--type=merge", "-p"];
    rig.kubectl(&[&words[..], &[changed]].concat()).done();
    follow(rig, "docs/guides/migrate-from-koordinator.md");
    let descheduler = rig.get(&["configmap", "koord-descheduler-config", "-n", SYSTEM]).unwrap();
    assert!(descheduler["data"]["koord-descheduler-config"].is_string(), "{descheduler}");
}

/// Takes away the installation, and what it leaves to its users.
fn start_over(rig: &Rig) {
    rig.start_kube_scheduler();
    for namespace in [SYSTEM, "default"] {
        rig.helm(&["uninstall", "tidepool", "-n", namespace, "--ignore-not-found"]).done();
    }
    let gone = ["--ignore-not-found", "--timeout=90s"];
    rig.kubectl(&[&["delete", "namespace", SYSTEM], &gone[..]].concat()).done();
    let definitions = rig.tidepool(&["install", "crds"]).done();
    rig.with_file(&[&["delete"], &gone[..]].concat(), &definitions).done();
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
    rig.clear();
    let page = repository().join(page);
    let steps = steps(&fs::read_to_string(&page).unwrap());
    assert!(!steps.is_empty(), "{} has no commands", page.display());
    let examples = examples();
    let file = examples.path().join("site.yaml");
    fs::write(&file, site(rig)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let config = fs::read_to_string(rig.kubeconfig()).unwrap();
        let mut session = Session::start(&rig.program("kubectl"), &config, &page).await;
        session.link(examples.path(), "examples");
        session.link(&repository().join("deploy"), "deploy");
        session.link(Path::new(TIDEPOOL), "bin/tidepool");
        session.link(&rig.program("helm"), "bin/helm");
        session.link(&file, "site.yaml");
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
