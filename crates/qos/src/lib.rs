//! What should a node do for its online pods right now?
//!
//! Every strategy is a function from values to a decision that says why. None of them reads a file,
//! asks a clock or writes anything: the daemon, the simulator and `explain` call the same functions.
//!
//! | module | decides |
//! |---|---|
//! | [`suppress`] | how much CPU best-effort may use, as CPUs or as a quota |
//! | [`burst`] | how far an online container may go beyond its CPU limit |
//! | [`evict`] | which pods have to leave when holding back is not enough |
//! | [`claim`] | what several wishes for one kernel file come to |
//! | [`topology`] | which CPUs belong together |

pub mod burst;
pub mod claim;
pub mod evict;
pub mod suppress;
pub mod topology;
