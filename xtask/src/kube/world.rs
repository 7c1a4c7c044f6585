//! What do the programs of a cluster take for their machine?
//!
//! Namespaces of their own for processes, mounts and networks, in which this process is the first:
//! when it ends, the kernel ends everything, containers included. It starts the programs in order,
//! says that they are ready and starts again what dies.
//!
//! ```text
//! /var   what is written is the rig's  lo      10.96.0.1, the API server's service address
//! /run   in memory                    node0   10.77.0.1, the node's address
//! /proc  of these processes           pods0   10.78.0.0/16
//! ```
//!
//! Settings of the kernel that are not the network's are read-only here: they are the machine's. Over
//! those that a kubelet insists on lie files of the rig's own, with the kernel's defaults in them.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{WaitOptions, wait};

use super::{
    cgroups,
    component::{self, CONTAINERD_SOCKET, Component},
};

pub(crate) const NODE: &str = "node-1";
pub(crate) const NODE_ADDRESS: &str = "10.77.0.1";
pub(crate) const SERVICE_ADDRESS: &str = "10.96.0.1";
pub(crate) const SERVICE_RANGE: &str = "10.96.0.0/16";
pub(crate) const POD_RANGE: &str = "10.78.0.0/16";

/// Says that all is up; its twin holds why it is not.
pub(crate) const READY: &str = "ready";
pub(crate) const FAILED: &str = "failed";

/// A slow machine needs its time; one that needs more has a problem.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(250);
/// Between the end of a program and its next life.
const PAUSE: Duration = Duration::from_millis(300);

/// What a kubelet sets at its start, with the values that a new machine has.
const SETTINGS: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "0"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "0"),
    ("kernel/panic_on_oops", "0"),
    ("kernel/keys/root_maxkeys", "200"),
    ("kernel/keys/root_maxbytes", "20000"),
];

/// How much of a cluster is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Parts {
    /// etcd and the API server.
    Api,
    /// Also controllers, and a node that runs containers.
    Node,
}

impl Parts {
    /// As an argument.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Node => "node",
        }
    }
}

/// The inside of a rig.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) folder: PathBuf,
    /// Around all pods.
    pub(crate) cgroup: String,
    parts: Parts,
}

/// The first process of the namespaces. Returns only with an error.
pub(crate) fn run(folder: &Path, parts: Parts) -> Result<()> {
    thread::spawn(|| {
        // The leash: whoever holds the other end is gone.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        process::exit(0);
    });
    let world = World { folder: folder.to_owned(), cgroup: cgroups::name_of(folder)?, parts };
    match world.begin() {
        Ok(components) => world.supervise(components),
        Err(error) => {
            let text = format!("{error:#}\n{}", world.last_words());
            fs::write(folder.join(FAILED), text).context("cannot say what failed")?;
            Err(error)
        }
    }
}

type Running = (Component, process::Child);

impl World {
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.folder.join("programs").join(name)
    }

    /// With it the kubelet and containerd find their helpers.
    pub(crate) fn path(&self) -> String {
        format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", self.folder.join("programs").display())
    }

    fn begin(&self) -> Result<Vec<Running>> {
        self.mount()?;
        network()?;
        for folder in ["logs", "pids"] {
            fs::create_dir_all(self.folder.join(folder)).context("cannot make folders")?;
        }
        let all = &mut Vec::new();
        self.start(Component::Etcd, all)?;
        self.start(Component::ApiServer, all)?;
        self.until("the API server is ready", all, || self.kubectl("get --raw /readyz"))?;
        if self.parts == Parts::Node {
            self.start(Component::ControllerManager, all)?;
            cgroups::make(&self.cgroup)?;
            component::configure(self)?;
            self.start(Component::Containerd, all)?;
            self.until("containerd answers", all, || self.ctr(&["version"]))?;
            self.import_images()?;
            self.start(Component::Kubelet, all)?;
            let node = format!("wait --for=condition=Ready --timeout=1s node/{NODE}");
            self.until("the node is ready", all, || self.kubectl(&node))?;
            // Pods cannot be made before this.
            let account = "get serviceaccount default";
            self.until("service accounts are made", all, || self.kubectl(account))?;
        }
        fs::write(self.folder.join(READY), "").context("cannot say that all is up")?;
        Ok(std::mem::take(all))
    }

    fn start(&self, component: Component, all: &mut Vec<Running>) -> Result<()> {
        all.push((component, component.start(self)?));
        Ok(())
    }

    fn mount(&self) -> Result<()> {
        let (upper, work) = (self.folder.join("var"), self.folder.join("var-work"));
        for folder in [&upper, &work] {
            fs::create_dir_all(folder).context("cannot make /var")?;
        }
        command("mount --make-rprivate /")?;
        // As on a machine with systemd: containers see what is mounted later.
        command("mount --make-rshared /")?;
        command("mount -t proc proc /proc")?;
        for settings in ["/proc/sys/vm", "/proc/sys/kernel"] {
            command(&format!("mount --bind {settings} {settings}"))?;
            command(&format!("mount -o remount,ro,bind {settings}"))?;
        }
        self.cover_settings()?;
        let (upper, work) = (upper.display(), work.display());
        let layers = format!("lowerdir=/var,upperdir={upper},workdir={work}");
        command(&format!("mount -t overlay -o {layers} overlay /var"))?;
        command("mount -t tmpfs tmpfs /run")
    }

    /// Lays the rig's own files over the settings that the kubelet changes.
    fn cover_settings(&self) -> Result<()> {
        for (setting, value) in SETTINGS {
            let (own, of_machine) =
                (self.folder.join("sys").join(setting), format!("/proc/sys/{setting}"));
            if !Path::new(&of_machine).exists() {
                continue;
            }
            if let Some(folder) = own.parent() {
                fs::create_dir_all(folder).context("cannot make folders for settings")?;
            }
            fs::write(&own, value).with_context(|| format!("cannot write {}", own.display()))?;
            command(&format!("mount --bind {} {of_machine}", own.display()))?;
        }
        Ok(())
    }

    fn import_images(&self) -> Result<()> {
        let images = self.folder.join("images");
        for image in fs::read_dir(&images).context("cannot list the images")? {
            let image = image?.path();
            let name = image.display().to_string();
            self.ctr(&["--namespace", "k8s.io", "images", "import", &name])
                .with_context(|| format!("cannot import {name}"))?;
            fs::remove_file(&image).with_context(|| format!("cannot remove {name}"))?;
        }
        Ok(())
    }

    fn kubectl(&self, arguments: &str) -> Result<()> {
        let kubeconfig = self.folder.join("admin.kubeconfig");
        let mut command = Command::new(self.program("kubectl"));
        command.arg("--kubeconfig").arg(kubeconfig).args(arguments.split(' '));
        succeed(command)
    }

    fn ctr(&self, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new(self.program("ctr"));
        command.args(["--address", CONTAINERD_SOCKET]).args(arguments);
        succeed(command)
    }

    /// Nobody may die on the way.
    fn until(
        &self,
        what: &str,
        all: &mut [Running],
        mut attempt: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let start = Instant::now();
        loop {
            let Err(error) = attempt() else { return Ok(()) };
            for (component, child) in all.iter_mut() {
                if let Some(status) = child.try_wait()? {
                    bail!("{} ended before {what}: {status}", component.name());
                }
            }
            if start.elapsed() > PATIENCE {
                return Err(error.context(format!("not within {PATIENCE:?}: {what}")));
            }
            thread::sleep(POLL);
        }
    }

    /// Starts again what ends. Containers that lost their parent end here as well.
    fn supervise(&self, mut running: Vec<Running>) -> Result<()> {
        loop {
            let Some((pid, _)) = wait(WaitOptions::empty()).context("cannot wait")? else {
                continue;
            };
            let ended = u32::try_from(pid.as_raw_nonzero().get()).unwrap_or_default();
            if let Some((component, child)) =
                running.iter_mut().find(|(_, child)| child.id() == ended)
            {
                thread::sleep(PAUSE);
                *child = component.start(self)?;
            }
        }
    }

    /// The end of every log.
    fn last_words(&self) -> String {
        let Ok(logs) = fs::read_dir(self.folder.join("logs")) else { return String::new() };
        let mut text = String::new();
        for path in logs.filter_map(|entry| Some(entry.ok()?.path())) {
            let log = fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            let last = lines.get(lines.len().saturating_sub(15)..).unwrap_or_default();
            text += &format!("--- {}\n{}\n", path.display(), last.join("\n"));
        }
        text
    }
}

/// The node's address is on a bridge that nobody else is on.
fn network() -> Result<()> {
    for step in [
        "ip link set lo up",
        &format!("ip address add {SERVICE_ADDRESS}/32 dev lo"),
        "ip link add node0 type bridge",
        &format!("ip address add {NODE_ADDRESS}/24 dev node0"),
        "ip link set node0 up",
    ] {
        command(step)?;
    }
    Ok(())
}

/// No argument has a space in it.
fn command(line: &str) -> Result<()> {
    let mut words = line.split_whitespace();
    let Some(program) = words.next() else { bail!("an empty command") };
    let mut command = Command::new(program);
    command.args(words);
    succeed(command).with_context(|| line.to_owned())
}

fn succeed(mut command: Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}", output.status, said.trim());
    Ok(())
}

/// A line to everyone who looks at the rig's folder.
pub(crate) fn note(folder: &Path, name: &str, line: &str) -> Result<()> {
    let path = folder.join(name);
    fs::write(&path, format!("{line}\n"))
        .with_context(|| format!("cannot write {}", path.display()))
}
