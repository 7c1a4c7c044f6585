//! The small process beside every container that does not die with `tidepool`.
//!
//! ```text
//! tidepool ── spawns ──> shim ── spawns ──> init ── becomes ──> the container's program
//!    │                    │  <── output ─────┘
//!    └─ signal numbers ──>│ control pipe
//!                         └─> log file, running.json, exit.json
//! ```
//!
//! The **shim** ([`run`]) reads the output, writes the log, waits for the program, kills what it leaves
//! behind and writes down how it ended. It is in a session of its own and holds no pipe to
//! `tidepool`, which may be killed at any moment, come back and find everything in the container's
//! directory. **Init** ([`enter`]) is the process that becomes the program: it joins the control group,
//! sets up mounts, root, user and working directory, and executes. Everything it does happens
//! after the fork and before the program, so no limit is ever late. **Exec** runs a probe or a hook
//! the same way, inside a container that runs.
//!
//! All three are the program itself, called again with hidden arguments; they use no async runtime
//! and next to no memory.

mod descendants;
mod enter;
mod mount;
mod run;

pub(crate) use run::send;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::node::record::RunDir;

/// Status of a container whose program could not be started.
pub(crate) const NOT_STARTED: i32 = 128;

/// What the program does when called with the hidden arguments; `args` are those that follow the
/// ones in [`Shim::args`](crate::node::Shim::args). Call it before anything else starts threads.
pub fn shim_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter();
    let stage = args.next().unwrap_or_default();
    let Some(dir) = args.next().map(RunDir::new) else { return refuse("no directory was given") };
    let done = match stage.to_str() {
        Some("run") => run::run(&dir).map_err(|error| error.to_string()),
        Some("init") => Err(enter::init(&dir)),
        Some("exec") => Err(enter::exec(&dir, args.collect())),
        Some("check") => mount::check().map_err(|error| error.to_string()),
        _ => Err(format!("unknown stage {stage:?}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => refuse(&message),
    }
}

fn refuse(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::from(u8::try_from(NOT_STARTED).unwrap_or(u8::MAX))
}
