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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_kubernetes_prints_cpu() {
        let cases = [(5_400, "5400m"), (2_000, "2"), (0, "0"), (-250, "-250m"), (2_000_000, "2k")];
        for (millis, want) in cases {
            assert_eq!(MilliCpu(millis).to_string(), want);
        }
    }

    #[test]
    fn conversions_name_their_rounding() {
        let cores: Quantity = "1.0005".parse().unwrap();
        assert_eq!(MilliCpu::from_quantity(cores, Rounding::Up), MilliCpu(1_001));
        assert_eq!(MilliCpu::from_quantity(cores, Rounding::Down), MilliCpu(1_000));
        assert_eq!(MilliCpu::from_quantity(Quantity::MAX, Rounding::Up), MilliCpu(i64::MAX));
        assert_eq!(Quantity::from(MilliCpu(1_500)), "1500m".parse().unwrap());
        assert_eq!(MilliCpu::from_cores(2), MilliCpu(2_000));
        assert_eq!(MilliCpu::from_cores(i64::MAX), MilliCpu(i64::MAX));
    }

    #[test]
    fn sums_saturate() {
        assert_eq!(MilliCpu(i64::MAX) + MilliCpu(1), MilliCpu(i64::MAX));
        assert_eq!(MilliCpu(i64::MIN) - MilliCpu(1), MilliCpu(i64::MIN));
        assert_eq!([1, 2, 3].map(MilliCpu).into_iter().sum::<MilliCpu>(), MilliCpu(6));
        let mut cpu = MilliCpu(5);
        cpu += MilliCpu(2);
        cpu -= MilliCpu(4);
        assert_eq!(cpu, MilliCpu(3));
        assert!(MilliCpu::ZERO.is_zero() && !cpu.is_zero());
    }

    #[test]
    fn travels_as_a_plain_integer() {
        assert_eq!(serde_json::to_string(&MilliCpu(5_400)).unwrap(), "5400");
        assert_eq!(serde_json::from_str::<MilliCpu>("5400").unwrap(), MilliCpu(5_400));
        for json in ["60.0", "6e1", "\"60\"", "null", "9223372036854775808"] {
            assert!(serde_json::from_str::<MilliCpu>(json).is_err(), "{json}");
        }
        let mut generator = schemars::SchemaGenerator::default();
        let schema = serde_json::to_value(generator.subschema_for::<MilliCpu>()).unwrap();
        assert_eq!(schema, serde_json::json!({ "type": "integer", "format": "int64" }));
    }
}
