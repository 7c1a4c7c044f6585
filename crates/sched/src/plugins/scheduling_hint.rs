//! SchedulingHint: an outside planner names the nodes a pod may go to.
//!
//! `nodeNames` are the only nodes looked at. `preferredNodeNames`, at most `maxHintNodes` of them,
//! are tried in their order first: the first that passes every filter is taken.

use api::metadata::Wire;
use api::metadata::pod::SchedulingHint as Hint;
use api::protocol::pod::{OLD_SCHEDULING_HINT, SCHEDULING_HINT};
use serde::Deserialize;
use serde_json::Value;

use super::{ArgsError, read_args};
use crate::plugin::{Context, Epoch, Plugin, Prepared};
use crate::snapshot::{NodeIx, Snapshot};

pub(super) const NAME: &str = "SchedulingHint";

/// `SchedulingHintArgs`.
#[derive(Debug, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Args {
    max_hint_nodes: usize,
}

impl Default for Args {
    fn default() -> Self {
        Self { max_hint_nodes: 100 }
    }
}

#[derive(Debug)]
struct SchedulingHint {
    args: Args,
}

pub(super) fn build(args: &Value, _: &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError> {
    Ok(Box::new(SchedulingHint { args: read_args(NAME, args)? }))
}

impl Plugin for SchedulingHint {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&self, context: Context<'_>) -> Prepared {
        let Context { snapshot, class } = context;
        let text = |name| {
            let value = class.annotations.get(snapshot.names.find(name)?)?;
            Some(snapshot.names.text(value))
        };
        let text = text(SCHEDULING_HINT.name).or_else(|| text(OLD_SCHEDULING_HINT.name));
        let Some(hint) = text.and_then(|text| Hint::parse(text).0) else {
            return Prepared::skip();
        };
        let find = |names: &[String]| -> Vec<NodeIx> {
            names.iter().filter_map(|name| snapshot.find_node(name)).collect()
        };
        let nodes = (!hint.node_names.is_empty()).then(|| find(&hint.node_names));
        let preferred = hint.preferred_node_names.iter().take(self.args.max_hint_nodes);
        let preferred: Vec<String> = preferred.cloned().collect();
        Prepared { nodes, prefer: find(&preferred), ..Prepared::skip() }.on(&[Epoch::Nodes])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::trial::Trial;
    use super::*;

    #[test]
    fn a_planner_names_nodes() {
        let mut trial = Trial::new(NAME, &json!({"maxHintNodes": 2}));
        let node = |name: &str| json!({"metadata": {"name": name, "uid": name}});
        let [a, b, c] = ["a", "b", "c"].map(|name| trial.node(node(name)));
        let prepared = |trial: &mut Trial, key: &str, hint: &str| {
            let pod = trial.pod(&json!({
                "metadata": {"name": hint, "uid": hint, "annotations": {key: hint}},
                "spec": {"containers": []},
            }));
            let prepared = trial.prepare(pod);
            (prepared.nodes, prepared.prefer)
        };
        let (new, old) = (SCHEDULING_HINT.name, OLD_SCHEDULING_HINT.name);
        let only = prepared(&mut trial, new, r#"{"nodeNames":["c","gone","a"]}"#);
        assert_eq!(only, (Some(vec![c, a]), vec![]));
        let first = prepared(&mut trial, old, r#"{"preferredNodeNames":["b","a","c"]}"#);
        assert_eq!(first, (None, vec![b, a]), "as many as are looked at");
        assert_eq!(prepared(&mut trial, new, "{"), (None, vec![]), "unreadable");
        assert_eq!(prepared(&mut trial, new, r#"{"nodeNames":["gone"]}"#), (Some(vec![]), vec![]));
    }
}
