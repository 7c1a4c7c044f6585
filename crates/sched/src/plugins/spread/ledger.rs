//! The count of one constraint: how many matching pods in each domain, and which nodes take part.

use std::collections::BTreeMap;

use crate::model::{
    Class, Effect, Labels, Node, NodeAffinity, SpreadConstraint, Symbol, Toleration,
};
use crate::plugins::domains::Domains;
use crate::snapshot::{NodeIx, Snapshot};

/// What is read of the incoming pod.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) namespace: Symbol,
    labels: Labels,
    node_affinity: NodeAffinity,
    tolerations: Box<[Toleration]>,
}

impl Incoming {
    pub(super) fn new(class: &Class) -> Self {
        Self {
            namespace: class.namespace,
            labels: class.labels.clone(),
            node_affinity: class.node_affinity.clone(),
            tolerations: class.tolerations.clone(),
        }
    }

    fn likes(&self, node: &Node, snapshot: &Snapshot) -> bool {
        let NodeAffinity { selector, required, .. } = &self.node_affinity;
        selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
            && required
                .as_ref()
                .is_none_or(|one| one.matches(node.name, &node.labels, &snapshot.names))
    }

    fn tolerates(&self, node: &Node) -> bool {
        let mut taints = node.taints.iter().filter(|one| one.effect != Effect::PreferNoSchedule);
        taints.all(|taint| self.tolerations.iter().any(|one| one.tolerates(taint)))
    }

    /// Does this node take part in the constraint, apart from having the keys?
    fn includes(&self, one: &SpreadConstraint, node: &Node, snapshot: &Snapshot) -> bool {
        (!one.honours_affinity || self.likes(node, snapshot))
            && (!one.honours_taints || self.tolerates(node))
    }
}

#[derive(Debug)]
pub(super) struct Ledger {
    constraint: SpreadConstraint,
    pub(super) domains: Domains,
    /// Slots whose pods count.
    includes: Vec<bool>,
    /// Matching pods by domain.
    pods: Vec<i64>,
    /// How many domains that take part have so many pods.
    spectrum: BTreeMap<i64, u32>,
    /// Domains that take part, and how many they are.
    takes_part: Vec<bool>,
    participants: i64,
    /// The fewest pods a domain has, as far as the filter is concerned.
    least: i64,
    /// Matching pods by slot, kept where the score needs them.
    by_node: Option<Vec<i64>>,
    /// 1 when the pod itself counts.
    own: i64,
}

impl Ledger {
    pub(super) fn all(
        constraints: Vec<SpreadConstraint>,
        needs_all: bool,
        incoming: &Incoming,
        hostname: Symbol,
        snapshot: &Snapshot,
    ) -> Vec<Self> {
        let keys: Vec<Symbol> = constraints.iter().map(|one| one.topology_key).collect();
        let build = |constraint: SpreadConstraint| {
            let keys = if needs_all { &keys[..] } else { &[] };
            Self::new(constraint, keys, incoming, hostname, snapshot)
        };
        constraints.into_iter().map(build).collect()
    }

    fn new(
        constraint: SpreadConstraint,
        keys: &[Symbol],
        incoming: &Incoming,
        hostname: Symbol,
        snapshot: &Snapshot,
    ) -> Self {
        let domains = Domains::new(constraint.topology_key, snapshot);
        let own = i64::from(constraint.selector.matches(&incoming.labels, &snapshot.names));
        let is_hostname = constraint.topology_key == hostname;
        let mut ledger = Self {
            includes: vec![false; snapshot.slots()],
            pods: vec![0; domains.len()],
            takes_part: vec![false; domains.len()],
            spectrum: BTreeMap::new(),
            participants: 0,
            least: 0,
            by_node: is_hostname.then(|| vec![0; snapshot.slots()]),
            own,
            domains,
            constraint,
        };
        for (at, node) in snapshot.nodes() {
            let has_keys = keys.iter().all(|key| node.labels.get(*key).is_some());
            if has_keys && incoming.includes(&ledger.constraint, node, snapshot) {
                ledger.include(at);
            }
        }
        ledger.count(incoming.namespace, snapshot);
        ledger
    }

    fn include(&mut self, at: NodeIx) {
        if let Some(includes) = self.includes.get_mut(at.index()) {
            *includes = true;
        }
        let domain = self.domains.get(at);
        if let Some(takes_part) = domain.and_then(|domain| self.takes_part.get_mut(domain))
            && !*takes_part
        {
            *takes_part = true;
            self.participants += 1;
            *self.spectrum.entry(0).or_default() += 1;
        }
    }

    fn count(&mut self, namespace: Symbol, snapshot: &Snapshot) {
        if self.constraint.selector.is_empty() {
            return;
        }
        for members in snapshot.extras.company.within(|one| one == namespace) {
            if self.counts(&members.class, snapshot) {
                for (node, count) in &members.nodes {
                    self.charge(*node, i64::from(count.staying()));
                }
            }
        }
    }

    /// Do pods of this class, which is of the right namespace, count? An empty selector counts
    /// nobody but the incoming pod.
    pub(super) fn counts(&self, class: &Class, snapshot: &Snapshot) -> bool {
        let selector = &self.constraint.selector;
        !selector.is_empty() && selector.matches(&class.labels, &snapshot.names)
    }

    /// So many matching pods more on this node.
    pub(super) fn charge(&mut self, node: NodeIx, pods: i64) {
        if let Some(count) = self.by_node.as_mut().and_then(|all| all.get_mut(node.index())) {
            *count += pods;
        }
        if pods == 0 || !self.includes.get(node.index()).copied().unwrap_or(false) {
            return;
        }
        let Some(domain) = self.domains.get(node) else { return };
        let Some(count) = self.pods.get_mut(domain) else { return };
        if let Some(domains) = self.spectrum.get_mut(count) {
            *domains -= 1;
            if *domains == 0 {
                self.spectrum.remove(count);
            }
        }
        *count += pods;
        *self.spectrum.entry(*count).or_default() += 1;
        self.least = match self.spectrum.first_key_value() {
            Some((least, _)) if self.participants >= self.constraint.min_domains => *least,
            _ => 0,
        };
    }

    pub(super) fn is_skewed(&self, domain: usize) -> bool {
        let count = self.pods.get(domain).copied().unwrap_or(0);
        count + self.own - self.least > self.constraint.max_skew
    }

    /// ln(domains + 2), the domains being those of the nodes scored.
    pub(super) fn weight(&self, scored: &[NodeIx]) -> f64 {
        let size = if self.by_node.is_some() {
            scored.len()
        } else {
            let mut seen = vec![false; self.domains.len()];
            for domain in scored.iter().filter_map(|node| self.domains.get(*node)) {
                if let Some(seen) = seen.get_mut(domain) {
                    *seen = true;
                }
            }
            seen.into_iter().filter(|seen| *seen).count()
        };
        #[expect(clippy::cast_precision_loss, reason = "fewer nodes than 2^52")]
        let size = size as f64;
        (size + 2.0).ln()
    }

    /// What this constraint adds to a node's raw score.
    pub(super) fn part(&self, node: NodeIx, weight: f64) -> f64 {
        let Some(domain) = self.domains.get(node) else { return 0.0 };
        let count = match &self.by_node {
            Some(by_node) => by_node.get(node.index()),
            None => self.pods.get(domain),
        };
        #[expect(clippy::cast_precision_loss, reason = "fewer pods than 2^52")]
        let (count, slack) =
            (count.copied().unwrap_or(0) as f64, (self.constraint.max_skew - 1) as f64);
        count * weight + slack
    }

    /// True while the node is in the same domains and takes part as before.
    pub(super) fn holds_all(
        ledgers: &[Self],
        needs_all: bool,
        at: NodeIx,
        incoming: &Incoming,
        snapshot: &Snapshot,
    ) -> bool {
        let node = snapshot.node(at).map(|node| &**node);
        let has_key = |one: &Self| {
            node.is_some_and(|node| node.labels.get(one.constraint.topology_key).is_some())
        };
        let has_keys = node.is_some() && (!needs_all || ledgers.iter().all(has_key));
        ledgers.iter().all(|one| {
            let takes = node.is_some_and(|node| incoming.includes(&one.constraint, node, snapshot));
            let before = one.includes.get(at.index()).copied().unwrap_or(false);
            one.domains.holds(at, node) && before == (has_keys && takes)
        })
    }
}
