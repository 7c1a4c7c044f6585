//! Words of strategies, understood. A word that is not known acts as the default, as a finding says.

/// Defines an enum of words of which the first is the default.
macro_rules! policy_words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$attr:meta])* $variant:ident = $word:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
        #[serde(from = "String")]
        pub enum $name {
            $($(#[$attr])* $variant),*
        }

        impl $name {
            /// The word as the wire has it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),*
                }
            }

            pub fn from_word(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)*
                    _ => Self::default(),
                }
            }
        }

        impl From<String> for $name {
            fn from(word: String) -> Self {
                Self::from_word(&word)
            }
        }
    )*};
}

impl BurstMode {
    /// Whether the kernel saves up what is not used.
    pub const fn saves(self) -> bool {
        matches!(self, Self::CpuBurstOnly | Self::Auto)
    }

    /// Whether quotas move.
    pub const fn moves(self) -> bool {
        matches!(self, Self::CfsQuotaBurstOnly | Self::Auto)
    }
}

policy_words! {
    /// How best-effort is held back.
    SuppressMechanism {
        #[default]
        Cpuset = "cpuset",
        CfsQuota = "cfsQuota",
    }

    /// What the satisfaction of best-effort is measured against.
    SatisfactionBase {
        /// CPUs and quota in force.
        #[default]
        RealLimit = "evictByRealLimit",
        /// Those, and the batch CPU that the node advertises.
        Allocatable = "evictByAllocatable",
    }

    /// By which means a container may exceed its CPU limit.
    BurstMode {
        #[default]
        None = "none",
        CpuBurstOnly = "cpuBurstOnly",
        CfsQuotaBurstOnly = "cfsQuotaBurstOnly",
        Auto = "auto",
    }

    /// How CPU priorities of classes are enforced.
    CpuPriorityMechanism {
        #[default]
        GroupIdentity = "groupIdentity",
        CoreSched = "coreSched",
    }

    /// How network shares of classes are enforced.
    NetworkMechanism {
        #[default]
        Tc = "tc",
        TerwayQos = "terway-qos",
    }

    /// How best-effort yields on a kernel without group identities.
    KernelMode {
        /// By the one that online work notices least.
        #[default]
        Auto = "auto",
        /// By the weight of its tier.
        Weight = "W",
        /// By idle pods.
        IdlePods = "P",
        /// By whole cores.
        WholeCores = "C",
    }

    /// What online pods are charged for batch CPU.
    CpuCalculation {
        #[default]
        Usage = "usage",
        MaxUsageRequest = "maxUsageRequest",
    }

    /// What online pods are charged for batch memory.
    MemoryCalculation {
        #[default]
        Usage = "usage",
        Request = "request",
        MaxUsageRequest = "maxUsageRequest",
    }

    /// How mid resources are found.
    MidMode {
        #[default]
        Dynamic = "dynamic",
        Static = "static",
    }
}
