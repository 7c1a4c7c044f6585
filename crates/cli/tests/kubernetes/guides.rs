//! Pages for people: does everything print what they say?

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use testkit::kubectl::{Session, Step, steps};

use crate::rig::{Rig, TIDEPOOL, repository};

pub(crate) fn first_batch_job(rig: &Rig) {
    rig.clear();
    follow(rig, "docs/guides/first-batch-job.md");
}

/// What the operator of this cluster has to say besides.
fn site(rig: &Rig) -> String {
    let root = rig.cgroup_root();
    format!(
        "image: {{host: localhost, tag: dev}}\n\
         koordlet: {{cgroup: {{driver: cgroupfs, root: {root}}}}}\n"
    )
}

/// On a cluster without us, and it leaves it so.
pub(crate) fn install_on_a_cluster(rig: &Rig) {
    follow(rig, "docs/guides/install-on-a-cluster.md");
}

/// A chart that stands for Koordinator's.
const KOORDINATOR: &str = include_str!("koordinator.yaml");

/// What was installed, and what its operator has changed since.
const BEFORE: [&str; 2] = [
    "helm install koordinator koordinator --wait > /dev/null",
    "kubectl patch configmap slo-controller-config -n koordinator-system --type=merge -p \
     '{\"data\":{\"colocation-config\":\"{\\\"enable\\\": true, \
     \\\"cpuReclaimThresholdPercent\\\": 55}\"}}' > /dev/null",
];

/// On a cluster without us.
pub(crate) fn migrate_from_koordinator(rig: &Rig) {
    let chart = rig.home().join("koordinator");
    fs::create_dir_all(chart.join("templates")).unwrap();
    let definitions = rig.tidepool(&["install", "crds"]).done();
    let about = "apiVersion: v2\nname: koordinator\nversion: 1.8.0\n";
    for (name, text) in [
        ("Chart.yaml", about),
        ("templates/all.yaml", KOORDINATOR),
        ("templates/crds.yaml", &definitions),
    ] {
        fs::write(chart.join(name), text).unwrap();
    }
    let page = "docs/guides/migrate-from-koordinator.md";
    play(rig, page, &BEFORE, &["helm uninstall koordinator --wait > /dev/null"]);
}

/// Images of the pages that stand for one that the rig has.
const IMAGES: [(&str, &str); 1] = [("busybox:stable", "localhost/busybox:dev")];

/// Types what a page says, and reads what it prints.
pub(crate) fn follow(rig: &Rig, page: &str) {
    play(rig, page, &[], &[]);
}

/// The same, with silent commands before and after.
fn play(rig: &Rig, page: &str, before: &[&str], after: &[&str]) {
    let page = repository().join(page);
    let silent = |commands: &[&str]| -> Vec<Step> {
        let step = |command: &&str| Step { command: (*command).to_owned(), output: String::new() };
        commands.iter().map(step).collect()
    };
    let told = steps(&fs::read_to_string(&page).unwrap());
    assert!(!told.is_empty(), "{} has no commands", page.display());
    let steps = [silent(before), told, silent(after)].concat();
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
        session.link(&rig.home().join("koordinator"), "koordinator");
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
