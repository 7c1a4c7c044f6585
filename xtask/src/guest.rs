//! How do tests meet a kernel with cgroup v2, NUMA nodes and hyper-threads?
//!
//! The machine that runs the tests has the cgroup version and the topology it
//! has. So test binaries are packed into an initramfs with a small first process
//! (`crates/guest`) and booted in an emulator:
//!
//! ```text
//! cargo test --no-run ──> binaries ┐
//! cargo build guest-init ──> /init ├ initramfs ┐
//! Debian's cloud kernel ───────────────────────┴ QEMU ── console ──> counts
//! ```
//!
//! There is no network, and the disk forgets what is written to it: the console is
//! the only way out. Emulated processors need no KVM, which a machine that is
//! itself virtual rarely has.

mod console;
mod initramfs;
mod kernel;
pub(crate) mod programs;

use std::{
    fs,
    path::{Path, PathBuf},
    process,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use self::{console::Console, programs::Program};
use crate::{child, repository::Repository, suite::tally::Tally};

/// How long the machine may run; it needs seconds when nothing is wrong.
pub(crate) const SECONDS: u64 = 300;

/// By convention an integration test of this name is for real kernels.
pub(crate) const TEST: &str = "kernel";

const EMULATOR: &str = "qemu-system-x86_64";
/// Exit codes of `timeout` when it had to end the program.
const TIMED_OUT: &[i32] = &[124, 137];

/// Only Intel's processors have hyper-threads in this emulator.
const PROCESSORS: &[&str] = &[
    "-accel",
    "tcg,thread=multi",
    "-cpu",
    "max,vendor=GenuineIntel",
    "-smp",
    "8,sockets=2,cores=2,threads=2",
];
const MEMORY: &[&str] = &[
    "-m",
    "1536",
    "-object",
    "memory-backend-ram,id=m0,size=768M",
    "-object",
    "memory-backend-ram,id=m1,size=768M",
    "-numa",
    "node,nodeid=0,cpus=0-3,memdev=m0",
    "-numa",
    "node,nodeid=1,cpus=4-7,memdev=m1",
];
/// A disk that reads as zeros and forgets: a cgroup is charged all the same.
const DISK: &[&str] = &[
    "-blockdev",
    "null-co,node-name=disk,size=1073741824,read-zeroes=on",
    "-device",
    "nvme,drive=disk,serial=guest",
];
const SURROUNDINGS: &[&str] = &[
    "-nodefaults",
    "-no-user-config",
    "-display",
    "none",
    "-serial",
    "stdio",
    "-monitor",
    "none",
    "-no-reboot",
];

/// How the guest describes itself when it is what we asked for.
const MACHINE: &str = "cpus=0-7 packages=2 siblings=0-1 nodes=0-1 \
                       controllers=cpuset,cpu,io,memory,hugetlb,pids,rdma,misc \
                       psi=cpu,io,memory disks=nvme0n1";

/// Only what is worse than an error reaches the console, so that the kernel does
/// not talk in between; a panic ends the machine. An emulated processor that waits
/// for a busy host is neither stalled nor locked up, and its timer is not broken.
const KERNEL_OPTIONS: &str = "console=ttyS0 loglevel=3 panic=-1 psi=1 mitigations=off \
                              tsc=reliable no_timer_check nowatchdog \
                              rcupdate.rcu_cpu_stall_suppress=1";

/// Nothing may be skipped there, and tests may know what the machine has.
const ENVIRONMENT: &[&str] =
    &["CI=true", "TIDEPOOL_TEST_TOPOLOGY=cpus=8,cores=4,sockets=2,nodes=2"];

/// Which test binaries to run, and how.
#[derive(Debug)]
pub(crate) struct Plan {
    /// All packages when empty.
    pub(crate) packages: Vec<String>,
    pub(crate) tests: Vec<String>,
    /// `NAME=VALUE` each.
    pub(crate) environment: Vec<String>,
    pub(crate) arguments: Vec<String>,
    pub(crate) seconds: u64,
}

/// What `cargo xtask test` runs.
impl Default for Plan {
    fn default() -> Self {
        Self {
            packages: Vec::new(),
            tests: vec![TEST.to_owned()],
            environment: Vec::new(),
            arguments: Vec::new(),
            seconds: SECONDS,
        }
    }
}

/// Builds, boots, and says how it went.
pub(crate) fn run(repository: &Repository, plan: &Plan) -> Result<Tally> {
    let command_line = command_line(plan)?;
    let kernel = kernel::ensure_present()?;
    let init = programs::init(repository)?;
    let tests = programs::tests(repository, &plan.packages, &plan.tests)?;
    let work = work_folder(repository)?;
    let archive = work.join("initramfs");
    let content = programs::pack(&init, &tests, &work)?;
    fs::write(&archive, content).with_context(|| format!("cannot write {}", archive.display()))?;
    let tally = boot(&kernel, &archive, &command_line, plan.seconds, &tests);
    let _ = fs::remove_dir_all(&work);
    tally
}

/// Where one run keeps its copies.
fn work_folder(repository: &Repository) -> Result<PathBuf> {
    let metadata = repository.metadata()?;
    let target_folder = metadata
        .get("target_directory")
        .and_then(Value::as_str)
        .context("cargo metadata has no target_directory")?;
    let folder = Path::new(target_folder).join(format!("guest-{}", process::id()));
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// The kernel hands what it does not know to the first process: words after `--`
/// as arguments, the others as its environment.
fn command_line(plan: &Plan) -> Result<String> {
    for word in plan.environment.iter().chain(&plan.arguments) {
        ensure!(
            !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || c == '"'),
            "{word:?} cannot be passed on a kernel's command line: no spaces, no quotes"
        );
    }
    for word in &plan.environment {
        ensure!(
            word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && !name.contains('.')),
            "{word:?} is not of the form NAME=VALUE"
        );
    }
    let mut words = vec![KERNEL_OPTIONS];
    words.extend(ENVIRONMENT);
    words.extend(plan.environment.iter().map(String::as_str));
    words.push("--");
    words.extend(plan.arguments.iter().map(String::as_str));
    Ok(words.join(" "))
}

fn boot(
    kernel: &Path,
    archive: &Path,
    command_line: &str,
    seconds: u64,
    tests: &[Program],
) -> Result<Tally> {
    let mut command = child::leashed("timeout");
    // In the foreground it stays in our process group, and on the leash.
    command
        .args(["--foreground", "--kill-after=5", &seconds.to_string(), EMULATOR])
        .args(PROCESSORS)
        .args(MEMORY)
        .args(DISK)
        .args(SURROUNDINGS)
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(archive)
        .args(["-append", command_line]);
    let names: Vec<_> = tests.iter().map(|test| test.name.clone()).collect();
    println!("booting {} with {}", kernel.display(), names.join(", "));
    let mut console = Console::default();
    let status = child::stream(command, |line| console.read(line))?;
    let emulator = match status.code() {
        Some(0) => None,
        Some(code) if TIMED_OUT.contains(&code) => Some(format!("no end within {seconds} s")),
        _ => Some(format!("{EMULATOR}: {status}")),
    };
    Ok(console.finish(MACHINE, &names, emulator))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(environment: &[&str], arguments: &[&str]) -> Plan {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Plan { environment: owned(environment), arguments: owned(arguments), ..Plan::default() }
    }

    #[test]
    fn environment_and_arguments_are_handed_on_by_the_kernel() {
        let line = command_line(&plan(&["A=1", "B="], &["memory", "--exact"])).unwrap();
        assert_eq!(
            line,
            format!("{KERNEL_OPTIONS} {} A=1 B= -- memory --exact", ENVIRONMENT.join(" "))
        );
    }

    #[test]
    fn what_the_kernel_would_tear_apart_is_refused() {
        let cases: [(&[&str], &[&str]); 6] = [
            (&["A=1 2"], &[]),
            (&["A"], &[]),
            (&["=1"], &[]),
            (&["module.option=1"], &[]),
            (&[], &["two words"]),
            (&[], &[""]),
        ];
        for (environment, arguments) in cases {
            let refused = command_line(&plan(environment, arguments)).is_err();
            assert!(refused, "{environment:?} {arguments:?}");
        }
    }
}
