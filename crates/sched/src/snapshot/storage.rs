//! Claims, volumes and what can provide more of them.
//!
//! What the API server says is overlaid by what has been decided and not yet written: a volume
//! promised to a claim is nobody else's, a claim to be provisioned on a node stays there.

mod users;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::model::{Labels, NodeSelector, Selector, Symbol};

use super::PodIx;

pub use users::Users;

/// A claim by namespace and name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimKey {
    pub namespace: Symbol,
    pub name: Symbol,
}

/// Access modes as a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modes(u8);

impl Modes {
    pub const READ_WRITE_ONCE_POD: Self = Self(8);

    pub fn of(mode: &str) -> Self {
        Self(match mode {
            "ReadWriteOnce" => 1,
            "ReadOnlyMany" => 2,
            "ReadWriteMany" => 4,
            "ReadWriteOncePod" => 8,
            _ => 0,
        })
    }

    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// `PersistentVolumeClaim`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The volume it asks for or has.
    pub volume: Option<Symbol>,
    /// Both sides agree.
    pub is_bound: bool,
    pub is_lost: bool,
    pub is_deleting: bool,
    /// Made for the generic ephemeral volume of some pod.
    pub is_of_pod: bool,
    pub class: Option<Symbol>,
    pub modes: Modes,
    pub is_block: bool,
    /// Bytes asked for.
    pub request: i64,
    pub selector: Option<Selector>,
    /// The node it is to be provisioned for.
    pub selected_node: Option<Symbol>,
}

/// `PersistentVolume`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    pub class: Option<Symbol>,
    pub modes: Modes,
    pub is_block: bool,
    pub capacity: i64,
    pub labels: Labels,
    pub affinity: Option<NodeSelector>,
    /// The claim it belongs to, or is meant for.
    pub claim: Option<ClaimKey>,
    /// Free to be matched with a claim.
    pub is_available: bool,
    /// The CSI driver and what it calls the volume; in-tree volumes under their driver's name.
    pub handle: Option<(Symbol, Symbol)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageClass {
    /// `None` for `kubernetes.io/no-provisioner`.
    pub provisioner: Option<Symbol>,
    /// `WaitForFirstConsumer`.
    pub waits: bool,
    /// Where volumes can be made; `None` is anywhere.
    pub topologies: Option<NodeSelector>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capacity {
    pub class: Symbol,
    /// Nodes it is about; absent means none.
    pub nodes: Selector,
    /// The largest volume that can be made.
    pub largest: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    pub node: Symbol,
    pub volume: Option<Symbol>,
}

/// What is to be done for a pod's claims once its node is chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Promise {
    /// Volumes and the claims they go to.
    pub bind: Vec<(Symbol, ClaimKey)>,
    pub provision: Vec<ClaimKey>,
    /// The node they are provisioned for.
    pub node: Option<Symbol>,
}

#[derive(Debug, Default)]
pub struct Storage {
    pub claims: BTreeMap<ClaimKey, Arc<Claim>>,
    pub volumes: BTreeMap<Symbol, Arc<Volume>>,
    pub classes: BTreeMap<Symbol, StorageClass>,
    pub capacities: BTreeMap<ClaimKey, Capacity>,
    /// Drivers whose capacity is published.
    pub counted_drivers: BTreeSet<Symbol>,
    /// How many volumes of a driver a node takes; a driver without a limit is absent.
    pub limits: BTreeMap<Symbol, BTreeMap<Symbol, i64>>,
    pub attachments: BTreeMap<Symbol, Attachment>,
    pub users: Users,
    promises: HashMap<PodIx, Promise>,
    /// Promised volumes.
    taken: HashMap<Symbol, ClaimKey>,
    /// Nodes that claims are to be provisioned for.
    planned: HashMap<ClaimKey, Symbol>,
}

impl Storage {
    /// The claim a volume belongs to, by the API server or by promise.
    pub fn owner_of(&self, name: Symbol) -> Option<ClaimKey> {
        let known = self.volumes.get(&name).and_then(|volume| volume.claim);
        self.taken.get(&name).copied().or(known)
    }

    pub fn selected_node(&self, key: ClaimKey) -> Option<Symbol> {
        let known = self.claims.get(&key).and_then(|claim| claim.selected_node);
        self.planned.get(&key).copied().or(known)
    }

    /// Makes a promise on behalf of a pod; an earlier one is withdrawn.
    pub fn promise(&mut self, pod: PodIx, promise: Promise) {
        self.withdraw(pod);
        self.taken.extend(promise.bind.iter().copied());
        if let Some(node) = promise.node {
            self.planned.extend(promise.provision.iter().map(|claim| (*claim, node)));
        }
        self.promises.insert(pod, promise);
    }

    /// Says whether there was anything to withdraw.
    pub fn withdraw(&mut self, pod: PodIx) -> bool {
        let Some(promise) = self.promises.remove(&pod) else { return false };
        for (volume, claim) in &promise.bind {
            if self.taken.get(volume) == Some(claim) {
                self.taken.remove(volume);
            }
        }
        for claim in &promise.provision {
            self.planned.remove(claim);
        }
        true
    }

    pub fn promised(&self, pod: PodIx) -> Option<&Promise> {
        self.promises.get(&pod)
    }
}
