//! On which NUMA nodes should all resources of a pod sit together?
//!
//! For each resource a provider offers [`Hint`]s: sets of nodes ([`Mask`]) that could serve it. One
//! hint of every resource is combined into one set, the nodes they have in common:
//!
//! ```text
//! cpu    {1}*  {0,1}          * preferred: no smaller set would do
//! gpu    {0}*  {0,1}
//! merge  {}    {1}  {0}  {0,1}
//! ```
//!
//! A combination is preferred when all its sets are equal and preferred. The best is preferred,
//! has the fewest nodes, then the highest score, then the lowest mask. The policy says what happens
//! to it: `BestEffort` takes every node when the best one does not hold what a hint needs,
//! `Restricted` and `SingleNUMANode` turn the pod away unless the best is preferred, the latter
//! looking at sets of one node alone.
//!
//! Resources of one provider mostly offer the same list. Only equal sets can be preferred, so equal
//! lists count once at first; the whole product is looked at when that finds nothing preferred.

use std::fmt;

use api::metadata::pod::NumaTopologyPolicy;

use crate::model::ResourceId;

/// A set of NUMA nodes, by position in their machine. Positions end at 63.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mask(pub u64);

impl Mask {
    /// The first `nodes` nodes.
    pub fn first(nodes: usize) -> Self {
        let bits = u32::try_from(nodes).unwrap_or(u32::MAX);
        Self(1_u64.checked_shl(bits).map_or(u64::MAX, |above| above - 1))
    }

    pub fn len(self) -> u32 {
        self.0.count_ones()
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn contains(self, position: usize) -> bool {
        u32::try_from(position).is_ok_and(|bit| self.0.checked_shr(bit).unwrap_or(0) & 1 == 1)
    }

    /// Positions, ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            usize::try_from(bit).ok()
        })
    }

    /// Every set of the first `nodes` nodes: by size, then by its members in order.
    pub(crate) fn all(nodes: usize) -> Vec<Self> {
        if nodes > LARGEST {
            let singles = (0..nodes.min(64)).map(|position| Self(1 << position));
            return singles.chain([Self::first(nodes)]).collect();
        }
        let mut masks: Vec<Self> = (1..=Self::first(nodes).0).map(Self).collect();
        masks.sort_by_cached_key(|mask| (mask.len(), mask.iter().collect::<Vec<_>>()));
        masks
    }
}

/// With more nodes than this, only single nodes and all together are tried: there are too many sets.
const LARGEST: usize = 8;

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members: Vec<String> = self.iter().map(|position| position.to_string()).collect();
        write!(f, "{{{}}}", members.join(","))
    }
}

/// One way to serve a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hint {
    /// `None` is any node.
    pub mask: Option<Mask>,
    pub preferred: bool,
    pub score: i64,
}

/// What a provider says about one resource; no hints: it cannot be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub resource: ResourceId,
    pub hints: Vec<Hint>,
}

/// Who is on a NUMA node, of pods with CPUs of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Occupancy {
    #[default]
    Idle,
    /// Each of them is on this node alone.
    Single,
    /// Some of them are on other nodes too.
    Shared,
}

/// Why a policy turned a pod away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Misfit {
    /// Nothing serves these resources.
    Unsatisfied(Vec<ResourceId>),
    /// Each is served, but not all at one place.
    Unaligned { policy: NumaTopologyPolicy, offers: Vec<Offer> },
}

/// What is decided for one pod on one machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) policy: NumaTopologyPolicy,
    /// Every node of the machine.
    pub(super) all: Mask,
    pub(super) offers: &'a [Offer],
    /// By position, for a pod that must not mix with pods of the other kind; else empty.
    pub(super) occupancy: &'a [Occupancy],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Merged {
    mask: Mask,
    preferred: bool,
    unsatisfied: bool,
    score: i64,
}

/// The nodes the pod goes to; `None` is any.
pub(super) fn admit(question: &Question<'_>) -> Result<Option<Mask>, Misfit> {
    let Question { policy, all, offers, .. } = *question;
    let is_strict = policy != NumaTopologyPolicy::BestEffort;
    let unserved: Vec<ResourceId> =
        offers.iter().filter(|offer| offer.hints.is_empty()).map(|offer| offer.resource).collect();
    if is_strict && !unserved.is_empty() {
        return Err(Misfit::Unsatisfied(unserved));
    }
    let best = question.best();
    match policy {
        NumaTopologyPolicy::BestEffort if best.unsatisfied => Ok(Some(all)),
        NumaTopologyPolicy::BestEffort => Ok(Some(best.mask)),
        _ if !best.preferred => Err(Misfit::Unaligned { policy, offers: offers.to_vec() }),
        NumaTopologyPolicy::SingleNumaNode if best.mask == all => Ok(None),
        _ => Ok(Some(best.mask)),
    }
}

impl Question<'_> {
    fn best(&self) -> Merged {
        const CANNOT: &[Hint] = &[Hint { mask: None, preferred: false, score: 0 }];
        let single: Vec<Vec<Hint>>;
        let mut lists: Vec<&[Hint]> = Vec::with_capacity(self.offers.len());
        if self.policy == NumaTopologyPolicy::SingleNumaNode {
            let is_single =
                |hint: &&Hint| hint.preferred && hint.mask.is_none_or(|mask| mask.len() == 1);
            single = self
                .offers
                .iter()
                .map(|offer| offer.hints.iter().filter(is_single).copied().collect())
                .collect();
            lists.extend(single.iter().map(Vec::as_slice));
        } else {
            lists.extend(self.offers.iter().map(|offer| match &offer.hints[..] {
                [] => CANNOT,
                hints => hints,
            }));
        }
        let mut distinct: Vec<&[Hint]> = Vec::with_capacity(lists.len());
        for list in &lists {
            if !distinct.contains(list) {
                distinct.push(list);
            }
        }
        let best = self.best_of(&distinct);
        let is_settled = best.preferred || distinct.len() == lists.len();
        if is_settled { best } else { self.best_of(&lists) }
    }

    /// Looks at one combination after the other, the last list turning fastest.
    fn best_of(&self, lists: &[&[Hint]]) -> Merged {
        let mut best = Merged { mask: self.all, preferred: false, unsatisfied: false, score: 0 };
        if lists.iter().any(|list| list.is_empty()) {
            return best;
        }
        let mut wheel = vec![0_usize; lists.len()];
        loop {
            let combination = wheel.iter().zip(lists).filter_map(|(at, list)| list.get(*at));
            if let Some(merged) = self.merge(combination)
                && merged.beats(&best)
            {
                best = merged;
            }
            if !turn(&mut wheel, lists) {
                return best;
            }
        }
    }

    fn merge<'h>(&self, combination: impl Iterator<Item = &'h Hint> + Clone) -> Option<Merged> {
        let mut mask = self.all;
        let (mut preferred, mut largest, mut first) = (true, 0, None);
        for hint in combination.clone() {
            preferred &= hint.preferred;
            let Some(own) = hint.mask else { continue };
            preferred &= *first.get_or_insert(own) == own;
            largest = largest.max(own.len());
            mask = Mask(mask.0 & own.0);
        }
        let is_same = |hint: &&Hint| hint.mask == Some(mask);
        let score = combination.filter(is_same).map(|hint| hint.score).sum();
        let preferred = preferred && self.is_company_welcome(mask);
        let unsatisfied = mask.len() < largest;
        (!mask.is_empty()).then_some(Merged { mask, preferred, unsatisfied, score })
    }

    fn is_company_welcome(&self, mask: Mask) -> bool {
        let avoided = if mask.len() == 1 { Occupancy::Shared } else { Occupancy::Single };
        mask.iter().all(|position| self.occupancy.get(position) != Some(&avoided))
    }
}

impl Merged {
    fn beats(&self, best: &Self) -> bool {
        if self.preferred != best.preferred {
            return self.preferred;
        }
        match self.mask.len().cmp(&best.mask.len()) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Greater => false,
            std::cmp::Ordering::Equal => self.mask < best.mask || self.score > best.score,
        }
    }
}

/// Moves to the next combination; false after the last.
fn turn(wheel: &mut [usize], lists: &[&[Hint]]) -> bool {
    for (at, list) in wheel.iter_mut().zip(lists).rev() {
        *at += 1;
        if *at < list.len() {
            return true;
        }
        *at = 0;
    }
    false
}

impl Misfit {
    /// As people read it, with `name` giving the names of resources.
    pub fn text<'a>(&self, name: impl Fn(ResourceId) -> &'a str) -> String {
        match self {
            Self::Unsatisfied(resources) => {
                let parts: Vec<String> =
                    resources.iter().map(|id| format!("Unsatisfied NUMA {}", name(*id))).collect();
                parts.join(", ")
            }
            Self::Unaligned { policy, offers } => {
                let parts: Vec<String> = offers
                    .iter()
                    .map(|offer| {
                        let list = |hints: Vec<&Hint>| {
                            let masks: Vec<String> = hints
                                .iter()
                                .filter_map(|hint| hint.mask)
                                .map(|m| m.to_string())
                                .collect();
                            masks.join(" ")
                        };
                        let preferred = offer.hints.iter().filter(|hint| hint.preferred).collect();
                        let among = offer.hints.iter().collect();
                        let resource = name(offer.resource);
                        format!("{resource} prefer [{}] among [{}]", list(preferred), list(among))
                    })
                    .collect();
                let is_single = *policy == NumaTopologyPolicy::SingleNumaNode;
                let parts = parts.join(if is_single { "," } else { " & " });
                format!("Unaligned NUMA Hint cause {parts}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use NumaTopologyPolicy::{BestEffort, Restricted, SingleNumaNode};

    use super::*;

    const CPU: ResourceId = ResourceId::CPU;
    const GPU: ResourceId = ResourceId(7);

    fn offer(resource: ResourceId, hints: &[(u64, bool, i64)]) -> Offer {
        let hint = |(mask, preferred, score): &(u64, bool, i64)| Hint {
            mask: Some(Mask(*mask)),
            preferred: *preferred,
            score: *score,
        };
        Offer { resource, hints: hints.iter().map(hint).collect() }
    }

    fn ask(
        policy: NumaTopologyPolicy,
        nodes: usize,
        offers: &[Offer],
    ) -> Result<Option<Mask>, String> {
        let question = Question { policy, all: Mask::first(nodes), offers, occupancy: &[] };
        admit(&question).map_err(|misfit| {
            misfit.text(|id| if id == CPU { "cpu" } else { "koordinator.sh/gpu" })
        })
    }

    #[test]
    fn one_provider_gets_its_smallest_set() {
        let narrow = [offer(CPU, &[(2, true, 0), (3, false, 0)])];
        let both = [offer(CPU, &[(2, true, 0), (3, true, 0)])];
        assert_eq!(ask(BestEffort, 2, &narrow), Ok(Some(Mask(2))), "C26");
        assert_eq!(ask(SingleNumaNode, 2, &narrow), Ok(Some(Mask(2))), "C26");
        assert_eq!(ask(Restricted, 2, &both), Ok(Some(Mask(2))), "C26 both preferred");
        assert_eq!(ask(SingleNumaNode, 2, &[]), Ok(None), "nothing to align");
        let one = [offer(CPU, &[(1, true, 0)])];
        assert_eq!(ask(SingleNumaNode, 1, &one), Ok(None), "the whole machine is any node");
        assert_eq!(ask(Restricted, 1, &one), Ok(Some(Mask(1))));
    }

    #[test]
    fn resources_on_different_nodes_are_unaligned() {
        let gpu = offer(GPU, &[(1, true, 0), (3, false, 0)]);
        let offers = |is_wide_preferred| {
            [offer(CPU, &[(2, true, 0), (3, is_wide_preferred, 0)]), gpu.clone()]
        };
        assert_eq!(ask(BestEffort, 2, &offers(false)), Ok(Some(Mask(3))), "C27 gives up");
        let cause =
            "cpu prefer [{1}] among [{1} {0,1}],koordinator.sh/gpu prefer [{0}] among [{0} {0,1}]";
        let want = format!("Unaligned NUMA Hint cause {cause}");
        assert_eq!(ask(SingleNumaNode, 2, &offers(false)), Err(want), "C27");
        let cause = "cpu prefer [{1} {0,1}] among [{1} {0,1}] & koordinator.sh/gpu prefer [{0}] among [{0} {0,1}]";
        let want = format!("Unaligned NUMA Hint cause {cause}");
        assert_eq!(ask(Restricted, 2, &offers(true)), Err(want), "C27");
    }

    #[test]
    fn a_resource_nobody_serves_is_named() {
        let offers = [offer(CPU, &[]), offer(GPU, &[(1, true, 0)])];
        assert_eq!(ask(Restricted, 2, &offers), Err("Unsatisfied NUMA cpu".to_owned()));
        assert_eq!(ask(SingleNumaNode, 2, &offers), Err("Unsatisfied NUMA cpu".to_owned()));
        assert_eq!(ask(BestEffort, 2, &offers), Ok(Some(Mask(1))));
    }

    #[test]
    fn the_score_chooses_among_sets_of_one_size() {
        let offers = [offer(CPU, &[(1, true, 10), (2, true, 30), (4, true, 30), (7, true, 90)])];
        assert_eq!(ask(Restricted, 3, &offers), Ok(Some(Mask(2))), "then the lowest");
        let gpu = offer(GPU, &[(4, true, 500), (2, true, 0)]);
        let both = [offers[0].clone(), gpu];
        assert_eq!(ask(Restricted, 3, &both), Ok(Some(Mask(4))), "scores add up");
    }

    #[test]
    fn an_exclusive_pod_does_not_mix_with_the_other_kind() {
        let offers = [offer(CPU, &[(1, true, 0), (2, true, 0), (3, true, 0)])];
        let decide = |occupancy: &[Occupancy]| {
            admit(&Question { policy: Restricted, all: Mask(3), offers: &offers, occupancy }).ok()
        };
        let (idle, single, shared) = (Occupancy::Idle, Occupancy::Single, Occupancy::Shared);
        assert_eq!(decide(&[idle, idle]), Some(Some(Mask(1))));
        assert_eq!(decide(&[shared, single]), Some(Some(Mask(2))));
        assert_eq!(decide(&[shared, shared]), Some(Some(Mask(3))));
        assert_eq!(decide(&[single, shared]), Some(Some(Mask(1))));
    }

    #[test]
    fn sets_come_by_size_and_then_by_members() {
        let masks: Vec<String> = Mask::all(4).iter().map(ToString::to_string).collect();
        assert_eq!(masks.len(), 15);
        let pairs = ["{0,1}", "{0,2}", "{0,3}", "{1,2}", "{1,3}", "{2,3}"];
        assert_eq!(masks[4..10], pairs);
        assert_eq!(Mask::all(16).len(), 17, "single nodes and all of them");
        assert_eq!(Mask::first(64).len(), 64);
        assert_eq!(Mask::first(0).len(), 0);
    }

    /// Lists that are equal count once; the whole product gives the same preferred set.
    #[test]
    fn equal_lists_change_nothing() {
        let list = [(1, true, 5), (2, true, 9), (3, true, 1)];
        let offers = [offer(CPU, &list), offer(ResourceId::MEMORY, &list)];
        assert_eq!(ask(Restricted, 2, &offers), Ok(Some(Mask(2))));
        let question =
            Question { policy: Restricted, all: Mask(3), offers: &offers, occupancy: &[] };
        let lists: Vec<&[Hint]> = offers.iter().map(|offer| &offer.hints[..]).collect();
        assert_eq!(question.best_of(&lists).mask, question.best().mask);
    }
}
