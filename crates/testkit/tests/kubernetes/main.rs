//! Does a real Kubernetes do what the transcripts say?
//!
//! The same cases and sessions that the embedded server must pass; here the real one judges them.
//! `TIDEPOOL_KUBE` names the folder of a running rig, so `cargo test` leaves this target out and
//! `cargo xtask kube run` is how to run it. Nothing stays behind in the rig.
//!
//! Controllers act on what a case makes: they publish a ConfigMap in every namespace, count pods
//! into budgets, collect garbage. So a rig without them plays the cases about the API, and a rig
//! with them those that need them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use testkit::conformance::hooks::Hooks;
use testkit::conformance::{self, Target};
use testkit::{embedded, kubectl};

const CONTROLLERS: &str = "controllers";

fn rig() -> PathBuf {
    let folder = env::var_os("TIDEPOOL_KUBE");
    folder.expect("TIDEPOOL_KUBE names the folder of a running Kubernetes").into()
}

fn has_controllers() -> bool {
    rig().join("pids/kube-controller-manager").exists()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubernetes_behaves_like_the_transcripts() {
    let only = env::var("TIDEPOOL_CONFORMANCE_ONLY").unwrap_or_default();
    let mut target = Target::of_kubeconfig(&rig().join("admin.kubeconfig")).await.unwrap();
    let mut cases = conformance::all().unwrap();
    cases.retain(|case| case.id().contains(&only));
    if has_controllers() {
        cases.retain(|case| case.needs.iter().any(|need| need == CONTROLLERS));
        target.offers.insert(CONTROLLERS.to_owned());
    }
    let hooks = Hooks::start().await.unwrap();
    let run = format!("{:x}", std::process::id());
    conformance::run(&target, &hooks, cases, &run).await.judge(&[]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_prints_what_the_sessions_say() {
    if has_controllers() {
        println!("SKIPPED: the sessions were recorded from an API without controllers");
        return;
    }
    let config = fs::read_to_string(rig().join("admin.kubeconfig")).unwrap();
    let only = env::var("TIDEPOOL_CONFORMANCE_ONLY").unwrap_or_default();
    let kubectl = rig().join("programs/kubectl");
    kubectl::judge(&kubectl::play_all(&kubectl, &config, &only).await);
}

/// Every resource of every built-in group, as `group/version name`. Other groups are definitions,
/// which come and go with the cases.
async fn resources(client: &Client) -> BTreeSet<(String, String)> {
    let is_built_in = |group: &str| !group.contains('.') || group.ends_with(".k8s.io");
    let mut lists = vec![client.list_core_api_resources("v1").await.unwrap()];
    let groups = client.list_api_groups().await.unwrap().groups.into_iter();
    for group in groups.filter(|group| is_built_in(&group.name)) {
        for version in group.versions {
            lists.push(client.list_api_group_resources(&version.group_version).await.unwrap());
        }
    }
    let named = |group: &str, name: String| (group.to_owned(), name);
    lists
        .into_iter()
        .flat_map(|list| {
            let group = list.group_version;
            list.resources.into_iter().map(move |resource| named(&group, resource.name))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_embedded_server_leaves_out_is_on_a_page() {
    let page = "../../docs/reference/differences-from-kubernetes.md";
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap();
    let kubeconfig = Kubeconfig::read_from(rig().join("admin.kubeconfig")).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let theirs = resources(&Client::try_from(config).unwrap()).await;
    let router = embedded::router(embedded::in_process().await.unwrap());
    let ours = resources(&Client::new(router, "default")).await;

    let untold: Vec<_> = theirs
        .difference(&ours)
        // The main resource stands for its status.
        .filter(|(_, name)| {
            let main = name.strip_suffix("/status").or(name.strip_suffix("/scale"));
            let main = main.or(name.strip_suffix("/approval")).unwrap_or(name);
            !page.contains(&format!("`{main}`"))
        })
        .collect();
    assert_eq!(untold, Vec::<&(String, String)>::new());
}
