//! Quotas that do the same work on faster cores: a limit of one CPU is less time on a better machine.

use crate::batch::normalize;
use crate::burst::pod_quota;
use crate::claim::Rank;
use api::qos::QosClass;
use groups::Knob;
use units::{Micros, MilliCpu};

use super::Decision;
use super::{quota, set};
use crate::node::State;

/// Weaker than a quota that bursts, which starts from the normalised one itself.
const RANK: Rank = Rank::GROWTH;

pub fn decide(state: &State) -> Decision {
    let Some(ratio) = state.cluster.node.as_ref().and_then(|node| node.normalization) else {
        return Decision::default();
    };
    let why = format!("the limit on cores worth {ratio} of the reference");
    let mut decision = Decision::default();
    let eligible = state
        .pods()
        .filter(|pod| matches!(pod.raw_qos, Some(QosClass::Ls) | None) && pod.cpus.is_empty());
    for pod in eligible {
        let scaled = |limit: MilliCpu| {
            normalize(Micros(limit.0.saturating_mul(100)), Some(ratio)).max(Micros(1_000))
        };
        let limits = pod
            .specs
            .iter()
            .map(|container| container.native.cpu_limit.filter(|limit| limit.0 > 0).map(scaled));
        let whole = pod_quota(limits.clone());
        for (container, limit) in pod.specs.iter().zip(limits) {
            let (Some(group), Some(limit)) = (&container.cgroup, limit) else { continue };
            decision.wishes.push(set(group, Knob::CfsQuota, RANK, quota(Some(limit)), &why));
        }
        if whole.is_some() {
            let group = pod.cgroup.clone();
            decision.wishes.push(set(&group, Knob::CfsQuota, RANK, quota(whole), &why));
        }
    }
    decision
}
