//! What actions report, and what it means for what we know.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{self, Pod};
use tracing::{debug, info, warn};

use super::super::event::{about_container, about_pod};
use super::super::log::last_words;
use super::super::plan::{Ended, Hook, ProbeKind, Problem, Setup};
use super::super::record::{Cause, Exit, RunDir, RunSpec};
use super::{Supervisor, later};

pub(super) enum Report {
    Prepared(Result<(), String>),
    Refreshed(Result<(), String>),
    Started { container: String, restarts: u32, start: Start },
    Ended { container: String, restarts: u32, ended: Ended },
    PostStart { container: String, restarts: u32, done: Result<(), String> },
    PreStop { container: String, restarts: u32, done: Result<(), String> },
    Probed { container: String, restarts: u32, kind: ProbeKind, answer: Result<(), String> },
    TornDown,
    Written(Result<Box<Pod>, kube::Error>),
    Deleted(Result<(), kube::Error>),
}

/// What became of a start.
pub(super) enum Start {
    Running {
        id: String,
        started_at: Timestamp,
    },
    /// It ran, or tried to, and is over.
    Ended(Ended),
    /// It could not even be tried.
    Problem {
        reason: &'static str,
        message: String,
    },
}

/// How long a start that could not be tried waits.
const TRY_AGAIN_SECONDS: i64 = 10;

impl Supervisor {
    pub(super) fn take(&mut self, report: Report) {
        match report {
            Report::Prepared(done) => self.take_prepared(done),
            Report::Refreshed(Ok(())) => {}
            Report::Refreshed(Err(error)) => {
                debug!(pod = %self.name(), error, "cannot bring volumes up to date");
            }
            Report::Started { container, restarts, start } => {
                self.take_started(&container, restarts, start);
            }
            Report::Ended { container, restarts, ended } => {
                self.take_ended(&container, restarts, ended);
            }
            Report::PostStart { container, restarts, done } => {
                self.take_post_start(&container, restarts, done);
            }
            Report::PreStop { container, restarts, done } => {
                self.take_pre_stop(&container, restarts, done);
            }
            Report::Probed { container, restarts, kind, answer } => {
                self.take_answer(&container, restarts, kind, answer);
            }
            Report::TornDown => self.seen.setup = Setup::Gone,
            Report::Written(written) => self.take_written(written),
            Report::Deleted(Ok(())) => self.is_done = true,
            Report::Deleted(Err(error)) => {
                debug!(pod = %self.name(), %error, "cannot delete a pod; will try again");
                self.seen.is_deleting = false;
            }
        }
    }

    fn take_prepared(&mut self, done: Result<(), String>) {
        self.seen.setup = match done {
            Ok(()) => Setup::Ready,
            Err(message) => {
                warn!(pod = %self.name(), error = message, "cannot prepare a pod; will try again");
                let about = about_pod(&self.pod);
                self.context.events.warning(&about, "FailedMount", message.clone());
                Setup::Failed { message, retry_at: later(TRY_AGAIN_SECONDS) }
            }
        };
    }

    fn take_started(&mut self, name: &str, restarts: u32, start: Start) {
        let Some(own) = self.spec_of(name).cloned() else { return };
        let about = self.about(name);
        match start {
            Start::Running { id, started_at } => {
                let lifecycle = own.lifecycle.as_ref();
                let has_hook = lifecycle.is_some_and(|lifecycle| lifecycle.post_start.is_some());
                let hook = if has_hook { Hook::Pending } else { Hook::None };
                info!(pod = %self.name(), container = name, restarts, "started a container");
                self.context.events.normal(&about, "Started", format!("Started container {name}"));
                if let Some(container) = self.seen.containers.get_mut(name) {
                    container.set_running(id, started_at, hook);
                }
                self.await_end(name, restarts);
            }
            Start::Ended(ended) => self.take_ended(name, restarts, ended),
            Start::Problem { reason, message } => {
                warn!(pod = %self.name(), container = name, error = message, "cannot make a container");
                self.context.events.warning(&about, "Failed", format!("Error: {message}"));
                let retry_at = later(TRY_AGAIN_SECONDS);
                if let Some(container) = self.seen.containers.get_mut(name) {
                    let reason = reason.to_owned();
                    container.set_problem(Problem { reason, message, retry_at });
                }
            }
        }
    }

    fn take_ended(&mut self, name: &str, restarts: u32, ended: Ended) {
        info!(
            pod = %self.name(), container = name, restarts, code = ended.code, reason = ended.reason,
            "a container ended"
        );
        if ended.reason == "StartError" {
            let note = format!("Error: {}", ended.message.as_deref().unwrap_or_default());
            self.context.events.warning(&self.about(name), "Failed", note);
        }
        if let Some(container) = self.seen.containers.get_mut(name)
            && container.restarts == restarts
        {
            container.set_ended(ended);
        }
    }

    fn take_post_start(&mut self, name: &str, restarts: u32, done: Result<(), String>) {
        let about = self.about(name);
        if let Err(message) = &done {
            let note = format!("PostStartHook failed: {message}");
            self.context.events.warning(&about, "FailedPostStartHook", note);
        }
        if let Some(run) = self.run_of(name, restarts) {
            run.post_start = done.map_or_else(Hook::Failed, |()| Hook::Done);
        }
    }

    fn take_pre_stop(&mut self, name: &str, restarts: u32, done: Result<(), String>) {
        let about = self.about(name);
        if let Err(message) = &done {
            let note = format!("PreStopHook failed: {message}");
            self.context.events.warning(&about, "FailedPreStopHook", note);
        }
        if let Some(stop) = self.run_of(name, restarts).and_then(|run| run.stop.as_mut()) {
            stop.pre_stop = Hook::Done;
        }
    }

    fn take_answer(
        &mut self,
        name: &str,
        restarts: u32,
        kind: ProbeKind,
        answer: Result<(), String>,
    ) {
        let Some(own) = self.spec_of(name).cloned() else { return };
        let about = self.about(name);
        let is_success = answer.is_ok();
        let Some(run) = self.run_of(name, restarts) else { return };
        run.answer(&own, kind, is_success);
        if let Err(message) = answer {
            let note = format!("{} probe failed: {message}", kind.name());
            self.context.events.warning(&about, "Unhealthy", note);
        }
    }

    /// The run a report is about, unless it has been replaced meanwhile.
    fn run_of(&mut self, name: &str, restarts: u32) -> Option<&mut super::super::plan::Run> {
        let container = self.seen.containers.get_mut(name)?;
        if container.restarts == restarts { container.run_mut() } else { None }
    }

    pub(super) fn spec_of(&self, name: &str) -> Option<&v1::Container> {
        let spec = self.pod.spec.as_ref()?;
        let mut all = spec.init_containers.iter().flatten().chain(&spec.containers);
        all.find(|own| own.name == name)
    }

    pub(super) fn about(&self, name: &str) -> v1::ObjectReference {
        let spec = self.pod.spec.as_ref();
        let mut inits = spec.and_then(|spec| spec.init_containers.as_ref()).into_iter().flatten();
        about_container(&self.pod, name, inits.any(|own| own.name == name))
    }
}

/// How a run ended, in the words of the API.
pub(super) fn ended(spec: &RunSpec, run: &RunDir, own: &v1::Container, exit: Exit) -> Ended {
    let (reason, message) = match exit.cause {
        Cause::NotStarted(message) => ("StartError", Some(message)),
        Cause::Unknown => {
            let message = "The container could not be located when the node came back";
            ("ContainerStatusUnknown", Some(message.to_owned()))
        }
        Cause::Ended if exit.oom_kills > 0 => ("OOMKilled", None),
        Cause::Ended if exit.code == 0 => ("Completed", None),
        Cause::Ended => ("Error", None),
    };
    let message = message.or_else(|| termination_message(spec, run, own, exit.code));
    Ended {
        id: spec.id.clone(),
        code: exit.code,
        signal: exit.signal,
        started_at: exit.started_at,
        finished_at: exit.finished_at,
        reason: reason.to_owned(),
        message,
        stopped: None,
    }
}

/// What the container wrote about its end, or the end of its log if it may and it failed.
fn termination_message(
    spec: &RunSpec,
    run: &RunDir,
    own: &v1::Container,
    code: i32,
) -> Option<String> {
    const MAX_BYTES: u64 = 4_096;
    let mut written = Vec::new();
    if let Ok(file) = File::open(run.termination_log()) {
        let _ = file.take(MAX_BYTES).read_to_end(&mut written);
    }
    let mut message = String::from_utf8_lossy(&written).into_owned();
    let may_use_log = own.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
    if message.is_empty() && may_use_log && code != 0 {
        message = last_words(&PathBuf::from(&spec.log.path));
    }
    (!message.is_empty()).then_some(message)
}
