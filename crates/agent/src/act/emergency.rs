//! The online side waits for memory: who looks, and what is done before anybody has to leave?
//!
//! Four times a second the stalls of the online side are read, of its class and of its largest pods, and
//! [`qos::emergency`] says how far up the ladder that is. Reclaiming is a write that may take long under
//! pressure, so a thread of its own does it, one at a time. Freezing is a wish like any other, of
//! the rank of emergencies, that lapses by itself; a killed agent's frozen pods are in the ledger.
//! Killing stays with evictions, who ask first, and only where an operator allowed it.
//!
//! Where the kernel has no pressure of groups (v1), only memory that has run out is an emergency.

use std::cmp::Reverse;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use api::policy::NodePolicy;
use api::qos::{KubeQos, QosClass};
use api::why::{NODE, Resource, Sum, Why};
use groups::{CgroupPath, Knob, Layout, Setting};
use host::cgroup::{CgroupReader, Tree};
use host::fs::Buffer;
use host::psi;
use host::{FileError, Reading};
use qos::claim::{Bound, Rank, Value};
use qos::emergency::{self, Decision, Elastic, Rung, Sample, Settings, State, first_to_freeze};
use qos::node::Pod;
use qos::node::PodPhase;
use qos::wish::{Target, Wish};
use tracing::{debug, info, warn};
use units::Bytes;

use crate::node_state::NodeState;
use crate::object::chain;
use crate::series::Metrics;

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
    /// What best-effort was told to give back.
    pub(super) reclaims: Option<Bytes>,
}

#[derive(Debug, Default)]
pub(super) struct Emergency {
    state: State<CgroupPath>,
    readers: Vec<(CgroupPath, CgroupReader)>,
    buffer: Buffer,
    next_look: Duration,
    reclaiming: Option<JoinHandle<Result<(), String>>>,
    /// This kernel reclaims nothing on request.
    cannot_reclaim: bool,
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
        self.finish_reclaim();
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
        if !is_dry {
            looked.reclaims = decision.reclaim.filter(|bytes| self.reclaim(sight, *bytes));
            if let Some(until) = decision.frozen_until {
                looked.wishes = freeze(&elastic, &decision);
                looked.until = Some(until);
            }
        }
        looked.whys.push(explain(&decision, &elastic, is_dry));
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

    /// Begins to take memory from best-effort; whether it did.
    fn reclaim(&mut self, sight: &Sight<'_>, bytes: Bytes) -> bool {
        let (tree, tier) = (sight.tree.clone(), sight.layout.class(KubeQos::BestEffort));
        if self.cannot_reclaim || self.reclaiming.is_some() || !has_reclaim(&tree, &tier) {
            return false;
        }
        let reclaim = move || match tree.set(&tier, Knob::MemoryReclaim, &Setting::Number(bytes.0))
        {
            Ok(Reading::Unsupported) => Err("this kernel reclaims nothing on request".to_owned()),
            // Less than was asked for is what the kernel can often do.
            Err(host::cgroup::SetError::File(FileError::Write { source, .. }))
                if source.kind() == std::io::ErrorKind::WouldBlock =>
            {
                Ok(())
            }
            Ok(Reading::Value(()) | Reading::Gone) => Ok(()),
            Err(error) => Err(chain(&error)),
        };
        match thread::Builder::new().name("reclaim".to_owned()).spawn(reclaim) {
            Ok(thread) => {
                self.reclaiming = Some(thread);
                true
            }
            Err(error) => {
                warn!(%error, "cannot reclaim memory of best-effort pods");
                false
            }
        }
    }

    fn finish_reclaim(&mut self) {
        let Some(thread) = self.reclaiming.take_if(|thread| thread.is_finished()) else { return };
        if let Ok(Err(error)) = thread.join() {
            warn!(error, "cannot reclaim memory of best-effort pods; it is not tried again");
            self.cannot_reclaim = true;
        }
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

/// Whether this kernel takes memory away on request.
fn has_reclaim(tree: &Tree, tier: &CgroupPath) -> bool {
    let file = Knob::MemoryReclaim.file(tree.version());
    let path = file.and_then(|file| Some(tree.dir(file.controller, tier)?.join(file.name)));
    path.is_some_and(|path| tree.fs().exists(&path))
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
