//! TaintToleration: no pod onto a node whose taints it does not tolerate; the fewer soft taints
//! it does not tolerate, the better.

use std::borrow::Cow;

use serde_json::Value;

use super::ArgsError;
use crate::model::{Class, Effect, Taint, Toleration};
use crate::plugin::{Context, Event, Normalise, Plugin, Prepared, Reads, Subject, Work};
use crate::queue::Hint;
use crate::snapshot::{NodeIx, Snapshot};
use crate::verdict::Verdict;

pub(super) const NAME: &str = "TaintToleration";

#[derive(Debug)]
struct TaintToleration;

pub(super) fn build(_: &Value, _: &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError> {
    Ok(Box::new(TaintToleration))
}

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&self, context: Context<'_>) -> Prepared {
        let soft = context
            .class
            .tolerations
            .iter()
            .filter(|one| matches!(one.effect, None | Some(Effect::PreferNoSchedule)));
        let work =
            Tolerated { all: context.class.tolerations.clone(), soft: soft.cloned().collect() };
        Prepared::both(Reads::Node, Normalise::Largest { reverse: true }, work)
    }

    fn hint(&self, _: &Snapshot, class: &Class, event: &Event) -> Hint {
        match &event.subject {
            Some(Subject::Node { after: Some(after), .. }) => {
                Hint::queue_if(tolerates_hard(&class.tolerations, &after.taints))
            }
            _ => Hint::Queue,
        }
    }
}

/// Every taint that keeps pods away is tolerated.
fn tolerates_hard(tolerations: &[Toleration], taints: &[Taint]) -> bool {
    let mut hard = taints.iter().filter(|taint| taint.effect != Effect::PreferNoSchedule);
    hard.all(|taint| tolerations.iter().any(|one| one.tolerates(taint)))
}

#[derive(Debug)]
struct Tolerated {
    all: Box<[Toleration]>,
    /// Those that can apply to soft taints.
    soft: Box<[Toleration]>,
}

impl Work for Tolerated {
    fn filter(&self, snapshot: &Snapshot, node: NodeIx) -> Verdict {
        match snapshot.node(node) {
            Some(node) if !tolerates_hard(&self.all, &node.taints) => Verdict::unresolvable(0),
            _ => Verdict::OK,
        }
    }

    fn reason(&self, _bit: u32) -> Cow<'_, str> {
        "node(s) had untolerated taint(s)".into()
    }

    fn score(&self, snapshot: &Snapshot, node: NodeIx) -> i64 {
        let Some(node) = snapshot.node(node) else { return 0 };
        let soft = node.taints.iter().filter(|taint| taint.effect == Effect::PreferNoSchedule);
        let untolerated = soft.filter(|taint| !self.soft.iter().any(|one| one.tolerates(taint)));
        i64::try_from(untolerated.count()).unwrap_or(i64::MAX)
    }
}
