//! NodeResourcesBalancedAllocation: prefer nodes whose resources would be used alike.

use serde::Deserialize;
use serde_json::Value;

use super::allocation::{Load, balance};
use super::node_resources_fit::{ResourceWeight, weighed};
use super::{ArgsError, read_args};
use crate::model::ResourceId;
use crate::plugin::{Context, Normalise, Plugin, Prepared, Reads, Work};
use crate::snapshot::{NodeIx, Snapshot};

pub(super) const NAME: &str = "NodeResourcesBalancedAllocation";

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Args {
    resources: Vec<ResourceWeight>,
}

#[derive(Debug)]
struct BalancedAllocation {
    resources: Vec<ResourceId>,
}

pub(super) fn build(args: &Value, snapshot: &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError> {
    let args: Args = read_args(NAME, args)?;
    let resources = weighed(&args.resources, snapshot);
    if resources.iter().any(|(_, weight)| *weight != 1) {
        let problem = "resources: every weight must be 1".to_owned();
        return Err(ArgsError { plugin: NAME, problem });
    }
    let resources = resources.into_iter().map(|(resource, _)| resource).collect();
    Ok(Box::new(BalancedAllocation { resources }))
}

impl Plugin for BalancedAllocation {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&self, context: Context<'_>) -> Prepared {
        let requests = &context.class.requests;
        let shares = self.resources.iter().map(|resource| (*resource, requests.get(*resource)));
        let shares: Vec<(ResourceId, i64)> = shares.collect();
        if shares.iter().all(|(_, amount)| *amount == 0) {
            // A pod that asks for nothing leaves every balance as it is: all nodes alike.
            return Prepared::skip();
        }
        let counted = shares.into_iter().filter(|(id, amount)| *amount > 0 || !id.is_scalar());
        Prepared::score(Reads::Usage, Normalise::None, Balance(counted.collect()))
    }
}

/// What the pod adds to each resource.
#[derive(Debug)]
struct Balance(Vec<(ResourceId, i64)>);

impl Work for Balance {
    fn score(&self, snapshot: &Snapshot, node: NodeIx) -> i64 {
        let rooms = snapshot.rooms();
        balance(self.0.iter().map(|(resource, amount)| Load {
            requested: rooms.requested(*resource, node).saturating_add(*amount),
            capacity: rooms.allocatable(*resource, node),
            weight: 1,
        }))
    }
}
