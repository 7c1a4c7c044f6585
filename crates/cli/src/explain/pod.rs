//! `tidepool explain pod`: why does a pod wait, or why is it where it is?
//!
//! Everything the scheduler looks at is fetched and told to an engine of the same kind, which then
//! says what it thinks of the pod. A running scheduler can be asked instead (`--scheduler`): it
//! also remembers why it chose a node. For a pod that is placed already, the engine here says
//! which node it would get if it came now. What holds it back there, its node's agent is asked.

use std::fmt::{Debug, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use api::kind::NodeMetric;
use api::scheduler::{Configuration, Profile, load};
use clap::Args;
use control::scheduler::Options;
use control::scheduler::profile::translate;
use http::Request;
use http_body_util::{BodyExt, Empty};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use sched::Time;
use sched::scheduler::{Change, Key, Options as EngineOptions, Scheduler, Update};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::decisions::{self, Where};
use crate::input::Text;
use crate::object::Cluster;
use crate::saved::SavedObjects;
use crate::{Outcome, output};

/// Explain why a pod waits, or why it is where it is
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Namespace and name of the pod, as `default/web`
    #[arg(value_parser = place)]
    pod: (String, String),
    /// Print for programs
    #[arg(short, long, value_enum)]
    output: Option<output::Format>,
    /// The scheduler's configuration [default: as `tidepool up` runs it]
    #[arg(long, value_name = "FILE", conflicts_with = "scheduler")]
    config: Option<PathBuf>,
    /// Ask the scheduler that listens there, as `127.0.0.1:10251`
    #[arg(long, value_name = "ADDRESS")]
    scheduler: Option<String>,
    /// Take the objects from these files instead of the cluster, as `kubectl get -o yaml` saves them
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["scheduler", "agent"])]
    from: Vec<PathBuf>,
    /// The moment to explain, with --from [default: that of the newest report]
    #[arg(long, value_name = "TIME", requires = "from")]
    at: Option<Timestamp>,
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    cluster: Cluster,
}

const EXAMPLES: &str = "\
Examples:
  tidepool explain pod default/web
  tidepool explain pod default/web --from nodes.yaml pods.yaml
  tidepool explain pod default/web -o json";

fn place(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        None if !text.is_empty() => Ok(("default".to_owned(), text.to_owned())),
        _ => Err("write NAMESPACE/NAME, for example default/web".to_owned()),
    }
}

impl Arguments {
    pub(crate) async fn run(self) -> anyhow::Result<Outcome> {
        let (namespace, name) = &self.pod;
        if !self.from.is_empty() {
            let saved = SavedObjects::read(&self.from)?;
            let now = self.at.or_else(|| newest_report(&saved)).unwrap_or_else(Timestamp::now);
            let explanation = self.think(&Source::Files(&saved), now).await?;
            match self.output {
                Some(format) => output::print_as(format, &explanation)?,
                None => output::print(&text(&explanation))?,
            }
            return Ok(Outcome::Done);
        }
        let mut explanation = match &self.scheduler {
            Some(address) => ask(address, &self.pod).await?,
            None => {
                let session = self.cluster.connect().await?;
                self.think(&Source::Cluster(session.client()), Timestamp::now()).await?
            }
        };
        let held = self.place.pod(&self.cluster, namespace, name).await;
        match self.output {
            Some(format) => {
                if let Some(object) = explanation.as_object_mut() {
                    let held = match held {
                        Ok(held) => serde_json::to_value(held)?,
                        Err(error) => json!({ "error": format!("{error:#}") }),
                    };
                    object.insert("held".to_owned(), held);
                }
                output::print_as(format, &explanation)?;
            }
            None => output::print(&(text(&explanation) + &node_side(held)))?,
        }
        Ok(Outcome::Done)
    }

    /// Tells an engine everything and asks it.
    async fn think(&self, source: &Source<'_>, now: Timestamp) -> anyhow::Result<Value> {
        let profiles = self.profiles()?;
        let (namespace, name) = &self.pod;
        let pod = source.pod(namespace, name).await?;
        let pod = pod.with_context(|| format!("there is no pod {namespace}/{name}"))?;
        check_ours(&pod, &profiles)?;
        let mut engine =
            Scheduler::new(profiles.iter().map(translate).collect(), EngineOptions::default())?;
        let now = Time(i64::try_from(now.as_nanosecond()).unwrap_or(i64::MAX));
        tell_all(source, &mut engine, now).await?;
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        if let Some(node) = node.filter(|node| !node.is_empty()) {
            return again(&mut engine, pod, &node, now);
        }
        let found = engine.explain(namespace, name).context("the engine does not know the pod")?;
        Ok(serde_json::to_value(found)?)
    }

    fn profiles(&self) -> anyhow::Result<Vec<Profile>> {
        let Some(file) = &self.config else {
            return Ok(Options::on_one_machine().configuration.profiles);
        };
        let text = Text::read(file)?;
        let (configuration, _) = load(&text.name, &text.text);
        let configuration: Configuration = configuration.with_context(|| {
            format!("{0} cannot be used; run `tidepool scheduler --config {0} --check`", text.name)
        })?;
        Ok(configuration.profiles)
    }
}

/// What the agent says; where it cannot be asked, the rest is still an answer.
fn node_side(held: anyhow::Result<Option<decisions::Shown>>) -> String {
    match held {
        Ok(Some(shown)) => format!("\n{}", decisions::text(&shown, Timestamp::now())),
        Ok(None) => String::new(),
        Err(error) => format!("\nwhat holds it back on its node is not known: {error:#}\n"),
    }
}

/// A pod that another scheduler places cannot be explained here.
fn check_ours(pod: &Pod, profiles: &[Profile]) -> anyhow::Result<()> {
    let name = pod.spec.as_ref().and_then(|spec| spec.scheduler_name.as_deref());
    let name = name.unwrap_or("default-scheduler");
    if !profiles.iter().any(|profile| profile.scheduler_name == name) {
        bail!("the pod belongs to scheduler {name}, which is not in the configuration");
    }
    Ok(())
}

/// Where a placed pod would go if it came now: it is taken off its node and looked at anew.
fn again(engine: &mut Scheduler, mut pod: Pod, node: &str, now: Time) -> anyhow::Result<Value> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (namespace, name) = (text(&pod.metadata.namespace), text(&pod.metadata.name));
    let key =
        Key { namespace: namespace.clone(), name: name.clone(), uid: pod.metadata.uid.clone() };
    engine.apply(Change::Pod(Update::Delete(key)), now);
    if let Some(spec) = &mut pod.spec {
        spec.node_name = None;
    }
    pod.metadata.uid = Some(format!("{}-again", text(&pod.metadata.uid)));
    engine.apply(Change::Pod(Update::Upsert(Arc::new(pod))), now);
    let today = engine.explain(&namespace, &name).map(|found| found.state);
    Ok(json!({"namespace": namespace, "name": name,
        "state": {"Placed": {"node": node, "today": serde_json::to_value(today)?}}}))
}

/// Where objects come from.
enum Source<'s> {
    Cluster(&'s Client),
    Files(&'s SavedObjects),
}

impl Source<'_> {
    async fn pod(&self, namespace: &str, name: &str) -> anyhow::Result<Option<Pod>> {
        match self {
            Self::Cluster(client) => {
                let pods: Api<Pod> = Api::namespaced((*client).clone(), namespace);
                Ok(pods.get_opt(name).await?)
            }
            Self::Files(saved) => saved.find("Pod", namespace, name),
        }
    }

    /// Everything of one kind; a kind that is not served has no objects.
    async fn list<K>(&self) -> anyhow::Result<Vec<K>>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let client = match self {
            Self::Cluster(client) => *client,
            Self::Files(saved) => return saved.all(&K::kind(&())),
        };
        let api: Api<K> = Api::all(client.clone());
        match api.list(&ListParams::default()).await {
            Ok(list) => Ok(list.items),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            Err(error) => Err(error).with_context(|| format!("cannot list {}", K::kind(&()))),
        }
    }
}

/// When the newest of the saved NodeMetrics was reported: the moment that the files are about.
fn newest_report(saved: &SavedObjects) -> Option<Timestamp> {
    let metrics: Vec<NodeMetric> = saved.all("NodeMetric").ok()?;
    let times = metrics.iter().filter_map(|metric| metric.status.as_ref()?.update_time.as_ref());
    times.map(|time| time.0).max()
}

async fn tell_all(source: &Source<'_>, engine: &mut Scheduler, now: Time) -> anyhow::Result<()> {
    let mut teller = Teller { source, engine, now };
    teller.tell(Change::Namespace).await?;
    teller.tell(Change::Node).await?;
    teller.tell(Change::Pdb).await?;
    teller.tell(Change::Pvc).await?;
    teller.tell(Change::Pv).await?;
    teller.tell(Change::StorageClass).await?;
    teller.tell(Change::CsiNode).await?;
    teller.tell(Change::CsiDriver).await?;
    teller.tell(Change::CsiCapacity).await?;
    teller.tell(Change::VolumeAttachment).await?;
    teller.tell(Change::Service).await?;
    teller.tell(Change::ReplicationController).await?;
    teller.tell(Change::ReplicaSet).await?;
    teller.tell(Change::StatefulSet).await?;
    teller.tell(Change::NodeMetric).await?;
    teller.tell(Change::NodeTopology).await?;
    teller.tell(Change::Pod).await
}

struct Teller<'a> {
    source: &'a Source<'a>,
    engine: &'a mut Scheduler,
    now: Time,
}

impl Teller<'_> {
    /// Everything of one kind.
    async fn tell<K>(&mut self, change: fn(Update<K>) -> Change) -> anyhow::Result<()>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        for object in self.source.list::<K>().await? {
            self.engine.apply(change(Update::Upsert(Arc::new(object))), self.now);
        }
        Ok(())
    }
}

/// What a running scheduler says.
async fn ask(address: &str, (namespace, name): &(String, String)) -> anyhow::Result<Value> {
    let stream = tokio::net::TcpStream::connect(address)
        .await
        .with_context(|| format!("no scheduler listens at {address}"))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(stream)).await?;
    let talking = tokio::spawn(connection);
    let request = Request::get(format!("/apis/v1/pods/{namespace}/{name}"))
        .header("host", address)
        .body(Empty::<hyper::body::Bytes>::new())?;
    let answer = sender.send_request(request).await?;
    let is_good = answer.status().is_success();
    let body: Value = serde_json::from_slice(&answer.into_body().collect().await?.to_bytes())?;
    drop(sender);
    let _ = talking.await;
    match is_good {
        true => Ok(body),
        false => bail!("{}", body["message"].as_str().unwrap_or("the scheduler does not say")),
    }
}

/// The same for people.
fn text(explanation: &Value) -> String {
    let pod = format!("{}/{}", words(&explanation["namespace"]), words(&explanation["name"]));
    let state = &explanation["state"];
    let mut text = String::new();
    if let Some(gated) = state.get("Gated") {
        let (plugin, reason) = (words(&gated["plugin"]), words(&gated["reason"]));
        let _ = writeln!(text, "{pod} is not tried yet: {reason} ({plugin})");
    } else if let Some(waiting) = state.get("Waiting") {
        let _ =
            writeln!(text, "{pod} waits: it fits on none of {} nodes\n", waiting["why"]["nodes"]);
        write_waiting(&mut text, waiting);
    } else if let Some(placement) = state.get("Ready") {
        let node = words(&placement["winner"]["node"]);
        let _ = writeln!(text, "{pod} fits and will get {node}\n");
        write_placement(&mut text, placement);
    } else if let Some(placed) = state.get("Placed") {
        let _ = writeln!(text, "{pod} is on {}", words(&placed["node"]));
        if let Some(why) = placed.get("why").filter(|why| !why.is_null()) {
            text.push_str("\nIt was chosen so:\n\n");
            write_placement(&mut text, why);
        } else if let Some(placement) = placed["today"].get("Ready") {
            let _ = writeln!(
                text,
                "\nIf it came now it would get {}:\n",
                words(&placement["winner"]["node"])
            );
            write_placement(&mut text, placement);
        } else if let Some(waiting) = placed["today"].get("Waiting") {
            text.push_str("\nIf it came now it would fit nowhere:\n\n");
            write_waiting(&mut text, waiting);
        }
    }
    text
}

fn words(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn write_waiting(text: &mut String, waiting: &Value) {
    let why = &waiting["why"];
    if let Some(before) = why["before"].as_str() {
        let _ = writeln!(text, "{before}");
    }
    let groups = why["groups"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<[String; 4]> = groups
        .iter()
        .map(|group| {
            let reasons = group["reasons"].as_array().map(Vec::as_slice).unwrap_or_default();
            let reasons: Vec<String> = reasons.iter().map(words).collect();
            let helps = match group["code"].as_str() {
                Some("Unschedulable") => "may help",
                _ => "cannot help",
            };
            [words(&group["nodes"]), words(&group["plugin"]), reasons.join(", "), helps.to_owned()]
        })
        .collect();
    if !rows.is_empty() {
        text.push_str(&output::table(["NODES", "PLUGIN", "REASON", "EVICTION"], &rows));
    }
    let nearest = waiting["nearest"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !nearest.is_empty() {
        text.push_str("\nNearest:\n");
        for near in nearest {
            let reasons = near[1]["reasons"].as_array().map(Vec::as_slice).unwrap_or_default();
            let reasons: Vec<String> = reasons.iter().map(words).collect();
            let _ = writeln!(text, "  {}: {}", words(&near[0]), reasons.join(", "));
        }
    }
    if let Some(preemption) = why["preemption"].as_str() {
        let _ = writeln!(text, "\n{preemption}");
    }
    if let Some(node) = waiting["nominated"].as_str() {
        let _ = writeln!(text, "\nRoom is being made on {node}.");
    }
}

fn write_placement(text: &mut String, placement: &Value) {
    let feasible = match &placement["feasible"] {
        Value::Null => String::new(),
        count => format!("{count} of "),
    };
    let _ = writeln!(text, "{feasible}{} nodes fit\n", placement["nodes"]);
    let runners = placement["runners_up"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<[String; 3]> = std::iter::once(&placement["winner"])
        .chain(runners)
        .map(|ranked| {
            let parts = ranked["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
            let parts = parts.iter().map(|part| format!("{}={}", words(&part[0]), part[1]));
            let parts = parts.collect::<Vec<_>>().join(" ");
            [words(&ranked["node"]), ranked["total"].to_string(), parts]
        })
        .collect();
    text.push_str(&output::table(["NODE", "SCORE", "PARTS"], &rows));
    if placement["was_nominated"] == true {
        text.push_str("\nThe node had been cleared for it.\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_named_with_or_without_its_namespace() {
        assert_eq!(place("a/b"), Ok(("a".into(), "b".into())));
        assert_eq!(place("b"), Ok(("default".into(), "b".into())));
        for wrong in ["", "/b", "a/"] {
            assert!(place(wrong).is_err(), "{wrong:?}");
        }
    }

    fn about(state: Value) -> Value {
        json!({"namespace": "d", "name": "p", "state": state})
    }

    #[test]
    fn a_waiting_pod_is_explained_by_plugin() {
        let group = json!({"plugin": "NodeResourcesFit", "code": "Unschedulable",
            "reasons": ["Insufficient cpu"], "nodes": 2});
        let waiting = json!({"why": {"nodes": 3, "groups": [group, {"plugin": "TaintToleration",
                "code": "Unresolvable", "reasons": ["node(s) had untolerated taint(s)"], "nodes": 1}],
            "before": null, "preemption": "preemption: none", "plugins": [], "is_error": false},
            "nearest": [["n1", group]], "nominated": null});
        let want = "\
d/p waits: it fits on none of 3 nodes

NODES  PLUGIN            REASON                            EVICTION
2      NodeResourcesFit  Insufficient cpu                  may help
1      TaintToleration   node(s) had untolerated taint(s)  cannot help

Nearest:
  n1: Insufficient cpu

preemption: none
";
        assert_eq!(text(&about(json!({"Waiting": waiting}))), want);
    }

    #[test]
    fn a_placed_pod_shows_scores() {
        let ranked = |node: &str, total: i64| json!({"node": node, "total": total, "parts": [["NodeResourcesFit", total]]});
        let placement = json!({"nodes": 2, "feasible": 2, "winner": ranked("n1", 90),
            "runners_up": [ranked("n2", 80)], "was_nominated": false});
        let want = "\
d/p is on n1

If it came now it would get n1:

2 of 2 nodes fit

NODE  SCORE  PARTS
n1    90     NodeResourcesFit=90
n2    80     NodeResourcesFit=80
";
        let placed = json!({"Placed": {"node": "n1", "today": {"Ready": placement}}});
        assert_eq!(text(&about(placed)), want);
    }

    #[test]
    fn a_gated_pod_says_who_holds_it() {
        let gated = json!({"Gated": {"plugin": "SchedulingGates", "reason": "waiting for scheduling gates: [a]"}});
        assert_eq!(
            text(&about(gated)),
            "d/p is not tried yet: waiting for scheduling gates: [a] (SchedulingGates)\n"
        );
    }
}
