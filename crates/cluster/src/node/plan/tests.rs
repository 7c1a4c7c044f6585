//! The state machine, played by hand: time moves when a test says so, containers do what it says.

mod lifecycle;
mod probes;
mod random;
mod statuses;
mod stopping;

use serde_json::{Value, json};

use super::*;

/// One pod and a pretended node. Every `settle` asks for a plan, writes down what is due, pretends
/// that it has begun, and repeats until nothing more is asked for.
struct Play {
    pod: Pod,
    seen: Observed,
    now: Timestamp,
    wake_at: Option<Timestamp>,
    status: PodStatus,
    is_gone: bool,
}

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn host() -> Host {
    Host { address: "127.0.0.1".parse().unwrap() }
}

impl Play {
    fn new(spec: Value) -> Self {
        let pod = json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
            "spec": spec,
        });
        Self {
            pod: serde_json::from_value(pod).unwrap(),
            seen: Observed::new(time(0)),
            now: time(0),
            wake_at: None,
            status: PodStatus::default(),
            is_gone: false,
        }
    }

    /// A pod whose containers all run, one second after they were started.
    fn running(spec: Value) -> Self {
        let mut play = Self::new(spec);
        play.settle();
        play.prepared();
        loop {
            let actions = play.settle();
            let starts: Vec<_> = actions.iter().filter_map(|a| a.strip_prefix("start ")).collect();
            if starts.is_empty() {
                break;
            }
            for start in starts {
                play.started(start.split('#').next().unwrap());
            }
        }
        play.pass(1);
        play
    }

    fn settle(&mut self) -> Vec<String> {
        let mut begun = Vec::new();
        for _ in 0..20 {
            let decision = plan(&self.pod, &self.seen, host(), self.now);
            self.wake_at = decision.wake_at;
            self.status = decision.status.clone();
            if decision.actions.is_empty() {
                return begun;
            }
            for action in &decision.actions {
                self.seen.note(&self.pod, action, self.now);
                match action {
                    Action::WriteStatus => self.pod.status = Some(decision.status.clone()),
                    Action::Delete => self.is_gone = true,
                    _ => {}
                }
                if *action != Action::WriteStatus {
                    begun.push(text(action));
                }
            }
        }
        panic!("still not settled: {begun:?}");
    }

    fn pass(&mut self, seconds: i64) {
        self.now = self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    }

    /// Moves to the time the plan asked to be woken at; how many seconds that took.
    fn wait(&mut self) -> i64 {
        let at = self.wake_at.expect("the plan wants to be woken");
        let waited = at.duration_since(self.now).as_secs();
        self.now = at;
        waited
    }

    fn prepared(&mut self) {
        assert_eq!(self.seen.setup, Setup::InFlight);
        self.seen.setup = Setup::Ready;
    }

    fn torn_down(&mut self) {
        assert_eq!(self.seen.setup, Setup::TearingDown);
        self.seen.setup = Setup::Gone;
    }

    fn container(&self, name: &str) -> v1::Container {
        let spec = self.pod.spec.as_ref().unwrap();
        let all = spec.init_containers.iter().flatten().chain(&spec.containers);
        all.into_iter().find(|own| own.name == name).unwrap().clone()
    }

    fn started(&mut self, name: &str) {
        let hook = self.container(name).lifecycle.and_then(|lifecycle| lifecycle.post_start);
        let hook = if hook.is_some() { Hook::Pending } else { Hook::None };
        let own = self.seen.containers.get_mut(name).unwrap();
        assert_eq!(own.state, State::Starting, "{name}");
        own.set_running(format!("{name}-{}", own.restarts), self.now, hook);
    }

    fn ended(&mut self, name: &str, code: i32) {
        let now = self.now;
        let own = self.seen.containers.get_mut(name).unwrap();
        let State::Running(run) = &own.state else { panic!("{name} does not run") };
        let ended = Ended {
            id: run.id.clone(),
            code,
            signal: None,
            started_at: Some(run.started_at),
            finished_at: now,
            reason: if code == 0 { "Completed" } else { "Error" }.into(),
            message: None,
            stopped: None,
        };
        own.set_ended(ended);
    }

    fn answer(&mut self, name: &str, kind: ProbeKind, is_success: bool) {
        let container = self.container(name);
        self.seen.run_mut(name).unwrap().answer(&container, kind, is_success);
    }

    fn delete(&mut self, grace: i64) {
        use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
        let at = self.now.checked_add(SignedDuration::from_secs(grace)).unwrap();
        self.pod.metadata.deletion_timestamp = Some(Time(at));
        self.pod.metadata.deletion_grace_period_seconds = Some(grace);
    }

    fn phase(&self) -> &str {
        self.status.phase.as_deref().unwrap()
    }

    /// `web: running ready, sidecar: waiting CrashLoopBackOff` and so on.
    fn shown(&self) -> String {
        let inits = self.status.init_container_statuses.iter().flatten();
        let all = inits.chain(self.status.container_statuses.iter().flatten());
        let shown: Vec<String> = all.map(show).collect();
        shown.join(", ")
    }

    fn condition(&self, kind: &str) -> &v1::PodCondition {
        let mut all = self.status.conditions.iter().flatten();
        all.find(|condition| condition.type_ == kind).unwrap()
    }
}

fn show(status: &v1::ContainerStatus) -> String {
    let state = status.state.as_ref().unwrap();
    let mut text = format!("{}:", status.name);
    if state.running.is_some() {
        text += " running";
    }
    if let Some(waiting) = &state.waiting {
        text = text + " waiting " + waiting.reason.as_deref().unwrap();
    }
    if let Some(terminated) = &state.terminated {
        text = text + " " + terminated.reason.as_deref().unwrap();
    }
    if status.ready {
        text += " ready";
    }
    if status.restart_count > 0 {
        text += &format!(" #{}", status.restart_count);
    }
    text
}

fn text(action: &Action) -> String {
    match action {
        Action::Prepare => "prepare".into(),
        Action::Start { container, restarts, .. } => format!("start {container}#{restarts}"),
        Action::PostStart { container } => format!("postStart {container}"),
        Action::Probe { container, kind } => format!("{} {container}", kind.name().to_lowercase()),
        Action::Stop { container, grace, .. } => format!("stop {container} {}s", grace.as_secs()),
        Action::PreStop { container } => format!("preStop {container}"),
        Action::Terminate { container } => format!("term {container}"),
        Action::Kill { container } => format!("kill {container}"),
        Action::TearDown => "tear down".into(),
        Action::WriteStatus => "write status".into(),
        Action::Delete => "delete".into(),
    }
}

fn one(policy: &str) -> Value {
    json!({"restartPolicy": policy, "containers": [{"name": "web"}]})
}
