//! Test binaries, several at a time.
//!
//! `cargo test` runs one binary after the other, and most of ours wait: on sockets, timers, processes. Here
//! cargo only builds; the binaries then run beside each other, the ones that measure the machine alone and
//! last. A binary's output is kept together and shown when it fails; one that passes is one line.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{tally::Tally, transcript::Transcript};
use crate::{child, repository::Repository};

/// Binaries beside each other on two cores: they wait more than they compute.
const ABREAST: usize = 3;

/// Binaries that measure processor time, allocations or latency of this machine.
const ALONE: &[(&str, &str)] = &[
    ("host", "kernel"),
    ("host", "allocations"),
    ("agent", "kernel"),
    ("tidepool", "bench"),
    ("tidepool", "demo"),
    ("tidepool", "wake_probe"),
];

/// How many of the slowest binaries are named at the end.
const SLOWEST: usize = 8;

/// A test binary that cargo has built.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Binary {
    package: String,
    target: String,
    program: PathBuf,
    /// The folder of its package, where cargo runs it.
    folder: PathBuf,
}

impl Binary {
    /// Reads one message of `cargo test --no-run --message-format json`.
    fn read(message: &Value) -> Option<Self> {
        if message.get("reason")? != "compiler-artifact" {
            return None;
        }
        if message.pointer("/profile/test")? != &Value::Bool(true) {
            return None;
        }
        let manifest = Path::new(message.get("manifest_path")?.as_str()?);
        let folder = manifest.parent()?.to_owned();
        let id = message.get("package_id")?.as_str()?;
        Some(Self {
            package: package_name(id, &folder)?,
            target: message.pointer("/target/name")?.as_str()?.to_owned(),
            program: message.get("executable")?.as_str()?.into(),
            folder,
        })
    }

    fn is_alone(&self) -> bool {
        ALONE.contains(&(&self.package, &self.target))
    }

    fn name(&self) -> String {
        match self.package == self.target {
            true => self.package.clone(),
            false => format!("{} {}", self.package, self.target),
        }
    }

    fn run(&self, prepare: &impl Fn(&mut Command)) -> Result<Report> {
        let begin = Instant::now();
        let mut command = child::leashed(&self.program);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        prepare(&mut command);
        let mut transcript = Transcript::default();
        transcript.begin(self.name());
        let mut output = Vec::new();
        let status = child::stream_to(&mut output, command, |line| transcript.read(line))?;
        let tally = transcript.finish(status.success(), &status.to_string());
        Ok(Report { name: self.name(), tally, output, elapsed: begin.elapsed() })
    }
}

/// The name in `path+file:///.../crates/cli#tidepool@0.1.0` or `.../crates/units#0.1.0`.
fn package_name(id: &str, folder: &Path) -> Option<String> {
    let (_, end) = id.rsplit_once('#')?;
    match end.split_once('@') {
        Some((name, _)) => Some(name.to_owned()),
        None => Some(folder.file_name()?.to_str()?.to_owned()),
    }
}

/// What came of one binary.
struct Report {
    name: String,
    tally: Tally,
    output: Vec<u8>,
    elapsed: Duration,
}

impl Report {
    fn print(&self) {
        let (passed, seconds) = (self.tally.passed, self.elapsed.as_secs_f64());
        if !self.tally.is_green() {
            println!("{}", String::from_utf8_lossy(&self.output));
        }
        println!("{seconds:9.1} s  {}: {}, {passed} passed", self.name, self.tally.verdict());
    }
}

/// Builds every test of the workspace and runs the binaries; `build` is cargo with its arguments.
pub(crate) fn run(
    repository: &Repository,
    mut build: Command,
    prepare: impl Fn(&mut Command) + Sync,
) -> Result<Tally> {
    build.args(["--no-run", "--message-format", "json-render-diagnostics"]);
    println!("{}", child::spelled(&build));
    let messages = child::stdout_of(build).context("the tests do not build")?;
    let parsed = messages.lines().filter_map(|line| serde_json::from_str(line).ok());
    let binaries: Vec<Binary> =
        parsed.filter_map(|message: Value| Binary::read(&message)).collect();
    anyhow::ensure!(!binaries.is_empty(), "cargo built no test binary");
    println!(
        "{} test binaries, {ABREAST} at a time, in {}",
        binaries.len(),
        repository.root.display()
    );

    let (alone, together): (Vec<_>, Vec<_>) = binaries.into_iter().partition(Binary::is_alone);
    let mut reports = run_abreast(together, ABREAST, &prepare)?;
    reports.extend(run_abreast(alone, 1, &prepare)?);
    reports.sort_by_key(|report| std::cmp::Reverse(report.elapsed));
    println!("the slowest binaries:");
    for report in reports.iter().take(SLOWEST) {
        println!("{:9.1} s  {}", report.elapsed.as_secs_f64(), report.name);
    }
    let mut tally = Tally::default();
    reports.into_iter().for_each(|report| tally.add(report.tally));
    Ok(tally)
}

fn run_abreast(
    binaries: Vec<Binary>,
    count: usize,
    prepare: &(impl Fn(&mut Command) + Sync),
) -> Result<Vec<Report>> {
    let waiting = Mutex::new(VecDeque::from(binaries));
    let reports = Mutex::new(Vec::new());
    let next = || waiting.lock().ok().and_then(|mut waiting| waiting.pop_front());
    let work = || -> Result<()> {
        while let Some(binary) = next() {
            let report = binary.run(prepare)?;
            report.print();
            reports.lock().map_err(|_| anyhow::anyhow!("a worker panicked"))?.push(report);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..count).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().map_err(|_| anyhow::anyhow!("a worker panicked"))?
        })
    })?;
    reports.into_inner().map_err(|_| anyhow::anyhow!("a worker panicked"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use serde_json::json;

    use super::*;

    fn message(is_test: bool) -> Value {
        json!({
            "reason": "compiler-artifact",
            "package_id": "path+file:///a/crates/cli#tidepool@0.1.0",
            "manifest_path": "/a/crates/cli/Cargo.toml",
            "target": { "name": "bench", "kind": ["test"] },
            "profile": { "test": is_test },
            "executable": "/a/target/debug/deps/bench-0123",
        })
    }

    #[test]
    fn a_test_binary_is_named_after_its_package_and_target() {
        let binary = Binary::read(&message(true)).unwrap();
        assert_eq!(binary.name(), "tidepool bench");
        assert_eq!(binary.folder, Path::new("/a/crates/cli"));
        assert!(binary.is_alone());
        assert_eq!(Binary::read(&message(false)), None, "a program is no test");
        assert_eq!(Binary::read(&json!({ "reason": "build-finished" })), None);
        let folder = Path::new("/a/crates/units");
        assert_eq!(package_name("path+file:///a/crates/units#0.1.0", folder).unwrap(), "units");
    }

    /// A binary that fails, one that says nothing and one that passes, beside each other.
    #[test]
    fn no_result_is_lost_when_binaries_run_beside_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let good = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured'";
        let bad = "echo 'test a ... FAILED'; \
                   echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured'; exit 101";
        let scripts = [("good", good), ("bad", bad), ("dead", "kill -ABRT $$")];
        let binaries = scripts.map(|(name, script)| {
            let program = folder.path().join(name);
            fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
            let folder = folder.path().to_owned();
            Binary { package: name.to_owned(), target: name.to_owned(), program, folder }
        });
        let reports = run_abreast(binaries.to_vec(), 2, &|_: &mut Command| {}).unwrap();
        let mut tally = Tally::default();
        reports.into_iter().for_each(|report| tally.add(report.tally));
        let failed: Vec<_> = tally.failed.iter().map(|note| note.what.as_str()).collect();
        assert_eq!(tally.passed, 3);
        assert_eq!(failed.len(), 2);
        assert!(failed.contains(&"bad: a") && failed.contains(&"dead"), "{failed:?}");
    }
}
