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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_kubernetes_prints_memory() {
        let cases = [
            (20 << 30, "20Gi"),
            (1_536 << 20, "1536Mi"),
            (5_862_330_450, "5862330450"),
            (512, "512"),
            (0, "0"),
            (-(4 << 20), "-4Mi"),
        ];
        for (bytes, want) in cases {
            assert_eq!(Bytes(bytes).to_string(), want);
        }
    }

    #[test]
    fn conversions_name_their_rounding() {
        let size: Quantity = "1.0001Ki".parse().unwrap();
        assert_eq!(Bytes::from_quantity(size, Rounding::Up), Bytes(1_025));
        assert_eq!(Bytes::from_quantity(size, Rounding::Down), Bytes(1_024));
        assert_eq!(Bytes::from_quantity(-Quantity::MAX, Rounding::Up), Bytes(i64::MIN));
        assert_eq!(Quantity::from(Bytes(1 << 30)).to_string(), "1Gi");
    }

    #[test]
    fn multiples_of_1024_saturate() {
        assert_eq!(Bytes::from_kib(3), Bytes(3_072));
        assert_eq!(Bytes::from_mib(1), Bytes::from_kib(1_024));
        assert_eq!(Bytes::from_gib(1), Bytes::from_mib(1_024));
        assert_eq!(Bytes::from_gib(i64::MAX), Bytes(i64::MAX));
    }
}
