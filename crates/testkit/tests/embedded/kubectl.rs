//! What does a person with `kubectl` see?
//!
//! The sessions under `fixtures/kubectl` are transcripts recorded from a real kube-apiserver;
//! the embedded server must answer in the same words. `kubectl` is found through
//! `TIDEPOOL_KUBECTL` or on the path; without it the test says so and passes.

use apiserver::http::Options;
use testkit::embedded::Embedded;
use testkit::kubectl::{self, Difference};

use crate::gaps::KUBECTL_GAPS;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_sees_what_it_would_see_on_kubernetes() {
    let Some(kubectl) = kubectl::find() else {
        assert!(std::env::var_os("CI").is_none(), "no kubectl, and CI must not go without");
        println!("SKIPPED: no kubectl; name one with TIDEPOOL_KUBECTL");
        return;
    };
    let server = Embedded::start(Options::default()).await.unwrap();
    let config = server.credentials.kubeconfig(&server.url);
    let only = std::env::var("TIDEPOOL_CONFORMANCE_ONLY").unwrap_or_default();
    let mut surprises = kubectl::play_all(&kubectl, &config, &only).await;
    let name = |difference: &Difference| format!("{}: {}", difference.session, difference.command);
    for (session, command, why) in KUBECTL_GAPS {
        let gap = format!("{session}: {command}");
        let before = surprises.len();
        surprises.retain(|difference| name(difference) != gap);
        assert!(before > surprises.len() || !only.is_empty(), "works now: {gap} ({why})");
    }
    kubectl::judge(&surprises);
    server.stop().await;
}
