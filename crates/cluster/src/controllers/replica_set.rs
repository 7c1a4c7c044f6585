//! How many pods are missing or too many, and which of them go?
//!
//! ```text
//! difference = active pods - wanted
//! < 0   create that many, at most 500 at a time
//! > 0   delete that many, at most 500 at a time, in the order of `rank`
//! ```
//!
//! A pod is active when it has neither finished nor been marked for deletion. Nothing is created
//! or deleted while the cache has not caught up with what was done before, nor when the set
//! itself is on its way out.

mod rank;
mod reconcile;
mod status;

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};

use super::{amount::length, key::is_terminating};

pub(crate) use self::{
    rank::by_expendability,
    reconcile::ReplicaSets,
    status::{Failure, status},
};

/// How many pods are created or deleted in one go.
const BURST: usize = 500;

/// What one decision looks at.
#[derive(Debug)]
pub(crate) struct Observed<'a> {
    pub(crate) set: &'a ReplicaSet,
    /// The set's active pods.
    pub(crate) active: &'a [Arc<Pod>],
    /// Active pods of all sets with the same controller, by node.
    pub(crate) neighbours: &'a HashMap<String, usize>,
    /// Has the cache seen everything that was done for this set?
    pub(crate) is_current: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    Create(usize),
    /// In this order.
    Delete(Vec<Arc<Pod>>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) action: Option<Action>,
    pub(crate) why: Why,
}

/// The sum behind a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Why {
    pub(crate) wanted: usize,
    pub(crate) active: usize,
    pub(crate) verdict: Verdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Enough,
    TooFew,
    TooMany,
    /// The set is on its way out.
    Leaving,
    /// The cache lags behind.
    Waiting,
}

pub(crate) fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let wanted = length(wanted(observed.set));
    let active = observed.active.len();
    let (verdict, action) = if is_terminating(observed.set) {
        (Verdict::Leaving, None)
    } else if !observed.is_current {
        (Verdict::Waiting, None)
    } else if active < wanted {
        (Verdict::TooFew, Some(Action::Create(BURST.min(wanted - active))))
    } else if active > wanted {
        let surplus = active - wanted;
        let mut victims = by_expendability(observed.active, observed.neighbours, now);
        victims.truncate(surplus.min(BURST));
        (Verdict::TooMany, Some(Action::Delete(victims)))
    } else {
        (Verdict::Enough, None)
    };
    Plan { action, why: Why { wanted, active, verdict } }
}

pub(crate) fn wanted(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

fn min_ready_seconds(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::fixture::{NOW, ago, pod, replica_set};

    fn pods(count: usize) -> Vec<Arc<Pod>> {
        (0..count).map(|n| Arc::new(pod(&format!("p{n}")).ready_since(ago(60)).build())).collect()
    }

    #[test]
    fn the_difference_is_made_up() {
        struct Case {
            name: &'static str,
            wanted: i32,
            active: usize,
            is_current: bool,
            is_leaving: bool,
            want: (Verdict, i64),
        }
        let case = |name, wanted, active, want| Case {
            name,
            wanted,
            active,
            is_current: true,
            is_leaving: false,
            want,
        };
        let cases = [
            case("enough", 3, 3, (Verdict::Enough, 0)),
            case("none yet", 3, 0, (Verdict::TooFew, 3)),
            case("one missing", 3, 2, (Verdict::TooFew, 1)),
            case("one too many", 3, 4, (Verdict::TooMany, -1)),
            case("scaled to zero", 0, 4, (Verdict::TooMany, -4)),
            case("a large set grows in bursts", 2_000, 0, (Verdict::TooFew, 500)),
            case("and shrinks in bursts", 0, 2_000, (Verdict::TooMany, -500)),
            Case {
                is_current: false,
                ..case("a stale cache creates nothing", 3, 0, (Verdict::Waiting, 0))
            },
            Case {
                is_leaving: true,
                ..case("a leaving set creates nothing", 3, 0, (Verdict::Leaving, 0))
            },
        ];
        for case in cases {
            let mut set = replica_set("web", case.wanted);
            if case.is_leaving {
                set.metadata.deletion_timestamp = Some(crate::controllers::clock::stamp(NOW));
            }
            let active = pods(case.active);
            let observed = Observed {
                set: &set,
                active: &active,
                neighbours: &HashMap::new(),
                is_current: case.is_current,
            };
            let plan = plan(&observed, NOW);
            let change = match plan.action {
                None => 0,
                Some(Action::Create(count)) => i64::try_from(count).unwrap(),
                Some(Action::Delete(pods)) => -i64::try_from(pods.len()).unwrap(),
            };
            assert_eq!((plan.why.verdict, change), case.want, "{}", case.name);
        }
    }
}
