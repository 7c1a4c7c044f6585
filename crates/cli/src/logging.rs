//! What is said on standard error while a command runs?

use std::env;
use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

/// Warnings and errors; `-v` adds what is done, `-vv` why nothing is done. `RUST_LOG` decides
/// instead when it is set.
pub(crate) fn start(verbose: u8) {
    // The client calls every failed attempt an error; whoever asked decides whether it is one.
    let level = match verbose {
        0 => "warn,kube_client=off",
        1 => {
            "warn,kube_client=off,tidepool=info,agent=info,cluster=info,control=info,apiserver=info"
        }
        2 => "info,tidepool=debug,agent=debug,cluster=debug,control=debug,apiserver=debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let has_colours = io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(has_colours)
        .with_writer(io::stderr)
        .init();
}
