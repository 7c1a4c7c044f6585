//! Taking over what an earlier life of the node has left running.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{self, Pod};
use tokio::task::spawn_blocking;
use tracing::{info, warn};

use super::super::ID_SCHEME;
use super::super::dir::PodDir;
use super::super::plan::{Backoff, Container, Ended, Hook, Setup, State};
use super::super::process::{Found, look};
use super::super::record::{BackoffRecord, RunSpec};
use super::Supervisor;
use super::report::ended;

/// What the directory says about one container.
struct Adopted {
    name: String,
    container: Container,
}

impl Supervisor {
    /// Reads the pod's directory. Containers that run are watched again, those that have ended
    /// meanwhile are known by what their shims wrote.
    pub(super) async fn adopt(&mut self) {
        let (dir, pod) = (self.dir.clone(), self.pod.clone());
        let adopted = match spawn_blocking(move || read_all(&dir, &pod)).await {
            Ok(adopted) => adopted,
            Err(error) => {
                warn!(pod = %self.name(), %error, "cannot read a pod's directory");
                return;
            }
        };
        for Adopted { name, container } in adopted {
            let restarts = container.restarts;
            match &container.state {
                State::Running(_) => {
                    info!(pod = %self.name(), container = name, restarts, "adopted a container");
                    self.await_end(&name, restarts);
                }
                State::Starting => self.await_start(&name, restarts),
                State::Ended(_) | State::Absent => {}
            }
            if container.state != State::Absent {
                self.seen.setup = Setup::Ready;
                self.told_about_image = true;
            }
            self.seen.containers.insert(name, container);
        }
        if self.seen.setup == Setup::Ready && self.seen.containers.values().any(runs) {
            // The group is there; its class has to know the weight again.
            let (context, pod) = (self.context.clone(), self.pod.clone());
            if let Ok(Err(error)) = spawn_blocking(move || context.make_group(&pod)).await {
                warn!(pod = %self.name(), %error, "cannot set up a pod's control group again");
            }
        }
    }
}

fn runs(container: &Container) -> bool {
    matches!(container.state, State::Running(_) | State::Starting)
}

fn read_all(dir: &PodDir, pod: &Pod) -> Vec<Adopted> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let all = spec.init_containers.iter().flatten().chain(&spec.containers);
    let found = all.filter_map(|own| {
        let container = read(dir, pod, own)?;
        Some(Adopted { name: own.name.clone(), container })
    });
    found.collect()
}

fn read(dir: &PodDir, pod: &Pod, own: &v1::Container) -> Option<Container> {
    let runs = dir.runs(&own.name);
    let Some(restarts) = runs.last().copied() else {
        return from_api(pod, &own.name);
    };
    let run = dir.run(&own.name, restarts);
    let mut container = Container { restarts, ..Container::default() };
    let Ok(spec) = run.spec() else { return not_started(dir, own, restarts) };
    container.backoff = spec.backoff.map(backoff);
    container.last = last(dir, own, restarts);
    container.state = match look(&run) {
        Ok(Found::Ended(exit)) => State::Ended(ended(&spec, &run, own, exit)),
        Ok(Found::NotStarted) => return not_started(dir, own, restarts),
        Ok(Found::Alive) => match run.running() {
            Ok(running) => {
                // A hook is not run twice: who got this far has had its chance.
                container.set_running(spec.id, running.started_at, Hook::Done);
                recall_health(pod, &own.name, &mut container);
                return Some(container);
            }
            Err(_) => State::Starting,
        },
        Err(error) => {
            warn!(path = %run.path().display(), %error, "cannot look at a container");
            State::Starting
        }
    };
    Some(container)
}

/// What probes had found out is in the API: a container does not become unready because the node
/// was away for a moment.
fn recall_health(pod: &Pod, name: &str, container: &mut Container) {
    let Some(run) = container.run_mut() else { return };
    let Some(status) = status_of(pod, name) else { return };
    let id = status.container_id.as_deref().and_then(|id| id.strip_prefix(ID_SCHEME));
    if id == Some(run.id.as_str()) {
        run.startup.verdict = status.started.filter(|started| *started);
        run.readiness.verdict = Some(status.ready).filter(|ready| *ready);
    }
}

fn status_of<'a>(pod: &'a Pod, name: &str) -> Option<&'a v1::ContainerStatus> {
    let status = pod.status.as_ref()?;
    let inits = status.init_container_statuses.iter().flatten();
    inits.chain(status.container_statuses.iter().flatten()).find(|own| own.name == name)
}

/// The node ended between writing a specification and starting its shim. What there is is the run
/// before, if there was one.
fn not_started(dir: &PodDir, own: &v1::Container, restarts: u32) -> Option<Container> {
    let before = restarts.checked_sub(1);
    let ended = last(dir, own, restarts);
    Some(match (before, ended) {
        (Some(before), Some(ended)) => {
            let spec = dir.run(&own.name, before).spec().ok();
            let backoff = spec.and_then(|spec| spec.backoff).map(backoff);
            Container {
                restarts: before,
                state: State::Ended(ended),
                backoff,
                ..Container::default()
            }
        }
        _ => Container { restarts, ..Container::default() },
    })
}

fn backoff(record: BackoffRecord) -> Backoff {
    let seconds = i64::try_from(record.seconds).unwrap_or(i64::MAX);
    Backoff { delay: SignedDuration::from_secs(seconds), since: record.since }
}

fn last(dir: &PodDir, own: &v1::Container, restarts: u32) -> Option<Ended> {
    let run = dir.run(&own.name, restarts.checked_sub(1)?);
    let spec: RunSpec = run.spec().ok()?;
    Some(ended(&spec, &run, own, run.exit().ok()?))
}

/// The API remembers runs of which nothing is left here: counting goes on from there.
fn from_api(pod: &Pod, name: &str) -> Option<Container> {
    let own = status_of(pod, name)?;
    own.container_id.as_ref().filter(|id| !id.is_empty())?;
    let restarts = u32::try_from(own.restart_count).unwrap_or(0).saturating_add(1);
    Some(Container { restarts, ..Container::default() })
}
