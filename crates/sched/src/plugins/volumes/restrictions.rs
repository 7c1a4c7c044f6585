//! VolumeRestrictions: disks that only one pod may have.
//!
//! | volume | two pods on one node |
//! |---|---|
//! | GCE persistent disk, iSCSI target, RBD image | only if both read |
//! | AWS block store | never |
//!
//! A claim with `ReadWriteOncePod` is taken wherever its user runs, so every node is rejected, and
//! evicting the user helps.

use std::borrow::Cow;

use serde_json::Value;

use super::claims;
use crate::model::{Class, Volume, VolumeSource};
use crate::plugin::{Context, Epoch, Event, Plugin, Prepared, Reads, Subject, Work};
use crate::plugins::ArgsError;
use crate::queue::{Actions, Hint, Interest, Resource, Wake};
use crate::snapshot::{ClaimKey, Modes, NodeIx, Snapshot};
use crate::verdict::{Code, Verdict};

pub(in crate::plugins) const NAME: &str = "VolumeRestrictions";

pub(in crate::plugins) const WAKES: Interest = Interest::Only(&[
    Wake::new(Resource::Pod, Actions::DELETE),
    Wake::new(Resource::Node, Actions::ADD),
    Wake::new(Resource::PersistentVolumeClaim, Actions::ADD.or(Actions::UPDATE)),
]);

const DISK: u32 = 0;
const CLAIM: u32 = 1;

#[derive(Debug)]
struct VolumeRestrictions;

pub(in crate::plugins) fn build(_: &Value, _: &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError> {
    Ok(Box::new(VolumeRestrictions))
}

impl Plugin for VolumeRestrictions {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&self, Context { snapshot, class }: Context<'_>) -> Prepared {
        let disks = class.volumes.iter().filter(|volume| is_disk(&volume.source));
        let disks: Vec<Volume> = disks.cloned().collect();
        let storage = &snapshot.extras.storage;
        let mut exclusive = Vec::new();
        for (key, _) in claims(class) {
            let Some(claim) = storage.claims.get(&key) else {
                let reason = not_found(key, snapshot);
                return Prepared::reject(Code::Unresolvable, reason).on(&[Epoch::Storage]);
            };
            if claim.modes.contains(Modes::READ_WRITE_ONCE_POD) {
                exclusive.push(key);
            }
        }
        let depends: &[Epoch] = if super::has_claims(class) { &[Epoch::Storage] } else { &[] };
        if disks.is_empty() && exclusive.is_empty() {
            return Prepared::skip().on(depends);
        }
        // Who uses a claim is known of the cluster as a whole.
        let reads = if exclusive.is_empty() { Reads::Usage } else { Reads::Cluster };
        Prepared::filter(reads, Restricted { disks, exclusive }).on(depends)
    }

    fn hint(&self, _: &Snapshot, class: &Class, event: &Event) -> Hint {
        let Some(Subject::Pod { before: Some(gone), .. }) = &event.subject else {
            return super::about_claims(class, event);
        };
        let mut theirs = gone.volumes.iter();
        let is_ours = |one: &Volume| {
            class.volumes.iter().any(|own| own.source == one.source || conflicts(own, one))
        };
        Hint::queue_if(theirs.any(is_ours))
    }
}

pub(super) fn not_found(key: ClaimKey, snapshot: &Snapshot) -> String {
    format!("persistentvolumeclaim \"{}\" not found", snapshot.names.text(key.name))
}

fn is_disk(source: &VolumeSource) -> bool {
    matches!(
        source,
        VolumeSource::GcePersistentDisk(_)
            | VolumeSource::AwsElasticBlockStore(_)
            | VolumeSource::Iscsi { .. }
            | VolumeSource::Rbd { .. }
    )
}

fn conflicts(one: &Volume, other: &Volume) -> bool {
    use VolumeSource::{AwsElasticBlockStore, GcePersistentDisk, Iscsi, Rbd};
    let both_read = one.is_read_only && other.is_read_only;
    match (&one.source, &other.source) {
        (GcePersistentDisk(one), GcePersistentDisk(other)) => one == other && !both_read,
        (AwsElasticBlockStore(one), AwsElasticBlockStore(other)) => one == other,
        (Iscsi { iqn: one, .. }, Iscsi { iqn: other, .. }) => one == other && !both_read,
        (
            Rbd { monitors, pool, image },
            Rbd { monitors: theirs, pool: their_pool, image: their_image },
        ) => {
            let is_same = pool == their_pool && image == their_image;
            is_same && !both_read && monitors.iter().any(|one| theirs.contains(one))
        }
        _ => false,
    }
}

#[derive(Debug)]
struct Restricted {
    disks: Vec<Volume>,
    exclusive: Vec<ClaimKey>,
}

impl Work for Restricted {
    fn filter(&self, snapshot: &Snapshot, node: NodeIx) -> Verdict {
        if !self.disks.is_empty() {
            let pods = snapshot.pods_on(node).iter().filter_map(|pod| snapshot.pods.get(*pod));
            let mut taken = pods.flat_map(|pod| pod.class.volumes.iter());
            if taken.any(|volume| self.disks.iter().any(|own| conflicts(own, volume))) {
                return Verdict::unschedulable(DISK);
            }
        }
        let users = &snapshot.extras.storage.users;
        if self.exclusive.iter().any(|claim| users.of(*claim) > 0) {
            return Verdict::unschedulable(CLAIM);
        }
        Verdict::OK
    }

    fn reason(&self, bit: u32) -> Cow<'_, str> {
        Cow::Borrowed(match bit {
            DISK => "node(s) had no available disk",
            _ => {
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access \
                 mode already in-use by another pod"
            }
        })
    }
}
