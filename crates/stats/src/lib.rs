//! What do many samples say together? Windows, percentiles, decaying histograms; no Kubernetes, no clock.

mod histogram;
mod rate;
mod ring;
mod summary;

pub use histogram::{
    Buckets, Checkpoint, CheckpointError, DecayingHistogram, MAX_DECAY_HALF_LIVES,
};
pub use rate::{Delta, Rate, RateRule};
pub use ring::{Ring, Sample};
pub use summary::{Percentile, Summary, percentile_index};
