//! The program `tc`, which may flood, hang or not be there.
//!
//! Its three pipes are served at the same time by `poll`, so neither side waits for the other however much is
//! said; a call that takes longer than its limit is ended together with whatever the program started.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

use super::{QdiscError, Qdiscs, chosen_root};

/// How long a call may take.
const LIMIT: Duration = Duration::from_secs(2);

/// How much of what the program says is kept.
const MOST_KEPT: usize = 64 << 10;

/// How often it is looked whether a program that closed its pipes has ended.
const LOOK: Duration = Duration::from_millis(1);

/// How the program is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tc {
    pub program: String,
    /// Arguments before tc's own.
    pub before: Vec<String>,
    pub limit: Duration,
}

impl Default for Tc {
    fn default() -> Self {
        Self { program: "tc".to_owned(), before: Vec::new(), limit: LIMIT }
    }
}

/// What a call came to.
struct Output {
    status: ExitStatus,
    said: Vec<u8>,
    complained: Vec<u8>,
}

impl Tc {
    /// Calls the program with some input; what it says.
    pub fn run(&self, arguments: &[&str], input: &str) -> Result<String, QdiscError> {
        let failed = |source| QdiscError::Program { program: self.program.clone(), source };
        let mut child = Command::new(&self.program)
            .args(&self.before)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let served = serve(&mut child, input.as_bytes(), Instant::now() + self.limit);
        let output = match served {
            Ok(output) => output,
            Err(error) => {
                end(&mut child);
                return Err(error.map_or_else(|| self.timed_out(), failed));
            }
        };
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.said).into_owned()),
            false => {
                let text = String::from_utf8_lossy(&output.complained);
                Err(QdiscError::Refused(text.lines().next().unwrap_or_default().to_owned()))
            }
        }
    }

    fn timed_out(&self) -> QdiscError {
        QdiscError::TimedOut { program: self.program.clone(), limit: self.limit }
    }
}

impl Qdiscs for Tc {
    fn root(&self, device: &str) -> Result<Option<String>, QdiscError> {
        match self.run(&["qdisc", "show", "dev", device], "") {
            Ok(shown) => Ok(chosen_root(&shown)),
            Err(QdiscError::Refused(text)) if text.starts_with("Cannot find device") => {
                Err(QdiscError::NoDevice { device: device.to_owned() })
            }
            Err(error) => Err(error),
        }
    }

    fn batch(&self, commands: &str) -> Result<(), QdiscError> {
        self.run(&["-batch", "-"], commands).map(drop)
    }

    fn remove_root(&self, device: &str) -> Result<(), QdiscError> {
        self.run(&["qdisc", "del", "dev", device, "root"], "").map(drop)
    }
}

/// Serves the pipes of a child until it has ended; an error without a cause is the end of the time.
fn serve(child: &mut Child, input: &[u8], end: Instant) -> Result<Output, Option<io::Error>> {
    let (mut stdin, mut stdout, mut stderr) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let pipes = [
        stdin.as_ref().map(AsFd::as_fd),
        stdout.as_ref().map(AsFd::as_fd),
        stderr.as_ref().map(AsFd::as_fd),
    ];
    for pipe in pipes.into_iter().flatten() {
        rustix::io::ioctl_fionbio(pipe, true).map_err(|error| Some(error.into()))?;
    }
    let (mut left, mut said, mut complained) = (input, Vec::new(), Vec::new());
    while stdout.is_some() || stderr.is_some() {
        wait(
            &[
                (stdin.as_ref().map(AsFd::as_fd), PollFlags::OUT),
                (stdout.as_ref().map(AsFd::as_fd), PollFlags::IN),
                (stderr.as_ref().map(AsFd::as_fd), PollFlags::IN),
            ],
            end,
        )?;
        // A program that takes no more input says why, or ends well without it.
        let is_told = stdin.as_mut().is_none_or(|pipe| feed(pipe, &mut left));
        stdin = stdin.filter(|_| !is_told);
        if stdout.as_mut().is_some_and(|pipe| drain(pipe, &mut said)) {
            stdout = None;
        }
        if stderr.as_mut().is_some_and(|pipe| drain(pipe, &mut complained)) {
            stderr = None;
        }
    }
    drop(stdin);
    loop {
        if let Some(status) = child.try_wait().map_err(Some)? {
            return Ok(Output { status, said, complained });
        }
        if Instant::now() >= end {
            return Err(None);
        }
        thread::sleep(LOOK);
    }
}

/// Waits until one of the pipes can be served.
fn wait(
    pipes: &[(Option<BorrowedFd<'_>>, PollFlags)],
    end: Instant,
) -> Result<(), Option<io::Error>> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(None);
    }
    let timeout = Timespec::try_from(left).map_err(|error| Some(io::Error::other(error)))?;
    let mut fds: Vec<PollFd<'_>> = pipes
        .iter()
        .filter_map(|(pipe, flags)| Some(PollFd::from_borrowed_fd((*pipe)?, *flags)))
        .collect();
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(Some(error.into())),
    }
}

/// Gives the program as much as it takes now; whether it has all that it will take.
fn feed(pipe: &mut impl Write, left: &mut &[u8]) -> bool {
    loop {
        if left.is_empty() {
            return true;
        }
        match pipe.write(left) {
            Ok(count) => *left = left.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return true,
        }
    }
}

/// Takes what the program says now, keeping the beginning; whether it has said all.
fn drain(pipe: &mut impl Read, kept: &mut Vec<u8>) -> bool {
    let mut room = [0; 8 << 10];
    loop {
        match pipe.read(&mut room) {
            Ok(0) => return true,
            Ok(count) => {
                let fits = count.min(MOST_KEPT.saturating_sub(kept.len()));
                kept.extend_from_slice(room.get(..fits).unwrap_or_default());
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return true,
        }
    }
}

/// Ends the program and whatever it started in its process group.
fn end(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(group) = group {
        // A group that has ended is as it should be.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// A program in place of tc that does what a script says.
    fn script(dir: &Path, text: &str) -> Tc {
        let path = dir.join("tc");
        fs::write(&path, text).unwrap();
        let before = vec![path.display().to_string()];
        Tc { program: "sh".to_owned(), before, limit: Duration::from_secs(60) }
    }

    fn dir() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    /// More than two pipes hold, in both directions, before the program reads a single line.
    #[test]
    fn a_program_that_floods_is_read_while_it_is_written_to() {
        let dir = dir();
        let flood = "i=0; while [ $i -lt 4000 ]; do\n\
            echo 'Error: cannot do this, nor anything else that is asked for here' >&2\n\
            echo 'and this is said on the other pipe at the same time, at some length'\n\
            i=$((i+1)); done\ncat > /dev/null\nexit 1\n";
        let tc = script(dir.path(), flood);
        let input = "class add dev eth0 parent 1: classid 1:3 htb rate 1bit\n".repeat(10_000);
        let refused = tc.batch(&input).unwrap_err();
        let want = "tc: Error: cannot do this, nor anything else that is asked for here";
        assert_eq!(refused.to_string(), want);
    }

    #[test]
    fn a_program_that_hangs_is_killed_with_what_it_started() {
        let dir = dir();
        let started = dir.path().join("started");
        let text = format!("sleep 1000 & echo $! > {}; wait\n", started.display());
        let tc = Tc { limit: Duration::from_millis(300), ..script(dir.path(), &text) };
        let start = Instant::now();
        let error = tc.root("eth0").unwrap_err();
        assert!(matches!(error, QdiscError::TimedOut { .. }), "{error}");
        assert!(start.elapsed() < Duration::from_secs(60), "the limit ends the call");
        let child: u32 = fs::read_to_string(started).unwrap().trim().parse().unwrap();
        let is_running = || {
            let state = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            state.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
        };
        while is_running() {
            assert!(start.elapsed() < Duration::from_secs(60), "{child} was left");
            thread::sleep(LOOK);
        }
    }

    #[test]
    fn a_program_that_is_not_there_or_does_not_listen_is_told_apart() {
        let dir = dir();
        let missing = Tc { program: "/no/such/tc".to_owned(), ..Tc::default() };
        assert!(matches!(missing.root("eth0"), Err(QdiscError::Program { .. })));
        let deaf = script(dir.path(), "exec 0<&-\nexit 0\n");
        deaf.batch(&"x".repeat(1 << 20)).unwrap();
        let unknown = script(dir.path(), "echo 'Cannot find device \"v9\"' >&2; exit 1\n");
        assert!(matches!(unknown.root("v9"), Err(QdiscError::NoDevice { .. })));
    }

    /// A network of its own, with two devices that lead to each other.
    struct Namespace(String);

    impl Namespace {
        fn new() -> Option<Self> {
            let name = format!("tidepool-test-{}", std::process::id());
            let made = ip(&["netns", "add", &name]).then(|| Self(name.clone()))?;
            ip(&["-n", &name, "link", "add", "v0", "type", "veth", "peer", "name", "v1"])
                .then_some(made)
        }

        fn tc(&self) -> Tc {
            let before = ["netns", "exec", &self.0, "tc"].map(str::to_owned).to_vec();
            Tc { program: "ip".to_owned(), before, limit: Duration::from_secs(60) }
        }
    }

    impl Drop for Namespace {
        fn drop(&mut self) {
            ip(&["netns", "del", &self.0]);
        }
    }

    fn ip(arguments: &[&str]) -> bool {
        let ran = Command::new("ip").args(arguments).stderr(Stdio::null()).status();
        ran.is_ok_and(|status| status.success())
    }

    const PLAN: &str = "\
qdisc add dev v0 root handle 1: htb default 2
class add dev v0 parent 1: classid 1:1 htb rate 1000000000bit ceil 1000000000bit
class add dev v0 parent 1:1 classid 1:3 htb prio 2 rate 600000000bit ceil 1000000000bit
class add dev v0 parent 1:1 classid 1:10 htb prio 3 rate 10000000bit ceil 10000000bit
filter add dev v0 parent 1: protocol ip prio 10 u32 match ip src 10.0.0.1/32 flowid 1:3
";

    /// The same on the kernel, where there is a program, and on the fake, which obeys it.
    fn takes_a_plan_and_gives_its_queue_back(tc: &dyn Qdiscs) {
        assert_eq!(tc.root("v0").unwrap(), None, "the kernel's own");
        tc.batch(PLAN).unwrap();
        let root = tc.root("v0").unwrap().unwrap();
        assert!(root.starts_with("htb 1: "), "{root}");
        assert!(tc.batch(PLAN).is_err(), "there is a queue already");
        tc.remove_root("v0").unwrap();
        assert_eq!(tc.root("v0").unwrap(), None);
        assert!(tc.remove_root("v0").is_err(), "the kernel's own cannot be taken away");
        let orphan = "class add dev v0 parent 1:1 classid 1:3 htb rate 1000bit ceil 1000bit\n";
        assert!(tc.batch(orphan).is_err(), "there is no parent");
        let half = PLAN.replace("parent 1:1 classid 1:10", "parent 1:7 classid 1:3");
        assert!(tc.batch(&half).is_err());
        assert!(tc.root("v0").unwrap().is_some(), "up to the first that fails");
        tc.remove_root("v0").unwrap();
        tc.batch("qdisc add dev v0 root handle 7: pfifo\n").unwrap();
        let theirs = tc.root("v0").unwrap().unwrap();
        assert!(theirs.starts_with("pfifo 7: "), "{theirs}");
        assert!(matches!(tc.root("v9"), Err(QdiscError::NoDevice { .. })));
    }

    #[test]
    fn this_kernel_takes_a_plan_and_gives_its_queue_back() {
        let Some(namespace) = Namespace::new() else {
            println!("skipped: no network namespace of our own");
            return;
        };
        takes_a_plan_and_gives_its_queue_back(&namespace.tc());
    }

    #[test]
    fn the_fake_does_what_the_kernel_does() {
        takes_a_plan_and_gives_its_queue_back(&super::super::FakeQdiscs::of(&["v0"]));
    }
}
