//! CPU time as schedulers and cgroups count it: thousandths of a core.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::amount::amount;
use crate::{Format, Quantity, Rounding, Scale};

/// Thousandths of a CPU core.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct MilliCpu(pub i64);

amount!(MilliCpu);

impl MilliCpu {
    pub const MILLIS_PER_CORE: i64 = 1_000;

    /// That many whole cores; saturates.
    pub const fn from_cores(cores: i64) -> Self {
        Self(cores.saturating_mul(Self::MILLIS_PER_CORE))
    }

    /// Reads a quantity of cores (`1500m`); saturates.
    pub fn from_quantity(cores: Quantity, rounding: Rounding) -> Self {
        Self(cores.to_int(Scale::Milli, rounding))
    }

    /// As a quantity of cores.
    pub const fn to_quantity(self) -> Quantity {
        Quantity::from_milli(self.0, Format::DecimalSi)
    }
}

impl From<MilliCpu> for Quantity {
    fn from(cpu: MilliCpu) -> Self {
        cpu.to_quantity()
    }
}

/// As Kubernetes prints CPU: `5400m`, `2`.
impl fmt::Display for MilliCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_quantity().fmt(f)
    }
}
