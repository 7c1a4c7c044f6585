//! VolumeBinding: can all of a pod's claims have volumes on this node?
//!
//! Bound claims pin the pod to where their volumes are. Claims that bind at once must be bound
//! before the pod is tried. Claims that wait for their first consumer are matched, smallest
//! request first, with the smallest free volume that fits and is usable from the node; what is
//! left must be provisionable there, with enough capacity where the driver publishes it.
//!
//! Choosing a node promises the volumes it needs to this pod and says what must be written before
//! binding.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::{claims, restrictions::not_found};
use crate::model::{Class, Node, NodeSelector, Symbol};
use crate::plugin::{Context, Epoch, Event, Plugin, Prepared, Reads, Refusal, Work};
use crate::plugins::{ArgsError, read_args};
use crate::queue::{Actions, Hint, Interest, Resource, Wake};
use crate::snapshot::{Claim, ClaimKey, NodeIx, PodIx, Promise, Snapshot, Storage, Volume};
use crate::verdict::{Code, Verdict};

pub(in crate::plugins) const NAME: &str = "VolumeBinding";

pub(in crate::plugins) const WAKES: Interest = Interest::Only(&[
    Wake::new(Resource::StorageClass, Actions::ADD.or(Actions::UPDATE)),
    Wake::new(Resource::PersistentVolumeClaim, Actions::ADD.or(Actions::UPDATE)),
    Wake::new(Resource::PersistentVolume, Actions::ALL),
    Wake::new(Resource::Node, Actions::ADD.or(Actions::NODE_LABEL)),
    Wake::new(Resource::CsiNode, Actions::ADD.or(Actions::UPDATE)),
    Wake::new(Resource::CsiDriver, Actions::ALL),
    Wake::new(Resource::CsiStorageCapacity, Actions::ADD.or(Actions::UPDATE)),
    Wake::new(Resource::Pod, Actions::DELETE),
]);

const REASONS: [&str; 4] = [
    "node(s) didn't match PersistentVolume's node affinity",
    "node(s) didn't find available persistent volumes to bind",
    "node(s) did not have enough free storage",
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
];
const AFFINITY: u64 = 1;
const UNMATCHED: u64 = 1 << 1;
const SPACE: u64 = 1 << 2;
const MISSING: u64 = 1 << 3;

/// The time-out is the process's business and `shape` scores nothing unless a gate is on.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Args {
    bind_timeout_seconds: Option<i64>,
    shape: Option<Value>,
}

#[derive(Debug)]
struct VolumeBinding;

pub(in crate::plugins) fn build(
    args: &Value,
    _: &mut Snapshot,
) -> Result<Box<dyn Plugin>, ArgsError> {
    let _: Args = read_args(NAME, args)?;
    Ok(Box::new(VolumeBinding))
}

impl Plugin for VolumeBinding {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&self, Context { snapshot, class }: Context<'_>) -> Prepared {
        if !super::has_claims(class) {
            return Prepared::skip();
        }
        let prepared = match Claims::of(class, snapshot) {
            Ok(claims) => Prepared::filter(Reads::Node, claims),
            Err(reason) => Prepared::reject(Code::Unresolvable, reason),
        };
        prepared.on(&[Epoch::Storage])
    }

    fn reserve(&self, snapshot: &mut Snapshot, pod: PodIx, at: NodeIx) -> Result<(), Refusal> {
        let Some(class) = snapshot.pods.get(pod).map(|pod| Arc::clone(&pod.class)) else {
            return Ok(());
        };
        let Some(node) = snapshot.node(at).cloned() else { return Ok(()) };
        if !super::has_claims(&class) {
            return Ok(());
        }
        let refuse = |reason: String| Refusal { code: Code::Unschedulable, reason };
        let claims = Claims::of(&class, snapshot).map_err(refuse)?;
        let promise = claims.choose(&node, snapshot).map_err(|reasons| {
            let verdict = Verdict::rejected(Code::Unresolvable, reasons);
            let texts: Vec<_> = verdict.reasons().map(|bit| claims.reason(bit)).collect();
            refuse(texts.join(", "))
        })?;
        if !promise.bind.is_empty() || !promise.provision.is_empty() {
            snapshot.extras.storage.promise(pod, promise);
            snapshot.advance(Epoch::Storage);
        }
        Ok(())
    }

    fn unreserve(&self, snapshot: &mut Snapshot, pod: PodIx, _node: NodeIx) {
        if snapshot.extras.storage.withdraw(pod) {
            snapshot.advance(Epoch::Storage);
        }
    }

    fn hint(&self, _: &Snapshot, class: &Class, event: &Event) -> Hint {
        super::about_claims(class, event)
    }
}

/// A claim that waits for a node.
#[derive(Debug)]
struct Waiting {
    key: ClaimKey,
    claim: Arc<Claim>,
    /// Free volumes that fit, the best first.
    candidates: Vec<(Symbol, Arc<Volume>)>,
}

#[derive(Debug)]
struct Claims {
    /// Where the volumes of bound claims can be used.
    pins: Vec<NodeSelector>,
    is_volume_missing: bool,
    waiting: Vec<Waiting>,
}

impl Claims {
    /// Sorts the claims of a class, or says why no node will do.
    fn of(class: &Class, snapshot: &Snapshot) -> Result<Self, String> {
        let storage = &snapshot.extras.storage;
        let text = |name| snapshot.names.text(name);
        let mut sorted = Self { pins: Vec::new(), is_volume_missing: false, waiting: Vec::new() };
        let mut has_unbound = false;
        for (key, is_ephemeral) in claims(class) {
            let Some(claim) = storage.claims.get(&key) else {
                return Err(match is_ephemeral {
                    true => format!(
                        "waiting for ephemeral volume controller to create the \
                         persistentvolumeclaim \"{}\"",
                        text(key.name)
                    ),
                    false => not_found(key, snapshot),
                });
            };
            check(claim, is_ephemeral).map_err(|what| {
                let lost = claim.volume.map_or("", text);
                what.replace("{claim}", text(key.name)).replace("{volume}", lost)
            })?;
            has_unbound |= !sorted.sort(key, claim, snapshot);
        }
        if has_unbound {
            return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
        }
        sorted.waiting.sort_by_key(|one| (one.claim.request, one.key));
        Ok(sorted)
    }

    /// False for a claim that should have been bound without us.
    fn sort(&mut self, key: ClaimKey, claim: &Arc<Claim>, snapshot: &Snapshot) -> bool {
        let storage = &snapshot.extras.storage;
        if claim.is_bound {
            let volume = claim.volume.and_then(|name| storage.volumes.get(&name));
            self.is_volume_missing |= volume.is_none();
            self.pins.extend(volume.and_then(|volume| volume.affinity.clone()));
            return true;
        }
        let class = claim.class.and_then(|name| storage.classes.get(&name));
        let waits = claim.volume.is_none() && class.is_some_and(|class| class.waits);
        if waits {
            let candidates = candidates(key, claim, snapshot);
            self.waiting.push(Waiting { key, claim: Arc::clone(claim), candidates });
        }
        waits
    }

    /// What would have to be done on this node, or the reasons why it cannot.
    fn choose(&self, node: &Node, snapshot: &Snapshot) -> Result<Promise, u64> {
        let storage = &snapshot.extras.storage;
        let selects = |one: &NodeSelector| one.matches(node.name, &node.labels, &snapshot.names);
        let mut reasons = 0;
        if self.is_volume_missing {
            reasons |= MISSING;
        }
        if !self.pins.iter().all(selects) {
            reasons |= AFFINITY;
        }
        let mut promise = Promise { node: Some(node.name), ..Promise::default() };
        let mut used = BTreeSet::new();
        for Waiting { key, claim, candidates } in &self.waiting {
            let selected = storage.selected_node(*key);
            if selected.is_some_and(|selected| selected != node.name) {
                reasons |= UNMATCHED;
                continue;
            }
            let usable = |name: &Symbol, volume: &Volume| {
                !used.contains(name) && volume.affinity.as_ref().is_none_or(selects)
            };
            let mut candidates = candidates.iter().filter(|_| selected.is_none());
            match candidates.find(|(name, volume)| usable(name, volume)) {
                Some((name, _)) => {
                    used.insert(*name);
                    promise.bind.push((*name, *key));
                }
                None => {
                    reasons |= provisionable(claim, node, storage, snapshot);
                    promise.provision.push(*key);
                }
            }
        }
        if reasons == 0 { Ok(promise) } else { Err(reasons) }
    }
}

/// Claims nothing can be done with; the text has places for the names.
fn check(claim: &Claim, is_ephemeral: bool) -> Result<(), &'static str> {
    if claim.is_lost {
        return Err(
            "persistentvolumeclaim \"{claim}\" bound to non-existent persistentvolume \"{volume}\"",
        );
    }
    if claim.is_deleting {
        return Err("persistentvolumeclaim \"{claim}\" is being deleted");
    }
    if is_ephemeral && !claim.is_of_pod {
        return Err("persistentvolumeclaim \"{claim}\" was not created for the pod");
    }
    Ok(())
}

/// Volumes a claim could have: one that was made for it, else by size.
fn candidates(key: ClaimKey, claim: &Claim, snapshot: &Snapshot) -> Vec<(Symbol, Arc<Volume>)> {
    let storage = &snapshot.extras.storage;
    let fits = |name: &Symbol, volume: &Volume| {
        let selector = claim.selector.as_ref();
        volume.is_available
            && storage.owner_of(*name).is_none_or(|owner| owner == key)
            && volume.class == claim.class
            && volume.is_block == claim.is_block
            && volume.modes.contains(claim.modes)
            && volume.capacity >= claim.request
            && selector.is_none_or(|one| one.matches(&volume.labels, &snapshot.names))
    };
    let found = storage.volumes.iter().filter(|(name, volume)| fits(name, volume));
    let mut found: Vec<_> = found.map(|(name, volume)| (*name, Arc::clone(volume))).collect();
    found.sort_by_key(|(name, volume)| {
        (volume.claim.is_none(), volume.capacity, snapshot.names.text(*name).to_owned())
    });
    found
}

/// The reasons why a volume for this claim cannot be made on the node, as bits.
fn provisionable(claim: &Claim, node: &Node, storage: &Storage, snapshot: &Snapshot) -> u64 {
    let class = claim.class.and_then(|name| storage.classes.get(&name).map(|one| (name, one)));
    let Some((name, class)) = class else { return UNMATCHED };
    let Some(driver) = class.provisioner else { return UNMATCHED };
    let names = &snapshot.names;
    let is_near =
        class.topologies.as_ref().is_none_or(|one| one.matches(node.name, &node.labels, names));
    if !is_near {
        return UNMATCHED;
    }
    let has_room = !storage.counted_drivers.contains(&driver)
        || storage.capacities.values().any(|one| {
            one.class == name
                && one.largest >= claim.request
                && one.nodes.matches(&node.labels, names)
        });
    if has_room { 0 } else { SPACE }
}

impl Work for Claims {
    fn filter(&self, snapshot: &Snapshot, node: NodeIx) -> Verdict {
        let Some(node) = snapshot.node(node) else { return Verdict::OK };
        match self.choose(node, snapshot) {
            Ok(_) => Verdict::OK,
            Err(reasons) => Verdict::rejected(Code::Unresolvable, reasons),
        }
    }

    fn reason(&self, bit: u32) -> Cow<'_, str> {
        Cow::Borrowed(REASONS.get(bit as usize).copied().unwrap_or_default())
    }
}
