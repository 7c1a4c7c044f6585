//! How full would a node, or a part of it, be?
//!
//! | strategy | one resource | all |
//! |---|---|---|
//! | least | `(capacity - used) * 100 / capacity`, 0 when overdrawn | weighted mean |
//! | most | `min(used, capacity) * 100 / capacity` | weighted mean |

use super::take::Fill;
use crate::model::ResourceId;

/// Which resources a score looks at, and which end of a node it likes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scoring {
    pub strategy: Fill,
    pub weights: Vec<(ResourceId, i64)>,
}

impl Default for Scoring {
    fn default() -> Self {
        let weights = vec![(ResourceId::CPU, 1), (ResourceId::MEMORY, 1)];
        Self { strategy: Fill::Least, weights }
    }
}

impl Scoring {
    /// From 0 to 100. `room` gives capacity and what would be used with the pod; a resource the
    /// place does not have is left out.
    pub fn score(&self, room: impl Fn(ResourceId) -> (i64, i64)) -> i64 {
        let (mut sum, mut weights) = (0_i64, 0_i64);
        for (resource, weight) in &self.weights {
            let (capacity, used) = room(*resource);
            if capacity <= 0 {
                continue;
            }
            let counted = match self.strategy {
                Fill::Least if used > capacity => 0,
                Fill::Least => capacity - used,
                Fill::Most => used.min(capacity),
            };
            let score = counted.saturating_mul(100) / capacity;
            sum = sum.saturating_add(score.saturating_mul(*weight));
            weights = weights.saturating_add(*weight);
        }
        if weights == 0 { 0 } else { sum / weights }
    }
}

/// How the configuration wants scores.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// Over whole nodes.
    pub node: Scoring,
    /// Over NUMA nodes; also says which of them is filled first.
    pub numa: Scoring,
}
