//! Which controllers does a cluster of one machine need, and how do they run together?

mod amount;
mod binder;
mod cache;
mod caches;
mod claim;
mod clock;
mod daemon_set;
mod deployment;
mod disruption;
mod drive;
mod eviction;
mod expectations;
mod job;
mod key;
mod merge;
mod node_health;
mod owners;
mod placement;
mod pod;
mod pod_gc;
mod queue;
mod recorder;
mod replica_set;
mod revision;
mod revisions;
mod stateful_set;
mod template;
mod writer;

#[cfg(test)]
mod fixture;

pub use self::clock::Clock;
