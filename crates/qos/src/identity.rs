//! How does the kernel know who goes first on a CPU?
//!
//! Vendor kernels have a *group identity*: 2 for the online side, -1 for best-effort. Mainline has no such
//! thing, and the nearest it has are groups marked idle, which run when nobody else wants the CPU, and
//! the smallest weight. Idle goes on best-effort *pods* only: on their parent the kernel would refuse
//! the weight that the kubelet writes there at its next start, and the kubelet would not come up.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

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

/// The identity that a pod's annotation asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OwnIdentity {
    #[default]
    None,
    Off,
    At(i64),
}

/// What the kernel takes.
pub const RANGE: RangeInclusive<i64> = -1..=2;

/// The identity of a group; `None` is a wish the kernel would refuse, which changes nothing.
pub fn identity(owner: Owner, identities: &Identities, own: OwnIdentity) -> Option<i64> {
    if let OwnIdentity::At(own) = own
        && !RANGE.contains(&own)
    {
        return None;
    }
    let identity = match (owner, own) {
        (Owner::Ls, OwnIdentity::Off) => None,
        (Owner::Ls, OwnIdentity::At(own)) => Some(own),
        (Owner::Lse | Owner::Lsr, _) => identities.lsr,
        (Owner::Guaranteed, _) => identities.lsr.or(identities.ls),
        (Owner::Ls | Owner::Burstable, _) => identities.ls,
        (Owner::Be | Owner::BestEffort, _) => identities.be,
    };
    Some(identity.unwrap_or_default())
}

/// Ways to keep best-effort behind on a kernel without identities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Mode {
    /// The smallest weight, which the kubelet writes already.
    Weight,
    /// Also idle pods.
    IdlePods,
    /// Also cores that are not shared with the online side.
    WholeCores,
}

impl Mode {
    /// What an online thread then has beside it.
    pub fn beside(self) -> &'static str {
        match self {
            Self::Weight => "the least weight",
            Self::IdlePods => "idle groups",
            Self::WholeCores => "idle groups on other cores",
        }
    }

    /// The mode's name in metrics and configuration.
    pub fn letter(self) -> &'static str {
        match self {
            Self::Weight => "W",
            Self::IdlePods => "P",
            Self::WholeCores => "C",
        }
    }
}

/// What operators want of mainline kernels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Choice {
    /// What was measured to be worth it; idle pods until then.
    #[default]
    Auto,
    /// At most this.
    Fixed(Mode),
}

impl Choice {
    /// `None` for modes that are not offered: idle on the tier itself, and schedulers of others.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "auto" => Some(Self::Auto),
            "W" => Some(Self::Fixed(Mode::Weight)),
            "P" => Some(Self::Fixed(Mode::IdlePods)),
            "C" => Some(Self::Fixed(Mode::WholeCores)),
            _ => None,
        }
    }
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

/// The best the kernel offers of what is wanted; `measured` is what the wake-up probe found worth its
/// price. Identities and core scheduling together have locked up machines, so they are never both used.
pub fn means(kernel: Kernel, choice: Choice, measured: Option<Mode>) -> Means {
    if kernel.has_identity {
        return Means::Identity;
    }
    let wanted = match choice {
        Choice::Auto => measured.unwrap_or(Mode::IdlePods),
        Choice::Fixed(mode) => mode,
    };
    let offered = match kernel {
        Kernel { has_idle: true, has_core_scheduling: true, .. } => Mode::WholeCores,
        Kernel { has_idle: true, .. } => Mode::IdlePods,
        _ => Mode::Weight,
    };
    Means::Mainline(wanted.min(offered))
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
            ("LSE is like LSR", Owner::Lse, ON, OwnIdentity::None, Some(2)),
            ("LS", Owner::Ls, ON, OwnIdentity::None, Some(2)),
            ("LS with a wish", Owner::Ls, ON, OwnIdentity::At(1), Some(1)),
            ("LS that wants none", Owner::Ls, ON, OwnIdentity::Off, Some(0)),
            ("others have no wishes", Owner::Be, ON, OwnIdentity::At(2), Some(-1)),
            ("a wish the kernel refuses", Owner::Be, ON, OwnIdentity::At(3), None),
            ("an unlabelled pod", Owner::Burstable, ON, OwnIdentity::None, Some(2)),
            ("guaranteed without LSR", Owner::Guaranteed, no_lsr, OwnIdentity::None, Some(2)),
            ("a class that is off", Owner::Lsr, no_lsr, OwnIdentity::None, Some(0)),
            ("all off", Owner::Be, Identities::default(), OwnIdentity::None, Some(0)),
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
        let (auto, fixed) = (Choice::Auto, Choice::Fixed);
        let (weight, pods, whole) = (Mode::Weight, Mode::IdlePods, Mode::WholeCores);
        let cases = [
            ("an old kernel", bare, fixed(whole), None, Means::Mainline(weight)),
            ("idle groups", idle, fixed(whole), None, Means::Mainline(pods)),
            ("core scheduling when wanted", cores, fixed(whole), None, Means::Mainline(whole)),
            ("and only then", cores, auto, None, Means::Mainline(pods)),
            ("what the probe found", idle, auto, Some(weight), Means::Mainline(weight)),
            ("which operators overrule", idle, fixed(pods), Some(weight), Means::Mainline(pods)),
            ("weight when wanted", cores, fixed(weight), Some(pods), Means::Mainline(weight)),
            ("never beside identities", vendor, fixed(whole), None, Means::Identity),
        ];
        for (name, kernel, choice, measured, want) in cases {
            assert_eq!(means(kernel, choice, measured), want, "{name}");
        }
    }

    #[test]
    fn modes_are_known_by_their_letters() {
        for mode in [Mode::Weight, Mode::IdlePods, Mode::WholeCores] {
            assert_eq!(Choice::parse(mode.letter()), Some(Choice::Fixed(mode)));
        }
        assert_eq!(Choice::parse("auto"), Some(Choice::Auto));
        for word in ["R", "X", "p", ""] {
            assert_eq!(Choice::parse(word), None, "{word:?}");
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
            let of = |owner| identity(owner, &identities, OwnIdentity::None);
            let online = [Owner::Lse, Owner::Lsr, Owner::Ls, Owner::Guaranteed, Owner::Burstable];
            for owner in online.into_iter().filter(|_| be.is_some()) {
                for below in [Owner::Be, Owner::BestEffort] {
                    prop_assert!(of(below) <= of(owner), "{:?} before {:?}: {:?}", below, owner, identities);
                }
            }
        }
    }
}
