//! CPU and memory, side by side.

use std::iter::Sum;
use std::ops::Add;

use serde::{Deserialize, Serialize};

use crate::{Bytes, MilliCpu};

/// An amount of the two resources that every pod uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuMemory {
    pub cpu: MilliCpu,
    pub memory: Bytes,
}

impl CpuMemory {
    /// What `other` leaves of each, never less than nothing.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        Self {
            cpu: (self.cpu - other.cpu).max(MilliCpu::ZERO),
            memory: (self.memory - other.memory).max(Bytes::ZERO),
        }
    }

    /// The smaller amount of each.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self { cpu: self.cpu.min(other.cpu), memory: self.memory.min(other.memory) }
    }

    /// The larger amount of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { cpu: self.cpu.max(other.cpu), memory: self.memory.max(other.memory) }
    }
}

impl Add for CpuMemory {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { cpu: self.cpu + other.cpu, memory: self.memory + other.memory }
    }
}

impl Sum for CpuMemory {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_resource_is_counted_by_itself() {
        let amount = |cpu, memory| CpuMemory { cpu: MilliCpu(cpu), memory: Bytes(memory) };
        let (a, b) = (amount(3, 10), amount(5, 4));
        assert_eq!(a + b, amount(8, 14));
        assert_eq!(a.less(b), amount(0, 6), "nothing is the least");
        assert_eq!((a.min(b), a.max(b)), (amount(3, 4), amount(5, 10)));
        assert_eq!([a, b, a].into_iter().sum::<CpuMemory>(), amount(11, 24));
    }
}
