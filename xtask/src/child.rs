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
    io::{self, Read, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
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

/// How long we wait for the end of the output after the program's own end. Only
/// a process that left the group can hold the output open that long.
const STRAY_OUTPUT: Duration = Duration::from_secs(2);

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

/// Runs a leashed command, passes its output on as it comes, and shows every
/// line of it to `on_line` without terminal colours.
pub(crate) fn stream(command: Command, on_line: impl FnMut(&str)) -> Result<ExitStatus> {
    stream_to(io::stdout(), command, on_line)
}

/// As [`stream`], passing the output on to `sink`.
pub(crate) fn stream_to(
    mut sink: impl Write,
    mut command: Command,
    mut on_line: impl FnMut(&str),
) -> Result<ExitStatus> {
    let text = spelled(&command);
    let (output, input) = io::pipe().context("cannot make a pipe")?;
    command.stdin(Stdio::piped()).stdout(input.try_clone()?).stderr(input);
    let child = command.spawn().with_context(|| format!("cannot run {text}"))?;
    // The command still holds our copies of the pipe's write end.
    drop(command);

    let (send, events) = mpsc::channel();
    let exits = send.clone();
    thread::spawn(move || forward(output, &send));
    thread::spawn(move || exits.send(Event::Exit(end(child))));

    let mut lines = Lines::default();
    let mut ended = None;
    loop {
        let event = match ended {
            None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(_) => events.recv_timeout(STRAY_OUTPUT),
        };
        match event {
            Ok(Event::Output(bytes)) => {
                sink.write_all(&bytes)
                    .and_then(|()| sink.flush())
                    .with_context(|| format!("cannot pass on the output of {text}"))?;
                lines.push(&bytes, &mut on_line);
            }
            Ok(Event::Exit(status)) => ended = Some(status),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                println!("note: a process that {text} left behind holds its output open");
                break;
            }
        }
    }
    lines.finish(&mut on_line);
    ended
        .with_context(|| format!("lost track of {text}"))?
        .with_context(|| format!("cannot wait for {text}"))
}

enum Event {
    Output(Vec<u8>),
    Exit(io::Result<ExitStatus>),
}

fn forward(mut output: impl Read, send: &mpsc::Sender<Event>) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = output.read(&mut buffer) {
        let bytes = buffer.iter().take(length).copied().collect();
        if send.send(Event::Output(bytes)).is_err() {
            return;
        }
    }
}

fn end(mut child: Child) -> io::Result<ExitStatus> {
    let leash = child.stdin.take();
    let status = child.wait();
    release(leash);
    status
}

/// Tells the guard that the program has ended, so that it ends the strays.
fn release(leash: Option<ChildStdin>) {
    if let Some(mut leash) = leash {
        // A guard that is gone already has nothing left to do.
        let _ = leash.write_all(b"ended\n");
    }
}

/// Cuts chunks of output into lines.
#[derive(Default)]
struct Lines {
    partial: Vec<u8>,
}

impl Lines {
    fn push(&mut self, chunk: &[u8], on_line: &mut impl FnMut(&str)) {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.partial.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.finish(on_line);
            }
        }
    }

    fn finish(&mut self, on_line: &mut impl FnMut(&str)) {
        if !self.partial.is_empty() {
            on_line(without_colours(&String::from_utf8_lossy(&self.partial)).trim_end());
            self.partial.clear();
        }
    }
}

/// Removes escape sequences of the form `ESC [ ... letter`.
fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut pieces = text.split("\u{1b}[");
    plain.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        plain.push_str(
            piece
                .trim_start_matches(|c: char| !c.is_ascii_alphabetic())
                .get(1..)
                .unwrap_or_default(),
        );
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = leashed("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_streams_reach_the_caller_line_by_line_and_in_order() {
        let mut lines = Vec::new();
        let script = "printf 'one\\ntw'; echo o; echo three >&2; printf '\\033[1mfour\\033[0m'";
        let mut passed_on = Vec::new();
        let status =
            stream_to(&mut passed_on, shell(script), |line| lines.push(line.to_owned())).unwrap();
        assert!(status.success());
        assert_eq!(passed_on, b"one\ntwo\nthree\n\x1b[1mfour\x1b[0m");
        assert_eq!(lines, ["one", "two", "three", "four"]);
    }

    #[test]
    fn a_failing_program_keeps_its_exit_code() {
        assert_eq!(stream_to(io::sink(), shell("exit 3"), |_| {}).unwrap().code(), Some(3));
        assert_eq!(capture(shell("exit 4")).unwrap().status.code(), Some(4));
        let error = stdout_of(shell("exit 5")).unwrap_err().to_string();
        assert_eq!(error, "sh -c exit 5: exit status: 5");
    }

    #[test]
    fn strays_of_a_finished_program_do_not_hold_us_up() {
        let mut lines = Vec::new();
        let command = shell("sleep 1000 & echo done");
        let status = stream_to(io::sink(), command, |line| lines.push(line.to_owned())).unwrap();
        assert!(status.success());
        assert_eq!(lines, ["done"]);
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
