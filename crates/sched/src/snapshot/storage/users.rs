//! How many pods on nodes use a claim?

use std::collections::HashMap;

use crate::model::{Class, VolumeSource};

use super::ClaimKey;

#[derive(Debug, Default)]
pub struct Users(HashMap<ClaimKey, u32>);

impl Users {
    pub fn of(&self, claim: ClaimKey) -> u32 {
        self.0.get(&claim).copied().unwrap_or(0)
    }

    pub(in crate::snapshot) fn attached(&mut self, class: &Class) {
        for claim in claims_of(class) {
            *self.0.entry(claim).or_default() += 1;
        }
    }

    pub(in crate::snapshot) fn detached(&mut self, class: &Class) {
        for claim in claims_of(class) {
            if let Some(count) = self.0.get_mut(&claim) {
                *count -= 1;
                if *count == 0 {
                    self.0.remove(&claim);
                }
            }
        }
    }
}

/// The claims that pods of a class use.
pub(crate) fn claims_of(class: &Class) -> impl Iterator<Item = ClaimKey> {
    class.volumes.iter().filter_map(|volume| match volume.source {
        VolumeSource::Claim { name, .. } => Some(ClaimKey { namespace: class.namespace, name }),
        _ => None,
    })
}
