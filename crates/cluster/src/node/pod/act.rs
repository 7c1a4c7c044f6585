//! Carrying actions out, each as a task that reports what came of it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{self, Pod};
use kube::api::{DeleteParams, Preconditions};
use reconcile::error::chain;
use rustix::process::Signal;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::{info, warn};

use super::super::cgroup::Settings;
use super::super::compose::{Image, Recipe, compose};
use super::super::context::Context;
use super::super::dir::PodDir;
use super::super::event::about_pod;
use super::super::handler::Target;
use super::super::plan::{Action, Backoff, Ended, ProbeKind, StopWhy};
use super::super::process::{self, Found, look};
use super::super::record::{Cause, Exit, RunDir};
use super::super::resource::{Amounts, QosClass};
use super::super::source::{self, Sources};
use super::super::volume;
use super::report::{Report, Start, ended};
use super::{Supervisor, until};

/// A hook that takes longer than this is given up.
const HOOK_LIMIT: Duration = Duration::from_secs(3_600);

impl Supervisor {
    pub(super) fn act(&mut self, action: Action) {
        match action {
            Action::Prepare => {
                let (context, dir, pod) = self.parts();
                self.tasks
                    .spawn(async move { Report::Prepared(prepare(context, dir, pod, true).await) });
            }
            Action::Start { container, restarts, backoff } => {
                self.tell_about_image();
                self.start(container, restarts, backoff);
            }
            Action::PostStart { container } => self.post_start(container),
            Action::PreStop { container } => self.pre_stop(container),
            Action::Probe { container, kind } => self.probe(container, kind),
            Action::Stop { container, why, .. } => self.tell_about_stop(&container, &why),
            Action::Terminate { container } => {
                self.signal(&container, self.stop_signal(&container))
            }
            Action::Kill { container } => self.signal(&container, Signal::KILL),
            Action::TearDown => self.tear_down(),
            Action::Delete => self.delete(),
            Action::WriteStatus => {}
        }
    }

    fn parts(&self) -> (Arc<Context>, PodDir, Pod) {
        (self.context.clone(), self.dir.clone(), self.pod.clone())
    }

    fn restarts(&self, container: &str) -> u32 {
        self.seen.containers.get(container).map_or(0, |own| own.restarts)
    }

    pub(super) fn refresh(&mut self) {
        let (context, dir, pod) = self.parts();
        self.tasks.spawn(async move { Report::Refreshed(prepare(context, dir, pod, false).await) });
    }

    fn start(&mut self, container: String, restarts: u32, backoff: Option<Backoff>) {
        let (context, dir, pod) = self.parts();
        self.tasks.spawn(async move {
            let job = Job { context, dir, pod, container, restarts };
            let start = job.start(backoff).await;
            Report::Started { container: job.container, restarts, start }
        });
    }

    /// A start of an earlier life that is still under way.
    pub(super) fn await_start(&mut self, container: &str, restarts: u32) {
        let (context, dir, pod) = self.parts();
        let container = container.to_owned();
        self.tasks.spawn(async move {
            let job = Job { context, dir, pod, container, restarts };
            process::running_or_ended(&job.run()).await;
            let start = job.result().await;
            Report::Started { container: job.container, restarts, start }
        });
    }

    pub(super) fn await_end(&mut self, container: &str, restarts: u32) {
        let (context, dir, pod) = self.parts();
        let container = container.to_owned();
        self.tasks.spawn(async move {
            let job = Job { context, dir, pod, container, restarts };
            let exit = process::ended(&job.run()).await;
            let ended = job.close(exit).await;
            Report::Ended { container: job.container, restarts, ended }
        });
    }

    fn target(&self, container: &str) -> Option<Target> {
        Some(Target {
            container: self.spec_of(container)?.clone(),
            dir: self.dir.run(container, self.restarts(container)),
            address: self.context.host.address,
            shim: self.context.shim.clone(),
        })
    }

    fn post_start(&mut self, container: String) {
        let restarts = self.restarts(&container);
        let Some(target) = self.target(&container) else { return };
        self.tasks.spawn(async move {
            let lifecycle = target.container.lifecycle.as_ref();
            let done = match lifecycle.and_then(|lifecycle| lifecycle.post_start.as_ref()) {
                Some(hook) => target.hook(hook, HOOK_LIMIT).await,
                None => Ok(()),
            };
            Report::PostStart { container, restarts, done }
        });
    }

    fn pre_stop(&mut self, container: String) {
        let restarts = self.restarts(&container);
        let Some(target) = self.target(&container) else { return };
        let stop = self.seen.run_mut(&container).and_then(|run| run.stop.as_ref());
        let limit = stop.map_or(HOOK_LIMIT, |stop| until(stop.kill_at, Timestamp::now()));
        self.tasks.spawn(async move {
            let lifecycle = target.container.lifecycle.as_ref();
            let done = match lifecycle.and_then(|lifecycle| lifecycle.pre_stop.as_ref()) {
                Some(hook) => target.hook(hook, limit).await,
                None => Ok(()),
            };
            Report::PreStop { container, restarts, done }
        });
    }

    fn probe(&mut self, container: String, kind: ProbeKind) {
        let restarts = self.restarts(&container);
        let Some(target) = self.target(&container) else { return };
        self.tasks.spawn(async move {
            let answer = match kind.of(&target.container) {
                Some(probe) => target.probe(probe).await,
                None => Ok(()),
            };
            Report::Probed { container, restarts, kind, answer }
        });
    }

    fn stop_signal(&self, container: &str) -> Signal {
        let lifecycle = self.spec_of(container).and_then(|own| own.lifecycle.as_ref());
        let name = lifecycle.and_then(|lifecycle| lifecycle.stop_signal.as_deref());
        name.and_then(signal_named).unwrap_or(Signal::TERM)
    }

    fn signal(&self, container: &str, signal: Signal) {
        let run = self.dir.run(container, self.restarts(container));
        if let Err(error) = process::signal(&run, signal) {
            warn!(pod = %self.name(), container, %error, "cannot signal a container");
        }
    }

    fn tear_down(&mut self) {
        const TRIES: u32 = 5;
        const PAUSE: Duration = Duration::from_secs(1);
        let (context, _, pod) = self.parts();
        self.tasks.spawn(async move {
            for _ in 0..TRIES {
                let (context, pod) = (context.clone(), pod.clone());
                match spawn_blocking(move || context.remove_group(&pod)).await {
                    Ok(Ok(())) => break,
                    Ok(Err(error)) => warn!(%error, "cannot remove a pod's control group"),
                    Err(error) => warn!(%error, "cannot remove a pod's control group"),
                }
                sleep(PAUSE).await;
            }
            Report::TornDown
        });
    }

    fn delete(&mut self) {
        if self.has_vanished {
            self.is_done = true;
            return;
        }
        let (context, meta) = (self.context.clone(), self.pod.metadata.clone());
        self.tasks.spawn(async move {
            let api = context.pods(&meta.namespace.unwrap_or_default());
            let params = DeleteParams {
                grace_period_seconds: Some(0),
                preconditions: Some(Preconditions { uid: meta.uid, resource_version: None }),
                ..DeleteParams::default()
            };
            match api.delete(&meta.name.unwrap_or_default(), &params).await {
                Ok(_) => Report::Deleted(Ok(())),
                // Gone already, or the name belongs to another pod by now.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                    Report::Deleted(Ok(()))
                }
                Err(error) => {
                    sleep(Duration::from_secs(1)).await;
                    Report::Deleted(Err(error))
                }
            }
        });
    }

    fn tell_about_stop(&self, container: &str, why: &StopWhy) {
        let note = match why {
            StopWhy::Unhealthy(kind) => format!(
                "Container {container} failed {} probe, will be restarted",
                kind.name().to_lowercase()
            ),
            StopWhy::PostStart(_) => {
                format!("Container {container} failed its postStart hook and is stopped")
            }
            _ => format!("Stopping container {container}"),
        };
        info!(pod = %self.name(), container, ?why, "stopping a container");
        self.context.events.normal(&self.about(container), "Killing", note);
    }

    /// Says once for each pod what is done about its images and volumes.
    fn tell_about_image(&mut self) {
        if std::mem::replace(&mut self.told_about_image, true) {
            return;
        }
        let Some(spec) = &self.pod.spec else { return };
        let all: Vec<&v1::Container> =
            spec.init_containers.iter().flatten().chain(&spec.containers).collect();
        let about = about_pod(&self.pod);
        if all.iter().any(|own| Image::of(own) == Ok(Image::Ignored)) {
            let note = "images are not run on this node: containers are processes of this machine; \
                        use the image \"host\" to say that this is meant";
            self.context.events.normal(&about, "ImageIgnored", note);
        }
        let powers = self.context.powers;
        let mounts = all.iter().any(|own| own.volume_mounts.iter().flatten().next().is_some());
        if mounts && !(powers.is_root() && powers.can_mount) {
            let note = "this node cannot mount volumes: containers find them through the variables \
                        TIDEPOOL_VOLUME_<NAME>";
            self.context.events.warning(&about, "VolumesNotMounted", note);
        }
    }
}

/// `SIGUSR1` and the like.
fn signal_named(name: &str) -> Option<Signal> {
    Some(match name {
        "SIGHUP" => Signal::HUP,
        "SIGINT" => Signal::INT,
        "SIGQUIT" => Signal::QUIT,
        "SIGABRT" => Signal::ABORT,
        "SIGKILL" => Signal::KILL,
        "SIGUSR1" => Signal::USR1,
        "SIGUSR2" => Signal::USR2,
        "SIGALRM" => Signal::ALARM,
        "SIGTERM" => Signal::TERM,
        "SIGWINCH" => Signal::WINCH,
        _ => return None,
    })
}

/// Makes or refreshes the volumes and, the first time, the control group.
async fn prepare(
    context: Arc<Context>,
    dir: PodDir,
    pod: Pod,
    is_first: bool,
) -> Result<(), String> {
    let keys = pod.spec.as_ref().map(source::of_volumes).unwrap_or_default();
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let sources = Sources::fetch(&context.client, &namespace, keys).await;
    let sources =
        sources.map_err(|error| format!("cannot read ConfigMaps and Secrets: {error}"))?;
    let prepared = spawn_blocking(move || {
        if is_first {
            dir.make().map_err(|error| format!("cannot make the pod's directory: {error}"))?;
            context.make_group(&pod).map_err(|error| chain(&error))?;
        }
        let is_root = context.powers.is_root();
        volume::prepare(&dir.volumes(), &pod, &sources, &context.facts, is_root)
            .map(drop)
            .map_err(|error| error.to_string())
    });
    prepared.await.unwrap_or_else(|error| Err(error.to_string()))
}

/// One run of one container.
#[derive(Clone)]
struct Job {
    context: Arc<Context>,
    dir: PodDir,
    pod: Pod,
    container: String,
    restarts: u32,
}

impl Job {
    fn run(&self) -> RunDir {
        self.dir.run(&self.container, self.restarts)
    }

    fn spec(&self) -> Option<&v1::Container> {
        let spec = self.pod.spec.as_ref()?;
        let mut all = spec.init_containers.iter().flatten().chain(&spec.containers);
        all.find(|own| own.name == self.container)
    }

    async fn start(&self, backoff: Option<Backoff>) -> Start {
        let Some(own) = self.spec() else {
            let message = "the container is not in the pod".to_owned();
            return Start::Problem { reason: "CreateContainerConfigError", message };
        };
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        let fetched =
            Sources::fetch(&self.context.client, namespace, source::of_container(own)).await;
        let sources = match fetched {
            Ok(sources) => sources,
            Err(error) => {
                let message = format!("cannot read ConfigMaps and Secrets: {error}");
                return Start::Problem { reason: "CreateContainerConfigError", message };
            }
        };
        let job = self.clone();
        let created = spawn_blocking(move || job.create(&sources, backoff)).await;
        match created {
            Ok(Ok(())) => {}
            Ok(Err((reason, message))) => return Start::Problem { reason, message },
            Err(error) => {
                let message = error.to_string();
                return Start::Problem { reason: "CreateContainerError", message };
            }
        }
        match process::start(&self.context.shim, &self.run()).await {
            Ok(()) => self.result().await,
            Err(error) => self.failed(&error).await,
        }
    }

    /// Writes everything the shim needs.
    fn create(
        &self,
        sources: &Sources,
        backoff: Option<Backoff>,
    ) -> Result<(), (&'static str, String)> {
        let context = &self.context;
        let own = self.spec().ok_or(("CreateContainerConfigError", String::new()))?;
        let pod_spec =
            self.pod.spec.as_ref().ok_or(("CreateContainerConfigError", String::new()))?;
        let failed = |message: String| ("CreateContainerError", message);
        let id = new_id().map_err(|error| failed(format!("no randomness: {error}")))?;
        let uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
        let group = context.cgroups.as_ref().map(|cgroups| {
            let path = cgroups.pod(QosClass::of(pod_spec), uid).child(&id);
            (cgroups, path)
        });
        let run = self.run();
        let places = volume::places(&self.dir.volumes(), &self.pod);
        let spec = compose(Recipe {
            pod: &self.pod,
            container: own,
            sources,
            facts: &context.facts,
            places: &places,
            powers: context.powers,
            memory_capacity: context.memory_capacity,
            dir: &run,
            id,
            cgroups: group.iter().flat_map(|(cgroups, path)| cgroups.dirs(path)).collect(),
            oom_file: group.as_ref().and_then(|(cgroups, path)| cgroups.oom_file(path)),
            log: context.log_file(&self.dir, &self.container, self.restarts),
            shim_args: context.shim.args.clone(),
            backoff,
        });
        let spec = spec.map_err(|message| ("CreateContainerConfigError", message))?;
        let io_failed =
            |error: io::Error| failed(format!("cannot write to the state directory: {error}"));
        for mount in spec.mounts.iter().filter(|mount| !mount.source.exists()) {
            std::fs::create_dir_all(&mount.source).map_err(io_failed)?;
        }
        self.dir.forget_before(&self.container, self.restarts).map_err(io_failed)?;
        if let Some((cgroups, path)) = &group {
            let settings = Settings::of_container(&Amounts::of_container(own));
            cgroups.ensure(path, &settings).map_err(|error| failed(chain(&error)))?;
        }
        run.create(&spec).map_err(io_failed)
    }

    /// What the shim has written by now.
    async fn result(&self) -> Start {
        let run = self.run();
        let id = run.spec().map(|spec| spec.id);
        match (run.exit(), run.running(), id) {
            (Err(_), Ok(running), Ok(id)) => Start::Running { id, started_at: running.started_at },
            (Ok(exit), ..) => Start::Ended(self.close(exit).await),
            _ => self.failed(&io::Error::other("the shim left no record")).await,
        }
    }

    /// The shim could not be started or does not answer.
    async fn failed(&self, error: &io::Error) -> Start {
        match look(&self.run()) {
            Ok(Found::Alive) => {
                process::running_or_ended(&self.run()).await;
                match (self.run().running(), self.run().spec()) {
                    // It does run; that is all we asked for.
                    (Ok(running), Ok(spec)) => {
                        Start::Running { id: spec.id, started_at: running.started_at }
                    }
                    _ => Start::Ended(self.close(process::ended(&self.run()).await).await),
                }
            }
            Ok(Found::Ended(exit)) => {
                let cause = match exit.cause {
                    Cause::Unknown => Cause::NotStarted(error.to_string()),
                    known => known,
                };
                Start::Ended(self.close(Exit { cause, ..exit }).await)
            }
            Ok(Found::NotStarted) | Err(_) => {
                let message = error.to_string();
                Start::Problem { reason: "CreateContainerError", message }
            }
        }
    }

    /// Removes the run's control group and puts its end in words.
    async fn close(&self, exit: Exit) -> Ended {
        let job = self.clone();
        let unread = unreadable(&exit);
        let closed = spawn_blocking(move || {
            let run = job.run();
            let spec = run.spec().ok()?;
            if let (Some(cgroups), Some(pod)) = (&job.context.cgroups, &job.pod.spec) {
                let uid = job.pod.metadata.uid.as_deref().unwrap_or_default();
                let path = cgroups.pod(QosClass::of(pod), uid).child(&spec.id);
                let removed = cgroups.kill(&path).and_then(|()| cgroups.remove(&path));
                if let Err(error) = removed {
                    warn!(container = job.container, %error, "cannot remove a control group");
                }
            }
            Some(ended(&spec, &run, job.spec()?, exit))
        });
        closed.await.ok().flatten().unwrap_or(unread)
    }
}

/// The end of a run whose specification cannot be read any more.
fn unreadable(exit: &Exit) -> Ended {
    Ended {
        id: String::new(),
        code: exit.code,
        signal: exit.signal,
        started_at: exit.started_at,
        finished_at: exit.finished_at,
        reason: "ContainerStatusUnknown".into(),
        message: Some("the record of the container cannot be read".into()),
        stopped: None,
    }
}

/// 256 random bits in hexadecimal, as container runtimes name their containers.
fn new_id() -> io::Result<String> {
    let mut bytes = [0_u8; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        let rest = bytes.get_mut(filled..).unwrap_or_default();
        filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
