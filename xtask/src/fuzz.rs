//! How do we fuzz without a nightly toolchain and without cargo-fuzz?
//!
//! `libfuzzer-sys` brings libFuzzer itself. What cargo-fuzz adds is the compiler
//! instrumentation, and stable rustc accepts those flags too. An explicit
//! `--target` keeps them away from build scripts and procedural macros, and a
//! target directory of its own keeps them away from everything else. The dev
//! profile of `fuzz/Cargo.toml` is optimised, and overflows still panic there.
//!
//! ```text
//! fuzz/fuzz_targets/NAME.rs   the target
//! fuzz/corpus/NAME/           checked in, small; grows only by --minimize
//! fuzz/artifacts/NAME/        inputs that broke the target; not checked in
//! TARGET_DIR/fuzz/            instrumented builds and the working corpus
//! ```

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

use crate::{child, repository::Repository};

const INSTRUMENTATION: &[&str] = &[
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
];

/// No input that people or programs send us needs to be longer to be nasty.
const LONGEST_INPUT: usize = 4096;
const MEMORY_LIMIT_MIB: usize = 2048;
/// A parser that needs this many seconds for one input has a bug.
const INPUT_TIMEOUT_SECONDS: u64 = 25;

const SMOKE_RUNS: usize = 5_000;
const SMOKE_SECONDS: u64 = 60;

/// What to fuzz, and for how long.
#[derive(Debug)]
pub(crate) struct Plan {
    /// All targets when `None`.
    pub(crate) target: Option<String>,
    pub(crate) seconds: u64,
    pub(crate) jobs: usize,
    /// Add what was found to the checked-in corpus.
    pub(crate) minimize: bool,
}

pub(crate) fn exists(repository: &Repository) -> bool {
    repository.root.join("fuzz").join("Cargo.toml").is_file()
}

/// Looks for new inputs, and says which targets broke.
pub(crate) fn run(repository: &Repository, plan: &Plan) -> Result<Vec<String>> {
    ensure!(exists(repository), "there is no fuzz/Cargo.toml");
    let targets = choose(targets(repository)?, plan.target.as_deref())?;
    let bench = Bench::build(repository)?;
    let mut broken = Vec::new();
    for target in &targets {
        println!("fuzzing {target} for {} s", plan.seconds);
        let working = bench.work.join("corpus").join(target);
        let mut options = vec![format!("-max_total_time={}", plan.seconds)];
        if plan.jobs > 1 {
            options.push(format!("-fork={}", plan.jobs));
        }
        broken.extend(bench.fuzz(target, &working, &options)?);
        if plan.minimize {
            bench.merge(target, &working)?;
        }
    }
    Ok(broken)
}

/// Builds every target and runs it over its corpus and a little beyond. The
/// seed is fixed, so that a change cannot fail by chance.
pub(crate) fn smoke(repository: &Repository) -> Result<Vec<String>> {
    let bench = Bench::build(repository)?;
    let mut broken = Vec::new();
    for target in targets(repository)? {
        println!("running {target} {SMOKE_RUNS} times");
        let working = bench.work.join("smoke").join(&target);
        if working.exists() {
            fs::remove_dir_all(&working)
                .with_context(|| format!("cannot remove {}", working.display()))?;
        }
        let options = [
            "-seed=1".to_owned(),
            "-verbosity=0".to_owned(),
            format!("-runs={SMOKE_RUNS}"),
            format!("-max_total_time={SMOKE_SECONDS}"),
        ];
        broken.extend(bench.fuzz(&target, &working, &options)?);
    }
    Ok(broken)
}

/// Names of the targets, sorted.
fn targets(repository: &Repository) -> Result<Vec<String>> {
    let folder = repository.root.join("fuzz").join("fuzz_targets");
    let entries = fs::read_dir(&folder).context("cannot list fuzz/fuzz_targets")?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry.context("cannot list fuzz/fuzz_targets")?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    ensure!(!names.is_empty(), "there is no target in fuzz/fuzz_targets");
    names.sort();
    Ok(names)
}

fn choose(all: Vec<String>, wanted: Option<&str>) -> Result<Vec<String>> {
    match wanted {
        None => Ok(all),
        Some(wanted) if all.iter().any(|name| name == wanted) => Ok(vec![wanted.to_owned()]),
        Some(wanted) => bail!("no fuzz target {wanted:?}; there are {}", all.join(", ")),
    }
}

/// Built targets and the folders they work in.
struct Bench {
    binaries: PathBuf,
    work: PathBuf,
    fuzz: PathBuf,
}

impl Bench {
    fn build(repository: &Repository) -> Result<Self> {
        let metadata = repository.metadata()?;
        let target_folder = metadata
            .get("target_directory")
            .and_then(|folder| folder.as_str())
            .context("cargo metadata has no target_directory")?;
        let work = Path::new(target_folder).join("fuzz");
        let triple = host_triple()?;
        let mut cargo = child::leashed("cargo");
        cargo
            .args(["build", "--locked", "--bins", "--manifest-path", "fuzz/Cargo.toml"])
            .args(["--target", &triple, "--target-dir"])
            .arg(&work)
            .current_dir(&repository.root)
            .env("RUSTFLAGS", INSTRUMENTATION.join(" "))
            .env_remove("CARGO_ENCODED_RUSTFLAGS");
        let status = child::stream(cargo, |_| {})?;
        ensure!(status.success(), "cannot build the fuzz targets: {status}");
        let binaries = work.join(triple).join("debug");
        Ok(Self { binaries, work, fuzz: repository.root.join("fuzz") })
    }

    /// One sentence if the target broke. New inputs go to `working`; the
    /// checked-in corpus is only read.
    fn fuzz(&self, target: &str, working: &Path, options: &[String]) -> Result<Option<String>> {
        let artifacts = self.fuzz.join("artifacts").join(target);
        for folder in [working, &artifacts] {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let mut command = self.command(target);
        command
            .args(options)
            .arg(format!("-rss_limit_mb={MEMORY_LIMIT_MIB}"))
            .arg(format!("-timeout={INPUT_TIMEOUT_SECONDS}"))
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .arg(working)
            .args(self.corpus(target));
        let status = child::stream(command, |_| {})?;
        let binary = self.binaries.join(target);
        Ok((!status.success()).then(|| {
            format!(
                "fuzz target {target}: {status}; the input is in fuzz/artifacts/{target}, \
                 replay it with {} FILE",
                binary.display()
            )
        }))
    }

    /// Copies those inputs from `working` that reach something new into the
    /// checked-in corpus.
    fn merge(&self, target: &str, working: &Path) -> Result<()> {
        let corpus = self.fuzz.join("corpus").join(target);
        fs::create_dir_all(&corpus)
            .with_context(|| format!("cannot create {}", corpus.display()))?;
        let mut command = self.command(target);
        command.arg("-merge=1").arg(&corpus).arg(working);
        let status = child::stream(command, |_| {})?;
        ensure!(status.success(), "cannot merge the corpus of {target}: {status}");
        Ok(())
    }

    fn command(&self, target: &str) -> Command {
        let mut command = child::leashed(self.binaries.join(target));
        command.arg(format!("-max_len={LONGEST_INPUT}"));
        command
    }

    fn corpus(&self, target: &str) -> Option<PathBuf> {
        Some(self.fuzz.join("corpus").join(target)).filter(|folder| folder.is_dir())
    }
}

fn host_triple() -> Result<String> {
    let mut rustc = child::leashed("rustc");
    rustc.arg("-vV");
    let version = child::stdout_of(rustc)?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV does not name its host")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_target_is_refused_with_the_known_ones() {
        let all = || vec!["cpuset".to_owned(), "quantity".to_owned()];
        assert_eq!(choose(all(), None).unwrap(), all());
        assert_eq!(choose(all(), Some("cpuset")).unwrap(), ["cpuset"]);
        let error = choose(all(), Some("cpu")).unwrap_err().to_string();
        assert_eq!(error, "no fuzz target \"cpu\"; there are cpuset, quantity");
    }
}
