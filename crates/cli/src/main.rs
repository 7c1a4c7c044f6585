//! The `tidepool` program: what was typed, what is meant, what to print.

mod bench;
mod config;
mod doctor;
mod down;
mod input;
mod install;
mod object;
mod output;
mod reference;
mod state;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Run batch work in the idle part of online machines without the online side noticing.
#[derive(Debug, Parser)]
#[command(name = "tidepool", version, max_term_width = 100, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  tidepool up
  tidepool config check slo-controller-config.yaml
  tidepool install crds | kubectl apply --server-side -f -

Exit codes: 0 done, 1 findings or a refused request, 2 wrong usage or an error.";

#[derive(Debug, Subcommand)]
enum Command {
    Up(up::Arguments),
    Down(down::Arguments),
    Get(object::get::Arguments),
    Apply(object::apply::Arguments),
    Delete(object::delete::Arguments),
    Doctor(doctor::Arguments),
    /// Check configuration, or show what a node gets from it
    #[command(subcommand)]
    Config(config::Command),
    /// Print what a cluster needs before Tidepool can run there
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

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.command {
        Command::Up(arguments) => arguments.run(),
        Command::Down(arguments) => arguments.run(),
        Command::Get(arguments) => object::run(arguments.run()),
        Command::Apply(arguments) => object::run(arguments.run()),
        Command::Delete(arguments) => object::run(arguments.run()),
        Command::Doctor(arguments) => arguments.run(),
        Command::Config(command) => command.run(),
        Command::Install(command) => command.run(),
        Command::Bench(command) => command.run(),
        Command::Reference(command) => command.run(),
    };
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
