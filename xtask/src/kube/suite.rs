//! Which tests run on a real cluster?
//!
//! Those of the test targets named `kubernetes`. They have `test = false` in their manifests, so
//! that `cargo test` leaves them to this: without a cluster there is nothing they could say.
//!
//! | cluster | test binary |
//! |---|---|
//! | API server alone | testkit: does it answer as the transcripts say? |
//! | with controllers and a node | testkit again, where controllers matter; cli: does Tidepool work there? |

use anyhow::{Context, Result};

use super::{Parts, Rig, programs};
use crate::{
    child,
    guest::programs::{self as built, Program},
    repository::Repository,
    suite::{tally::Tally, transcript::Transcript},
};

/// By convention an integration test of this name is for a real cluster.
pub(crate) const TEST: &str = "kubernetes";

/// A test binary, on the cluster it is for.
struct Run {
    parts: Parts,
    binary: &'static str,
    /// The tests that make sense there; all when none is named.
    tests: &'static [&'static str],
}

/// Neighbours share a cluster when they want the same.
const RUNS: &[Run] = &[
    Run { parts: Parts::Api, binary: "testkit.kubernetes", tests: &[] },
    Run {
        parts: Parts::Node,
        binary: "testkit.kubernetes",
        tests: &["kubernetes_behaves_like_the_transcripts"],
    },
    Run { parts: Parts::Node, binary: "cli.kubernetes", tests: &[] },
];

/// Starts one cluster after the other and runs the tests inside. Whoever names tests gets those
/// of the second.
pub(crate) fn run(repository: &Repository, arguments: &[String]) -> Result<Tally> {
    if let Some(why) = obstacle()? {
        println!("left out on this machine: {why}");
        return Ok(Tally::default());
    }
    let binaries = built::tests(repository, &[], &[TEST.to_owned()])?;
    let named: Vec<_> = arguments.iter().map(String::as_str).collect();
    let mut tally = Tally::default();
    let first = if named.is_empty() { Parts::Api } else { Parts::Node };
    for runs in RUNS.chunk_by(|one, next| one.parts == next.parts) {
        let Some(parts) = runs.first().map(|run| run.parts).filter(|parts| *parts >= first) else {
            continue;
        };
        let rig = Rig::start(repository, parts)?;
        println!("its logs are in {} meanwhile", rig.folder().join("logs").display());
        for run in runs {
            let binary = binaries.iter().find(|binary| binary.name == run.binary);
            let binary = binary.with_context(|| format!("cargo built no {}", run.binary))?;
            let tests = if named.is_empty() { run.tests } else { &named };
            tally.add(run_one(&rig, binary, tests)?);
        }
    }
    Ok(tally)
}

fn run_one(rig: &Rig, binary: &Program, arguments: &[&str]) -> Result<Tally> {
    let mut command = rig.command(binary.path())?;
    command.args(arguments).env("INSTA_UPDATE", "no");
    println!("{} {}", binary.name, arguments.join(" "));
    let mut transcript = Transcript::default();
    transcript.begin(binary.name.clone());
    let status = child::stream(command, |line| transcript.read(line))?;
    Ok(transcript.finish(status.success(), &status.to_string()))
}

/// Why this machine cannot run a cluster. That is no fault of the tests, on CI neither.
fn obstacle() -> Result<Option<&'static str>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(Some("only root may make namespaces and control groups"));
    }
    if programs::go().is_none() {
        return Ok(Some("no Go 1.25 or newer to build Kubernetes with"));
    }
    let mut unshare = child::leashed("unshare");
    unshare.args(["--net", "--pid", "--mount", "--fork", "true"]);
    let may_unshare = child::capture(unshare)?.status.success();
    Ok((!may_unshare).then_some("namespaces cannot be made here, not even by root"))
}
