//! What does a round of evictions look at?

use std::collections::BTreeMap;
use std::time::Duration;

use api::qos::QosClass;
use qos::evict::book::Present;
use qos::evict::cpu::Tier;
use qos::evict::plan::Pod;
use qos::evict::{Inputs, Rules};
use qos::node::Pod as NodePod;
use units::{Bytes, MilliCpu};

use super::request::Victim;
use super::store::Moment;
use crate::series::{Measure, Metrics, Subject};
use qos::node::NodeState;

/// How long a deletion may be overdue before it counts as stuck.
const OVERDUE: Duration = Duration::from_secs(30);

/// Samples older than this say nothing. On a node that is short of everything they come late, and
/// a pod that seems to hold nothing would be told to stay.
const FRESH: Duration = Duration::from_secs(10);

/// Everything a round needs, as values.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) pods: Vec<Pod<String>>,
    pub(super) present: BTreeMap<String, Present>,
    pub(super) victims: BTreeMap<String, Victim>,
    cpu_capacity: MilliCpu,
    memory_capacity: Bytes,
    cpu_used: Option<MilliCpu>,
    memory_used: Option<Bytes>,
    tier: Option<(Tier, Option<Tier>)>,
    lent: BTreeMap<String, i64>,
    now: Duration,
}

impl Seen {
    /// Looks at the node; `interval` is that of the samples.
    pub(super) fn look(
        state: &NodeState,
        metrics: &Metrics,
        rules: &Rules,
        interval: Duration,
        moment: Moment,
    ) -> Self {
        let now = moment.now;
        let window = rules.window.max(interval);
        let (mut pods, mut present, mut victims) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        let evictable =
            state.pods.iter().filter(|(_, pod)| !pod.is_terminated() && !pod.eviction.is_static);
        for (uid, pod) in evictable {
            pods.push(candidate(uid, pod, metrics, now, interval));
            present.insert(uid.clone(), standing(pod, moment));
            victims.insert(
                uid.clone(),
                Victim {
                    namespace: pod.namespace.clone(),
                    name: pod.name.clone(),
                    uid: pod.eviction.uid.clone(),
                },
            );
        }
        let room = metrics.facts().memory.filter(|room| room.at + FRESH >= now);
        let node = state.node.as_deref();
        Self {
            pods,
            present,
            victims,
            cpu_capacity: node.map(|node| node.capacity.cpu).unwrap_or_default(),
            memory_capacity: room.map(|room| room.capacity).unwrap_or_default(),
            cpu_used: filled(metrics, Subject::Node, Measure::Cpu, now, window, interval),
            memory_used: room.map(|room| room.used),
            tier: tier(metrics, now, window, interval),
            lent: node.map(|node| node.lent.clone()).unwrap_or_default(),
            now,
        }
    }

    pub(super) fn inputs(&self) -> Inputs<'_, String> {
        Inputs {
            now: self.now,
            cpu_capacity: self.cpu_capacity,
            memory_capacity: self.memory_capacity,
            cpu_used: self.cpu_used,
            memory_used: self.memory_used,
            tier: self.tier,
            lent: &self.lent,
            pods: &self.pods,
        }
    }
}

fn candidate(
    uid: &str,
    pod: &NodePod,
    metrics: &Metrics,
    now: Duration,
    interval: Duration,
) -> Pod<String> {
    let eviction = &pod.eviction;
    let window = FRESH.max(interval.saturating_mul(3));
    let recent = |measure| metrics.recent(Subject::Pod(uid), measure, now, window);
    let mut asked: BTreeMap<String, i64> = BTreeMap::new();
    for lent in &pod.lent {
        let sum = asked.entry(lent.resource.clone()).or_default();
        *sum = sum.saturating_add(lent.request.unwrap_or_default());
    }
    Pod {
        id: uid.to_owned(),
        is_best_effort: pod.raw_qos == Some(QosClass::Be),
        class: pod.priority_class,
        priority: pod.spec_priority,
        value: pod.priority,
        eviction_priority: eviction.priority,
        sub_priority: pod.sub_priority.unwrap_or_default(),
        is_willing: eviction.is_willing,
        allows: eviction.allows.clone(),
        cpu_used: recent(Measure::Cpu).map(milli),
        memory_used: recent(Measure::Memory).map(bytes),
        asked,
    }
}

fn standing(pod: &NodePod, moment: Moment) -> Present {
    let eviction = &pod.eviction;
    let due = eviction.notice.as_ref().map(|notice| notice.due.as_ref().map(|time| time.0));
    Present {
        owner: eviction.owner.clone(),
        deleted_by: eviction.deleted_by.map(|by| moment.own_time(by).saturating_add(OVERDUE)),
        // A notice without an hour is due.
        noticed_for: due.map(|due| due.map_or(moment.now, |due| moment.own_time(due))),
    }
}

/// The mean of a series that fills at least a third of its window.
fn filled(
    metrics: &Metrics,
    subject: Subject<'_>,
    measure: Measure,
    now: Duration,
    window: Duration,
    interval: Duration,
) -> Option<MilliCpu> {
    let summary = metrics.summary(subject, measure, now, window)?;
    let covered = interval.saturating_mul(u32::try_from(summary.count).unwrap_or(u32::MAX));
    (covered >= window / 3).then(|| milli(summary.avg))
}

fn tier(
    metrics: &Metrics,
    now: Duration,
    window: Duration,
    interval: Duration,
) -> Option<(Tier, Option<Tier>)> {
    let average = |measure| filled(metrics, Subject::BestEffort, measure, now, window, interval);
    let average = Tier {
        used: average(Measure::Cpu)?,
        requested: average(Measure::Request)?,
        limit: average(Measure::RealLimit)?,
    };
    let last = |measure| {
        let last = metrics.recent(Subject::BestEffort, measure, now, interval.saturating_mul(2));
        last.map(milli)
    };
    let last = || {
        Some(Tier {
            used: last(Measure::Cpu)?,
            requested: last(Measure::Request)?,
            limit: last(Measure::RealLimit)?,
        })
    };
    Some((average, last()))
}

#[expect(clippy::cast_possible_truncation, reason = "saturates; cut to whole milli-cores")]
fn milli(cores: f64) -> MilliCpu {
    MilliCpu((cores.max(0.0) * 1_000.0) as i64)
}

#[expect(clippy::cast_possible_truncation, reason = "saturates; bytes are whole")]
fn bytes(bytes: f64) -> Bytes {
    Bytes(bytes.max(0.0) as i64)
}
