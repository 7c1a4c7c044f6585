//! How do tests meet a real Kubernetes?
//!
//! etcd, kube-apiserver, kube-controller-manager, containerd and a kubelet run as processes of this
//! machine, in namespaces of their own: nobody else's ports, files or processes are in their way,
//! and nothing outlives them.
//!
//! | file | question |
//! |---|---|
//! | [`versions`], [`programs`] | which programs, and where are they from? |
//! | [`world`] | what do they take for their machine? |
//! | [`component`], [`credentials`] | how is each started, and who is who? |
//! | [`image`] | how do our programs get into containers? |
//! | [`keeper`], [`cgroups`] | who cleans up? |
//! | [`suite`] | which tests run on it? |
//!
//! A running rig is a folder, and tests that run inside find it in `TIDEPOOL_KUBE`:
//!
//! ```text
//! admin.kubeconfig    of a cluster-admin
//! pids/NAME           of etcd, kube-apiserver, ..., as seen inside; what is killed starts again
//! logs/NAME.log
//! programs/           kubectl, helm, ctr, and all the others
//! cgroup-root         the group around all pods
//! ```

pub(crate) mod cgroups;
mod component;
mod credentials;
pub(crate) mod image;
mod keeper;
pub(crate) mod programs;
pub(crate) mod suite;
mod versions;
mod world;

use std::{
    env,
    ffi::OsStr,
    fs,
    os::unix::{fs::symlink, process::CommandExt},
    path::{Path, PathBuf},
    process::{self, Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use clap::Subcommand;

pub(crate) use self::world::Parts;
use crate::{child, repository::Repository};

/// The environment variable that tells tests where the rig is.
pub(crate) const VARIABLE: &str = "TIDEPOOL_KUBE";

/// The one that `cargo xtask kube up` starts.
const NAMED: &str = "tidepool-kube-up";
/// Longer than everything that the inside waits for.
const PATIENCE: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(50);

#[derive(Debug, Subcommand)]
pub(crate) enum Chore {
    /// Start a cluster that stays until `down`
    Up {
        #[arg(long, value_enum, default_value = "node")]
        parts: Parts,
    },
    /// End it, and remove everything it has made
    Down,
    /// Run a program inside of it
    #[command(after_help = "Examples:\n  cargo xtask kube run kubectl get nodes\n  \
                      cargo xtask kube run bash")]
    Run {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<String>,
    },
    /// Run the end-to-end tests on a cluster of their own
    #[command(after_help = "Examples:\n  cargo xtask kube test\n  \
                      cargo xtask kube test install --nocapture")]
    Test {
        /// Arguments for the test binaries: the names of tests, --nocapture
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    #[command(hide = true)]
    Keep {
        folder: PathBuf,
        #[arg(long, value_enum)]
        parts: Parts,
        #[arg(long)]
        detached: bool,
    },
    #[command(hide = true)]
    Init {
        folder: PathBuf,
        #[arg(long, value_enum)]
        parts: Parts,
    },
}

impl Chore {
    /// `false` when the program that was run has failed.
    pub(crate) fn run(self, repository: &Repository) -> Result<bool> {
        let named = keeper::place(NAMED);
        match self {
            Self::Up { parts } => up(repository, &named, parts)?,
            Self::Down => down(&named)?,
            Self::Run { command } => {
                ensure!(keeper::is_kept(&named), "no cluster is up; run: cargo xtask kube up");
                let [program, arguments @ ..] = command.as_slice() else { bail!("run what?") };
                // At the user's terminal, so not on a leash.
                let mut command = Command::new("nsenter");
                let directory = env::current_dir().context("where am I?")?;
                enter(&mut command, &named, &directory, program)?;
                let status = command.args(arguments).status();
                return Ok(status.with_context(|| format!("cannot run {program}"))?.success());
            }
            Self::Test { arguments } => {
                let tally = suite::run(repository, &arguments)?;
                println!("{tally}");
                return Ok(tally.is_green());
            }
            Self::Keep { folder, parts, detached } => keeper::keep(&folder, parts, detached)?,
            Self::Init { folder, parts } => world::run(&folder, parts)?,
        }
        Ok(true)
    }
}

fn up(repository: &Repository, folder: &Path, parts: Parts) -> Result<()> {
    keeper::sweep_stale()?;
    ensure!(
        !keeper::is_kept(folder),
        "a cluster is up already; end it with: cargo xtask kube down"
    );
    fill(repository, folder, parts)?;
    let mut keeper = keep(folder, parts, true)?;
    wait_until_ready(folder, &mut keeper)?;
    println!("ready; try: cargo xtask kube run kubectl get nodes");
    println!("its files are in {}", folder.display());
    Ok(())
}

fn down(folder: &Path) -> Result<()> {
    if keeper::is_kept(folder) {
        let init = fs::read_to_string(folder.join(keeper::INIT)).context("it is just starting")?;
        let status = Command::new("kill").args(["-KILL", init.trim()]).status();
        ensure!(status.context("cannot run kill")?.success(), "cannot end process {}", init.trim());
        let start = Instant::now();
        // The keeper removes its pid with everything else, and the folder last.
        while folder.exists() {
            ensure!(start.elapsed() < PATIENCE, "the cluster does not end");
            thread::sleep(POLL);
        }
    }
    keeper::sweep_stale()
}

/// A cluster that ends with this value, or with this process.
#[derive(Debug)]
pub(crate) struct Rig {
    folder: PathBuf,
    /// Where programs inside begin.
    directory: PathBuf,
    keeper: Child,
}

impl Rig {
    pub(crate) fn start(repository: &Repository, parts: Parts) -> Result<Self> {
        keeper::sweep_stale()?;
        let folder = keeper::place(&format!("{}{}", keeper::PREFIX, process::id()));
        fill(repository, &folder, parts)?;
        let keeper = keep(&folder, parts, false)?;
        let mut rig = Self { folder, directory: repository.root.clone(), keeper };
        wait_until_ready(&rig.folder, &mut rig.keeper)?;
        Ok(rig)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A leashed command that runs inside.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Result<Command> {
        let mut command = child::leashed("nsenter");
        enter(&mut command, &self.folder, &self.directory, program)?;
        Ok(command)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// Makes everything that the inside needs.
fn fill(repository: &Repository, folder: &Path, parts: Parts) -> Result<()> {
    let hidden = ["/var", "/run"].into_iter().find(|place| folder.starts_with(place));
    ensure!(hidden.is_none(), "{} is hidden inside; set TMPDIR", folder.display());
    let programs = programs::ensure_present()?;
    let links = folder.join("programs");
    fs::create_dir_all(links.join("cni"))
        .with_context(|| format!("cannot make {}", links.display()))?;
    keeper::claim(folder)?;
    for (name, path) in &programs {
        symlink(path, links.join(name)).with_context(|| format!("cannot link {name}"))?;
    }
    credentials::make(folder)?;
    world::note(folder, "cgroup-root", &cgroups::name_of(folder)?)?;
    if parts == Parts::Node {
        let busybox = links.join("busybox");
        image::make(repository, &busybox, &folder.join("images"))?;
    }
    Ok(())
}

/// In a group of its own: what ends us at a terminal must not end the keeper.
fn keep(folder: &Path, parts: Parts, detached: bool) -> Result<Child> {
    let mut command = Command::new(env::current_exe().context("where am I?")?);
    command.args(["kube", "keep", "--parts", parts.name()]).arg(folder).process_group(0);
    match detached {
        // Whoever reads our output is not to wait for the end of the cluster.
        true => command
            .arg("--detached")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
        false => command.stdin(Stdio::piped()),
    };
    command.spawn().context("cannot start the keeper")
}

fn wait_until_ready(folder: &Path, keeper: &mut Child) -> Result<()> {
    let start = Instant::now();
    loop {
        // Its twin is gone as soon as the keeper has cleaned up, so it is read first.
        if let Ok(why) = fs::read_to_string(folder.join(world::FAILED)) {
            bail!("the cluster does not start: {why}");
        }
        let is_noted = folder.join(keeper::INIT).is_file();
        if is_noted && folder.join(world::READY).is_file() {
            println!("a cluster is up after {:.1} s", start.elapsed().as_secs_f64());
            return Ok(());
        }
        if let Some(status) = keeper.try_wait()? {
            bail!("the cluster does not start; its keeper: {status}");
        }
        ensure!(start.elapsed() < PATIENCE, "the cluster does not start");
        thread::sleep(POLL);
    }
}

/// Lets `nsenter` run a program in a rig's namespaces.
fn enter(
    nsenter: &mut Command,
    folder: &Path,
    directory: &Path,
    program: impl AsRef<OsStr>,
) -> Result<()> {
    let init = fs::read_to_string(folder.join(keeper::INIT)).context("the cluster is gone")?;
    nsenter
        .args(["--net", "--pid", "--mount", "--target", init.trim()])
        .arg(format!("--wd={}", directory.display()))
        .arg(program)
        .env(VARIABLE, folder)
        .env("KUBECONFIG", folder.join("admin.kubeconfig"));
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.join("programs")).chain(env::split_paths(&path));
    nsenter.env("PATH", env::join_paths(folders).context("PATH")?);
    Ok(())
}
