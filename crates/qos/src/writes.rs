//! In which order does the kernel accept a set of changes?
//!
//! On v1 a child may not have more than its parent: CPUs must be a subset, a quota must not be larger.
//! So what grows goes from the top down, and what shrinks from the bottom up:
//!
//! 1. From the top down, everything that becomes looser. A set of CPUs that loses some and gains others is
//!    both; it gets the union for the moment.
//! 2. From the bottom up, everything to its exact value.
//!
//! v2 accepts any order and this one too. A burst must fit in its quota, so it is written between
//! the two, when quotas are at their largest.

use units::CpuSet;

use crate::claim::Value;
use crate::cookies::VENDOR_SWITCHES;
use crate::wish::Target;

/// How a setting of a parent binds those of its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nature {
    /// A child may not have more: quotas, CPUs, memory limits and protections.
    Nested,
    /// Has to fit in a nested setting of the same group.
    Fitted,
    /// Everybody for themselves: weights, identities, switches.
    Free,
}

/// One setting of one group that is to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change<Id> {
    pub id: Id,
    /// How far below the root the group is.
    pub depth: usize,
    pub nature: Nature,
    pub from: Value,
    pub to: Value,
}

/// One write. Writes are carried out in order; one that fails does not stop the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write<Id> {
    pub id: Id,
    pub value: Value,
}

/// The writes that bring all changes about. Nothing is written that is already so.
pub fn in_order<Id: Ord + Clone>(changes: &[Change<Id>]) -> Vec<Write<Id>> {
    let mut changes: Vec<&Change<Id>> =
        changes.iter().filter(|change| change.from != change.to).collect();
    changes.sort_by(|a, b| (a.depth, &a.id).cmp(&(b.depth, &b.id)));
    let nested = || changes.iter().filter(|change| change.nature == Nature::Nested);
    let write = |change: &Change<Id>, value: Value| Write { id: change.id.clone(), value };

    let growing =
        nested().filter_map(|change| Some(write(change, loosened(&change.from, &change.to)?)));
    let others = [Nature::Fitted, Nature::Free].into_iter().flat_map(|nature| {
        let these = changes.iter().filter(move |change| change.nature == nature);
        these.map(|change| write(change, change.to.clone()))
    });
    let shrinking = nested()
        .rev()
        .filter(|change| loosened(&change.from, &change.to).as_ref() != Some(&change.to))
        .map(|change| write(change, change.to.clone()));
    growing.chain(others).chain(shrinking).collect()
}

/// Whether a target is restored only after one that is still changed. Group identities beside core-scheduling
/// cookies lock up vendor kernels, so their switches wait until no cookie is left.
pub fn is_restored_after(target: &Target, changed: &Target) -> bool {
    let is_switch = |path: &str| VENDOR_SWITCHES.contains(&path);
    matches!(target, Target::File(file) if is_switch(&file.path))
        && matches!(changed, Target::CoreCookie(_))
}

/// What is written on the way down; `None` when nothing becomes looser.
fn loosened(from: &Value, to: &Value) -> Option<Value> {
    match (from, to) {
        (Value::Cpus(from), Value::Cpus(to)) => {
            let gained: CpuSet = to.difference(from);
            (!gained.is_empty()).then(|| Value::Cpus(from.union(to)))
        }
        (Value::Number(Some(_)), Value::Number(None)) => Some(to.clone()),
        (Value::Number(Some(from)), Value::Number(Some(more))) if more > from => Some(to.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn cpus(text: &str) -> Value {
        Value::Cpus(text.parse().unwrap())
    }

    fn number(value: i64) -> Value {
        Value::Number(Some(value))
    }

    fn nested(id: &'static str, depth: usize, from: Value, to: Value) -> Change<&'static str> {
        Change { id, depth, nature: Nature::Nested, from, to }
    }

    fn shown(writes: Vec<Write<&'static str>>) -> Vec<String> {
        let show = |value: &Value| match value {
            Value::Number(Some(number)) => number.to_string(),
            Value::Number(None) => "max".to_owned(),
            Value::Cpus(cpus) => cpus.to_string(),
            other => format!("{other:?}"),
        };
        writes.iter().map(|write| format!("{}={}", write.id, show(&write.value))).collect()
    }

    #[test]
    fn growth_goes_down_and_shrinking_goes_up() {
        let none = Value::Number(None);
        let cases: [(&str, Vec<_>, &[&str]); 6] = [
            ("nothing", vec![nested("a", 0, number(5), number(5))], &[]),
            (
                "growth",
                vec![nested("pod", 1, number(1), number(3)), nested("tier", 0, number(2), none)],
                &["tier=max", "pod=3"],
            ),
            (
                "shrinking",
                vec![
                    nested("tier", 0, Value::Number(None), number(2)),
                    nested("pod", 1, number(3), number(1)),
                ],
                &["pod=1", "tier=2"],
            ),
            (
                "CPUs that move",
                vec![
                    nested("tier", 0, cpus("0-3"), cpus("2-5")),
                    nested("pod", 1, cpus("0-3"), cpus("2-5")),
                ],
                &["tier=0-5", "pod=0-5", "pod=2-5", "tier=2-5"],
            ),
            (
                "CPUs that only come are written once",
                vec![nested("tier", 0, cpus("0-1"), cpus("0-3"))],
                &["tier=0-3"],
            ),
            (
                "a burst comes between",
                vec![
                    nested("pod", 1, number(9), number(4)),
                    Change {
                        nature: Nature::Fitted,
                        ..nested("pod burst", 1, number(9), number(4))
                    },
                    nested("other", 1, number(1), number(4)),
                ],
                &["other=4", "pod burst=4", "pod=4"],
            ),
        ];
        for (name, changes, want) in cases {
            assert_eq!(shown(in_order(&changes)), want, "{name}");
        }
    }

    /// A kernel with v1's rules: a tier, and pods in it.
    #[derive(Debug, Clone, PartialEq)]
    struct Kernel(BTreeMap<usize, Value>);

    impl Kernel {
        fn accepts(&self) -> bool {
            let Some(tier) = self.0.get(&0) else { return true };
            self.0.values().all(|pod| match (tier, pod) {
                (Value::Cpus(tier), Value::Cpus(pod)) => pod.is_subset(tier),
                (Value::Number(Some(tier)), Value::Number(Some(pod))) => pod <= tier,
                // A pod without a quota is bound by its parent's.
                _ => true,
            })
        }
    }

    fn tree(value: impl Strategy<Value = Value> + Clone) -> impl Strategy<Value = Kernel> {
        (value.clone(), proptest::collection::vec(value, 0..5)).prop_map(|(tier, pods)| {
            let fitted = pods.into_iter().map(|pod| match (&tier, pod) {
                (Value::Cpus(tier), Value::Cpus(pod)) => Value::Cpus(pod.intersection(tier)),
                (Value::Number(Some(tier)), Value::Number(Some(pod))) => number(pod.min(*tier)),
                (_, pod) => pod,
            });
            Kernel([tier.clone()].into_iter().chain(fitted).enumerate().collect())
        })
    }

    fn check(from: &Kernel, to: &Kernel) -> Result<(), TestCaseError> {
        let changes: Vec<_> = from
            .0
            .iter()
            .filter_map(|(id, from)| {
                let depth = usize::from(*id != 0);
                let to = to.0.get(id)?.clone();
                Some(Change { id: *id, depth, nature: Nature::Nested, from: from.clone(), to })
            })
            .collect();
        let mut kernel = from.clone();
        for Write { id, value } in in_order(&changes) {
            kernel.0.insert(id, value);
            prop_assert!(kernel.accepts(), "refused: {:?}", kernel);
        }
        for Change { id, to, .. } in changes {
            prop_assert_eq!(kernel.0.get(&id), Some(&to));
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn no_quota_is_ever_refused(
            from in tree(proptest::option::of(1..9i64).prop_map(Value::Number)),
            to in tree(proptest::option::of(1..9i64).prop_map(Value::Number)),
        ) {
            // Only changes of groups that exist on both sides, to values that fit together.
            let count = from.0.len().min(to.0.len());
            let cut = |kernel: Kernel| Kernel(kernel.0.into_iter().take(count).collect());
            check(&cut(from), &cut(to))?;
        }

        #[test]
        fn no_cpu_is_ever_refused(
            from in tree(proptest::collection::vec(0..8u16, 0..8).prop_map(|cpus| Value::Cpus(cpus.into_iter().collect()))),
            to in tree(proptest::collection::vec(0..8u16, 0..8).prop_map(|cpus| Value::Cpus(cpus.into_iter().collect()))),
        ) {
            let count = from.0.len().min(to.0.len());
            let cut = |kernel: Kernel| Kernel(kernel.0.into_iter().take(count).collect());
            check(&cut(from), &cut(to))?;
        }
    }
}
