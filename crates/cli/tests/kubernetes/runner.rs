//! Scenarios in their order, told in the words of a test binary.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::process::ExitCode;
use std::time::Instant;

use crate::rig::Rig;

/// One story about the cluster.
pub(crate) struct Scenario {
    name: &'static str,
    run: fn(&Rig),
    /// Whether nothing else makes sense without it.
    is_basis: bool,
}

impl Scenario {
    pub(crate) const fn new(name: &'static str, run: fn(&Rig)) -> Self {
        Self { name, run, is_basis: false }
    }

    pub(crate) const fn basis(name: &'static str, run: fn(&Rig)) -> Self {
        Self { name, run, is_basis: true }
    }
}

thread_local! {
    /// Where the last panic was, and what it said.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// What was asked for on the command line; flags of the usual runner mean nothing here.
struct Asked {
    filters: Vec<String>,
    is_list: bool,
}

impl Asked {
    fn read() -> Self {
        let mut asked = Self { filters: Vec::new(), is_list: false };
        for word in std::env::args().skip(1) {
            match word.as_str() {
                "--list" => asked.is_list = true,
                flag if flag.starts_with('-') => {}
                _ => asked.filters.push(word),
            }
        }
        asked
    }

    fn wants(&self, scenario: &Scenario) -> bool {
        let is_named = |filter: &String| scenario.name.contains(filter.as_str());
        self.filters.is_empty() || scenario.is_basis || self.filters.iter().any(is_named)
    }
}

pub(crate) fn run(scenarios: &[Scenario]) -> ExitCode {
    let asked = Asked::read();
    if asked.is_list {
        scenarios.iter().for_each(|scenario| println!("{}: test", scenario.name));
        return ExitCode::SUCCESS;
    }
    let Some(rig) = Rig::find() else {
        println!(
            "SKIPPED: no cluster; start one with `cargo xtask kube up` and name it with TIDEPOOL_KUBE"
        );
        println!("test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
        return ExitCode::SUCCESS;
    };
    panic::set_hook(Box::new(note));
    let (wanted, left_out): (Vec<_>, Vec<_>) =
        scenarios.iter().partition(|scenario| asked.wants(scenario));
    println!("running {} tests", wanted.len());
    let mut failures: Vec<(&str, String)> = Vec::new();
    let (mut passed, mut ignored) = (0, 0);
    let mut is_hopeless = false;
    for scenario in wanted {
        if is_hopeless {
            ignored += 1;
            println!("test {} ... ignored, the cluster could not be prepared", scenario.name);
            continue;
        }
        let start = Instant::now();
        match panic::catch_unwind(AssertUnwindSafe(|| (scenario.run)(&rig))) {
            Ok(()) => {
                passed += 1;
                println!("test {} ... ok", scenario.name);
            }
            Err(_) => {
                println!("test {} ... FAILED", scenario.name);
                failures.push((scenario.name, PANIC.with(|last| last.borrow().clone())));
                is_hopeless |= scenario.is_basis;
            }
        }
        println!("{:6.1} s  {}", start.elapsed().as_secs_f64(), scenario.name);
    }
    for (name, reason) in &failures {
        println!("\n---- {name} stdout ----\n{reason}");
    }
    let word = if failures.is_empty() { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {word}. {passed} passed; {} failed; {ignored} ignored; 0 measured; {} filtered out",
        failures.len(),
        left_out.len()
    );
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(101) }
}

fn note(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let message = panic.payload_as_str().unwrap_or("it panicked");
    let text = format!("thread 'main' panicked at {place}:\n{message}");
    eprintln!("{text}");
    PANIC.with(|last| *last.borrow_mut() = text);
}
