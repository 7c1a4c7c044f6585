//! `tidepool config show`: what does a node get, and where does each value come from?

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use api::check::check_node;
use api::config::{self, Config, Key, NodeView, Options};
use api::document::{self, object_name};
use api::protocol::name::{NAMESPACE, config_map};
use clap::Args;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::Api;
use serde::Serialize;
use serde_json::{Value, json};

use crate::Outcome;
use crate::input::Text;
use crate::object::{Cluster, in_words};
use crate::output::{self, Format};

/// Show what a node gets from the configuration, and where each value comes from
///
/// Prints every field of the node's NodeSLO and of its co-location strategy
/// with its source: built-in, cluster, a node entry, or the node's own
/// annotations and labels. Without a file, the configuration and the node are
/// those of the cluster.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The ConfigMap slo-controller-config, as YAML or JSON; - reads standard input [default: the cluster's]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The Node: a file, or - for standard input; without FILE also the name of a node of the cluster
    #[arg(long, value_name = "NODE")]
    node: PathBuf,
    /// Namespace of the ConfigMap in the cluster
    #[arg(long, default_value = NAMESPACE)]
    config_namespace: String,
    /// Fill in what the node agent adds: class defaults, and neutral values for what is off
    #[arg(long)]
    as_agent: bool,
    /// Print for programs
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
    #[command(flatten)]
    cluster: Cluster,
}

const EXAMPLES: &str = "\
Examples:
  tidepool config show --node n1
  tidepool config show slo-controller-config.yaml --node node.yaml
  kubectl get node n1 -o yaml | tidepool config show slo-controller-config.yaml --node - -o yaml";

/// The sections in the order they are printed, with their names in `-o json`.
const SECTIONS: [(Key, &str); 11] = [
    (Key::Colocation, "colocationStrategy"),
    (Key::Threshold, "nodeSLO.spec.resourceUsedThresholdWithBE"),
    (Key::Qos, "nodeSLO.spec.resourceQOSStrategy"),
    (Key::Burst, "nodeSLO.spec.cpuBurstStrategy"),
    (Key::System, "nodeSLO.spec.systemStrategy"),
    (Key::HostApplication, "nodeSLO.spec"),
    (Key::Normalization, "cpuNormalizationStrategy"),
    (Key::Amplification, "resourceAmplificationStrategy"),
    (Key::Kernel, "nodeSLO.spec.extensions.tidepool-kernel-config"),
    (Key::Reaction, "nodeSLO.spec.extensions.tidepool-reaction-config"),
    (Key::Switch, "nodeSLO.spec.extensions.tidepool-switch-config"),
];

/// What is printed for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    node: String,
    colocation_enabled: bool,
    colocation_strategy: Option<Value>,
    #[serde(rename = "nodeSLO")]
    node_slo: Value,
    cpu_normalization_strategy: Option<Value>,
    resource_amplification_strategy: Option<Value>,
    sources: BTreeMap<String, String>,
}

impl Arguments {
    pub(crate) async fn run(self) -> anyhow::Result<Outcome> {
        let (config_map, node) = self.gather().await?;
        let object = object_name(&config_map);
        let (data, mut findings) = config::data_of(&config_map, &object);
        let (config, loading) = Config::load(&data, None, &object, Options::default());
        let mut view = config.for_node(&node.metadata);
        findings.extend(loading);
        findings.extend(check_node(&node));
        findings.append(&mut view.conflicts);
        for finding in &findings {
            eprintln!("{finding}\n");
        }
        if self.as_agent {
            view = view.as_agent_sees();
        }
        let name = node.metadata.name.unwrap_or_default();
        match self.output {
            Some(format) => output::print_as(format, &shown(&name, &view))?,
            None => output::print(&for_people(&name, &config, &view))?,
        }
        Ok(Outcome::Done)
    }
}

impl Arguments {
    /// The ConfigMap and the Node, from files or from the cluster.
    async fn gather(&self) -> anyhow::Result<(Value, Node)> {
        let stdin = Path::new("-");
        if self.file.as_deref() == Some(stdin) && self.node == stdin {
            bail!("only one of the ConfigMap and the Node can come from standard input");
        }
        let node_in_file = || -> anyhow::Result<Node> {
            let node = only(&Text::read(&self.node)?, "Node")?;
            serde_json::from_value(node.clone()).with_context(|| object_name(&node))
        };
        if let Some(file) = &self.file {
            return Ok((only(&Text::read(file)?, "ConfigMap")?, node_in_file()?));
        }
        let session = self.cluster.connect().await?;
        let maps: Api<ConfigMap> =
            Api::namespaced(session.client().clone(), &self.config_namespace);
        let found = maps.get_opt(config_map::SLO).await.map_err(in_words)?;
        let place = json!({ "namespace": self.config_namespace, "name": config_map::SLO });
        let data = found.and_then(|found| found.data).unwrap_or_default();
        let config_map = json!({ "kind": "ConfigMap", "metadata": place, "data": data });
        if self.node == stdin || self.node.exists() {
            return Ok((config_map, node_in_file()?));
        }
        let name = self.node.to_string_lossy();
        let nodes: Api<Node> = Api::all(session.client().clone());
        let node = nodes.get_opt(&name).await.map_err(in_words)?;
        Ok((config_map, node.with_context(|| format!("there is no node {name}, nor such a file"))?))
    }
}

fn only(text: &Text, kind: &str) -> anyhow::Result<Value> {
    let mut objects = document::objects(&text.text).with_context(|| text.name.clone())?;
    objects.retain(|object| object["kind"] == kind);
    if objects.len() != 1 {
        bail!("{} must hold exactly one {kind}, not {}", text.name, objects.len());
    }
    objects.pop().with_context(|| format!("{} holds no {kind}", text.name))
}

fn shown(node: &str, view: &NodeView) -> Shown {
    let layer = |key| view.strategy(key).map(api::config::Layer::to_json);
    let mut sources = BTreeMap::new();
    for (key, section) in SECTIONS {
        for (path, leaf) in view.strategy(key).into_iter().flat_map(|layer| layer.leaves()) {
            sources.insert(format!("{section}.{}", field(key, path)), leaf.source.to_string());
        }
    }
    Shown {
        node: node.to_owned(),
        colocation_enabled: view.colocation_enabled,
        colocation_strategy: layer(Key::Colocation),
        node_slo: json!({
            "apiVersion": "slo.koordinator.sh/v1alpha1",
            "kind": "NodeSLO",
            "metadata": {"name": node},
            "spec": view.node_slo_json(),
        }),
        cpu_normalization_strategy: layer(Key::Normalization),
        resource_amplification_strategy: layer(Key::Amplification),
        sources,
    }
}

/// The name of a leaf below its section.
fn field(key: Key, path: &[String]) -> String {
    match key {
        Key::HostApplication => "hostApplications".to_owned(),
        _ => path.join("."),
    }
}

/// Texts without quotes, everything else as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn for_people(node: &str, config: &Config, view: &NodeView) -> String {
    let state = if view.colocation_enabled { "on" } else { "off" };
    let mut text = format!("Node {node}: co-location is {state}\n");
    for (key, section) in SECTIONS {
        text += &format!("\n{section} (from {key}");
        match (view.strategy(key), view.entries.get(&key)) {
            (None, _) => {
                text += ")\n  unavailable: the key cannot be read\n";
                continue;
            }
            (Some(_), Some(entry)) => text += &format!(", {entry} applies)\n"),
            (Some(_), None) => text += ")\n",
        }
        if config.status(key) == config::Status::Fallback {
            text += "  the key cannot be read; built-in defaults are in force\n";
        }
        let leaves = view.strategy(key).into_iter().flat_map(|layer| layer.leaves());
        let rows: Vec<[String; 3]> = leaves
            .map(|(path, leaf)| {
                [format!("  {}", field(key, path)), plain(&leaf.value), leaf.source.to_string()]
            })
            .collect();
        text += &match rows.is_empty() {
            true => "  nothing set\n".to_owned(),
            false => output::table(["  FIELD", "VALUE", "FROM"], &rows),
        };
    }
    text
}
