//! Memory, disk and network sizes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::amount::amount;
use crate::{Format, Quantity, Rounding, Scale};

/// A number of bytes.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub i64);

amount!(Bytes);

impl Bytes {
    /// That many times 1024 bytes, the unit of `/proc/meminfo`; saturates.
    pub const fn from_kib(kib: i64) -> Self {
        Self(kib.saturating_mul(1 << 10))
    }

    /// That many times 1024² bytes; saturates.
    pub const fn from_mib(mib: i64) -> Self {
        Self(mib.saturating_mul(1 << 20))
    }

    /// That many times 1024³ bytes; saturates.
    pub const fn from_gib(gib: i64) -> Self {
        Self(gib.saturating_mul(1 << 30))
    }

    /// Reads a quantity of bytes (`20Gi`); saturates.
    pub fn from_quantity(bytes: Quantity, rounding: Rounding) -> Self {
        Self(bytes.to_int(Scale::One, rounding))
    }

    /// As a quantity of bytes in the binary family.
    pub const fn to_quantity(self) -> Quantity {
        Quantity::from_int(self.0, Format::BinarySi)
    }
}

impl From<Bytes> for Quantity {
    fn from(bytes: Bytes) -> Self {
        bytes.to_quantity()
    }
}

/// As Kubernetes prints memory: `20Gi`, `5862330450`.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_quantity().fmt(f)
    }
}
