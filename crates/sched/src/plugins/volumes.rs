//! Where can a pod's volumes be?
//!
//! Four plugins look at the same storage objects: who may share a disk
//! ([`restrictions`]), how many a node takes ([`limits`]), in which zone a bound one is
//! ([`zone`]), and which volumes can still be bound or made for a node ([`binding`]).

pub(super) mod binding;
pub(super) mod limits;
pub(super) mod restrictions;
#[cfg(test)]
mod tests;
pub(super) mod zone;

use crate::model::{Class, VolumeSource};
use crate::plugin::{Event, Subject};
use crate::queue::Hint;
use crate::snapshot::ClaimKey;

/// The claims of a class, and whether they were made for an ephemeral volume.
fn claims(class: &Class) -> impl Iterator<Item = (ClaimKey, bool)> {
    class.volumes.iter().filter_map(|volume| match volume.source {
        VolumeSource::Claim { name, is_ephemeral } => {
            Some((ClaimKey { namespace: class.namespace, name }, is_ephemeral))
        }
        _ => None,
    })
}

fn has_claims(class: &Class) -> bool {
    claims(class).next().is_some()
}

/// A claim matters when it is ours; everything else about storage may.
fn about_claims(class: &Class, event: &Event) -> Hint {
    match event.subject {
        Some(Subject::Claim(changed)) => {
            Hint::queue_if(claims(class).any(|(key, _)| key == changed))
        }
        _ => Hint::Queue,
    }
}
