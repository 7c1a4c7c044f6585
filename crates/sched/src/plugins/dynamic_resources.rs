//! DynamicResources: pods with resource claims are not placed, and are told so.

use serde_json::Value;

use super::ArgsError;
use crate::plugin::{Context, Plugin, Prepared};
use crate::queue::{Actions, Interest, Resource, Wake};
use crate::snapshot::Snapshot;
use crate::verdict::Code;

pub(super) const NAME: &str = "DynamicResources";

pub(super) const WAKES: Interest = Interest::Only(&[Wake::new(Resource::OwnPod, Actions::UPDATE)]);

#[derive(Debug)]
struct DynamicResources;

pub(super) fn build(_: &Value, _: &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError> {
    Ok(Box::new(DynamicResources))
}

impl Plugin for DynamicResources {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&self, context: Context<'_>) -> Prepared {
        if !context.class.has_resource_claims {
            return Prepared::skip();
        }
        let reason = "pod has resource claims, which this scheduler does not allocate";
        Prepared::reject(Code::Unresolvable, reason)
    }
}
