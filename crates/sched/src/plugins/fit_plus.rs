//! NodeResourcesFitPlus: each resource filled or spread by a strategy of its own.
//!
//! Over the configured resources that the pod asks for: `sum(weight * score) / sum(weight)`, with
//! the formulas of [`super::allocation`]. A resource the node lacks scores 0 and keeps its weight.
//! A pod that asks for none of them finds all nodes equally good.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::allocation::{Load, Strategy};
use super::{ArgsError, read_args};
use crate::model::ResourceId;
use crate::plugin::{Context, Normalise, Plugin, Prepared, Reads, Work};
use crate::snapshot::{NodeIx, Snapshot};

pub(super) const NAME: &str = "NodeResourcesFitPlus";

const MAX_SCORE: i64 = 100;

/// `NodeResourcesFitPlusArgs`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Args {
    resources: BTreeMap<String, Rule>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    #[serde(rename = "type")]
    kind: Kind,
    weight: i64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
enum Kind {
    LeastAllocated,
    MostAllocated,
}

#[derive(Debug)]
struct FitPlus {
    rules: Vec<(ResourceId, Kind, i64)>,
}

pub(super) fn build(args: &Value, snapshot: &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError> {
    let mut rules = Vec::new();
    for (name, Rule { kind, weight }) in read_args::<Args>(NAME, args)?.resources {
        if weight < 0 {
            let problem = format!("the weight of {name} is {weight}: must not be negative");
            return Err(ArgsError { plugin: NAME, problem });
        }
        rules.push((snapshot.resources.intern(&name), kind, weight));
    }
    Ok(Box::new(FitPlus { rules }))
}

impl Plugin for FitPlus {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&self, context: Context<'_>) -> Prepared {
        let asked = self.rules.iter().filter_map(|(resource, kind, weight)| {
            let amount = context.class.requests.get(*resource);
            let strategy = match kind {
                Kind::LeastAllocated => Strategy::Least,
                Kind::MostAllocated => Strategy::Most,
            };
            let wanted = Wanted { resource: *resource, amount, strategy, weight: *weight };
            (amount > 0).then_some(wanted)
        });
        let work = Filling { wanted: asked.collect() };
        Prepared::score(Reads::Usage, Normalise::None, work)
    }
}

#[derive(Debug)]
struct Wanted {
    resource: ResourceId,
    amount: i64,
    strategy: Strategy,
    weight: i64,
}

#[derive(Debug)]
struct Filling {
    wanted: Vec<Wanted>,
}

impl Work for Filling {
    fn score(&self, snapshot: &Snapshot, node: NodeIx) -> i64 {
        let (mut sum, mut weights) = (0_i64, 0_i64);
        for Wanted { resource, amount, strategy, weight } in &self.wanted {
            let rooms = snapshot.rooms();
            let requested = rooms.requested(*resource, node).saturating_add(*amount);
            let capacity = rooms.allocatable(*resource, node);
            let score = strategy.rate(std::iter::once(Load { requested, capacity, weight: 1 }));
            sum = sum.saturating_add(score.saturating_mul(*weight));
            weights = weights.saturating_add(*weight);
        }
        if weights == 0 { MAX_SCORE } else { sum / weights }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::trial::Trial;
    use super::*;

    #[test]
    fn each_resource_follows_its_own_strategy() {
        let args = json!({"resources": {
            "nvidia.com/gpu": {"type": "MostAllocated", "weight": 2},
            "cpu": {"type": "LeastAllocated", "weight": 1},
        }});
        let mut trial = Trial::new(NAME, &args);
        let node = |name: &str, gpus: &str| {
            json!({"metadata": {"name": name, "uid": name}, "status": {"allocatable": {
                "cpu": "10", "memory": "10Gi", "pods": "110", "nvidia.com/gpu": gpus}}})
        };
        let at = trial.node(node("n", "8"));
        let bare = trial.node(node("bare", "0"));
        let pod = |name: &str, requests: Value| {
            json!({"metadata": {"name": name, "uid": name},
                   "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}})
        };
        let gpu = trial.pod(&pod("gpu", json!({"cpu": "2", "nvidia.com/gpu": "2"})));
        assert_eq!(trial.score(gpu, at), (2 * 25 + 80) / 3);
        assert_eq!(trial.score(gpu, bare), 80 / 3, "what is lacking keeps its weight");
        let cpu = trial.pod(&pod("cpu", json!({"cpu": "2"})));
        assert_eq!(trial.score(cpu, at), 80);
        let none = trial.pod(&pod("none", json!({"memory": "1Gi"})));
        assert_eq!(trial.score(none, at), 100, "asks for nothing that is listed");
        let negative = json!({"resources": {"cpu": {"type": "LeastAllocated", "weight": -1}}});
        assert!(build(&negative, &mut Snapshot::default()).is_err());
    }
}
