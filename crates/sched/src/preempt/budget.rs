//! PodDisruptionBudgets: whose eviction would break a promise?

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use crate::model::{Selector, Symbol};
use crate::read::Reader;
use crate::scheduler::Key;
use crate::snapshot::{PodIx, Snapshot};

#[derive(Debug)]
struct Budget {
    namespace: Symbol,
    selector: Selector,
    allowed: i64,
    /// Pods whose eviction is accounted for already.
    disrupted: BTreeSet<String>,
}

/// All budgets, by namespace and name.
#[derive(Debug, Default)]
pub struct Budgets {
    all: BTreeMap<(String, String), Budget>,
    /// Moves on with every change.
    epoch: u64,
}

impl Budgets {
    pub fn set(&mut self, object: &PodDisruptionBudget, snapshot: &mut Snapshot) {
        let mut reader = Reader { names: &mut snapshot.names, resources: &mut snapshot.resources };
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        let spec = object.spec.as_ref();
        let status = object.status.as_ref();
        let disrupted = status.and_then(|status| status.disrupted_pods.as_ref());
        let budget = Budget {
            selector: reader.selector(spec.and_then(|spec| spec.selector.as_ref())),
            namespace: reader.names.intern(&namespace),
            allowed: status.map_or(0, |status| i64::from(status.disruptions_allowed)),
            disrupted: disrupted.into_iter().flatten().map(|(name, _)| name.clone()).collect(),
        };
        let name = object.metadata.name.clone().unwrap_or_default();
        self.all.insert((namespace, name), budget);
        self.epoch += 1;
    }

    pub fn remove(&mut self, key: &Key) {
        if self.all.remove(&(key.namespace.clone(), key.name.clone())).is_some() {
            self.epoch += 1;
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// For each of these pods, most important first: would evicting all of them break a budget
    /// at this one?
    pub(super) fn violating(&self, snapshot: &Snapshot, pods: &[PodIx]) -> Vec<bool> {
        let mut left: Vec<i64> = self.all.values().map(|budget| budget.allowed).collect();
        let violates = |pod: &PodIx| {
            let Some(pod) = snapshot.pods.get(*pod) else { return false };
            if pod.class.labels.is_empty() {
                return false;
            }
            let mut breaks = false;
            for (budget, left) in self.all.values().zip(&mut left) {
                let counts = budget.namespace == pod.namespace
                    && !budget.selector.is_empty()
                    && budget.selector.matches(&pod.class.labels, &snapshot.names)
                    && !budget.disrupted.contains(&*pod.name);
                if counts {
                    *left -= 1;
                    breaks |= *left < 0;
                }
            }
            breaks
        };
        pods.iter().map(violates).collect()
    }
}
