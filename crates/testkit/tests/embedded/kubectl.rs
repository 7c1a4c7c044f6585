//! What does a person with `kubectl` see?
//!
//! The sessions under `fixtures/kubectl` are transcripts recorded from a real kube-apiserver;
//! the embedded server must answer in the same words. `kubectl` is found through
//! `TIDEPOOL_KUBECTL` or on the path; without it the test says so and passes.
//! `TIDEPOOL_CONFORMANCE_SERVER` and `_TOKEN` name another server.

use std::path::Path;

use apiserver::http::Options;
use serde_json::json;
use testkit::embedded::Embedded;
use testkit::kubectl::{self, Difference, Session};

use crate::gaps::KUBECTL_GAPS;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_sees_what_it_would_see_on_kubernetes() {
    let Some(kubectl) = kubectl::find() else {
        assert!(std::env::var_os("CI").is_none(), "no kubectl, and CI must not go without");
        println!("SKIPPED: no kubectl; name one with TIDEPOOL_KUBECTL");
        return;
    };
    let foreign = std::env::var("TIDEPOOL_CONFORMANCE_SERVER").ok();
    let embedded = match foreign {
        Some(_) => None,
        None => Some(Embedded::start(Options::default()).await.unwrap()),
    };
    let config = match &embedded {
        Some(server) => server.credentials.kubeconfig(&server.url),
        None => foreign_config(&foreign.unwrap_or_default()),
    };
    let only = std::env::var("TIDEPOOL_CONFORMANCE_ONLY").unwrap_or_default();
    let mut surprises = Vec::new();
    let mut commands = 0;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/kubectl");
    let sessions = kubectl::sessions(&folder).into_iter();
    for path in sessions.filter(|path| path.ends_with(&only) || only.is_empty()) {
        let session = Session::start(&kubectl, &config, &path).await;
        let (played, differences) = session.play().await;
        commands += played;
        surprises.extend(differences);
    }
    println!("{commands} commands");
    let name = |difference: &Difference| format!("{}: {}", difference.session, difference.command);
    if embedded.is_some() {
        for (session, command, why) in KUBECTL_GAPS {
            let gap = format!("{session}: {command}");
            let before = surprises.len();
            surprises.retain(|difference| name(difference) != gap);
            assert!(before > surprises.len() || !only.is_empty(), "works now: {gap} ({why})");
        }
    }
    let told: Vec<String> = surprises.iter().map(ToString::to_string).collect();
    assert!(told.is_empty(), "{} commands differ\n{}", told.len(), told.join("\n\n"));
    if let Some(server) = embedded {
        server.stop().await;
    }
}

fn foreign_config(url: &str) -> String {
    let token = std::env::var("TIDEPOOL_CONFORMANCE_TOKEN").unwrap_or_default();
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": url, "insecure-skip-tls-verify": true}}],
        "users": [{"name": "x", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    })
    .to_string()
}
