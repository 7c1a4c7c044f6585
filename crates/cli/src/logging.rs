//! What is said on standard error while a command runs?

use std::io;

use tracing_subscriber::EnvFilter;

/// Warnings and errors; `-v` adds what is done, `-vv` why nothing is done. `RUST_LOG` decides
/// instead when it is set.
pub(crate) fn start(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "warn,tidepool=info,agent=info,cluster=info,apiserver=info",
        2 => "info,tidepool=debug,agent=debug,cluster=debug,apiserver=debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
}
