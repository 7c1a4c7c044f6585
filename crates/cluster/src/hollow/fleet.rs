//! What all hollow nodes know, and what is due.
//!
//! Values only: the time comes in with every call, requests go out as [`Write`]s, and their results
//! come back. A write that failed comes again after a pause; while it is out nothing else is
//! started for the same node or pod, so an API that does not answer cannot fill the queue.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use reconcile::watch::Update;

use super::body::{self, Told, address_of};
use super::pod::{HollowPod, Script};
use super::{Call, HollowConfig};
use crate::node::new_lease;

/// How often a Lease is renewed, at most and at least.
const RENEW_EVERY: Duration = Duration::from_secs(10);
const RENEW_LATEST: Duration = Duration::from_secs(30);

/// Renewals a second above which they become rarer.
const RENEWALS_PER_SECOND: u32 = 400;

/// A write that failed waits this long.
const PAUSE: Duration = Duration::from_secs(2);

/// A request that is due.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Write {
    Node(u32),
    Lease {
        node: u32,
        is_new: bool,
    },
    /// The pod starts.
    Run(Arc<str>),
    /// The pod ends by itself.
    Finish(Arc<str>),
    /// The pod is deleted, and somebody wants to see that it ended.
    Abort(Arc<str>),
    Delete(Arc<str>),
}

/// What came of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    Good,
    /// The object does not exist.
    Missing,
    Failed,
}

#[derive(Debug)]
pub(super) struct Fleet {
    config: HollowConfig,
    renew_every: Duration,
    /// Leases: a late one costs a node.
    urgent: VecDeque<Write>,
    queue: VecDeque<Write>,
    timers: BinaryHeap<Reverse<(Timestamp, u64, Write)>>,
    number: u64,
    pods: BTreeMap<Arc<str>, Known>,
    /// The next address of each node.
    slots: Vec<u32>,
    /// The pods of the list that is arriving; `None` between lists.
    arriving: Option<BTreeSet<Arc<str>>>,
}

/// What is kept of a pod.
#[derive(Debug)]
struct Known {
    namespace: String,
    name: String,
    node: u32,
    slot: u32,
    containers: Vec<(String, String)>,
    init_containers: Vec<(String, String)>,
    script: Script,
    may_end: bool,
    has_finalizers: bool,
    started_at: Timestamp,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Starting,
    Running,
    Finished,
    Leaving,
}

impl Fleet {
    pub(super) fn new(config: HollowConfig) -> Self {
        let steady = Duration::from_secs(1) * config.count / RENEWALS_PER_SECOND;
        Self {
            renew_every: steady.clamp(RENEW_EVERY, RENEW_LATEST),
            urgent: VecDeque::new(),
            queue: (0..config.count).map(Write::Node).collect(),
            timers: BinaryHeap::new(),
            number: 0,
            pods: BTreeMap::new(),
            slots: vec![0; usize::try_from(config.count).unwrap_or(0)],
            arriving: None,
            config,
        }
    }

    fn name(&self, node: u32) -> String {
        format!("{}{node:05}", self.config.prefix)
    }

    /// The number of a node of ours.
    fn number_of(&self, name: &str) -> Option<u32> {
        let number: u32 = name.strip_prefix(&self.config.prefix)?.parse().ok()?;
        (number < self.config.count && self.name(number) == name).then_some(number)
    }

    fn at(&mut self, due: Timestamp, write: Write) {
        self.number += 1;
        self.timers.push(Reverse((due, self.number, write)));
    }

    fn after(&mut self, now: Timestamp, pause: Duration, write: Write) {
        let pause = SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX);
        self.at(now.saturating_add(pause).unwrap_or(Timestamp::MAX), write);
    }

    pub(super) fn wake_at(&self) -> Option<Timestamp> {
        self.timers.peek().map(|Reverse((due, ..))| *due)
    }

    /// The next request, if one is due.
    pub(super) fn next(&mut self, now: Timestamp) -> Option<Write> {
        while self.wake_at().is_some_and(|due| due <= now) {
            let Some(Reverse((.., write))) = self.timers.pop() else { break };
            match write {
                Write::Lease { .. } => self.urgent.push_back(write),
                _ => self.queue.push_back(write),
            }
        }
        while let Some(write) = self.urgent.pop_front().or_else(|| self.queue.pop_front()) {
            if self.is_wanted(&write) {
                return Some(write);
            }
        }
        None
    }

    /// A pod may have gone on since its write was put down.
    fn is_wanted(&self, write: &Write) -> bool {
        let stage = |uid: &Arc<str>| self.pods.get(uid).map(|known| known.stage);
        match write {
            Write::Node(_) | Write::Lease { .. } => true,
            Write::Run(uid) => stage(uid) == Some(Stage::Starting),
            Write::Finish(uid) => stage(uid) == Some(Stage::Running),
            Write::Abort(uid) | Write::Delete(uid) => stage(uid) == Some(Stage::Leaving),
        }
    }

    /// The request behind a write.
    pub(super) fn request(&self, write: &Write, now: Timestamp) -> Call {
        match write {
            Write::Node(node) => {
                let node = body::node(&self.config, &self.name(*node), *node, now);
                Call::CreateNode(Box::new(node))
            }
            Write::Lease { node, is_new: true } => {
                Call::CreateLease(Box::new(new_lease(&self.name(*node), None, now)))
            }
            Write::Lease { node, is_new: false } => {
                let node = self.name(*node);
                Call::RenewLease { body: body::renewal(&node, now), node }
            }
            Write::Run(uid) => self.about(uid, now, |told, _| told.running()),
            Write::Finish(uid) => {
                self.about(uid, now, |told, known| told.finished(known.script.exit_code))
            }
            Write::Abort(uid) => self.about(uid, now, |told, _| told.finished(137)),
            Write::Delete(uid) => match self.pods.get(uid) {
                Some(known) => Call::Delete {
                    namespace: known.namespace.clone(),
                    pod: known.name.clone(),
                    uid: uid.to_string(),
                },
                None => Call::Nothing,
            },
        }
    }

    fn about(
        &self,
        uid: &Arc<str>,
        now: Timestamp,
        say: impl FnOnce(&Told<'_>, &Known) -> serde_json::Value,
    ) -> Call {
        let Some(known) = self.pods.get(uid) else { return Call::Nothing };
        let told = Told {
            uid,
            containers: &known.containers,
            init_containers: &known.init_containers,
            host: address_of(known.node, 0),
            address: address_of(known.node, known.slot),
            started_at: known.started_at,
            now,
        };
        Call::PatchStatus {
            namespace: known.namespace.clone(),
            pod: known.name.clone(),
            body: say(&told, known),
        }
    }

    pub(super) fn take_done(&mut self, write: Write, done: Done, now: Timestamp) {
        if done == Done::Failed {
            return self.after(now, PAUSE, write);
        }
        match write {
            Write::Node(node) => self.at(now, Write::Lease { node, is_new: true }),
            Write::Lease { node, is_new } => {
                let is_new = !is_new && done == Done::Missing;
                let pause = if is_new { Duration::ZERO } else { self.renew_every };
                self.after(now, pause, Write::Lease { node, is_new });
            }
            Write::Run(uid) => {
                let Some(known) = self.pods.get_mut(&uid) else { return };
                if known.stage != Stage::Starting {
                    return;
                }
                known.stage = Stage::Running;
                if let Some(run) = known.script.run.filter(|_| known.may_end) {
                    self.after(now, run, Write::Finish(uid));
                }
            }
            Write::Finish(uid) => {
                if let Some(known) = self.pods.get_mut(&uid)
                    && known.stage == Stage::Running
                {
                    known.stage = Stage::Finished;
                }
            }
            Write::Abort(uid) => self.at(now, Write::Delete(uid)),
            Write::Delete(uid) => {
                if done == Done::Missing {
                    self.pods.remove(&uid);
                }
            }
        }
    }

    pub(super) fn take(&mut self, update: Update<HollowPod>, now: Timestamp) {
        match update {
            Update::Relist => self.arriving = Some(BTreeSet::new()),
            Update::Applied(pod) => {
                let uid = self.apply(pod, now);
                if let Some(arriving) = &mut self.arriving {
                    arriving.extend(uid);
                }
            }
            Update::Listed => {
                let listed = self.arriving.take().unwrap_or_default();
                self.pods.retain(|uid, _| listed.contains(uid));
            }
            Update::Refused(_) => {}
            Update::Deleted(pod) => {
                if let Some(uid) = pod.metadata.uid {
                    self.pods.remove(uid.as_str());
                }
            }
        }
    }

    fn apply(&mut self, pod: HollowPod, now: Timestamp) -> Option<Arc<str>> {
        let node = self.number_of(&pod.spec.node_name)?;
        let uid: Arc<str> = pod.metadata.uid.clone()?.into();
        let is_leaving = pod.is_leaving();
        if !self.pods.contains_key(&uid) {
            self.admit(uid.clone(), node, pod, now);
        }
        let known = self.pods.get_mut(&uid)?;
        if is_leaving && known.stage != Stage::Leaving {
            let must_tell = known.has_finalizers && known.stage != Stage::Finished;
            known.stage = Stage::Leaving;
            let uid = uid.clone();
            self.at(now, if must_tell { Write::Abort(uid) } else { Write::Delete(uid) });
        }
        Some(uid)
    }

    fn admit(&mut self, uid: Arc<str>, node: u32, pod: HollowPod, now: Timestamp) {
        let script = Script::of(pod.metadata.annotations.as_ref(), self.config.start_delay);
        let started_at = pod.started_at().unwrap_or(now);
        let stage = match pod.status.phase.as_str() {
            "Running" => Stage::Running,
            "Succeeded" | "Failed" => Stage::Finished,
            _ => Stage::Starting,
        };
        let slot = usize::try_from(node).ok().and_then(|node| self.slots.get_mut(node));
        let slot = slot.map_or(1, |slot| {
            *slot = slot.wrapping_add(1);
            *slot
        });
        let named = |own: super::pod::Container| (own.name, own.image);
        let known = Known {
            namespace: pod.metadata.namespace.unwrap_or_default(),
            name: pod.metadata.name.unwrap_or_default(),
            node,
            slot,
            containers: pod.spec.containers.into_iter().map(named).collect(),
            init_containers: pod.spec.init_containers.into_iter().map(named).collect(),
            script,
            may_end: pod.spec.restart_policy != "Always",
            has_finalizers: pod.metadata.finalizers.is_some_and(|list| !list.is_empty()),
            started_at,
            stage,
        };
        match stage {
            Stage::Starting => self.after(now, script.start, Write::Run(uid.clone())),
            Stage::Running => {
                if let Some(run) = script.run.filter(|_| known.may_end) {
                    self.after(started_at, run, Write::Finish(uid.clone()));
                }
            }
            Stage::Finished | Stage::Leaving => {}
        }
        self.pods.insert(uid, known);
    }
}

#[cfg(test)]
mod tests;
