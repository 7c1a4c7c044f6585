//! What does the agent of a node do right now, and why?
//!
//! The agent says so itself, at `/decisions`: the sums its strategies decided by, and the kernel files it
//! changed. It is found by its address, or by the one that `tidepool up` left in its directory, or else
//! through the API server.

use std::fmt::Write;

use agent::act::journal::{Decided, Noted, Page};
use agent::act::{NODE, Resource};
use agent::server::DECISIONS;
use anyhow::{Context, ensure};
use clap::Args;
use http::Request;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use serde::Serialize;

use crate::object::Cluster;
use crate::state;

/// The agent's port on nodes of a cluster, as the reference's.
const PORT: u16 = 9316;

/// Changes of kernel files that are shown.
const SHOWN: usize = 8;

/// Where the agent answers.
#[derive(Debug, Default, Args)]
pub(crate) struct Where {
    /// Address of the node's agent [default: that of `tidepool up`, then through the API server]
    #[arg(long, value_name = "HOST:PORT")]
    agent: Option<String>,
}

/// What is printed, for people and programs.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    /// `node`, or `namespace/name` of a pod.
    about: String,
    #[serde(flatten)]
    page: Page,
}

impl Where {
    /// All decisions of the node's agent.
    pub(crate) async fn ask(&self, cluster: &Cluster, node: &str) -> anyhow::Result<Page> {
        let address = match &self.agent {
            Some(address) => Some(address.clone()),
            None => {
                let left = cluster.own()?.map(|dir| state::agent_address(&state::agent(&dir)));
                let left = left.and_then(|file| std::fs::read_to_string(file).ok());
                left.map(|text| text.trim().to_owned())
            }
        };
        let (place, answer) = match address {
            Some(address) => {
                let answer = direct(&address).await;
                (address, answer)
            }
            None => {
                let path = format!("/api/v1/nodes/{node}:{PORT}/proxy{DECISIONS}");
                let session = cluster.connect().await?;
                let answer = get(session.client(), &path).await;
                (path, answer)
            }
        };
        let text = answer.with_context(|| {
            format!(
                "the agent of node {node} does not answer at {place}; is `tidepool up` or `tidepool \
                 agent` running there? name another address with --agent HOST:PORT"
            )
        })?;
        let page: Page = serde_json::from_str(&text)
            .with_context(|| format!("what answers at {place} is not an agent of this version"))?;
        ensure!(
            page.node == node,
            "the agent at {place} is that of node {}, not of {node}; name another with --agent",
            page.node
        );
        Ok(page)
    }

    /// What was decided about a resource of a node.
    pub(super) async fn node(
        &self,
        cluster: &Cluster,
        node: &str,
        resource: Resource,
    ) -> anyhow::Result<Shown> {
        let mut page = self.ask(cluster, node).await?;
        page.decisions.retain(|decided| decided.why.resource == resource);
        page.changes.clear();
        Ok(Shown { about: NODE.to_owned(), page })
    }

    /// What holds a pod back on its node: decisions about it, those about best-effort as a whole where
    /// it belongs to that, and the last changes of its kernel files. `None` while it has no node.
    pub(super) async fn pod(
        &self,
        cluster: &Cluster,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<Option<Shown>> {
        let session = cluster.connect().await?;
        let pods: Api<Pod> = Api::namespaced(session.client().clone(), namespace);
        let pod = pods.get_opt(name).await?;
        let pod = pod.with_context(|| format!("there is no pod {namespace}/{name}"))?;
        let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) else {
            return Ok(None);
        };
        let page = self.ask(cluster, node).await?;
        let is_best_effort = api::qos::effective(&pod) == api::qos::QosClass::Be;
        let uid = pod.metadata.uid.unwrap_or_default();
        Ok(Some(of_pod(page, &format!("{namespace}/{name}"), &uid, is_best_effort)))
    }
}

async fn direct(address: &str) -> anyhow::Result<String> {
    let base = format!("http://{address}").parse();
    let mut config = kube::Config::new(base.context("HOST:PORT is expected")?);
    config.default_retry = false;
    get(&Client::try_from(config)?, DECISIONS).await
}

async fn get(client: &Client, path: &str) -> anyhow::Result<String> {
    Ok(client.request_text(Request::get(path).body(Vec::new())?).await?)
}

fn of_pod(mut page: Page, about: &str, uid: &str, is_best_effort: bool) -> Shown {
    page.decisions.retain(|decided| {
        decided.why.about == about
            || (is_best_effort
                && decided.why.about == NODE
                && decided.why.resource == Resource::Cpu)
    });
    // The systemd driver writes uids with underscores.
    let escaped = uid.replace('-', "_");
    page.changes.retain(|change| {
        !uid.is_empty() && (change.place.contains(uid) || change.place.contains(&escaped))
    });
    page.changes.truncate(SHOWN);
    Shown { about: about.to_owned(), page }
}

/// A page as people read it.
pub(super) fn text(shown: &Shown, now: Timestamp) -> String {
    let Shown { about, page } = shown;
    let name = if about == NODE { &page.node } else { about };
    let mut text = String::new();
    if !page.switch.is_on {
        let by = page.switch.off_by.as_deref().unwrap_or("nobody: it has just started");
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{name}: the agent of {} changes nothing (turned off by: {by}); `tidepool on` turns it on",
            page.node
        );
    }
    if page.decisions.is_empty() && page.switch.is_on {
        let _ = writeln!(
            text,
            "{name}: nothing is decided here; the strategies are off (NodeSLO {}, or their feature \
             gates) or have seen no sample yet",
            page.node
        );
    }
    for (index, decided) in page.decisions.iter().enumerate() {
        if index > 0 || !text.is_empty() {
            text.push('\n');
        }
        write_decision(&mut text, decided, now);
    }
    if !page.changes.is_empty() {
        text.push_str("\nlast changes of its kernel files\n\n");
        for change in &page.changes {
            write_change(&mut text, change, now);
        }
    }
    text
}

fn write_decision(text: &mut String, decided: &Decided, now: Timestamp) {
    let why = &decided.why;
    let whose = if why.about == NODE { "" } else { why.about.as_str() };
    let separator = if whose.is_empty() { "" } else { ": " };
    let _ = writeln!(
        text,
        "{whose}{separator}{} (bound by: {}; {}, for {})",
        why.headline,
        why.bound_by,
        decided.strategy,
        age(decided.since, now)
    );
    if why.lines.is_empty() {
        return;
    }
    text.push('\n');
    let amount = |value: i64| number(value.saturating_abs(), why.resource);
    let width = why.lines.iter().map(|line| amount(line.amount).len()).max().unwrap_or_default();
    let labels = why.lines.iter().map(|line| line.label.len()).max().unwrap_or_default();
    let last = why.lines.len() - 1;
    for (index, line) in why.lines.iter().enumerate() {
        let sign = match index {
            _ if line.amount < 0 => '-',
            0 => ' ',
            _ if index == last => '=',
            _ => ' ',
        };
        let shown = format!(
            " {sign} {:>width$}  {:labels$}  {}",
            amount(line.amount),
            line.label,
            line.note
        );
        let _ = writeln!(text, "{}", shown.trim_end());
    }
}

fn write_change(text: &mut String, change: &Noted, now: Timestamp) {
    let owner = change.owner.as_deref().unwrap_or("as it was found");
    let _ = writeln!(
        text,
        "  {:>5} ago  {}  {} -> {}  {owner}: {} ({})",
        age(change.at, now),
        change.place,
        change.old,
        change.new,
        change.why,
        change.outcome
    );
}

/// Cores, GiB, or what it is.
fn number(amount: i64, resource: Resource) -> String {
    match resource {
        Resource::Cpu => format!("{:.1}", amount as f64 / 1_000.0),
        Resource::Memory => format!("{:.2} GiB", amount as f64 / (1_u64 << 30) as f64),
        Resource::Cache | Resource::Io | Resource::Network => amount.to_string(),
    }
}

/// Whole seconds, minutes or hours.
fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap()
    }

    fn page(is_on: bool) -> Page {
        serde_json::from_value(json!({
            "node": "n1",
            "switch": { "isOn": is_on, "offBy": if is_on { None } else { Some("local") }, "dirty": 0 },
            "decisions": [
                { "strategy": "suppress", "since": at(0), "about": "node", "resource": "cpu",
                  "headline": "best-effort may use 5400m of 16", "boundBy": "threshold", "lines": [
                    { "amount": 16_000, "label": "capacity" },
                    { "amount": 10_400, "label": "allowed in total",
                      "note": "cpuSuppressThresholdPercent = 65 (built-in)" },
                    { "amount": -4_000, "label": "used above best-effort", "note": "3 pods" },
                    { "amount": 5_400, "label": "granted" } ] },
                { "strategy": "evict", "since": at(700), "about": "node", "resource": "memory",
                  "headline": "nobody has to leave for memory", "boundBy": "room", "lines": [
                    { "amount": 107_374_182_400_i64, "label": "capacity" } ] },
                { "strategy": "evict", "since": at(718), "about": "d/hog", "resource": "memory",
                  "headline": "was told that it will be evicted", "boundBy": "BEMemoryEvict" },
            ],
            "changes": [
                { "at": at(715), "place": "kubepods/besteffort/pod1-2:CfsQuota", "owner": "batch",
                  "outcome": "written", "old": "-1", "new": "50000", "why": "limit 500m" },
                { "at": at(715), "place": "kubepods/besteffort/pod9-9:CfsQuota", "owner": "batch",
                  "outcome": "written", "old": "-1", "new": "50000", "why": "limit 500m" },
            ],
        }))
        .unwrap()
    }

    fn node(page: Page, resource: Resource) -> Shown {
        let mut page = page;
        page.decisions.retain(|decided| decided.why.resource == resource);
        page.changes.clear();
        Shown { about: NODE.to_owned(), page }
    }

    #[test]
    fn a_decision_is_a_sum_with_its_sources() {
        let want = "\
best-effort may use 5400m of 16 (bound by: threshold; suppress, for 12 min)

   16.0  capacity
   10.4  allowed in total        cpuSuppressThresholdPercent = 65 (built-in)
 -  4.0  used above best-effort  3 pods
 =  5.4  granted
";
        assert_eq!(text(&node(page(true), Resource::Cpu), at(720)), want);
    }

    #[test]
    fn a_pod_is_told_what_holds_it_back() {
        let shown = of_pod(page(true), "d/hog", "1-2", true);
        let got = text(&shown, at(720));
        assert!(got.starts_with("best-effort may use"), "{got}");
        assert!(got.contains("d/hog: was told that it will be evicted (bound by: BEMemoryEvict"));
        assert!(got.contains("pod1-2:CfsQuota  -1 -> 50000  batch: limit 500m (written)"), "{got}");
        assert!(!got.contains("pod9-9"), "another pod's files: {got}");
        let online = of_pod(page(true), "d/web", "3-4", false);
        let got = text(&online, at(720));
        assert!(got.starts_with("d/web: nothing is decided here"), "{got}");
    }

    #[test]
    fn an_agent_that_is_off_says_so() {
        let got = text(&node(page(false), Resource::Cache), at(720));
        assert_eq!(
            got,
            "n1: the agent of n1 changes nothing (turned off by: local); `tidepool on` turns it on\n"
        );
    }

    #[test]
    fn ages_are_short() {
        let cases = [(-5, "0 s"), (0, "0 s"), (119, "119 s"), (120, "2 min"), (7_200, "2 h")];
        for (seconds, want) in cases {
            assert_eq!(age(at(0), at(seconds)), want);
        }
    }
}
