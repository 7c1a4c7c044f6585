//! How do tests meet a kernel with cgroup v2, NUMA nodes and hyper-threads?
//!
//! The machine that runs the tests has the cgroup version and the topology it
//! has. So named test binaries are built statically, packed into an initramfs
//! with a small first process (`crates/guest`), and booted in an emulator:
//!
//! ```text
//! cargo test --no-run ──> binaries ┐
//! cargo build guest-init ──> /init ├ initramfs ┐
//! Debian's cloud kernel ───────────────────────┴ QEMU ── console ──> counts
//! ```
//!
//! There is no network, and the disk forgets what is written to it: the console is
//! the only way out. Emulated
//! processors need no KVM, which a machine that is itself virtual rarely has.

mod console;
mod initramfs;
mod kernel;

use std::{
    fs,
    path::{Path, PathBuf},
    process,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use self::{console::Console, initramfs::Archive};
use crate::{child, repository::Repository, suite::tally::Tally};

/// How long the machine may run; it needs seconds when nothing is wrong.
pub(crate) const SECONDS: u64 = 300;

const EMULATOR: &str = "qemu-system-x86_64";
/// Exit codes of `timeout` when it had to end the program.
const TIMED_OUT: &[i32] = &[124, 137];

/// What the machine is made of, and how it describes itself when it is so.
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
const MACHINE: &str = "cpus=0-7 packages=2 siblings=0-1 nodes=0-1 \
                       controllers=cpuset,cpu,io,memory,hugetlb,pids,rdma,misc \
                       psi=cpu,io,memory disks=nvme0n1";

/// Only what is worse than an error reaches the console, so that the kernel does
/// not talk in between; a panic ends the machine. An emulated processor that waits
/// for a busy host is neither stalled nor locked up.
const KERNEL_OPTIONS: &str = "console=ttyS0 loglevel=3 panic=-1 psi=1 mitigations=off \
                              tsc=reliable nowatchdog rcupdate.rcu_cpu_stall_suppress=1";

/// Which test binaries to run, and how.
#[derive(Debug)]
pub(crate) struct Plan {
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
            packages: vec!["host".to_owned()],
            tests: vec!["kernel".to_owned()],
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
    let workshop = Workshop::new(repository)?;
    let init = workshop.init()?;
    let binaries = workshop.tests(plan)?;
    let archive = workshop.folder.join(format!("initramfs-{}", process::id()));
    fs::write(&archive, pack(&init, &binaries)?)
        .with_context(|| format!("cannot write {}", archive.display()))?;
    let tally = boot(&kernel, &archive, &command_line, plan.seconds, &binaries);
    let _ = fs::remove_file(&archive);
    tally
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
    words.extend(plan.environment.iter().map(String::as_str));
    words.push("--");
    words.extend(plan.arguments.iter().map(String::as_str));
    Ok(words.join(" "))
}

/// A program for the guest, under the name that results are reported with.
#[derive(Debug, PartialEq, Eq)]
struct Binary {
    name: String,
    path: PathBuf,
}

/// Where programs for the guest are built. Other flags would make cargo build
/// everything again, so it is a target directory of its own.
struct Workshop {
    root: PathBuf,
    folder: PathBuf,
}

impl Workshop {
    fn new(repository: &Repository) -> Result<Self> {
        let metadata = repository.metadata()?;
        let target_folder = metadata
            .get("target_directory")
            .and_then(Value::as_str)
            .context("cargo metadata has no target_directory")?;
        let folder = Path::new(target_folder).join("guest");
        Ok(Self { root: repository.root.clone(), folder })
    }

    fn init(&self) -> Result<PathBuf> {
        let text = self.cargo(&["build", "--package", "guest-init"])?;
        let built = executables(&text, false)?;
        let [init] = built.as_slice() else { anyhow::bail!("guest-init is not one program") };
        Ok(init.path.clone())
    }

    fn tests(&self, plan: &Plan) -> Result<Vec<Binary>> {
        let mut arguments = vec!["test", "--no-run"];
        arguments.extend(plan.packages.iter().flat_map(|package| ["--package", package]));
        arguments.extend(plan.tests.iter().flat_map(|test| ["--test", test]));
        let built = executables(&self.cargo(&arguments)?, true)?;
        ensure!(!built.is_empty(), "cargo built no test binary for the guest");
        Ok(built)
    }

    /// What cargo says about everything it built.
    fn cargo(&self, arguments: &[&str]) -> Result<String> {
        let mut command = child::leashed("cargo");
        command
            .args(arguments)
            .args(["--locked", "--message-format", "json-render-diagnostics"])
            // With a target, flags stay away from build scripts and macros.
            .args(["--target", "x86_64-unknown-linux-gnu", "--target-dir"])
            .arg(&self.folder)
            .current_dir(&self.root)
            .env("RUSTFLAGS", "-Ctarget-feature=+crt-static")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            // The guest's memory holds the programs.
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .env("CARGO_PROFILE_DEV_STRIP", "true");
        println!("{}", child::spelled(&command));
        child::stdout_of(command)
    }
}

/// Programs in cargo's messages, named `folder.target`, in the order of names.
fn executables(messages: &str, tests: bool) -> Result<Vec<Binary>> {
    let mut found = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Value = serde_json::from_str(line).context("cannot read cargo's messages")?;
        let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
        let is_test = message.pointer("/profile/test").and_then(Value::as_bool) == Some(true);
        let (Some(path), true) = (text("/executable"), is_test == tests) else { continue };
        let manifest = Path::new(text("/manifest_path").unwrap_or_default());
        let package = manifest.parent().and_then(Path::file_name).unwrap_or_default();
        let target = text("/target/name").unwrap_or_default();
        let name = format!("{}.{target}", package.to_string_lossy());
        found.push(Binary { name, path: PathBuf::from(path) });
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

fn pack(init: &Path, binaries: &[Binary]) -> Result<Vec<u8>> {
    let read =
        |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let mut archive = Archive::default();
    archive.folder("dev")?;
    archive.console("dev/console")?;
    archive.program("init", &read(init)?)?;
    archive.folder("tests")?;
    for Binary { name, path } in binaries {
        archive.program(&format!("tests/{name}"), &read(path)?)?;
    }
    archive.finish()
}

fn boot(
    kernel: &Path,
    archive: &Path,
    command_line: &str,
    seconds: u64,
    binaries: &[Binary],
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
    println!("booting {} with {} test binaries", kernel.display(), binaries.len());
    let mut console = Console::default();
    let status = child::stream(command, |line| console.read(line))?;
    let emulator = match status.code() {
        Some(0) => None,
        Some(code) if TIMED_OUT.contains(&code) => Some(format!("no end within {seconds} s")),
        _ => Some(format!("{EMULATOR}: {status}")),
    };
    let names: Vec<_> = binaries.iter().map(|binary| binary.name.clone()).collect();
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
        assert_eq!(line, format!("{KERNEL_OPTIONS} A=1 B= -- memory --exact"));
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

    #[test]
    fn programs_are_found_among_cargos_messages() {
        let artifact = |folder: &str, name: &str, test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/r/crates/{folder}/Cargo.toml","target":{{"name":"{name}"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let messages = [
            artifact("units", "units", false, "null"),
            artifact("host", "kernel", true, r#""/t/kernel-1""#),
            artifact("agent", "kernel", true, r#""/t/kernel-2""#),
            artifact("guest", "guest-init", false, r#""/t/guest-init""#),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
            "a line of something else".to_owned(),
        ]
        .join("\n");
        let names = |tests| -> Vec<_> {
            executables(&messages, tests).unwrap().into_iter().map(|found| found.name).collect()
        };
        assert_eq!(names(true), ["agent.kernel", "host.kernel"]);
        assert_eq!(names(false), ["guest.guest-init"]);
        assert!(executables("{ torn", true).is_err());
    }
}
