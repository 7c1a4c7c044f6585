//! The running cluster: its programs, its processes, and commands as a person types them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::seen::until;

pub(crate) const TIDEPOOL: &str = env!("CARGO_BIN_EXE_tidepool");
pub(crate) const NODE: &str = "node-1";
/// Where all components are.
pub(crate) const SYSTEM: &str = "koordinator-system";
/// Where scenarios have their pods.
pub(crate) const WORK: &str = "work";

/// No command takes longer, in seconds.
const PATIENCE: &str = "150";

/// What a command printed.
#[derive(Debug)]
pub(crate) struct Said {
    command: String,
    pub(crate) is_content: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// What it printed, if it was content.
    #[track_caller]
    pub(crate) fn done(self) -> String {
        assert!(self.is_content, "{}\n{}{}", self.command, self.out, self.err);
        self.out
    }

    /// Why it was not content.
    #[track_caller]
    pub(crate) fn refused(self) -> String {
        assert!(!self.is_content, "{} was not refused\n{}", self.command, self.out);
        self.err
    }

    pub(crate) fn json(self) -> Result<Value, String> {
        if !self.is_content {
            return Err(self.err);
        }
        serde_json::from_str(&self.out).map_err(|error| format!("{error}: {}", self.out))
    }
}

/// A running rig, in whose namespaces this process is.
pub(crate) struct Rig {
    dir: PathBuf,
    /// What commands keep between calls.
    home: TempDir,
    /// Kubernetes' own scheduler: a cluster has one, and Tidepool's stands beside it.
    kube_scheduler: RefCell<Option<Child>>,
    /// Kernel files of a pod before anything was installed.
    pub(crate) before: RefCell<BTreeMap<String, String>>,
    /// What the cluster's users had written by then.
    pub(crate) kept: RefCell<Vec<(String, Value)>>,
}

impl Rig {
    /// The rig that the environment names. In CI one must be there.
    pub(crate) fn find() -> Option<Self> {
        let Some(dir) = std::env::var_os("TIDEPOOL_KUBE") else {
            assert!(std::env::var_os("CI").is_none(), "no cluster, and CI must not go without");
            return None;
        };
        let rig = Self {
            dir: PathBuf::from(dir),
            home: tempfile::tempdir().unwrap(),
            kube_scheduler: RefCell::default(),
            before: RefCell::default(),
            kept: RefCell::default(),
        };
        assert!(rig.kubeconfig().is_file(), "{} is no rig", rig.dir.display());
        Some(rig)
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.dir.join("admin.kubeconfig")
    }

    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.dir.join("programs").join(name)
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// The kubelet's `--cgroup-root`.
    pub(crate) fn cgroup_root(&self) -> String {
        fs::read_to_string(self.dir.join("cgroup-root")).unwrap().trim().to_owned()
    }

    pub(crate) fn log(&self, name: &str) -> String {
        fs::read_to_string(self.dir.join("logs").join(format!("{name}.log"))).unwrap_or_default()
    }

    fn run(&self, program: &Path, arguments: &[&str]) -> Said {
        let mut command = Command::new("timeout");
        command.arg(PATIENCE).arg(program).args(arguments);
        command.env("KUBECONFIG", self.kubeconfig()).env("HOME", self.home());
        command.env_remove("CI").stdin(Stdio::null());
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        said(&format!("{name} {}", arguments.join(" ")), &command.output().unwrap())
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Said {
        self.run(&self.program("kubectl"), arguments)
    }

    pub(crate) fn helm(&self, arguments: &[&str]) -> Said {
        self.run(&self.program("helm"), arguments)
    }

    pub(crate) fn tidepool(&self, arguments: &[&str]) -> Said {
        self.run(Path::new(TIDEPOOL), arguments)
    }

    /// `kubectl get ARGUMENTS -o json`.
    pub(crate) fn get(&self, arguments: &[&str]) -> Result<Value, String> {
        let all = [&["get", "-o", "json", "--request-timeout=20s"], arguments].concat();
        self.kubectl(&all).json()
    }

    /// Runs `kubectl VERB ... -f FILE` with the text as the file.
    pub(crate) fn with_file(&self, arguments: &[&str], text: &str) -> Said {
        let file = self.home().join("file.yaml");
        fs::write(&file, text).unwrap();
        self.kubectl(&[arguments, &["-f", file.to_str().unwrap()]].concat())
    }

    #[track_caller]
    pub(crate) fn apply(&self, text: &str) {
        self.with_file(&["apply"], text).done();
    }

    /// Sets a key of the cluster's configuration.
    #[track_caller]
    pub(crate) fn configure(&self, key: &str, value: &str) {
        let patch = serde_json::json!({"data": {key: value}}).to_string();
        let words = ["patch", "configmap", "slo-controller-config", "-n", SYSTEM, "--type=merge"];
        self.kubectl(&[&words[..], &["-p", &patch]].concat()).done();
    }

    /// Ends what a scenario made in namespace [`WORK`], and waits until it is gone.
    pub(crate) fn clear(&self) {
        let kinds = "deployments,jobs,replicasets,pods";
        let clear = ["delete", kinds, "--all", "-n", WORK, "--grace-period=1", "--timeout=90s"];
        self.kubectl(&clear).done();
    }

    /// The process behind a part of the rig.
    pub(crate) fn pid(&self, name: &str) -> Option<Pid> {
        let text = fs::read_to_string(self.dir.join("pids").join(name)).ok()?;
        Pid::from_raw(text.trim().parse().ok()?)
    }

    /// kill -9; the supervisor starts it again.
    pub(crate) fn kill(&self, name: &str) -> Pid {
        let pid = self.pid(name).unwrap_or_else(|| panic!("{name} has no process"));
        kill_process(pid, Signal::KILL).unwrap();
        pid
    }

    /// Waits until a killed part has another process.
    pub(crate) fn until_another(&self, name: &str, old: Pid) {
        until(self, &format!("{name} is started again"), || match self.pid(name) {
            Some(pid) if pid != old => Ok(()),
            pid => Err(format!("{pid:?}")),
        });
    }

    /// Starts Kubernetes' own scheduler, unless the rig has one.
    pub(crate) fn start_kube_scheduler(&self) {
        if self.pid("kube-scheduler").is_some() || self.kube_scheduler.borrow().is_some() {
            return;
        }
        let log = fs::File::create(self.home().join("kube-scheduler.log")).unwrap();
        let mut command = Command::new(self.program("kube-scheduler"));
        for flag in ["--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig"] {
            command.arg(flag).arg(self.kubeconfig());
        }
        command.args(["--leader-elect=false", "--bind-address=127.0.0.1"]);
        let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        *self.kube_scheduler.borrow_mut() = Some(child);
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(child) = self.kube_scheduler.get_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn said(command: &str, output: &Output) -> Said {
    Said {
        command: command.to_owned(),
        is_content: output.status.success(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
