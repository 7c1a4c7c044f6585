//! The online side waits for memory: who looks, and what is done before anybody has to leave?
//!
//! Four times a second the stalls of the online side are read, of its class and of its largest pods, and
//! [`qos::emergency`] says how far up the ladder that is. Reclaiming is a wish that is carried out once.
//! Freezing is a wish like any other, of the rank of emergencies, that lapses by itself; a killed agent's
//! frozen pods are in the ledger.
//! Killing stays with evictions, who ask first, and only where an operator allowed it.
//!
//! Where the kernel has no pressure of groups (v1), only memory that has run out is an emergency.

use std::cmp::Reverse;
use std::time::Duration;

use api::policy::NodePolicy;
use api::qos::{KubeQos, QosClass};
use api::why::{NODE, Resource, Sum, Why};
use groups::{CgroupPath, Knob, Layout};
use host::cgroup::{CgroupReader, Tree};
use host::fs::Buffer;
use host::{Reading, psi};
use qos::claim::{Bound, Rank, Value};
use qos::emergency::{self, Decision, Elastic, Rung, Sample, Settings, State, first_to_freeze};
use qos::node::Pod;
use qos::node::PodPhase;
use qos::wish::{Target, Wish};
use tracing::{debug, info, warn};
use units::Bytes;

use crate::object::chain;
use crate::series::Metrics;
use qos::node::NodeState;

/// How often it looks.
const LOOK: Duration = Duration::from_millis(250);

/// Memory older than this says nothing.
const FRESH: Duration = Duration::from_secs(10);

/// Pods that are looked at besides the class, the largest first.
const MOST_PODS: usize = 32;

/// What a look needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sight<'s> {
    pub(super) now: Duration,
    pub(super) tree: &'s Tree,
    pub(super) layout: &'s Layout,
    pub(super) cluster: &'s NodeState,
    pub(super) metrics: &'s Metrics,
}

/// What came of a look.
#[derive(Debug, Default)]
pub(super) struct Looked {
    pub(super) wishes: Vec<Wish>,
    pub(super) until: Option<Duration>,
    pub(super) whys: Vec<Why>,
}

#[derive(Debug, Default)]
pub(super) struct Emergency {
    state: State<CgroupPath>,
    readers: Vec<(CgroupPath, CgroupReader)>,
    buffer: Buffer,
    next_look: Duration,
    rung: Option<Rung>,
}

impl Emergency {
    /// What operators allow; `None` is off.
    fn settings(sight: &Sight<'_>, capacity: Bytes) -> Option<(Settings, bool)> {
        let NodePolicy { threshold, reaction, .. } = &sight.cluster.slo.policy;
        let settings = Settings { capacity, freeze: reaction.freezes_for() };
        (threshold.enable && reaction.enable).then_some((settings, reaction.dry_run))
    }

    /// Looks when it is time; `None` when it is not.
    pub(super) fn look(&mut self, sight: &Sight<'_>) -> Option<Looked> {
        if sight.now < self.next_look {
            return None;
        }
        self.next_look = sight.now.saturating_add(LOOK);
        let room = sight.metrics.facts().memory;
        let room = room.filter(|room| room.at.saturating_add(FRESH) >= sight.now);
        let node = sight.cluster.node.as_ref().map(|node| node.capacity.memory);
        let capacity = room.map(|room| room.capacity).or(node).unwrap_or_default();
        let elastic = elastic(sight);
        let settings = Self::settings(sight, capacity).filter(|_| !elastic.is_empty());
        let Some((settings, is_dry)) = settings else {
            (self.state, self.rung) = (State::default(), None);
            self.readers.clear();
            return Some(Looked::default());
        };
        let available = room.map(|room| Bytes(room.capacity.0.saturating_sub(room.used.0)));
        let sample = Sample { now: sight.now, stalls: self.stalls(sight), available };
        let (state, decision) = emergency::decide(&settings, &self.state, &sample);
        self.state = state;
        self.tell(&decision);
        let mut looked = Looked::default();
        if decision.rung == Rung::Calm {
            return Some(looked);
        }
        let why = explain(&decision, &elastic, is_dry);
        if !is_dry {
            let tier = sight.layout.class(KubeQos::BestEffort);
            looked.wishes.extend(decision.reclaim.map(|bytes| reclaim(tier, bytes, &why.headline)));
            if let Some(until) = decision.frozen_until {
                looked.wishes.extend(freeze(&elastic, &decision));
                looked.until = Some(until);
            }
        }
        looked.whys.push(why);
        Some(looked)
    }

    /// How long all tasks of each part of the online side have stood still, ever.
    fn stalls(&mut self, sight: &Sight<'_>) -> Vec<(CgroupPath, Duration)> {
        let wanted = protected(sight);
        let is_same = self.readers.iter().map(|(name, _)| name).eq(wanted.iter());
        if !is_same {
            let open = |group: CgroupPath| (group.clone(), sight.tree.reader(group));
            self.readers = wanted.into_iter().map(open).collect();
        }
        let mut stalls = Vec::new();
        for (name, reader) in &mut self.readers {
            match reader.pressure(psi::Resource::Memory, &mut self.buffer) {
                Ok(Reading::Value(pressure)) => {
                    stalls.extend(pressure.full.map(|full| (name.clone(), full.total)));
                }
                Ok(Reading::Unsupported | Reading::Gone) => {}
                Err(error) => debug!(error = chain(&error), "cannot see who waits for memory"),
            }
        }
        stalls
    }

    /// A new rung is said once.
    fn tell(&mut self, decision: &Decision) {
        let rung = (decision.rung != Rung::Calm).then_some(decision.rung);
        if self.rung == rung {
            return;
        }
        match rung {
            Some(rung) => warn!(?rung, why = %decision.why, "the online side waits for memory"),
            None => info!("the online side has memory again"),
        }
        self.rung = rung;
    }
}

/// Best-effort pods with groups of their own.
fn elastic(sight: &Sight<'_>) -> Vec<Elastic<CgroupPath>> {
    running(sight)
        .filter(|pod| pod.raw_qos == Some(QosClass::Be) && !pod.annotations.is_hands_off)
        .map(|pod| Elastic { id: pod.cgroup.clone(), priority: pod.priority })
        .collect()
}

fn running<'s>(sight: &Sight<'s>) -> impl Iterator<Item = &'s Pod> {
    let pods = sight.cluster.pods.values().map(AsRef::as_ref);
    pods.filter(|pod| pod.phase == PodPhase::Running)
}

/// The class of the online side, and its largest pods outside of it.
fn protected(sight: &Sight<'_>) -> Vec<CgroupPath> {
    let mut pods: Vec<&Pod> = running(sight)
        .filter(|pod| pod.kube_qos == KubeQos::Guaranteed)
        .filter(|pod| pod.raw_qos != Some(QosClass::Be))
        .collect();
    pods.sort_by_key(|pod| (Reverse(pod.requests.memory), pod.uid.clone()));
    let mut groups = vec![sight.layout.class(KubeQos::Burstable)];
    groups.extend(pods.into_iter().take(MOST_PODS).map(|pod| pod.cgroup.clone()));
    groups
}

fn reclaim(tier: CgroupPath, bytes: Bytes, why: &str) -> Wish {
    Wish {
        target: Target::Reclaim(tier),
        rank: Rank::CRITICAL,
        bound: Bound::Set(Value::Number(Some(bytes.0))),
        why: why.to_owned(),
    }
}

fn freeze(elastic: &[Elastic<CgroupPath>], decision: &Decision) -> Vec<Wish> {
    let why = format!("memory runs out: {}", decision.why);
    let wish = |group| Wish {
        target: Target::knob(group, Knob::Frozen),
        rank: Rank::CRITICAL,
        bound: Bound::Set(Value::Number(Some(1))),
        why: why.clone(),
    };
    first_to_freeze(elastic).into_iter().map(wish).collect()
}

fn explain(decision: &Decision, elastic: &[Elastic<CgroupPath>], is_dry: bool) -> Why {
    let what = match (decision.rung, decision.frozen_until) {
        (Rung::Calm, _) => "nothing is done".to_owned(),
        (Rung::Last, None) => "only departures are left".to_owned(),
        (_, Some(_)) => {
            format!("{} best-effort pods stand still", first_to_freeze(elastic).len())
        }
        (_, None) => "best-effort gives memory back".to_owned(),
    };
    let dry = if is_dry { " (dry run)" } else { "" };
    let note = format!("for {} s", decision.why.lasts.as_secs());
    Why {
        about: NODE.to_owned(),
        resource: Resource::Memory,
        headline: format!("{what}{dry}: {}", decision.why),
        bound_by: format!("the emergency ladder, rung {:?} {note}", decision.rung),
        sum: decision.why.available.map_or_else(Sum::default, |available| {
            Sum::default().beside(available, "available", "less than 2 % is the last rung")
        }),
    }
}
