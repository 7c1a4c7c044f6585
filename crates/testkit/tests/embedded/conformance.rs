//! Every case, against the embedded server.
//!
//! `TIDEPOOL_CONFORMANCE_ONLY` picks the cases whose name contains a text.

use std::collections::BTreeSet;
use std::env;

use testkit::conformance::hooks::Hooks;
use testkit::conformance::{self, Target};
use testkit::embedded;

use crate::gaps::KNOWN_GAPS;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_behaves_like_kubernetes() {
    let only = env::var("TIDEPOOL_CONFORMANCE_ONLY").unwrap_or_default();
    let mut cases = conformance::all().expect("the transcripts are readable");
    assert!(cases.len() >= 150, "only {} cases", cases.len());
    cases.retain(|case| case.id().contains(&only));
    let target = Target::in_process(embedded::in_process().await.expect("memory is there"));
    let hooks = Hooks::start().await.expect("loopback is there");
    let run = format!("{:x}", std::process::id());
    conformance::run(&target, &hooks, cases, &run).await.judge(KNOWN_GAPS);
}

#[test]
fn every_known_gap_names_a_case() {
    let cases: BTreeSet<String> =
        conformance::all().unwrap().iter().map(conformance::Case::id).collect();
    for (id, why) in KNOWN_GAPS {
        assert!(cases.contains(*id), "{id} ({why})");
    }
}
