//! Every case, against the embedded server or the one that the environment names.
//!
//! `TIDEPOOL_CONFORMANCE_SERVER` and `TIDEPOOL_CONFORMANCE_TOKEN` name another server,
//! `TIDEPOOL_CONFORMANCE_OFFERS=controllers,initial-events` says what it has, and
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

    let server = env::var("TIDEPOOL_CONFORMANCE_SERVER").ok();
    let mut target = match &server {
        Some(url) => {
            let token = env::var("TIDEPOOL_CONFORMANCE_TOKEN").unwrap_or_default();
            Target::at(url, &token).expect("TIDEPOOL_CONFORMANCE_SERVER is an address")
        }
        None => Target::in_process(embedded::in_process().await.expect("memory is there")),
    };
    let offers = env::var("TIDEPOOL_CONFORMANCE_OFFERS").unwrap_or_default();
    target.offers.extend(offers.split_terminator(',').map(str::to_owned));
    let hooks = Hooks::start().await.expect("loopback is there");
    let played: BTreeSet<String> = cases.iter().map(conformance::Case::id).collect();
    let run = format!("{:x}", std::process::id());
    let report = conformance::run(&target, &hooks, cases, &run).await;

    for (id, why) in report.skips() {
        println!("SKIPPED {id}: {why}");
    }
    println!("{report}");
    let gaps: BTreeSet<&str> = match server {
        Some(_) => BTreeSet::new(),
        None => KNOWN_GAPS.iter().map(|gap| gap.0).filter(|id| played.contains(*id)).collect(),
    };
    let mut surprises = Vec::new();
    for (id, why) in report.failures() {
        if !gaps.contains(id) {
            surprises.push(format!("FAILED {id}\n    {why}"));
        }
    }
    let failed: BTreeSet<&str> = report.failures().map(|(id, _)| id).collect();
    for id in gaps.difference(&failed) {
        surprises.push(format!("PASSES NOW, remove it from KNOWN_GAPS: {id}"));
    }
    assert!(surprises.is_empty(), "{} surprises\n{}", surprises.len(), surprises.join("\n"));
}

#[test]
fn every_known_gap_names_a_case() {
    let cases: BTreeSet<String> =
        conformance::all().unwrap().iter().map(conformance::Case::id).collect();
    for (id, why) in KNOWN_GAPS {
        assert!(cases.contains(*id), "{id} ({why})");
    }
}
