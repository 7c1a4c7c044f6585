//! Who has the last word on a target?
//!
//! Several strategies want to move the same file. None of them writes; each posts a *claim*, and the
//! arbiter writes what the claims come to. They are laid over the value that was found on the machine,
//! lowest rank first:
//!
//! ```text
//! Set(x)  the value is x      Min(x)  at least x      Max(x)  at most x
//! ```
//!
//! So the highest rank has the last word, claims of one rank prefer the stricter limit, the order in
//! which claims arrive does not matter, and without claims the value is the one that was found: that
//! is how everything can be switched off.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use groups::CgroupPath;
use units::CpuSet;

use crate::cache::CacheAllocation;
use crate::network::Plan;

/// How strong a claim is. More than one owner may use a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(pub u8);

impl Rank {
    pub const OFF: Self = Self(100);
    pub const TIDE_CLOSED: Self = Self(90);
    /// The online side is hurt: latency targets missed, memory stalled.
    pub const CRITICAL: Self = Self(80);
    /// What keeps best-effort alive; only what is critical goes below.
    pub const FLOOR: Self = Self(75);
    pub const INTERFERENCE: Self = Self(70);
    pub const AVOIDANCE: Self = Self(60);
    pub const POOLS: Self = Self(50);
    pub const SUPPRESSION: Self = Self(40);
    pub const POD: Self = Self(30);
    pub const GROWTH: Self = Self(20);
}

/// What a target can hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A number, or none for no limit: quotas, weights, sizes.
    Number(Option<i64>),
    /// None at all is no limit: such a group has those of its parent.
    Cpus(CpuSet),
    /// Anything else. Like all kinds below, text can be set, but not bounded.
    Text(String),
    /// The whole of a file that is no kernel file; `None` is no such file.
    Content(Option<String>),
    /// What a group of resctrl divides and who is in it; `None` is no such group.
    Cache(Option<CacheAllocation>),
    /// Control groups whose processes share one core-scheduling cookie.
    Members(BTreeSet<CgroupPath>),
    /// The classes of a device's root queueing discipline; `None` is the kernel's own.
    Qdisc(Option<Plan>),
}

impl Value {
    fn kind(&self) -> u8 {
        match self {
            Self::Number(_) => 0,
            Self::Cpus(_) => 1,
            Self::Text(_) => 2,
            Self::Content(_) => 3,
            Self::Cache(_) => 4,
            Self::Members(_) => 5,
            Self::Qdisc(_) => 6,
        }
    }

    /// A total order in which no limit is more than any limit, and more CPUs are more than fewer.
    fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(one), Self::Number(other)) => {
                one.unwrap_or(i64::MAX).cmp(&other.unwrap_or(i64::MAX))
            }
            (Self::Cpus(one), Self::Cpus(other)) => {
                one.len().cmp(&other.len()).then_with(|| one.iter().cmp(other.iter()))
            }
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::Content(one), Self::Content(other)) => one.cmp(other),
            (Self::Cache(one), Self::Cache(other)) => one.cmp(other),
            (Self::Members(one), Self::Members(other)) => one.cmp(other),
            (Self::Qdisc(one), Self::Qdisc(other)) => one.cmp(other),
            _ => self.kind().cmp(&other.kind()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    Set(Value),
    Min(Value),
    Max(Value),
}

impl Bound {
    pub fn value(&self) -> &Value {
        self.parts().1
    }

    /// Where it comes among claims of one rank, and what it is about.
    fn parts(&self) -> (u8, &Value) {
        match self {
            Self::Set(value) => (0, value),
            Self::Min(value) => (1, value),
            Self::Max(value) => (2, value),
        }
    }
}

/// One owner's word on one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub owner: &'static str,
    pub rank: Rank,
    pub bound: Bound,
}

/// What the claims come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    pub value: Value,
    /// The last one that moved the value; `None` leaves what was found.
    pub decided_by: Option<&'static str>,
}

/// Lays the claims over what was found. A claim on another kind of value than the file's is void.
pub fn resolve(found: &Value, claims: &[Claim]) -> Resolution {
    let mut ordered: Vec<&Claim> = claims.iter().collect();
    ordered.sort_by(|a, b| compare(a, b));
    let start = Resolution { value: found.clone(), decided_by: None };
    ordered.into_iter().fold(start, |resolution, claim| {
        match apply(&resolution.value, &claim.bound) {
            Some(value) if value != resolution.value => {
                Resolution { value, decided_by: Some(claim.owner) }
            }
            _ => resolution,
        }
    })
}

/// Rank, then Set before Min before Max, then the stricter value last, then the owner's name.
fn compare(a: &Claim, b: &Claim) -> Ordering {
    let ((kind_a, value_a), (kind_b, value_b)) = (a.bound.parts(), b.bound.parts());
    (a.rank, kind_a)
        .cmp(&(b.rank, kind_b))
        .then_with(|| value_b.order(value_a))
        .then_with(|| a.owner.cmp(b.owner))
}

fn apply(value: &Value, bound: &Bound) -> Option<Value> {
    match (value, bound) {
        (value, Bound::Set(new)) if value.kind() == new.kind() => Some(new.clone()),
        (Value::Number(value), Bound::Min(Value::Number(least))) => {
            let (value, least) = ((*value)?, *least);
            Some(Value::Number(least.map(|least| value.max(least))))
        }
        (Value::Number(value), Bound::Max(Value::Number(most))) => {
            let most = (*most)?;
            Some(Value::Number(Some(value.map_or(most, |value| value.min(most)))))
        }
        (Value::Cpus(value), Bound::Max(Value::Cpus(most))) if value.is_empty() => {
            Some(Value::Cpus(most.clone()))
        }
        (Value::Cpus(value), Bound::Min(_)) if value.is_empty() => None,
        (Value::Cpus(value), Bound::Min(Value::Cpus(least))) => {
            Some(Value::Cpus(value.union(least)))
        }
        (Value::Cpus(value), Bound::Max(Value::Cpus(most))) => {
            Some(Value::Cpus(value.intersection(most)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(value: i64) -> Value {
        Value::Number(Some(value))
    }

    fn cpus(text: &str) -> Value {
        Value::Cpus(text.parse().unwrap())
    }

    fn claim(owner: &'static str, rank: Rank, bound: Bound) -> Claim {
        Claim { owner, rank, bound }
    }

    #[test]
    fn the_highest_rank_has_the_last_word() {
        use Bound::{Max, Min, Set};
        let unlimited = Value::Number(None);
        let quota = |rank, bound| claim("suppress", rank, bound);
        let cases = [
            ("no claim", unlimited.clone(), vec![], unlimited.clone(), None),
            (
                "a limit",
                unlimited.clone(),
                vec![quota(Rank::SUPPRESSION, Max(number(5)))],
                number(5),
                Some("suppress"),
            ),
            (
                "the floor is above suppression",
                unlimited.clone(),
                vec![
                    claim("floor", Rank::FLOOR, Min(number(2))),
                    quota(Rank::SUPPRESSION, Max(number(1))),
                ],
                number(2),
                Some("floor"),
            ),
            (
                "what is critical goes below the floor",
                unlimited.clone(),
                vec![
                    claim("floor", Rank::FLOOR, Min(number(2))),
                    claim("critical", Rank::CRITICAL, Max(number(1))),
                ],
                number(1),
                Some("critical"),
            ),
            (
                "of one rank the stricter wins",
                unlimited.clone(),
                vec![
                    quota(Rank::SUPPRESSION, Max(number(5))),
                    claim("other", Rank::SUPPRESSION, Max(number(3))),
                    claim("third", Rank::SUPPRESSION, Min(number(9))),
                ],
                number(3),
                Some("other"),
            ),
            (
                "also of two that set",
                unlimited.clone(),
                vec![claim("a", Rank::POD, Set(number(3))), claim("b", Rank::POD, Set(number(5)))],
                number(3),
                Some("a"),
            ),
            (
                "CPUs are cut and joined",
                cpus("0-7"),
                vec![
                    claim("pools", Rank::POOLS, Max(cpus("2-5"))),
                    claim("floor", Rank::FLOOR, Min(cpus("6"))),
                ],
                cpus("2-6"),
                Some("floor"),
            ),
            (
                "no CPUs are no limit",
                cpus(""),
                vec![
                    claim("pools", Rank::POOLS, Max(cpus("2-5"))),
                    claim("growth", Rank::GROWTH, Min(cpus("7"))),
                ],
                cpus("2-5"),
                Some("pools"),
            ),
            (
                "a claim on another kind is void",
                number(7),
                vec![claim("confused", Rank::OFF, Set(cpus("1")))],
                number(7),
                None,
            ),
            (
                "whoever changes nothing decides nothing",
                number(7),
                vec![claim("idle", Rank::OFF, Max(number(9)))],
                number(7),
                None,
            ),
        ];
        for (name, found, claims, value, decided_by) in cases {
            assert_eq!(resolve(&found, &claims), Resolution { value, decided_by }, "{name}");
        }
    }

    fn some_cpus() -> impl Strategy<Value = Value> {
        let cpus = proptest::collection::vec(0..6u16, 0..6);
        cpus.prop_map(|cpus| Value::Cpus(cpus.into_iter().collect()))
    }

    fn some_value() -> impl Strategy<Value = Value> {
        let member = (0..3u8).prop_map(|pod| CgroupPath::new(&format!("pod{pod}")));
        prop_oneof![
            proptest::option::of(0..6i64).prop_map(Value::Number),
            some_cpus(),
            "[ab]{0,2}".prop_map(Value::Text),
            proptest::collection::btree_set(member, 0..3).prop_map(Value::Members),
            proptest::option::of("[ab]{1,2}").prop_map(|schemata| {
                let members = BTreeSet::new();
                Value::Cache(schemata.map(|schemata| CacheAllocation { schemata, members }))
            }),
        ]
    }

    fn some_claim() -> impl Strategy<Value = Claim> {
        let bound = (0..3, some_value()).prop_map(|(kind, value)| match kind {
            0 => Bound::Set(value),
            1 => Bound::Min(value),
            _ => Bound::Max(value),
        });
        let owner = prop_oneof![Just("a"), Just("b"), Just("c")];
        (owner, (0..3u8).prop_map(Rank), bound).prop_map(|(owner, rank, bound)| Claim {
            owner,
            rank,
            bound,
        })
    }

    proptest! {
        #[test]
        fn arrival_order_does_not_matter(
            found in some_value(),
            (claims, shuffled) in proptest::collection::vec(some_claim(), 0..8)
                .prop_flat_map(|claims| (Just(claims.clone()), Just(claims).prop_shuffle())),
        ) {
            prop_assert_eq!(resolve(&found, &claims), resolve(&found, &shuffled));
        }
    }
}
