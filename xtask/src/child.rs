//! How do we run other programs so that none of them outlives us?
//!
//! Every child is a process group on a leash: a pipe of which we hold the only
//! write end. A small guard in the child's group waits on the other end. When we
//! die, however we die, the kernel closes our end and the guard ends the whole
//! group, compilers and test binaries included:
//!
//! ```text
//!   xtask ──leash──> guard ┐
//!     └────────────> cargo ├ one process group
//!                     └ rustc, test binaries ┘
//! ```
//!
//! That needs no signal handler and survives `kill -9`. Processes that leave the
//! group by themselves (`setsid`) are out of reach.

use std::{
    env,
    ffi::OsStr,
    io::Write,
    os::unix::process::CommandExt,
    process::{ChildStdin, Command, ExitStatus, Output, Stdio},
};

use anyhow::{Context, Result};

/// Runs as `sh -c GUARD sh PROGRAM ARGS...` with the leash on standard input.
///
/// A line on the leash means that the program has ended and only strays are left
/// in the group; end of file means that we are gone, and the program gets a
/// moment to clean up.
const GUARD: &str = r#"
exec 3<&0 </dev/null
( trap '' TERM
  read -r ended <&3 || { kill -TERM 0; sleep 2; }
  kill -KILL 0 ) >/dev/null 2>&1 &
exec 3<&-
exec "$@"
"#;

/// A command whose process group dies with us. Arguments, environment and
/// directory are added as usual.
pub(crate) fn leashed(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", GUARD, "sh"]).arg(program).process_group(0);
    // What `cargo run` tells us about this crate is wrong for our children, and
    // build scripts that watch these variables would run again for nothing.
    for (name, _) in env::vars_os() {
        let name_text = name.to_string_lossy();
        if name_text.starts_with("CARGO_PKG_") || name_text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// The command as one would type it, for messages.
pub(crate) fn spelled(command: &Command) -> String {
    let guard_arguments = if command.get_program() == "sh" { 3 } else { 0 };
    let words: Vec<_> =
        command.get_args().skip(guard_arguments).map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

/// Everything a finished program has said.
#[derive(Debug)]
pub(crate) struct Captured {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a leashed command and keeps its output from the terminal.
pub(crate) fn capture(mut command: Command) -> Result<Captured> {
    command.stderr(Stdio::piped());
    let output = finish(command)?;
    Ok(Captured {
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// What a program prints that has no reason to fail. Its progress and its
/// complaints stay on standard error.
pub(crate) fn stdout_of(command: Command) -> Result<String> {
    let text = spelled(&command);
    let output = finish(command)?;
    anyhow::ensure!(output.status.success(), "{text}: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn finish(mut command: Command) -> Result<Output> {
    let text = spelled(&command);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("cannot run {text}"))?;
    // `wait_with_output` would close the leash first.
    let leash = child.stdin.take();
    let output = child.wait_with_output();
    release(leash);
    output.with_context(|| format!("cannot wait for {text}"))
}

/// Tells the guard that the program has ended, so that it ends the strays.
fn release(leash: Option<ChildStdin>) {
    if let Some(mut leash) = leash {
        // A guard that is gone already has nothing left to do.
        let _ = leash.write_all(b"ended\n");
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, BufRead, BufReader};

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = leashed("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_failing_program_keeps_its_exit_code() {
        assert_eq!(capture(shell("exit 4")).unwrap().status.code(), Some(4));
        let error = stdout_of(shell("exit 5")).unwrap_err().to_string();
        assert_eq!(error, "sh -c exit 5: exit status: 5");
    }

    #[test]
    fn a_cut_leash_ends_the_whole_group() {
        let (output, input) = io::pipe().unwrap();
        let mut command = shell("sleep 1000 & echo started; wait");
        command.stdin(Stdio::piped()).stdout(input);
        let mut child = command.spawn().unwrap();
        drop(command);

        let mut output = BufReader::new(output);
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "started\n");

        drop(child.stdin.take());
        // The end of the output is the death of everyone who could write to it.
        assert_eq!(output.read_line(&mut String::new()).unwrap(), 0);
        assert!(!child.wait().unwrap().success());
    }
}
