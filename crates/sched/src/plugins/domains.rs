//! Nodes by the value of a label: the domains that affinity and spread count in.

use std::collections::HashMap;

use crate::model::{Node, Symbol};
use crate::snapshot::{NodeIx, Snapshot};

/// The nodes of a cluster divided by one label.
#[derive(Debug)]
pub(super) struct Domains {
    pub(super) key: Symbol,
    /// Domain of each slot, [`Domains::NONE`] without node or label.
    of: Vec<u32>,
    ids: HashMap<Symbol, u32>,
}

impl Domains {
    pub(super) const NONE: u32 = u32::MAX;

    pub(super) fn new(key: Symbol, snapshot: &Snapshot) -> Self {
        let mut domains = Self { key, of: vec![Self::NONE; snapshot.slots()], ids: HashMap::new() };
        for (at, node) in snapshot.nodes() {
            let Some(value) = node.labels.get(key) else { continue };
            let next = u32::try_from(domains.ids.len()).unwrap_or(Self::NONE);
            let id = *domains.ids.entry(value).or_insert(next);
            if let Some(of) = domains.of.get_mut(at.index()) {
                *of = id;
            }
        }
        domains
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    #[inline]
    pub(super) fn id(&self, node: NodeIx) -> u32 {
        self.of.get(node.index()).copied().unwrap_or(Self::NONE)
    }

    #[inline]
    pub(super) fn get(&self, node: NodeIx) -> Option<usize> {
        match self.id(node) {
            Self::NONE => None,
            id => Some(id as usize),
        }
    }

    /// True while the node is still in the domain it was in.
    pub(super) fn holds(&self, at: NodeIx, node: Option<&Node>) -> bool {
        let value = node.and_then(|node| node.labels.get(self.key));
        let now = match value {
            None => Self::NONE,
            Some(value) => match self.ids.get(&value) {
                Some(id) => *id,
                None => return false,
            },
        };
        at.index() < self.of.len() && now == self.id(at)
    }
}
