//! How is a case played?

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::cases::Case;
use super::hooks::Hooks;
use super::pattern::{Variables, check, substitute, yaml};
use super::report::{Outcome, Report};
use super::script::{Action, Expected, Request, Step};
use super::target::{Answer, Events, Outgoing, Target};

/// Cases played at once.
const AT_ONCE: usize = 8;

/// How long a patient request is repeated, and how often.
const PATIENCE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(50);

/// Plays cases; `run` tells apart what several runs leave on one server.
pub async fn run(target: &Target, hooks: &Hooks, cases: Vec<Case>, run: &str) -> Report {
    let outcomes = stream::iter(cases.into_iter().enumerate())
        .map(|(at, case)| async move {
            let missing = case.needs.iter().find(|need| !target.offers.contains(*need));
            let outcome = if let Some(missing) = missing {
                Outcome::Skipped(format!("this server has no {missing}"))
            } else {
                let mut play = Play::new(target, hooks, format!("t{run}-{at}"));
                let outcome = play.all(&case.steps).await;
                if target.is_foreign {
                    play.tidy().await;
                }
                outcome
            };
            (case.id(), outcome)
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    Report { outcomes }
}

struct Play<'a> {
    target: &'a Target,
    hooks: &'a Hooks,
    namespace: String,
    variables: Variables,
    streams: BTreeMap<String, Events>,
    /// Paths of objects that were created.
    created: Vec<String>,
}

impl<'a> Play<'a> {
    fn new(target: &'a Target, hooks: &'a Hooks, namespace: String) -> Self {
        let known = [
            ("ns", namespace.clone()),
            ("core", format!("/api/v1/namespaces/{namespace}")),
            ("apps", format!("/apis/apps/v1/namespaces/{namespace}")),
            ("batch", format!("/apis/batch/v1/namespaces/{namespace}")),
            ("policy", format!("/apis/policy/v1/namespaces/{namespace}")),
            ("leases", format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")),
            ("group", format!("{namespace}.example.com")),
            ("crds", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned()),
            ("admission", "/apis/admissionregistration.k8s.io/v1".to_owned()),
            ("ca", hooks.authority()),
        ];
        let variables = known.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { target, hooks, namespace, variables, streams: BTreeMap::new(), created: Vec::new() }
    }

    async fn all(&mut self, steps: &[Step]) -> Outcome {
        let body = format!("{{metadata: {{name: {}}}}}", self.namespace);
        if let Err(why) = self.send("POST", "/api/v1/namespaces", &body).await {
            return Outcome::Failed(format!("namespace: {why}"));
        }
        if self.target.is_foreign {
            // Pods need one. A controller makes it, if there are any.
            let path = format!("/api/v1/namespaces/{}/serviceaccounts", self.namespace);
            if let Err(why) = self.send("POST", &path, "{metadata: {name: default}}").await {
                return Outcome::Failed(format!("service account: {why}"));
            }
        }
        for step in steps {
            if let Err(why) = self.step(step).await {
                return Outcome::Failed(format!("line {}: {why}", step.line));
            }
        }
        Outcome::Passed
    }

    async fn step(&mut self, step: &Step) -> Result<(), String> {
        match &step.action {
            Action::Request(request) => {
                for i in 0..request.times {
                    self.variables.insert("i".to_owned(), i.to_string());
                    self.request(request).await?;
                }
                Ok(())
            }
            Action::Watch { stream, request } => {
                let outgoing = self.outgoing(request)?;
                let shown = format!("WATCH {}", outgoing.path);
                let outgoing = Outgoing { method: "GET".to_owned(), ..outgoing };
                match (self.target.watch(outgoing).await?, &request.expected) {
                    (Ok(events), None) => {
                        self.streams.insert(stream.clone(), events);
                        Ok(())
                    }
                    (Ok(_), Some(expected)) => {
                        Err(format!("{shown}: want {}, is a stream", expected.code))
                    }
                    (Err(answer), expected) => {
                        let stream = Expected { code: 200, ..Expected::default() };
                        self.compare(expected.as_ref().unwrap_or(&stream), &answer)
                            .map_err(|why| format!("{shown}: {why}"))
                    }
                }
            }
            Action::Event { stream, kind, pattern } => self.event(stream, kind, pattern).await,
            Action::Hook { name, answer } => {
                let answer = substitute(answer, &self.variables);
                let url = self.hooks.set(&self.hook_path(name), &answer);
                self.variables.insert(format!("{name}.url"), url);
                Ok(())
            }
            Action::Review { hook, pattern } => self.review(hook, pattern),
        }
    }

    fn hook_path(&self, name: &str) -> String {
        format!("/{}/{name}", self.namespace)
    }

    fn review(&mut self, hook: &str, pattern: &str) -> Result<(), String> {
        let path = self.hook_path(hook);
        match pattern {
            "forget" => {
                self.hooks.forget(&path);
                return Ok(());
            }
            "none" => {
                return match self.hooks.next(&path) {
                    None => Ok(()),
                    Some(review) => Err(format!("{hook}> want no review, got {review}")),
                };
            }
            _ => {}
        }
        let review = self.hooks.next(&path).ok_or_else(|| format!("{hook}> was not called"))?;
        self.matches(pattern, &review).map_err(|why| format!("{hook}> {why}"))
    }

    async fn event(&mut self, stream: &str, kind: &str, pattern: &str) -> Result<(), String> {
        let events = self.streams.get_mut(stream).ok_or("this watch was not opened")?;
        let fault = |why: String| format!("{stream}> {kind}: {why}");
        let event = events.next().await.map_err(fault)?;
        let Some(event) = event else {
            return if kind == "END" { Ok(()) } else { Err(fault("the stream ended".to_owned())) };
        };
        let found = event["type"].as_str().unwrap_or_default();
        if found != kind {
            return Err(fault(format!("got {event}")));
        }
        let object = event.get("object").cloned().unwrap_or_default();
        self.matches(pattern, &object).map_err(fault)
    }

    fn matches(&mut self, pattern: &str, found: &Value) -> Result<(), String> {
        if pattern.trim().is_empty() {
            return Ok(());
        }
        let pattern = yaml(&substitute(pattern, &self.variables))?;
        check(&pattern, Some(found), "", &mut self.variables)
            .map_err(|why| format!("{why}\n    in {}", shortened(&found.to_string())))
    }

    fn outgoing(&self, request: &Request) -> Result<Outgoing, String> {
        let fill = |text: &str| substitute(text, &self.variables);
        let mut headers: Vec<(String, String)> = request
            .headers
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), fill(value)))
            .collect();
        let body = body(&fill(&request.body))?;
        let says_type = headers.iter().any(|(name, _)| name == "content-type");
        if !body.is_empty() && !says_type {
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        Ok(Outgoing { method: request.method.clone(), path: fill(&request.path), headers, body })
    }

    async fn request(&mut self, request: &Request) -> Result<(), String> {
        let started = Instant::now();
        loop {
            let outgoing = self.outgoing(request)?;
            let shown = format!("{} {}", outgoing.method, outgoing.path);
            let path = outgoing.path.clone();
            let answer =
                self.target.call(outgoing).await.map_err(|why| format!("{shown}: {why}"))?;
            self.remember(&request.method, &path, &answer);
            let any = Expected { code: answer.code, ..Expected::default() };
            let expected = request.expected.as_ref().unwrap_or(&any);
            if request.expected.is_none() && answer.code >= 400 {
                return Err(format!("{shown}: {} {}", answer.code, shortened(&answer.text)));
            }
            match self.compare(expected, &answer) {
                Ok(()) => return Ok(()),
                Err(_) if request.patient && started.elapsed() < PATIENCE => sleep(PAUSE).await,
                Err(why) => return Err(format!("{shown}: {why}")),
            }
        }
    }

    fn compare(&mut self, expected: &Expected, answer: &Answer) -> Result<(), String> {
        if expected.code != answer.code {
            let text = shortened(&answer.text);
            return Err(format!("want {}, is {} {text}", expected.code, answer.code));
        }
        self.matches(&expected.pattern, &answer.value())?;
        for (name, pattern) in &expected.headers {
            let all: Vec<&str> =
                answer.headers.get_all(name).iter().filter_map(|v| v.to_str().ok()).collect();
            let found = (!all.is_empty()).then(|| Value::String(all.join("; ")));
            let pattern = Value::String(substitute(pattern, &self.variables));
            check(&pattern, found.as_ref(), name, &mut self.variables)?;
        }
        Ok(())
    }

    async fn send(&mut self, method: &str, path: &str, body_text: &str) -> Result<Answer, String> {
        let outgoing = Outgoing {
            method: method.to_owned(),
            path: path.to_owned(),
            headers: vec![(
                "content-type".to_owned(),
                match method {
                    "PATCH" => "application/merge-patch+json".to_owned(),
                    _ => "application/json".to_owned(),
                },
            )],
            body: body(body_text)?,
        };
        self.target.call(outgoing).await
    }

    fn remember(&mut self, method: &str, path: &str, answer: &Answer) {
        let (plain, query) = path.split_once('?').unwrap_or((path, ""));
        if answer.code != 201 || query.contains("dryRun") || !self.target.is_foreign {
            return;
        }
        let value = answer.value();
        match (method, value["metadata"]["name"].as_str()) {
            ("POST", Some(name)) => self.created.push(format!("{plain}/{name}")),
            ("PUT" | "PATCH", Some(_)) => self.created.push(plain.to_owned()),
            _ => {}
        }
    }

    /// Removes what the case left; a server that refuses keeps it.
    async fn tidy(&mut self) {
        self.streams.clear();
        let namespace = format!("/api/v1/namespaces/{}", self.namespace);
        let mut paths = vec![namespace.clone(), format!("{namespace}/serviceaccounts/default")];
        paths.append(&mut self.created);
        for path in paths.iter().rev() {
            let _ = self.send("DELETE", &format!("{path}?gracePeriodSeconds=0"), "").await;
            let release = "{metadata: {finalizers: null}}";
            let _ = self.send("PATCH", path, release).await;
        }
        let body = format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: {}}}, spec: {{finalizers: []}}}}",
            self.namespace
        );
        let _ = self.send("PUT", &format!("{namespace}/finalize"), &body).await;
    }
}

/// What a line sends: nothing, text after `raw `, or YAML as JSON.
fn body(text: &str) -> Result<Vec<u8>, String> {
    let text = text.trim_end();
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    match text.strip_prefix("raw ") {
        Some(raw) => Ok(raw.as_bytes().to_vec()),
        None => yaml(text).map(|value| value.to_string().into_bytes()),
    }
}

fn shortened(text: &str) -> String {
    const SHOWN: usize = 900;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
