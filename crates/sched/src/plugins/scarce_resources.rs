//! ScarceResourceAvoidance: pods that need no GPU stay off nodes that have one.
//!
//! Of the resources a node has and the pod does not ask for, the share that is not scarce:
//!
//! ```text
//! unused = node's resources - pod's resources
//! score  = (unused - scarce among them) * 100 / unused     100 when none of them is scarce
//! ```

use serde::Deserialize;
use serde_json::Value;

use super::{ArgsError, read_args};
use crate::model::ResourceId;
use crate::plugin::{Context, Normalise, Plugin, Prepared, Reads, Work};
use crate::snapshot::{NodeIx, Snapshot};

pub(super) const NAME: &str = "ScarceResourceAvoidance";

const MAX_SCORE: i64 = 100;

/// `ScarceResourceAvoidanceArgs`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Args {
    resources: Vec<String>,
}

#[derive(Debug)]
struct Scarce {
    resources: Vec<ResourceId>,
}

pub(super) fn build(args: &Value, snapshot: &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError> {
    let names = read_args::<Args>(NAME, args)?.resources;
    let resources = names.iter().map(|name| snapshot.resources.intern(name)).collect();
    Ok(Box::new(Scarce { resources }))
}

impl Plugin for Scarce {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&self, context: Context<'_>) -> Prepared {
        let asked = context.class.requests.iter().filter(|(_, amount)| *amount > 0);
        let work = Avoid {
            scarce: self.resources.clone(),
            asked: asked.map(|(resource, _)| resource).collect(),
        };
        Prepared::score(Reads::Node, Normalise::None, work)
    }
}

#[derive(Debug)]
struct Avoid {
    scarce: Vec<ResourceId>,
    asked: Vec<ResourceId>,
}

impl Work for Avoid {
    fn score(&self, snapshot: &Snapshot, node: NodeIx) -> i64 {
        let Some(node) = snapshot.node(node) else { return MAX_SCORE };
        let (mut unused, mut wasted) = (0_i64, 0_i64);
        for (resource, amount) in node.allocatable.iter() {
            if amount > 0 && !self.asked.contains(&resource) {
                unused += 1;
                wasted += i64::from(self.scarce.contains(&resource));
            }
        }
        if wasted == 0 { MAX_SCORE } else { (unused - wasted) * MAX_SCORE / unused }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::trial::Trial;
    use super::*;

    #[test]
    fn scarce_resources_are_kept_for_those_who_need_them() {
        let mut trial = Trial::new(NAME, &json!({"resources": ["nvidia.com/gpu"]}));
        let node = |name: &str, allocatable: Value| json!({"metadata": {"name": name, "uid": name}, "status": {"allocatable": allocatable}});
        let gpu = trial.node(node(
            "gpu",
            json!({"cpu": "10", "memory": "10Gi", "pods": "110", "nvidia.com/gpu": "8",
                   "ephemeral-storage": "1Gi"}),
        ));
        let plain =
            trial.node(node("plain", json!({"cpu": "10", "memory": "10Gi", "pods": "110"})));
        let exact = trial.node(node("exact", json!({"cpu": "10", "pods": "110"})));
        let empty = trial.node(node("empty", json!({"cpu": "1", "nvidia.com/gpu": "0"})));
        let pod = |name: &str, requests: Value| {
            json!({"metadata": {"name": name, "uid": name},
                   "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}})
        };
        let cpu = trial.pod(&pod("cpu", json!({"cpu": "1"})));
        assert_eq!(trial.score(cpu, gpu), 66, "two of memory, storage and GPU are not scarce");
        assert_eq!(trial.score(cpu, plain), 100);
        assert_eq!(trial.score(cpu, exact), 100, "nothing is unused");
        assert_eq!(trial.score(cpu, empty), 100, "none left is none there");
        let wants = trial.pod(&pod("wants", json!({"cpu": "1", "nvidia.com/gpu": "1"})));
        assert_eq!(trial.score(wants, gpu), 100);
    }
}
