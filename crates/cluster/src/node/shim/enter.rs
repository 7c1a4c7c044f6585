//! Becoming a container's program, or running a command beside it.

use std::error::Error;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{Gid, Uid};
use rustix::process::{chdir, chroot, getpid, setsid};
use rustix::thread::{
    LinkNameSpaceType, move_into_link_name_space, set_no_new_privs, set_thread_gid,
    set_thread_groups, set_thread_uid,
};

use super::mount;
use crate::node::record::{RunDir, RunSpec, User};

type Failure = Box<dyn Error>;

/// Returns only if it failed; the shim has been told by then.
pub(super) fn init(dir: &RunDir) -> String {
    // Standard input is the pipe on which the shim waits. The copy closes by itself when the
    // program is executed, and the program gets an empty input instead.
    let verdict = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).map(File::from);
    let message = match become_program(dir) {
        Ok(never) => match never {},
        Err(failure) => failure.to_string(),
    };
    if let Ok(mut verdict) = verdict {
        let _ = verdict.write_all(message.as_bytes());
    }
    message
}

fn become_program(dir: &RunDir) -> Result<Never, Failure> {
    let spec = dir.spec().map_err(|error| format!("cannot read the specification: {error}"))?;
    setsid()?;
    let empty = empty_input()?;
    join_groups(&spec)?;
    // Only a score above the present one needs no privilege.
    let _ = fs::write("/proc/self/oom_score_adj", spec.oom_score_adj.to_string());
    if !spec.mounts.is_empty() || spec.root.is_some() {
        mount::private(&spec, &dir.path().join("root"))?;
    }
    execute(&spec, spec.argv.iter().map(OsString::from).collect(), empty)
}

/// Runs `argv` inside the container that runs from `dir`. Returns only if it failed.
pub(super) fn exec(dir: &RunDir, argv: Vec<OsString>) -> String {
    match join_and_execute(dir, argv) {
        Ok(never) => match never {},
        Err(failure) => failure.to_string(),
    }
}

fn join_and_execute(dir: &RunDir, argv: Vec<OsString>) -> Result<Never, Failure> {
    let spec = dir.spec().map_err(|error| format!("cannot read the specification: {error}"))?;
    let running = dir.running().map_err(|_| "the container is not running")?;
    if !running.process.is_alive() {
        return Err("the container is not running".into());
    }
    let empty = empty_input()?;
    join_groups(&spec)?;
    if !spec.mounts.is_empty() || spec.root.is_some() {
        let proc = format!("/proc/{}", running.process.pid);
        let root: OwnedFd = File::open(format!("{proc}/root"))?.into();
        let namespace: OwnedFd = File::open(format!("{proc}/ns/mnt"))?.into();
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))?;
        rustix::process::fchdir(&root)?;
        chroot(".")?;
        chdir("/")?;
    }
    execute(&spec, argv, empty)
}

/// Opened early: another root directory may have no `/dev/null`.
fn empty_input() -> Result<File, Failure> {
    File::open("/dev/null").map_err(|error| format!("cannot open /dev/null: {error}").into())
}

enum Never {}

fn join_groups(spec: &RunSpec) -> Result<(), Failure> {
    let own = getpid().as_raw_nonzero().to_string();
    for dir in &spec.cgroups {
        let path = dir.join("cgroup.procs");
        let joined = File::options().write(true).open(&path);
        let joined = joined.and_then(|mut procs| procs.write_all(own.as_bytes()));
        joined.map_err(|error| format!("cannot join {}: {error}", path.display()))?;
    }
    Ok(())
}

fn execute(spec: &RunSpec, argv: Vec<OsString>, input: File) -> Result<Never, Failure> {
    if let Some(user) = &spec.user {
        become_user(user)?;
    }
    if spec.no_new_privileges {
        set_no_new_privs(true)?;
    }
    enter_dir(&spec.working_dir)?;
    let (program, args) = argv.split_first().ok_or("no command was given")?;
    let error = Command::new(program)
        .args(args)
        .env_clear()
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::from(input))
        .exec();
    Err(format!("cannot run {}: {error}", Path::new(program).display()).into())
}

/// We have one thread, so what is set for it is set for the process.
fn become_user(user: &User) -> Result<(), Failure> {
    let groups: Vec<Gid> = user.groups.iter().map(|group| Gid::from_raw(*group)).collect();
    let changed = || -> io::Result<()> {
        set_thread_groups(&groups)?;
        set_thread_gid(Gid::from_raw(user.gid))?;
        Ok(set_thread_uid(Uid::from_raw(user.uid))?)
    };
    changed().map_err(|error| format!("cannot become user {}: {error}", user.uid).into())
}

fn enter_dir(dir: &Path) -> Result<(), Failure> {
    chdir(dir).map_err(|error| format!("cannot enter {}: {error}", dir.display()).into())
}
