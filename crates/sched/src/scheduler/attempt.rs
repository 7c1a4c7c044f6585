//! What one try came to.

use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::model::Names;
use crate::plugin::Patch;
use crate::snapshot::{ClaimKey, Promise};
use crate::verdict::{Code, Rejection};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct PodRef {
    pub namespace: String,
    pub name: String,
    #[serde(serialize_with = "shared_text")]
    pub uid: Arc<str>,
}

fn shared_text<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

/// One pod was looked at.
#[derive(Debug, Clone)]
pub struct Attempt {
    pub pod: PodRef,
    /// The profile that decided.
    pub scheduler_name: String,
    /// How often this pod was tried, this time included.
    pub attempts: u32,
    pub outcome: Outcome,
}

#[derive(Debug, Clone)]
pub enum Outcome {
    /// Assumed on a node: patch, prepare volumes, bind, then say so with
    /// [`bound`](crate::Scheduler::bound) or [`bind_failed`](crate::Scheduler::bind_failed).
    Place(Box<Place>),
    Reject(Box<Reject>),
    /// Others have a say about its nodes: ask them, then
    /// [`answer`](crate::Scheduler::answer).
    Ask(Box<Ask>),
    /// It fits nowhere, and others have a say about who is preempted: ask them, then
    /// [`answer_room`](crate::Scheduler::answer_room).
    AskRoom(Box<AskRoom>),
    /// Nothing to do for this pod.
    Skip {
        reason: &'static str,
    },
}

#[derive(Debug, Clone)]
pub struct Place {
    pub node: String,
    /// What all plugins want written, at most one PATCH.
    pub patch: Patch,
    pub volumes: VolumeWork,
    pub why: Placement,
}

#[derive(Debug, Clone)]
pub struct Reject {
    pub why: Rejection,
    /// `status.nominatedNodeName`: set it, clear it, or leave it.
    pub nominate: Nominate,
    /// Pods to be preempted on the nominated node, most important first.
    pub victims: Vec<Victim>,
    /// Pods that lose their nomination because somebody more important got the node.
    pub unnominated: Vec<PodRef>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nominate {
    Leave,
    Clear,
    Set(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Victim {
    pub pod: PodRef,
    pub priority: i32,
    pub violates_pdb: bool,
    /// It is on its way out already; nothing to do but wait.
    pub is_terminating: bool,
}

/// What extenders are asked about a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Nodes that fit.
    pub nodes: Vec<String>,
}

/// What extenders said about nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Nodes {
        /// With what they add to the score.
        accepted: Vec<(String, i64)>,
        refused: Vec<(String, Code, String)>,
    },
    /// They could not be asked, and their word counts.
    Failed(String),
}

/// What extenders are asked before pods are preempted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskRoom {
    pub why: Rejection,
    /// Cheapest first.
    pub rooms: Vec<RoomOffer>,
}

/// A node that could be cleared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomOffer {
    pub node: String,
    /// Most important first.
    pub victims: Vec<VictimRef>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VictimRef {
    pub uid: Arc<str>,
    pub violates_pdb: bool,
}

/// What must happen to claims and volumes before binding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeWork {
    /// Bind this volume to that claim: (volume, namespace/name of the claim).
    pub bind: Vec<(String, PodClaim)>,
    /// Claims to be provisioned for the chosen node.
    pub provision: Vec<PodClaim>,
}

impl VolumeWork {
    /// What was promised to a pod on its node, in words of the API.
    pub(crate) fn of(promise: &Promise, names: &Names) -> Self {
        let claim = |key: &ClaimKey| PodClaim {
            namespace: names.text(key.namespace).to_owned(),
            name: names.text(key.name).to_owned(),
        };
        let bind = promise.bind.iter();
        Self {
            bind: bind.map(|(volume, key)| (names.text(*volume).to_owned(), claim(key))).collect(),
            provision: promise.provision.iter().map(claim).collect(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.bind.is_empty() && self.provision.is_empty()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodClaim {
    pub namespace: String,
    pub name: String,
}

/// Why a node won.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Placement {
    pub nodes: u32,
    /// How many nodes passed every filter; `None` when the winner was taken without counting.
    pub feasible: Option<u32>,
    pub winner: Ranked,
    /// The next best nodes, best first.
    pub runners_up: Vec<Ranked>,
    /// The node had been nominated for this pod.
    pub was_nominated: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Ranked {
    pub node: String,
    pub total: i64,
    /// Weighted contributions by plugin, filled for explanations.
    pub parts: Vec<(&'static str, i64)>,
}

/// Why a placed pod could not be bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindFailure {
    /// The API server or the network: retried after a back-off.
    Error(String),
    /// A plugin or the API server says no: retried when something changes.
    Rejected { plugin: &'static str, reason: String },
    /// The pod is gone or belongs to somebody else now.
    Gone,
}
