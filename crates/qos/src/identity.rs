//! How does the kernel know who goes first on a CPU?
//!
//! Vendor kernels have a *group identity*: 2 for the online side, -1 for best-effort. Mainline has no such
//! thing, and the nearest it has are groups marked idle, which run when nobody else wants the CPU, and
//! the smallest weight. Idle goes on best-effort *pods* only: on their parent the kernel would refuse
//! the weight that the kubelet writes there at its next start, and the kubelet would not come up.

use std::ops::RangeInclusive;

/// Who a group belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    Lse,
    Lsr,
    Ls,
    Be,
    /// SYSTEM and unlabelled pods are judged by what Kubernetes thinks of them.
    Guaranteed,
    Burstable,
    BestEffort,
}

/// What operators configured for a class; `None` when it is off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Identities {
    pub lsr: Option<i64>,
    pub ls: Option<i64>,
    pub be: Option<i64>,
}

impl Identities {
    /// What was configured, but best-effort never before the online side. A class that is off has
    /// identity 0.
    #[must_use]
    pub fn in_order(self) -> Self {
        let online = self.lsr.unwrap_or_default().min(self.ls.unwrap_or_default());
        Self { be: self.be.map(|be| be.min(online)), ..self }
    }
}

/// A pod's own wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    None,
    Off,
    At(i64),
}

/// What the kernel takes.
pub const RANGE: RangeInclusive<i64> = -1..=2;

/// The identity of a group; `None` is a wish the kernel would refuse, which changes nothing.
pub fn identity(owner: Owner, identities: &Identities, wish: Wish) -> Option<i64> {
    if let Wish::At(wish) = wish
        && !RANGE.contains(&wish)
    {
        return None;
    }
    let identity = match (owner, wish) {
        (Owner::Ls, Wish::Off) => None,
        (Owner::Ls, Wish::At(wish)) => Some(wish),
        (Owner::Lse | Owner::Lsr, _) => identities.lsr,
        (Owner::Guaranteed, _) => identities.lsr.or(identities.ls),
        (Owner::Ls | Owner::Burstable, _) => identities.ls,
        (Owner::Be | Owner::BestEffort, _) => identities.be,
    };
    Some(identity.unwrap_or_default())
}

/// Ways to keep best-effort behind on a kernel without identities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// The smallest weight, which the kubelet writes already.
    Weight,
    /// Also idle pods.
    IdlePods,
    /// Also cores that are not shared with the online side.
    WholeCores,
}

/// What the kernel was found to have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kernel {
    pub has_identity: bool,
    pub has_idle: bool,
    pub has_core_scheduling: bool,
}

/// How best-effort is kept behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    Identity,
    Mainline(Mode),
}

/// The best the kernel offers. Identities and core scheduling together have locked up machines, so
/// they are never both used.
pub fn means(kernel: Kernel, wants_whole_cores: bool) -> Means {
    match kernel {
        Kernel { has_identity: true, .. } => Means::Identity,
        Kernel { has_core_scheduling: true, has_idle: true, .. } if wants_whole_cores => {
            Means::Mainline(Mode::WholeCores)
        }
        Kernel { has_idle: true, .. } => Means::Mainline(Mode::IdlePods),
        _ => Means::Mainline(Mode::Weight),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ON: Identities = Identities { lsr: Some(2), ls: Some(2), be: Some(-1) };

    #[test]
    fn identities_follow_class_and_wish() {
        let no_lsr = Identities { lsr: None, ..ON };
        let cases = [
            ("LSE is like LSR", Owner::Lse, ON, Wish::None, Some(2)),
            ("LS", Owner::Ls, ON, Wish::None, Some(2)),
            ("LS with a wish", Owner::Ls, ON, Wish::At(1), Some(1)),
            ("LS that wants none", Owner::Ls, ON, Wish::Off, Some(0)),
            ("others have no wishes", Owner::Be, ON, Wish::At(2), Some(-1)),
            ("a wish the kernel refuses", Owner::Be, ON, Wish::At(3), None),
            ("an unlabelled pod", Owner::Burstable, ON, Wish::None, Some(2)),
            ("guaranteed without LSR", Owner::Guaranteed, no_lsr, Wish::None, Some(2)),
            ("a class that is off", Owner::Lsr, no_lsr, Wish::None, Some(0)),
            ("all off", Owner::Be, Identities::default(), Wish::None, Some(0)),
        ];
        for (name, owner, identities, wish, want) in cases {
            assert_eq!(identity(owner, &identities, wish), want, "{name}");
        }
    }

    #[test]
    fn the_best_means_are_chosen() {
        let bare = Kernel::default();
        let idle = Kernel { has_idle: true, ..bare };
        let cores = Kernel { has_core_scheduling: true, ..idle };
        let vendor = Kernel { has_identity: true, ..cores };
        let cases = [
            ("an old kernel", bare, true, Means::Mainline(Mode::Weight)),
            ("idle groups", idle, true, Means::Mainline(Mode::IdlePods)),
            ("core scheduling when wanted", cores, true, Means::Mainline(Mode::WholeCores)),
            ("and only then", cores, false, Means::Mainline(Mode::IdlePods)),
            ("never beside identities", vendor, true, Means::Identity),
        ];
        for (name, kernel, wanted, want) in cases {
            assert_eq!(means(kernel, wanted), want, "{name}");
        }
    }

    #[test]
    fn best_effort_is_put_behind_and_nobody_else_moves() {
        let configured = |lsr, ls, be| Identities { lsr, ls, be };
        let cases = [
            ("as it should be", ON, ON),
            (
                "as far as the online side",
                configured(Some(2), Some(2), Some(2)),
                configured(Some(2), Some(2), Some(2)),
            ),
            (
                "before it",
                configured(Some(1), Some(0), Some(2)),
                configured(Some(1), Some(0), Some(0)),
            ),
            (
                "before a class that is off",
                configured(Some(2), None, Some(1)),
                configured(Some(2), None, Some(0)),
            ),
            ("off", configured(Some(-1), None, None), configured(Some(-1), None, None)),
        ];
        for (name, configured, want) in cases {
            assert_eq!(configured.in_order(), want, "{name}");
        }
    }

    proptest! {
        /// Whatever is configured. An online pod goes behind best-effort only by its own wish.
        #[test]
        fn best_effort_never_goes_before_the_online_side(
            lsr in proptest::option::of(RANGE), ls in proptest::option::of(RANGE),
            be in proptest::option::of(RANGE),
        ) {
            let identities = Identities { lsr, ls, be }.in_order();
            let of = |owner| identity(owner, &identities, Wish::None);
            let online = [Owner::Lse, Owner::Lsr, Owner::Ls, Owner::Guaranteed, Owner::Burstable];
            for owner in online.into_iter().filter(|_| be.is_some()) {
                for below in [Owner::Be, Owner::BestEffort] {
                    prop_assert!(of(below) <= of(owner), "{:?} before {:?}: {:?}", below, owner, identities);
                }
            }
        }
    }
}
