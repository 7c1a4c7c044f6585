//! The conformance cases that an API server alone cannot pass.

use apiserver::http::router;
use cluster::controllers;
use kube::Client;
use testkit::conformance::hooks::Hooks;
use testkit::conformance::{self, Outcome, Target};
use testkit::embedded;
use tokio_util::sync::CancellationToken;

const NEED: &str = "controllers";

#[tokio::test(flavor = "multi_thread")]
async fn cases_that_need_controllers_pass() {
    let mut cases = conformance::all().expect("the transcripts are readable");
    cases.retain(|case| case.needs.iter().any(|need| need == NEED));
    assert!(cases.len() >= 6, "only {} cases", cases.len());

    let server = embedded::in_process().await.expect("memory is there");
    let shutdown = CancellationToken::new();
    let client = Client::new(router(server.clone()), "default");
    let running = tokio::spawn(controllers::run(client, shutdown.clone()));
    let mut target = Target::in_process(server);
    target.offers.insert(NEED.to_owned());
    let hooks = Hooks::start().await.expect("loopback is there");
    let report = conformance::run(&target, &hooks, cases, "c").await;

    for (id, outcome) in &report.outcomes {
        assert_eq!(*outcome, Outcome::Passed, "{id}");
    }
    shutdown.cancel();
    let ended = running.await.expect("controllers do not panic");
    ended.expect("controllers run until they are told to stop");
}
