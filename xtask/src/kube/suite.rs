//! Which tests run on a real cluster?
//!
//! Those of the test targets named `kubernetes`. They have `test = false` in their manifests, so
//! that `cargo test` leaves them to this: without a cluster there is nothing they could say.

use std::env;

use anyhow::{Context, Result, ensure};

use super::{Parts, Rig};
use crate::{
    child,
    guest::programs,
    repository::Repository,
    suite::{
        tally::{Note, Tally},
        transcript::Transcript,
    },
};

/// By convention an integration test of this name is for a real cluster.
pub(crate) const TEST: &str = "kubernetes";

/// Starts a cluster, runs the tests inside of it and ends it; then the same without controllers for
/// the tests of the API.
pub(crate) fn run(repository: &Repository, arguments: &[String]) -> Result<Tally> {
    if let Some(why) = obstacle() {
        println!("left out: {why}");
        return Ok(Tally { skipped: vec![Note::new("real Kubernetes", why)], ..Tally::default() });
    }
    let selection = ["test", "--workspace", "--locked", "--test", TEST];
    let mut build = child::leashed("cargo");
    build.args(selection).arg("--no-run").current_dir(&repository.root);
    println!("{}", child::spelled(&build));
    let status = child::stream(build, |_| {})?;
    ensure!(status.success(), "the tests for a real cluster were not built: {status}");

    let rig = Rig::start(repository, Parts::Node)?;
    println!("its logs are in {} meanwhile", rig.folder().join("logs").display());
    let mut command = rig.command("cargo")?;
    // There is no way out of the namespaces, and nothing is left to fetch.
    command.args(selection).args(["--offline", "--no-fail-fast", "--"]).args(arguments);
    command.env("INSTA_UPDATE", "no");
    println!("{}", child::spelled(&command));
    let mut transcript = Transcript::default();
    let status = child::stream(command, |line| transcript.read(line))?;
    let mut tally = transcript.finish(status.success(), &status.to_string());
    drop(rig);
    tally.add(run_on_api(repository, arguments)?);
    Ok(tally)
}

/// What an API server does by itself is asked of one that has no controllers behind it.
fn run_on_api(repository: &Repository, arguments: &[String]) -> Result<Tally> {
    let mut programs = programs::tests(repository, &[], &[TEST.to_owned()])?;
    programs.retain(|program| program.name.starts_with("testkit"));
    let rig = Rig::start(repository, Parts::Api)?;
    let mut tally = Tally::default();
    for program in programs {
        let path = program.path.to_str().context("the target directory is no text")?;
        let mut command = rig.command(path)?;
        command.args(arguments);
        println!("{}", child::spelled(&command));
        let mut transcript = Transcript::default();
        transcript.begin(format!("{} without controllers", program.name));
        let status = child::stream(command, |line| transcript.read(line))?;
        tally.add(transcript.finish(status.success(), &status.to_string()));
    }
    Ok(tally)
}

/// Why this machine cannot run a cluster.
fn obstacle() -> Option<&'static str> {
    let path = env::var_os("PATH").unwrap_or_default();
    let has_go = env::split_paths(&path).any(|folder| folder.join("go").is_file());
    match (has_go, rustix::process::geteuid().is_root()) {
        (true, true) => None,
        (false, _) => Some("no Go 1.25 or newer to build Kubernetes with"),
        (_, false) => Some("only root may make namespaces and control groups"),
    }
}
