//! Turning all nodes of a cluster off and on, through its API server.
//!
//! Every Node is annotated, and its agent obeys. Whether it has given everything back it says itself:
//! its page of decisions counts the kernel files that are not as they were found. A node whose agent
//! does not answer was told all the same; it obeys as soon as it is back.

use std::time::Duration;

use api::metadata::node::NodeSwitch;
use api::protocol::node::{SWITCH, SWITCH_REASON};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::explain::Where;
use crate::object::{Cluster, in_words};
use crate::{Outcome, output};

/// Nodes that are told and asked at the same time.
const AT_ONCE: usize = 16;
/// How long agents have to give everything back.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// What is wanted of all nodes.
#[derive(Debug, Clone)]
pub(super) enum Wanted {
    Off { reason: String },
    On,
}

/// What came of one node.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Turned {
    node: String,
    #[serde(flatten)]
    came: Came,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "camelCase")]
enum Came {
    On,
    /// Every kernel file is as it was found.
    Clean,
    /// So many are not.
    Dirty {
        files: usize,
    },
    /// Told, but its agent does not answer.
    Unheard,
    /// Not told.
    Failed {
        error: String,
    },
}

impl Wanted {
    fn is_off(&self) -> bool {
        matches!(self, Self::Off { .. })
    }

    fn patch(&self) -> Value {
        let (word, reason) = match self {
            Self::Off { reason } => {
                (json!(NodeSwitch::Off), Some(reason).filter(|reason| !reason.is_empty()))
            }
            Self::On => (Value::Null, None),
        };
        json!({ "metadata": { "annotations": { (SWITCH.name): word, (SWITCH_REASON.name): reason } } })
    }
}

/// Tells every node, and waits for their agents.
pub(super) async fn turn(
    cluster: &Cluster,
    wanted: Wanted,
    json: bool,
    dry_run: bool,
) -> anyhow::Result<Outcome> {
    let session = cluster.connect().await?;
    let nodes: Api<Node> = Api::all(session.client().clone());
    let names = nodes.list(&ListParams::default()).await.map_err(in_words)?;
    let names: Vec<String> =
        names.items.into_iter().filter_map(|node| node.metadata.name).collect();
    if dry_run {
        let word = if wanted.is_off() { "off" } else { "on" };
        let lines: String =
            names.iter().map(|name| format!("would turn {word} node {name}\n")).collect();
        output::print(&lines)?;
        return Ok(Outcome::Done);
    }
    let end = Instant::now() + PATIENCE;
    let one = |node: String| {
        let (nodes, wanted) = (&nodes, &wanted);
        async move {
            let came = tell(nodes, &node, wanted, cluster, end).await;
            Turned { node, came }
        }
    };
    let told = futures_util::stream::iter(names).map(one).buffer_unordered(AT_ONCE);
    let mut turned: Vec<Turned> = told.collect().await;
    turned.sort_by(|one, other| one.node.cmp(&other.node));
    match json {
        true => output::print_as(output::Format::Json, &turned)?,
        false => output::print(&text(&turned))?,
    }
    let is_left = |came: &Came| matches!(came, Came::Dirty { .. } | Came::Failed { .. });
    let has_left = turned.iter().any(|turned| is_left(&turned.came));
    Ok(if has_left { Outcome::Findings } else { Outcome::Done })
}

async fn tell(
    nodes: &Api<Node>,
    node: &str,
    wanted: &Wanted,
    cluster: &Cluster,
    end: Instant,
) -> Came {
    let patch = Patch::Merge(wanted.patch());
    if let Err(error) = nodes.patch_metadata(node, &PatchParams::default(), &patch).await {
        return Came::Failed { error: in_words(error).to_string() };
    }
    if !wanted.is_off() {
        return Came::On;
    }
    let place = Where::default();
    loop {
        let came = match place.ask(cluster, node).await {
            // An agent that has just started names nobody: it has not heard of the switch yet.
            Ok(page) if page.switch.off_by.is_none() || page.switch.dirty > 0 => {
                Came::Dirty { files: page.switch.dirty }
            }
            Ok(_) => return Came::Clean,
            Err(_) => return Came::Unheard,
        };
        if Instant::now() >= end {
            return came;
        }
        sleep(LOOK_AGAIN).await;
    }
}

fn text(turned: &[Turned]) -> String {
    let line = |Turned { node, came }: &Turned| match came {
        Came::On => format!("{node}: on\n"),
        Came::Clean => format!("{node}: off; every kernel file is as it was found\n"),
        Came::Dirty { files } => {
            format!("{node}: told, but {files} kernel files are not given back yet\n")
        }
        Came::Unheard => {
            format!("{node}: told; its agent does not answer, and obeys when it is back\n")
        }
        Came::Failed { error } => format!("{node}: not told: {error}\n"),
    };
    turned.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_takes_both_annotations_away() {
        let off = Wanted::Off { reason: "incident 7".to_owned() }.patch();
        let annotations = &off["metadata"]["annotations"];
        assert_eq!(annotations[SWITCH.name], "off");
        assert_eq!(annotations[SWITCH_REASON.name], "incident 7");
        for wanted in [Wanted::On, Wanted::Off { reason: String::new() }] {
            let patch = wanted.patch();
            assert_eq!(
                patch["metadata"]["annotations"][SWITCH_REASON.name],
                Value::Null,
                "{wanted:?}"
            );
        }
        assert_eq!(Wanted::On.patch()["metadata"]["annotations"][SWITCH.name], Value::Null);
    }

    #[test]
    fn every_node_gets_a_line_that_says_how_sure_we_are() {
        let turned = |node: &str, came| Turned { node: node.to_owned(), came };
        let all = [
            turned("n1", Came::Clean),
            turned("n2", Came::Dirty { files: 3 }),
            turned("n3", Came::Unheard),
            turned("n4", Came::Failed { error: "nodes \"n4\" is forbidden".to_owned() }),
            turned("n5", Came::On),
        ];
        let want = "\
n1: off; every kernel file is as it was found
n2: told, but 3 kernel files are not given back yet
n3: told; its agent does not answer, and obeys when it is back
n4: not told: nodes \"n4\" is forbidden
n5: on
";
        assert_eq!(text(&all), want);
        let json = serde_json::to_value(&all[1]).unwrap();
        assert_eq!(json, json!({ "node": "n2", "state": "dirty", "files": 3 }));
    }
}
