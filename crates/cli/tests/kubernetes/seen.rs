//! Waiting, with an account of what was seen when it was in vain.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::rig::{Rig, SYSTEM};

/// Most things take a few seconds; a busy machine may need more.
const LIMIT: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(300);
/// Lines of each log and list that are shown.
const LINES: usize = 15;
const WIDTH: usize = 300;

/// Waits until there is an answer; what is in the way is shown when there is none.
#[track_caller]
pub(crate) fn until<T>(rig: &Rig, what: &str, look: impl FnMut() -> Result<T, String>) -> T {
    within(rig, LIMIT, what, look)
}

#[track_caller]
pub(crate) fn within<T>(
    rig: &Rig,
    limit: Duration,
    what: &str,
    look: impl FnMut() -> Result<T, String>,
) -> T {
    patiently(limit, look).unwrap_or_else(|last| {
        let seconds = limit.as_secs();
        panic!("never within {seconds} s: {what}\nlast seen: {last}\n{}", scene(rig))
    })
}

/// Looks until there is an answer; what was in the way last when there is none.
pub(crate) fn patiently<T>(
    limit: Duration,
    mut look: impl FnMut() -> Result<T, String>,
) -> Result<T, String> {
    let start = Instant::now();
    loop {
        match look() {
            Err(_) if start.elapsed() < limit => sleep(LOOK_AGAIN),
            last => return last,
        }
    }
}

/// The cluster for somebody who has to find out what went wrong.
fn scene(rig: &Rig) -> String {
    let mut text = String::new();
    let mut add = |title: &str, all: &str| {
        let lines: Vec<&str> = all.lines().filter(|line| !line.starts_with("Error from")).collect();
        let from = lines.len().saturating_sub(LINES);
        text.push_str(&format!("== {title}\n"));
        for line in &lines[from..] {
            text.extend(line.chars().take(WIDTH).chain(['\n']));
        }
    };
    let print = |arguments: &[&str]| {
        let said = rig.kubectl(arguments);
        said.out + &said.err
    };
    add("pods", &print(&["get", "pods", "-A", "-o", "wide"]));
    add("events", &print(&["get", "events", "-A", "--sort-by=.metadata.creationTimestamp"]));
    for app in ["koordlet", "koord-manager", "koord-scheduler"] {
        let selector = format!("koord-app={app}");
        let logs = ["logs", "-n", SYSTEM, "-l", &selector, "--tail=15", "--all-containers"];
        add(app, &print(&logs));
        add(&format!("{app} before"), &print(&[&logs[..], &["--previous"]].concat()));
    }
    for part in ["kubelet", "containerd"] {
        add(part, &rig.log(part));
    }
    text
}

/// The pods with a label, once they are as many as wanted and all ready.
#[track_caller]
pub(crate) fn ready(rig: &Rig, namespace: &str, selector: &str, count: usize) -> Vec<Value> {
    let what = format!("{count} pods {selector} of {namespace} are ready");
    within(rig, Duration::from_secs(150), &what, || {
        let pods = pods(rig, namespace, selector)?;
        let is_fine = pods.len() == count && pods.iter().all(is_ready);
        if is_fine { Ok(pods) } else { Err(pods.iter().map(brief).collect()) }
    })
}

pub(crate) fn pods(rig: &Rig, namespace: &str, selector: &str) -> Result<Vec<Value>, String> {
    let list = rig.get(&["pods", "-n", namespace, "-l", selector])?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

pub(crate) fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let is_so = |own: &Value| own["type"] == "Ready" && own["status"] == "True";
    pod["metadata"]["deletionTimestamp"].is_null()
        && conditions.is_some_and(|all| all.iter().any(is_so))
}

/// A pod in one line.
pub(crate) fn brief(pod: &Value) -> String {
    let status = &pod["status"];
    let states: Vec<String> = status["containerStatuses"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|own| own["state"].to_string())
        .collect();
    let (name, states) = (&pod["metadata"]["name"], states.join(" "));
    format!("{name} {} {states} {}\n", status["phase"], status["reason"])
}

/// The events about an object, as `reason: message`.
pub(crate) fn events(rig: &Rig, namespace: &str, name: &str) -> Vec<String> {
    let field = format!("involvedObject.name={name}");
    let list = rig.get(&["events", "-n", namespace, "--field-selector", &field]);
    let list = list.unwrap_or_default();
    let text = |event: &Value| {
        let word = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
        format!("{}: {}", word("reason"), word("message"))
    };
    list["items"].as_array().into_iter().flatten().map(text).collect()
}
