//! What happens between a bare kernel and our test binaries?
//!
//! This is process 1 of the guest that `cargo xtask guest` boots. It mounts what
//! tests look at, opens every cgroup controller to children of the root, says
//! what machine this is, runs each file of `/tests` in the order of their names
//! and powers off. The kernel hands its own command line on: words after `--`
//! are arguments for the test binaries, unknown `NAME=value` are their
//! environment.
//!
//! Whatever it says itself starts with `guest:`; xtask waits for these lines:
//!
//! ```text
//! guest: machine cpus=0-7 packages=2 siblings=0-1 nodes=0-1 ...
//! guest: begin host.kernel
//! (the binary's own output)
//! guest: end host.kernel: exit code 0
//! guest: done
//! ```

mod machine;

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::{self, Command},
};

use rustix::{
    mount::{MountFlags, mount},
    process::{WaitOptions, WaitStatus, wait},
    system::{RebootCommand, reboot},
};

const TESTS: &str = "/tests";
const CGROUPS: &str = "/sys/fs/cgroup";

/// Kind and place, in the order in which they must be mounted.
const MOUNTS: &[(&str, &str)] = &[
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("cgroup2", CGROUPS),
    ("tmpfs", "/tmp"),
    ("tmpfs", "/run"),
];

fn main() {
    if process::id() != 1 {
        eprintln!("error: this prepares and ends a whole machine; run `cargo xtask guest`");
        process::exit(2);
    }
    match run() {
        Ok(()) => println!("guest: done"),
        Err(error) => println!("guest: error: {error}"),
    }
    // Without a way off the kernel panics when this process ends, which ends the
    // machine as well.
    if let Err(error) = reboot(RebootCommand::PowerOff) {
        println!("guest: error: cannot power off: {error}");
    }
}

fn run() -> Result<(), String> {
    for (kind, place) in MOUNTS {
        attach(kind, place)?;
    }
    // The processor decides whether there is any; tests see the mount or not.
    if attach("resctrl", "/sys/fs/resctrl").is_err() {
        println!("guest: no resctrl on this machine");
    }
    open_controllers().map_err(|error| format!("cannot open the controllers: {error}"))?;
    println!("guest: machine {}", machine::describe());
    for binary in binaries()? {
        let name = binary.file_name().unwrap_or_default().to_string_lossy();
        println!("guest: begin {name}");
        let end = run_binary(&binary).unwrap_or_else(|error| error.to_string());
        // A binary that was killed has not finished its line.
        println!("\nguest: end {name}: {end}");
    }
    Ok(())
}

fn attach(kind: &str, place: &str) -> Result<(), String> {
    // A pseudo file system has its mount points ready; the others need one.
    let _ = fs::create_dir_all(place);
    mount(kind, place, kind, MountFlags::empty(), None)
        .map_err(|error| format!("cannot mount {kind} at {place}: {error}"))
}

/// Lets children of the root have every controller. This process moves into a
/// leaf first, as a service manager would.
fn open_controllers() -> io::Result<()> {
    let root = Path::new(CGROUPS);
    let leaf = root.join("init");
    fs::create_dir(&leaf)?;
    fs::write(leaf.join("cgroup.procs"), "0")?;
    let offered = fs::read_to_string(root.join("cgroup.controllers"))?;
    for controller in offered.split_whitespace() {
        fs::write(root.join("cgroup.subtree_control"), format!("+{controller}"))?;
    }
    Ok(())
}

fn binaries() -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(TESTS).map_err(|error| format!("cannot list {TESTS}: {error}"))?;
    let mut found: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    found.sort();
    Ok(found)
}

/// Runs one binary and collects every orphan that ends meanwhile: nobody else
/// does that for process 1.
fn run_binary(binary: &Path) -> io::Result<String> {
    let child = Command::new(binary)
        .args(env::args_os().skip(1))
        .arg("--test-threads=1")
        .current_dir("/tmp")
        .spawn()?;
    loop {
        let ended = wait(WaitOptions::empty())?;
        if let Some((pid, status)) = ended
            && u32::try_from(pid.as_raw_nonzero().get()) == Ok(child.id())
        {
            return Ok(describe(status));
        }
    }
}

fn describe(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => format!("{status:?}"),
    }
}
