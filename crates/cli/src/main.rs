//! The `tidepool` program: what was typed, what is meant, what to print.

mod admit;
mod agent;
mod config;
mod demo;
mod doctor;
mod down;
mod explain;
mod go_flags;
mod input;
mod install;
mod logging;
mod manager;
mod object;
mod output;
mod reference;
mod saved;
mod scheduler;
mod state;
mod switch;
mod top;
mod up;

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Run batch work in the idle part of online machines without the online side noticing.
#[derive(Debug, Parser)]
#[command(name = "tidepool", version, max_term_width = 100, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Say what is done; twice, also why nothing is done (RUST_LOG overrides it)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
}

const EXAMPLES: &str = "\
Examples:
  tidepool demo
  tidepool up
  tidepool config check slo-controller-config.yaml
  tidepool install crds | kubectl apply --server-side -f -

Exit codes: 0 done, 1 findings or a refused request, 2 wrong usage or an error.";

#[derive(Debug, Subcommand)]
enum Command {
    Up(up::Arguments),
    Down(down::Arguments),
    Demo(demo::Arguments),
    Top(top::Arguments),
    Agent(agent::Arguments),
    Manager(Box<manager::Arguments>),
    Off(switch::OffArguments),
    On(switch::OnArguments),
    Scheduler(scheduler::Arguments),
    Get(object::get::Arguments),
    Apply(object::apply::Arguments),
    Delete(object::delete::Arguments),
    Doctor(doctor::Arguments),
    Admit(Box<admit::Arguments>),
    /// Explain where a number comes from, or why a pod is where it is
    #[command(subcommand)]
    Explain(explain::Command),
    /// Check configuration, or show what a node gets from it
    #[command(subcommand)]
    Config(config::Command),
    /// Print what a cluster needs for Tidepool to run there
    #[command(subcommand)]
    Install(install::Command),
    #[command(subcommand)]
    Bench(bench::Command),
    /// Print a page of the generated reference
    #[command(subcommand, hide = true)]
    Reference(reference::Command),
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    Findings,
    /// Part of the work was not possible, and the command has said why.
    Failed,
}

impl Outcome {
    /// Of a command that found everything in order, or did not.
    fn of(is_in_order: bool) -> Self {
        if is_in_order { Self::Done } else { Self::Findings }
    }
}

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    match words.next() {
        Some(word) if word == up::SHIM => return cluster::node::shim_main(words),
        Some(word) if word == ::agent::act::wake::WORD => return agent::probe_wake(),
        _ => {}
    }
    if let Some(words) = words_of_link(agent::koordlet::LINK) {
        return agent::koordlet::run(words);
    }
    if let Some(words) = words_of_link(manager::koord_manager::LINK) {
        return finish(manager::koord_manager::run(words));
    }
    if let Some(words) = words_of_link(scheduler::koord_scheduler::LINK) {
        return finish(scheduler::koord_scheduler::run(words));
    }
    let arguments = Arguments::parse();
    logging::start(arguments.verbose);
    let result = match arguments.command {
        Command::Up(arguments) => arguments.run(),
        Command::Down(arguments) => arguments.run(),
        Command::Demo(arguments) => arguments.run(),
        Command::Top(arguments) => arguments.run(),
        Command::Agent(arguments) => arguments.run(),
        Command::Manager(arguments) => arguments.run(),
        Command::Off(arguments) => arguments.run(),
        Command::On(arguments) => arguments.run(),
        Command::Scheduler(arguments) => arguments.run(),
        Command::Get(arguments) => object::run(arguments.run()),
        Command::Apply(arguments) => object::run(arguments.run()),
        Command::Delete(arguments) => object::run(arguments.run()),
        Command::Doctor(arguments) => arguments.run(),
        Command::Admit(arguments) => arguments.run(),
        Command::Explain(command) => object::run(command.run()),
        Command::Config(command) => command.run(),
        Command::Install(command) => command.run(),
        Command::Bench(command) => command.run().map(Outcome::of),
        Command::Reference(command) => command.run(),
    };
    finish(result)
}

/// The words after the program's name, if it was called by the name of this link.
fn words_of_link(link: &str) -> Option<impl Iterator<Item = String>> {
    let mut words = std::env::args_os();
    let program = words.next()?;
    let is_link = Path::new(&program).file_name().is_some_and(|name| name == link);
    is_link.then(|| words.map(|word| word.to_string_lossy().into_owned()))
}

/// Says what went wrong, in words and as an exit code.
fn finish(result: anyhow::Result<Outcome>) -> ExitCode {
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Findings) => ExitCode::from(1),
        Ok(Outcome::Failed) => ExitCode::from(2),
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidepool: {error:#}");
            ExitCode::from(2)
        }
    }
}
