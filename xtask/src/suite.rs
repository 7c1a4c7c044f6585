//! Does everything hold? The one test command.
//!
//! Steps run one after the other and all of them run, so that one look at the
//! end shows everything that is wrong. The last line has the counts.

mod binaries;
pub(crate) mod tally;
pub(crate) mod transcript;

use std::{
    env,
    io::{self, IsTerminal},
    process::Command,
    time::Instant,
};

use anyhow::Result;

use self::{
    tally::{Outcome, Tally},
    transcript::Transcript,
};
use crate::{
    browser, child, docs, fuzz, guest, kube, kubectl, layers,
    machine::{self, Machine},
    prerequisites,
    repository::Repository,
    rules,
};

/// A part of the suite.
struct Step {
    name: &'static str,
    suites: Suites,
    run: fn(&Repository) -> Result<Tally>,
}

/// Which suites a step is part of: the quick one is for after every edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Suites {
    Both,
    Quick,
    Whole,
}

impl Suites {
    fn include(self, quick: bool) -> bool {
        match self {
            Self::Both => true,
            Self::Quick => quick,
            Self::Whole => !quick,
        }
    }
}

use Suites::{Both, Quick, Whole};

const STEPS: &[Step] = &[
    Step { name: "machine", suites: Whole, run: look_at_machine },
    Step { name: "prerequisites", suites: Whole, run: check_prerequisites },
    Step { name: "format", suites: Both, run: check_format },
    Step { name: "lints", suites: Both, run: check_lints },
    Step { name: "layers", suites: Both, run: check_layers },
    Step { name: "reference pages", suites: Whole, run: check_pages },
    Step { name: "tests", suites: Quick, run: run_tests_in_brief },
    Step { name: "tests", suites: Whole, run: run_tests_at_length },
    Step { name: "guest kernel", suites: Whole, run: run_in_guest },
    Step { name: "real Kubernetes", suites: Whole, run: run_on_kubernetes },
    Step { name: "browser", suites: Whole, run: browser::run },
    Step { name: "repository rules", suites: Whole, run: check_rules },
    Step { name: "fuzz smoke", suites: Whole, run: smoke_fuzz_targets },
];

/// Runs the suite, prints the results, and says whether all is well.
pub(crate) fn run(repository: &Repository, quick: bool) -> Result<bool> {
    let start = Instant::now();
    let machine = Machine::read();
    let mut tally = Tally::default();
    let mut times = Vec::new();
    let (steps, left_out): (Vec<_>, Vec<_>) =
        STEPS.iter().partition(|step| step.suites.include(quick));
    for step in steps {
        let begin = Instant::now();
        println!("[{:6.1} s] {}", start.elapsed().as_secs_f64(), step.name);
        let results = (step.run)(repository).unwrap_or_else(|error| {
            println!("{error:#}");
            single(step.name, Err(format!("{error:#}")))
        });
        times.push((step.name, begin.elapsed(), results.verdict()));
        tally.add(results);
    }

    tally.record("settings of this machine", machine.is_still(&Machine::read()));
    println!("[{:6.1} s] done", start.elapsed().as_secs_f64());
    for (name, elapsed, verdict) in times {
        println!("{:9.1} s  {name}: {verdict}", elapsed.as_secs_f64());
    }
    if quick {
        let names: Vec<_> =
            left_out.iter().map(|step| step.name).filter(|name| *name != "tests").collect();
        println!("left out by --quick: {}", names.join(", "));
    }
    if on_ci() {
        tally.refuse_skips();
    }
    println!("{tally}");
    Ok(tally.is_green())
}

fn on_ci() -> bool {
    env::var_os("CI").is_some_and(|value| value == "true")
}

fn single(what: &str, outcome: Outcome) -> Tally {
    let mut tally = Tally::default();
    tally.record(what, outcome);
    tally
}

fn cargo(repository: &Repository, arguments: &[&str]) -> Command {
    let mut command = child::leashed("cargo");
    command.args(arguments).current_dir(&repository.root);
    if io::stdout().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    command
}

/// Passes when cargo does.
fn cargo_outcome(repository: &Repository, arguments: &[&str], fix: &str) -> Result<Outcome> {
    let command = cargo(repository, arguments);
    println!("{}", child::spelled(&command));
    let status = child::stream(command, |_| {})?;
    Ok(match status.success() {
        true => Ok(()),
        false => Err(format!("{status}; {fix}")),
    })
}

/// Prints what the tests could lean on, and refuses what an earlier run left in their way.
fn look_at_machine(_: &Repository) -> Result<Tally> {
    print!("settings of the kernel:\n{}", Machine::read());
    match machine::kept_programs().as_slice() {
        [] => println!("programs kept by earlier runs: none"),
        kept => println!("programs kept by earlier runs: {}", kept.join(", ")),
    }
    Ok(single("control groups of earlier runs", machine::sweep_groups()?))
}

fn check_prerequisites(repository: &Repository) -> Result<Tally> {
    prerequisites::ensure_present(repository)?;
    kubectl::ensure_present()?;
    if kube::programs::go().is_some() {
        kube::programs::helm()?;
    }
    Ok(single("prerequisites", Ok(())))
}

fn check_format(repository: &Repository) -> Result<Tally> {
    let mut outcome =
        cargo_outcome(repository, &["fmt", "--all", "--check"], "run cargo fmt --all")?;
    // The fuzz targets are a workspace of their own.
    if outcome.is_ok() && fuzz::exists(repository) {
        let arguments = ["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"];
        let fix = "run cargo fmt --manifest-path fuzz/Cargo.toml";
        outcome = cargo_outcome(repository, &arguments, fix)?;
    }
    Ok(single("format", outcome))
}

fn check_lints(repository: &Repository) -> Result<Tally> {
    let mut outcome = Ok(());
    // Tests that only a real cluster runs are none of "all targets".
    for targets in [&["--all-targets"][..], &["--test", kube::suite::TEST]] {
        let arguments =
            [&["clippy", "--workspace"], targets, &["--locked", "--", "--deny", "warnings"]];
        if outcome.is_ok() {
            outcome = cargo_outcome(repository, &arguments.concat(), "see the warnings above")?;
        }
    }
    Ok(single("lints", outcome))
}

fn check_layers(repository: &Repository) -> Result<Tally> {
    let report = layers::inspect(repository)?;
    println!("{report}");
    let outcome = match report.problems.as_slice() {
        [] => Ok(()),
        problems => Err(problems.join("; ")),
    };
    Ok(single("layers", outcome))
}

fn check_pages(repository: &Repository) -> Result<Tally> {
    let outcome = match docs::stale(repository)?.as_slice() {
        [] => Ok(()),
        stale => Err(format!("{}; {}", stale.join("; "), docs::REFRESH)),
    };
    Ok(single("reference pages", outcome))
}

/// How often the crash test kills a server, and how long long tests are, when there is time.
const AT_LENGTH: &[(&str, &str)] =
    &[("TIDEPOOL_TEST_ROUNDS", "200"), ("TIDEPOOL_TEST_LENGTH", "whole")];

fn run_tests_in_brief(repository: &Repository) -> Result<Tally> {
    run_tests(repository, &[])
}

fn run_tests_at_length(repository: &Repository) -> Result<Tally> {
    run_tests(repository, AT_LENGTH)
}

fn run_tests(repository: &Repository, settings: &[(&str, &str)]) -> Result<Tally> {
    // The quick suite takes what is there; the whole one has made sure of it.
    let kubectl = kubectl::ensure_present().ok();
    let helm = kube::programs::helm().ok();
    let prepare = |command: &mut Command| {
        command.envs(settings.iter().copied());
        if let Some(kubectl) = &kubectl {
            command.env(kubectl::VARIABLE, kubectl);
        }
        if let Some(helm) = &helm {
            command.env("TIDEPOOL_HELM", helm);
        }
        // Goldens are compared here, never rewritten.
        command.env("INSTA_UPDATE", "no").env_remove("INSTA_FORCE_PASS").env_remove("TRYCMD");
    };
    let all = ["test", "--workspace", "--locked"];
    let mut tally = binaries::run(repository, cargo(repository, &all), prepare)?;
    let mut documentation = cargo(repository, &all);
    documentation.args(["--doc", "--no-fail-fast"]);
    prepare(&mut documentation);
    println!("{}", child::spelled(&documentation));
    let mut transcript = Transcript::default();
    let status = child::stream(documentation, |line| transcript.read(line))?;
    tally.add(transcript.finish(status.success(), &status.to_string()));
    Ok(tally)
}

fn run_in_guest(repository: &Repository) -> Result<Tally> {
    guest::run(repository, &guest::Plan::default())
}

fn run_on_kubernetes(repository: &Repository) -> Result<Tally> {
    kube::suite::run(repository, &[])
}

fn check_rules(repository: &Repository) -> Result<Tally> {
    let violations = rules::inspect(repository)?;
    for violation in &violations {
        println!("{violation}");
    }
    let outcome = match violations.as_slice() {
        [] => Ok(()),
        [first, ..] => Err(format!("{} in all, the first: {first}", violations.len())),
    };
    Ok(single("repository rules", outcome))
}

fn smoke_fuzz_targets(repository: &Repository) -> Result<Tally> {
    if !fuzz::exists(repository) {
        println!("no fuzz targets yet");
        return Ok(Tally::default());
    }
    let outcome = match fuzz::smoke(repository)?.as_slice() {
        [] => Ok(()),
        broken => Err(broken.join("; ")),
    };
    Ok(single("fuzz smoke", outcome))
}
