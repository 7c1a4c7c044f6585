//! ImageLocality: prefer nodes that have the pod's images already.
//!
//! ```text
//! sum  = Σ over containers  size · (nodes that hold it / nodes)     on nodes that hold it
//! score = 100 · (clamp(sum, 23 MiB, 1000 MiB · containers) − 23 MiB) / (1000 MiB · containers − 23 MiB)
//! ```
//!
//! The share of nodes keeps the first few holders of a large image from attracting every pod.

use serde_json::Value;

use super::ArgsError;
use crate::model::Symbol;
use crate::plugin::{Context, Epoch, Normalise, Plugin, Prepared, Reads, Work};
use crate::snapshot::{NodeIx, Snapshot};

pub(super) const NAME: &str = "ImageLocality";

const MIB: i64 = 1024 * 1024;
const LEAST: i64 = 23 * MIB;
const MOST_PER_CONTAINER: i64 = 1000 * MIB;

#[derive(Debug)]
struct ImageLocality;

pub(super) fn build(_: &Value, _: &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError> {
    Ok(Box::new(ImageLocality))
}

impl Plugin for ImageLocality {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&self, context: Context<'_>) -> Prepared {
        let nodes = f64::from(context.snapshot.live().max(1));
        let images = context.class.containers.iter().filter_map(|container| {
            let holders = context.snapshot.holders(container.image);
            (holders > 0).then(|| (container.image, f64::from(holders) / nodes))
        });
        let work = Images {
            images: images.collect(),
            containers: i64::try_from(context.class.containers.len()).unwrap_or(i64::MAX),
        };
        if work.images.is_empty() {
            // Zero everywhere.
            return Prepared::skip().on(&[Epoch::Images]);
        }
        Prepared::score(Reads::Node, Normalise::None, work).on(&[Epoch::Images])
    }
}

#[derive(Debug)]
struct Images {
    /// Images that some node holds, with the share of nodes that do.
    images: Vec<(Symbol, f64)>,
    containers: i64,
}

impl Work for Images {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "the reference scales sizes as floats and truncates"
    )]
    fn score(&self, snapshot: &Snapshot, node: NodeIx) -> i64 {
        let Some(node) = snapshot.node(node) else { return 0 };
        let mut sum = 0_i64;
        for (image, share) in &self.images {
            if let Ok(at) = node.images.binary_search_by_key(image, |one| one.name) {
                let size = node.images.get(at).map_or(0, |one| one.size);
                sum = sum.saturating_add((size as f64 * share) as i64);
            }
        }
        rate(sum, self.containers)
    }
}

fn rate(sum: i64, containers: i64) -> i64 {
    let most = MOST_PER_CONTAINER.saturating_mul(containers).max(LEAST + 1);
    let sum = sum.clamp(LEAST, most);
    100_i64.saturating_mul(sum - LEAST) / (most - LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P13 of the specification.
    #[test]
    fn size_and_spread_of_an_image_count() {
        let cases = [
            ("800 MiB on 5 of 10 nodes", 400 * MIB, 1, 38),
            ("500 MiB on 1 of 10 nodes", 50 * MIB, 1, 2),
            ("100 MiB on 1 of 10 nodes", 10 * MIB, 1, 0),
            ("more than enough", 5_000 * MIB, 2, 100),
            ("nothing", 0, 1, 0),
        ];
        for (name, sum, containers, want) in cases {
            assert_eq!(rate(sum, containers), want, "{name}");
        }
    }
}
