//! What does the agent of a node do right now, and why?
//!
//! The agent says so itself, at `/decisions`: the sums its strategies decided by, and the kernel files it
//! changed. It is found by its address, or by the one that `tidepool up` left in its directory, or else
//! through the API server.

use std::fmt::Write;

use anyhow::{Context, ensure};
use api::decisions::{KernelChange, Page, StrategyDecision, Switch};
use api::protocol::endpoint::agent::{DECISIONS, PORT};
use api::why::{NODE, Resource};
use clap::Args;
use http::Request;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use serde::Serialize;

use super::why::{age, write_decision};
use crate::object::Cluster;
use crate::state;

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
    /// Name of the node, or `namespace/name` of a pod.
    about: String,
    node: String,
    switch: Switch,
    answers: Vec<StrategyDecision>,
    /// Newest first.
    changes: Vec<KernelChange>,
    /// What the node is asked about; `None` for a pod.
    #[serde(skip)]
    resource: Option<Resource>,
}

impl Shown {
    fn new(about: &str, mut page: Page, resource: Option<Resource>) -> Self {
        for why in page.decisions.iter_mut().map(|decided| &mut decided.why) {
            if why.about == NODE {
                why.about.clone_from(&page.node);
            }
        }
        Self {
            about: about.to_owned(),
            answers: page.decisions,
            switch: page.switch,
            changes: page.changes,
            node: page.node,
            resource,
        }
    }
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
        first_things_first(&mut page);
        Ok(Shown::new(node, page, Some(resource)))
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

/// What is about the node and has a sum is what was asked for.
fn first_things_first(page: &mut Page) {
    page.decisions.sort_by_key(|decided| (decided.why.about != NODE, decided.why.sum.is_empty()));
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
        !uid.is_empty() && (change.file.contains(uid) || change.file.contains(&escaped))
    });
    page.changes.truncate(SHOWN);
    Shown::new(about, page, None)
}

/// A page as people read it.
pub(super) fn text(shown: &Shown, now: Timestamp) -> String {
    let Shown { about, node, switch, answers, changes, resource } = shown;
    let mut text = String::new();
    if !switch.is_on {
        let by = switch.off_by.as_deref().unwrap_or("nobody: it has just started");
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{about}: the agent of {node} changes nothing (turned off by: {by}); `tidepool on` turns \
             it on"
        );
    }
    if answers.is_empty() && switch.is_on {
        let _ = writeln!(text, "{about}: {}", nothing(*resource, node));
    }
    for (index, answer) in answers.iter().enumerate() {
        if index > 0 || !text.is_empty() {
            text.push('\n');
        }
        write_decision(&mut text, answer, now);
    }
    if !changes.is_empty() {
        text.push_str("\nlast changes of its kernel files\n\n");
        for change in changes {
            write_change(&mut text, change, now);
        }
    }
    text
}

/// Why there is nothing to explain, and what to do about it.
fn nothing(resource: Option<Resource>, node: &str) -> String {
    let key = match resource {
        None => return "no strategy has anything to say about it".to_owned(),
        Some(Resource::Cpu | Resource::Memory) => "resource-threshold-config",
        Some(Resource::Cache) => {
            return format!(
                "nobody divides the cache: resctrlQOS is not enabled in key resource-qos-config of \
                 NodeSLO {node}, or this machine cannot (`tidepool doctor` says so)"
            );
        }
        Some(Resource::Io | Resource::Network) => "resource-qos-config",
        Some(_) => "colocation-config",
    };
    format!(
        "nothing is decided: {key} does not enable it (see `kubectl get nodeslo {node} -o yaml`), or \
         nothing was measured yet"
    )
}

fn write_change(text: &mut String, change: &KernelChange, now: Timestamp) {
    let owner = change.owner.as_deref().unwrap_or("as it was found");
    let _ = writeln!(
        text,
        "  {:>5} ago  {}  {} -> {}  {owner}: {} ({})",
        age(change.at, now),
        change.file,
        change.old,
        change.new,
        change.why,
        change.outcome.name()
    );
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap()
    }

    fn term(sign: &str, amount: i64, label: &str, note: &str) -> serde_json::Value {
        json!({ "sign": sign, "amount": amount, "unit": "milliCores", "label": label, "note": note })
    }

    fn page(is_on: bool) -> Page {
        serde_json::from_value(json!({
            "node": "n1",
            "switch": { "isOn": is_on, "offBy": if is_on { None } else { Some("local") }, "dirty": 0 },
            "decisions": [
                { "strategy": "suppress", "since": at(0), "about": "node", "resource": "cpu",
                  "headline": "best-effort may use 6 of 16 CPUs", "boundBy": "threshold", "lines": [
                    term("plus", 16_000, "capacity", ""),
                    term("then", 10_400, "allowed in total", "cpuSuppressThresholdPercent = 65 (built-in)"),
                    term("minus", 5_000, "used above best-effort", "3 pods"),
                    term("equals", 5_400, "left", ""),
                    term("plus", 600, "rounded up to whole CPUs", ""),
                    term("equals", 6_000, "granted", "") ] },
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

    #[test]
    fn the_sum_of_the_node_comes_first() {
        let mut page = page(true);
        page.decisions.reverse();
        first_things_first(&mut page);
        let order: Vec<&str> =
            page.decisions.iter().map(|decided| decided.why.about.as_str()).collect();
        assert_eq!(order, ["node", "node", "d/hog"]);
    }

    fn node(page: Page, resource: Resource) -> Shown {
        let mut page = page;
        page.decisions.retain(|decided| decided.why.resource == resource);
        page.changes.clear();
        Shown::new("n1", page, Some(resource))
    }

    #[test]
    fn a_decision_is_a_sum_with_its_sources() {
        let want = "\
n1: best-effort may use 6 of 16 CPUs (bound by: threshold; suppress, for 12 min)

   16.0  capacity
 > 10.4  allowed in total          cpuSuppressThresholdPercent = 65 (built-in)
 -  5.0  used above best-effort    3 pods
 =  5.4  left
 +  0.6  rounded up to whole CPUs
 =  6.0  granted
";
        assert_eq!(text(&node(page(true), Resource::Cpu), at(720)), want);
    }

    #[test]
    fn a_pod_is_told_what_holds_it_back() {
        let shown = of_pod(page(true), "d/hog", "1-2", true);
        let got = text(&shown, at(720));
        assert!(got.starts_with("n1: best-effort may use"), "{got}");
        assert!(got.contains("d/hog: was told that it will be evicted (bound by: BEMemoryEvict"));
        assert!(got.contains("pod1-2:CfsQuota  -1 -> 50000  batch: limit 500m (written)"), "{got}");
        assert!(!got.contains("pod9-9"), "another pod's files: {got}");
        let online = of_pod(page(true), "d/web", "3-4", false);
        let got = text(&online, at(720));
        assert_eq!(got, "d/web: no strategy has anything to say about it\n");
    }

    #[test]
    fn nothing_to_say_names_what_would_change_that() {
        let mut empty = page(true);
        empty.decisions.clear();
        let got = text(&node(empty.clone(), Resource::Cpu), at(720));
        assert!(got.contains("kubectl get nodeslo n1"), "{got}");
        let got = text(&node(empty, Resource::Cache), at(720));
        assert!(got.contains("tidepool doctor"), "{got}");
    }

    #[test]
    fn programs_read_the_same() {
        let json = serde_json::to_value(node(page(true), Resource::Cpu)).unwrap();
        let answer = &json["answers"][0];
        assert_eq!(answer["about"], "n1");
        assert_eq!(answer["lines"][0]["unit"], "milliCores");
        let signs: Vec<&str> = answer["lines"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line["sign"].as_str().unwrap())
            .collect();
        assert_eq!(signs, ["plus", "then", "minus", "equals", "plus", "equals"]);
        assert_eq!(answer["lines"][2]["amount"], 5_000);
    }

    #[test]
    fn an_agent_that_is_off_says_so() {
        let got = text(&node(page(false), Resource::Cache), at(720));
        assert_eq!(
            got,
            "n1: the agent of n1 changes nothing (turned off by: local); `tidepool on` turns it on\n"
        );
    }
}
