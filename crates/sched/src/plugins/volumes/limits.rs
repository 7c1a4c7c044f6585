//! NodeVolumeLimits: a CSI driver attaches only so many volumes to a node.
//!
//! Distinct volumes count: those of pods on the node, those attached there for any other reason,
//! and the new ones. A claim that is still to be provisioned counts under its own name.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::claims;
use crate::model::{Class, Symbol};
use crate::plugin::{Context, Epoch, Event, Plugin, Prepared, Reads, Work};
use crate::plugins::ArgsError;
use crate::queue::{Actions, Hint, Interest, Resource, Wake};
use crate::snapshot::{ClaimKey, NodeIx, Snapshot, Storage};
use crate::verdict::Verdict;

pub(in crate::plugins) const NAME: &str = "NodeVolumeLimits";

pub(in crate::plugins) const WAKES: Interest = Interest::Only(&[
    Wake::new(Resource::CsiNode, Actions::ALL),
    Wake::new(Resource::Pod, Actions::DELETE),
    Wake::new(Resource::Node, Actions::ADD),
    Wake::new(Resource::PersistentVolumeClaim, Actions::ADD.or(Actions::UPDATE)),
    Wake::new(Resource::PersistentVolume, Actions::UPDATE),
    Wake::new(Resource::VolumeAttachment, Actions::DELETE),
]);

#[derive(Debug)]
struct NodeVolumeLimits;

pub(in crate::plugins) fn build(_: &Value, _: &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError> {
    Ok(Box::new(NodeVolumeLimits))
}

/// What a driver calls a volume, or will.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Handle {
    Known(Symbol),
    ToBe(ClaimKey),
}

impl Plugin for NodeVolumeLimits {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&self, Context { snapshot, class }: Context<'_>) -> Prepared {
        if !super::has_claims(class) {
            return Prepared::skip();
        }
        let mut wanted: BTreeMap<Symbol, BTreeSet<Handle>> = BTreeMap::new();
        for (driver, handle) in handles(class, &snapshot.extras.storage) {
            wanted.entry(driver).or_default().insert(handle);
        }
        if wanted.is_empty() {
            return Prepared::skip().on(&[Epoch::Storage]);
        }
        Prepared::filter(Reads::Usage, Limited { wanted }).on(&[Epoch::Storage])
    }

    fn hint(&self, _: &Snapshot, class: &Class, event: &Event) -> Hint {
        super::about_claims(class, event)
    }
}

/// The volumes of CSI drivers that pods of a class use.
fn handles(class: &Class, storage: &Storage) -> Vec<(Symbol, Handle)> {
    let used = claims(class).filter_map(|(key, _)| {
        let claim = storage.claims.get(&key)?;
        let volume = claim.volume.and_then(|name| storage.volumes.get(&name));
        if let Some(volume) = volume {
            return volume.handle.map(|(driver, handle)| (driver, Handle::Known(handle)));
        }
        let class = storage.classes.get(&claim.class?)?;
        Some((class.provisioner?, Handle::ToBe(key)))
    });
    used.collect()
}

#[derive(Debug)]
struct Limited {
    wanted: BTreeMap<Symbol, BTreeSet<Handle>>,
}

impl Work for Limited {
    fn filter(&self, snapshot: &Snapshot, node: NodeIx) -> Verdict {
        let storage = &snapshot.extras.storage;
        let Some(name) = snapshot.node(node).map(|node| node.name) else { return Verdict::OK };
        let Some(limits) = storage.limits.get(&name) else { return Verdict::OK };
        if !self.wanted.keys().any(|driver| limits.contains_key(driver)) {
            return Verdict::OK;
        }
        let mut taken: BTreeSet<(Symbol, Handle)> = BTreeSet::new();
        for pod in snapshot.pods_on(node).iter().filter_map(|pod| snapshot.pods.get(*pod)) {
            taken.extend(handles(&pod.class, storage));
        }
        let attached = storage.attachments.values().filter(|one| one.node == name);
        let volumes = attached.filter_map(|one| storage.volumes.get(&one.volume?)?.handle);
        taken.extend(volumes.map(|(driver, handle)| (driver, Handle::Known(handle))));
        for (driver, wanted) in &self.wanted {
            let Some(limit) = limits.get(driver) else { continue };
            let new = wanted.iter().filter(|handle| !taken.contains(&(*driver, **handle))).count();
            let old = taken.iter().filter(|(of, _)| of == driver).count();
            if new > 0 && i64::try_from(new + old).unwrap_or(i64::MAX) > *limit {
                return Verdict::unschedulable(0);
            }
        }
        Verdict::OK
    }

    fn reason(&self, _bit: u32) -> Cow<'_, str> {
        "node(s) exceed max volume count".into()
    }
}
