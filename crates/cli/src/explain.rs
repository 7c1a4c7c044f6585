//! `tidepool explain`: where does a number come from, and why is a pod where it is?
//!
//! What a node lends, and where a pod is: the objects are fetched and given to the very function the
//! manager or the scheduler uses, so that what is explained is what happens. What a node holds back: its
//! agent is asked.

mod decisions;
mod lines;
mod pod;
mod why;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, bail};
use api::config::{Config, NodeView, Options as Checks};
use api::kind::{Device, NodeMetric, NodeResourceTopology};
use api::protocol::name::{NAMESPACE, config_map};
use api::why::{Resource, Why};
use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::ListParams;
use kube::{Api, Client};
use overcommit::device::Devices;
use overcommit::explain;
use overcommit::facts::{DeviceFacts, MetricFacts, NodeFacts, PodFacts, TopologyFacts};
use overcommit::plan::{self, Options};
use overcommit::{Inputs, Strategies};
use serde::Serialize;

pub(crate) use self::decisions::Where;
use crate::object::Cluster;
use crate::saved::SavedObjects;
use crate::{Outcome, output};

/// Explain where a number comes from, or why a pod is where it is
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Node(NodeArguments),
    Pod(pod::Arguments),
}

impl Command {
    pub(crate) async fn run(self) -> anyhow::Result<Outcome> {
        match self {
            Self::Node(arguments) => arguments.run().await,
            Self::Pod(arguments) => arguments.run().await,
        }
    }
}

/// Explain what a node lends out, or holds back
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct NodeArguments {
    /// Name of the node
    name: String,
    /// Which of its resources
    #[arg(value_enum)]
    what: What,
    /// Print for programs
    #[arg(short, long, value_enum)]
    output: Option<output::Format>,
    /// Namespace of the ConfigMap slo-controller-config
    #[arg(long, default_value = NAMESPACE)]
    config_namespace: String,
    /// Take the objects from these files instead of the cluster, as `kubectl get -o yaml` saves them
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "agent")]
    from: Vec<PathBuf>,
    /// The moment to explain, with --from [default: that of the node's last report]
    #[arg(long, value_name = "TIME", requires = "from")]
    at: Option<Timestamp>,
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    cluster: Cluster,
}

const EXAMPLES: &str = "\
Examples:
  tidepool explain node n1 batch
  tidepool explain node n1 batch --from nodes.yaml pods.yaml nodemetrics.yaml config.yaml
  tidepool explain node n1 cpu -o json";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// What batch work may have: kubernetes.io/batch-cpu and batch-memory
    Batch,
    /// What online pods will not need soon: kubernetes.io/mid-cpu and mid-memory
    Mid,
    /// What best-effort may use of the CPUs right now
    Cpu,
    /// How far the node is from sending pods away for memory
    Memory,
    /// Who may use which part of the last-level cache
    Cache,
}

impl What {
    /// What the node's agent is asked about; `None` for what the node lends.
    fn held(self) -> Option<Resource> {
        match self {
            Self::Batch | Self::Mid => None,
            Self::Cpu => Some(Resource::Cpu),
            Self::Memory => Some(Resource::Memory),
            Self::Cache => Some(Resource::Cache),
        }
    }
}

/// The same for people and programs.
#[derive(Debug, Serialize)]
struct Explanation {
    node: String,
    /// Why nothing is lent; absent when something is.
    #[serde(rename = "lendsNothing", skip_serializing_if = "Option::is_none")]
    lends_nothing: Option<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<&'static str>,
    /// When the report that all of this rests on was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<Timestamp>,
    answers: Vec<Why>,
    /// What the node shows now.
    shown: BTreeMap<&'static str, Option<i64>>,
}

/// Everything about one node that a decision looks at.
struct Found {
    node: Node,
    pods: Vec<Pod>,
    metric: Option<NodeMetric>,
    topology: Option<NodeResourceTopology>,
    device: Option<Device>,
    config: Option<ConfigMap>,
}

impl NodeArguments {
    async fn run(self) -> anyhow::Result<Outcome> {
        if let Some(resource) = self.what.held() {
            if !self.from.is_empty() {
                bail!("--from explains batch and mid; what an agent decides, it must be asked");
            }
            let shown = self.place.node(&self.cluster, &self.name, resource).await?;
            print(self.output, &shown)?;
            return Ok(Outcome::Done);
        }
        let found = if self.from.is_empty() {
            let session = self.cluster.connect().await?;
            Found::fetch(session.client(), &self.name, &self.config_namespace).await?
        } else {
            let saved = SavedObjects::read(&self.from)?;
            Found::saved(&saved, &self.name, &self.config_namespace)?
        };
        let report = found.measured().filter(|_| !self.from.is_empty());
        let now = self.at.or(report).unwrap_or_else(Timestamp::now);
        let explanation = self.explain(&found, now)?;
        match self.output {
            Some(format) => output::print_as(format, &explanation)?,
            None => output::print(&lines::text(&explanation, now))?,
        }
        Ok(Outcome::Done)
    }

    fn explain(&self, found: &Found, now: Timestamp) -> anyhow::Result<Explanation> {
        let object = format!("ConfigMap {}/{}", self.config_namespace, config_map::SLO);
        let data = found.config.as_ref().and_then(|config| config.data.clone());
        let (config, _) = Config::load(&data.unwrap_or_default(), None, &object, Checks::default());
        let view = config.for_node(&found.node.metadata);
        let why = found.why(&view, now).with_context(|| {
            format!("{object}: colocation-config cannot be used; run `tidepool config check`")
        })?;
        let facts = NodeFacts::read(&found.node);
        let (sums, names, shown) = match self.what {
            What::Mid => {
                let names = ["kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"];
                (explain::mid(&why, &view), names, facts.mid)
            }
            _ => {
                let names = ["kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"];
                (explain::batch(&why, &view), names, facts.batch)
            }
        };
        let count = |shown: overcommit::facts::Shown| shown.allocatable.map(units::Quantity::value);
        let [cpu, memory] = names;
        let shown: BTreeMap<_, _> = [(cpu, count(shown.cpu)), (memory, count(shown.memory))].into();
        let answer = |why: Why| {
            let shown = shown.get(why.resource.name()).copied().flatten();
            lent(&self.name, why, shown)
        };
        Ok(Explanation {
            node: self.name.clone(),
            lends_nothing: explain::standing(why.standing, &view),
            fix: explain::way_out(why.standing),
            measured: found.measured(),
            answers: sums.into_iter().flatten().map(answer).collect(),
            shown,
        })
    }
}

/// Names the node, and says so where the node shows another amount to the cluster.
fn lent(node: &str, mut why: Why, shown: Option<i64>) -> Why {
    node.clone_into(&mut why.about);
    if let Some(last) = why.sum.terms.last_mut()
        && shown != Some(last.amount)
    {
        last.source.note = why::shows(shown, last.unit);
    }
    why
}

fn print(format: Option<output::Format>, shown: &decisions::Shown) -> anyhow::Result<()> {
    match format {
        Some(format) => output::print_as(format, shown),
        None => output::print(&decisions::text(shown, Timestamp::now())),
    }
}

impl Found {
    async fn fetch(client: &Client, name: &str, namespace: &str) -> anyhow::Result<Self> {
        let nodes: Api<Node> = Api::all(client.clone());
        let pods: Api<Pod> = Api::all(client.clone());
        let configs: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let on_node = ListParams::default().fields(&format!("spec.nodeName={name}"));
        // A kind that is not installed is answered like an object that is not there.
        Ok(Self {
            node: nodes.get_opt(name).await?.with_context(|| format!("there is no node {name}"))?,
            pods: pods.list(&on_node).await?.items,
            metric: Api::all(client.clone()).get_opt(name).await?,
            topology: Api::all(client.clone()).get_opt(name).await?,
            device: Api::all(client.clone()).get_opt(name).await?,
            config: configs.get_opt(config_map::SLO).await?,
        })
    }

    /// The same from files.
    fn saved(saved: &SavedObjects, name: &str, namespace: &str) -> anyhow::Result<Self> {
        let on_node =
            |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(name);
        let node = saved.find("Node", "", name)?;
        Ok(Self {
            node: node.with_context(|| format!("the files hold no node {name}"))?,
            pods: saved.all("Pod")?.into_iter().filter(on_node).collect(),
            metric: saved.find("NodeMetric", "", name)?,
            topology: saved.find("NodeResourceTopology", "", name)?,
            device: saved.find("Device", "", name)?,
            config: saved.config_map(namespace, config_map::SLO)?,
        })
    }

    /// When the node's agent last reported.
    fn measured(&self) -> Option<Timestamp> {
        let status = self.metric.as_ref()?.status.as_ref()?;
        status.update_time.as_ref().map(|time| time.0)
    }

    /// `None` when the co-location strategy is unavailable.
    fn why(&self, view: &NodeView, now: Timestamp) -> Option<plan::Why> {
        let strategies = Strategies::of(view)?;
        let options = Options::default();
        let node = NodeFacts::read(&self.node);
        let pods = self.pods.iter().filter_map(|pod| PodFacts::read(pod, false)).collect();
        let metric = self.metric.as_ref().and_then(|metric| metric.status.as_ref());
        let metric = metric.map(MetricFacts::read);
        let topology = self.topology.as_ref().map(TopologyFacts::read);
        let device = self.device.as_ref().map(DeviceFacts::read);
        let inputs = Inputs {
            node: &node,
            pods: &pods,
            metric: metric.as_ref(),
            topology: topology.as_ref(),
            devices: Devices::Known(device.as_ref()),
            strategies: &strategies,
            options: &options,
            last_sync: None,
            now,
        };
        Some(overcommit::plan(&inputs).why)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde::de::DeserializeOwned;
    use serde_json::json;

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(subcommand)]
        command: Command,
    }

    fn typed(what: &str) -> NodeArguments {
        match Typed::parse_from(["explain", "node", "n1", what]).command {
            Command::Node(arguments) => arguments,
            Command::Pod(arguments) => panic!("{arguments:?}"),
        }
    }

    fn object<T: DeserializeOwned>(value: serde_json::Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn now() -> Timestamp {
        "2026-01-01T00:10:00Z".parse().unwrap()
    }

    /// The node of the chapter's vectors, with YARN and one faster core beside it.
    fn found(updated: &str) -> Found {
        let usage = |cpu: &str, memory: &str| json!({"resources": {"cpu": cpu, "memory": memory}});
        let pod = |name: &str, qos: &str, cpu: &str, memory: &str| {
            object(json!({"metadata": {"name": name, "namespace": "d",
                    "labels": {"koordinator.sh/qosClass": qos}},
                "spec": {"nodeName": "n1", "priority": 9500, "containers": [{"name": "c",
                    "resources": {"requests": {"cpu": cpu, "memory": memory}}}]},
                "status": {"phase": "Running"}}))
        };
        let reported = |name: &str, usage| json!({"name": name, "namespace": "d", "priority": "koord-prod", "podUsage": usage});
        let taken = r#"{"allocations":[{"name":"hadoop-yarn","priority":"koord-batch",
            "resources":{"kubernetes.io/batch-cpu":"1k"}}]}"#;
        Found {
            node: object(json!({
                "metadata": {"name": "n1", "labels": {"node.koordinator.sh/cpu-reclaim-ratio": "0.7"},
                    "annotations": {"node.koordinator.sh/thirdPartyAllocations": taken}},
                "status": {"capacity": {"cpu": "64", "memory": "256Gi"},
                    "allocatable": {"cpu": "62", "memory": "248Gi", "kubernetes.io/batch-cpu": "20k"}}})),
            pods: vec![pod("web", "LS", "16", "64Gi"), pod("new", "LSE", "4", "8Gi")],
            metric: Some(object(json!({"apiVersion": "slo.koordinator.sh/v1alpha1",
                "kind": "NodeMetric", "metadata": {"name": "n1"}, "spec": {},
                "status": {"updateTime": updated,
                    "nodeMetric": {"systemUsage": usage("1500m", "9Gi"), "nodeUsage": usage("12", "60Gi")},
                    "prodReclaimableMetric": {"resource": usage("10", "20Gi")},
                    "podsMetric": [reported("web", usage("6", "40Gi")), reported("ghost", usage("1", "2Gi"))]}}))),
            topology: None,
            device: None,
            config: Some(object(json!({"data": {"colocation-config":
                r#"{"enable":true,"memoryCalculatePolicy":"request","midUnallocatedPercent":10}"#}}))),
        }
    }

    /// Adds up what is printed, with a pencil: CPUs to the last digit, GiB within their rounding.
    fn assert_adds_up(text: &str) {
        let mut sums = 0;
        let (mut total, mut terms) = (0.0, 0.0);
        for line in text.lines() {
            let sign = line.chars().nth(1).unwrap_or('n');
            let amount = line.get(2..).and_then(|rest| rest.split_whitespace().next());
            let Some(amount) = amount.and_then(|word| word.parse::<f64>().ok()) else {
                (total, terms) = (0.0, 0.0);
                continue;
            };
            terms += 1.0;
            match sign {
                ' ' | '+' => total += amount,
                '-' => total -= amount,
                '>' => total = amount,
                '=' => {
                    let off = (total - amount).abs();
                    let most = if line.contains("GiB") { 0.005 * terms + 1e-9 } else { 1e-9 };
                    assert!(off <= most, "{off} in {line:?} of\n{text}");
                    sums += 1;
                }
                other => panic!("{other:?} in {line:?}"),
            }
        }
        assert!(sums >= 2, "{text}");
    }

    #[test]
    fn what_is_printed_adds_up() {
        let policies = ["usage", "request", "maxUsageRequest"];
        for (number, policy) in policies.into_iter().cycle().take(60).enumerate() {
            let number = i64::try_from(number).unwrap();
            let mut found = found("2026-01-01T00:09:00Z");
            let text = json!({"enable": true, "memoryCalculatePolicy": policy,
                "cpuCalculatePolicy": policy, "midUnallocatedPercent": number,
                "cpuReclaimThresholdPercent": number * 3, "memoryReclaimThresholdPercent": 37 + number,
                "batchCPUThresholdPercent": if number % 2 == 0 { None } else { Some(number) },
                "midReclaimMode": if number % 3 == 0 { "static" } else { "dynamic" },
                "midStaticCPUReservedPercent": number});
            let data = [("colocation-config".to_owned(), text.to_string())];
            found.config.as_mut().unwrap().data = Some(data.into());
            for what in ["batch", "mid"] {
                let explanation = typed(what).explain(&found, now()).unwrap();
                assert_adds_up(&lines::text(&explanation, now()));
            }
        }
    }

    #[test]
    fn batch_is_a_sum_with_sources() {
        let found = found("2026-01-01T00:09:00Z");
        let explanation = typed("batch").explain(&found, now()).unwrap();
        let want = "\
n1: kubernetes.io/batch-cpu is 30.8 of 64.0 CPUs (bound by: what is left)

   64.0  capacity                Node
 - 19.2  kept free               cpuReclaimThresholdPercent = 70 (node label node.koordinator.sh/cpu-reclaim-ratio)
 -  2.0  system                  reserved > used; kubelet: capacity without allocatable
 - 11.0  used above batch        2 pods, 1 not measured yet, 1 gone but reported; cpuCalculatePolicy = \"usage\" (built-in)
 = 31.8  left
 -  1.0  taken by other systems  thirdPartyAllocations
 = 30.8  lent                    the node shows 20.0 CPUs

n1: kubernetes.io/batch-memory is 86.4 of 256.0 GiB (bound by: what is left)

   256.00 GiB  capacity               Node
 -  89.60 GiB  kept free              memoryReclaimThresholdPercent = 65 (built-in)
 -   8.00 GiB  reserved               kubelet: capacity without allocatable
 -  72.00 GiB  requested above batch  2 pods, 1 not measured yet, 1 gone but reported; memoryCalculatePolicy = \"request\" (cluster)
 =  86.40 GiB  left
 =  86.40 GiB  lent                   the node shows nothing

The node was measured 60 s ago (NodeMetric n1).
";
        assert_eq!(lines::text(&explanation, now()), want);
        let json = serde_json::to_value(&explanation).unwrap();
        let cpu = &json["answers"][0];
        assert_eq!(cpu["headline"], "kubernetes.io/batch-cpu is 30.8 of 64.0 CPUs");
        assert_eq!(cpu["boundBy"], "what is left");
        assert_eq!(cpu["lines"][1]["unit"], "milliCores");
        assert_eq!(cpu["lines"][1]["amount"], 19_200);
        assert_eq!(cpu["lines"][1]["sign"], "minus");
        assert_eq!(json["shown"]["kubernetes.io/batch-cpu"], 20_000);
    }

    #[test]
    fn mid_is_a_sum_with_sources() {
        let found = found("2026-01-01T00:09:00Z");
        let text = lines::text(&typed("mid").explain(&found, now()).unwrap(), now());
        assert!(text.starts_with("n1: kubernetes.io/mid-cpu is 14.2 of 64.0 CPUs"), "{text}");
        assert!(text.contains("of 42.0 unallocated; midUnallocatedPercent = 10"), "{text}");
    }

    #[test]
    fn a_node_that_lends_nothing_says_why() {
        let stale = typed("batch").explain(&found("2025-12-31T23:50:00Z"), now()).unwrap();
        let want = "\
n1 lends nothing: the last report is 1200 s old: degradeTimeMinutes = 15 (built-in)

kubernetes.io/batch-cpu     the node shows 20.0 CPUs
kubernetes.io/batch-memory  the node shows nothing

fix: see whether the node's agent runs, and what it says
";
        assert_eq!(lines::text(&stale, now()), want);
        let mut unusable = found("2026-01-01T00:09:00Z");
        unusable.config = Some(object(json!({"data": {"colocation-config": "{"}})));
        let error = typed("batch").explain(&unusable, now()).unwrap_err().to_string();
        assert!(error.contains("tidepool config check"), "{error}");
    }
}
