//! What should a node do for its online pods right now?
//!
//! Every strategy is a function from values to a decision that says why. None of them reads a file,
//! asks a clock or writes anything: the daemon, the simulator and `explain` call the same functions.
//!
//! | module | decides |
//! |---|---|
//! | [`suppress`] | how much CPU best-effort may use, as CPUs or as a quota |
//! | [`pick`] | which CPUs these are |
//! | [`frame`] | what best-effort gets between two rounds, twenty times a second |
//! | [`mod@node`] | a whole round: all strategies of a node |
//! | [`mod@topology`] | which CPUs online pods share, and which best-effort |
//! | [`assign`] | on which CPUs a container runs |
//! | [`identity`] | how the kernel knows who goes first |
//! | [`wake`] | which of the kernel's means is worth its price, by how late threads wake up |
//! | [`cookies`] | who may share a core with whom |
//! | [`burst`] | how far an online container may go beyond its CPU limit |
//! | [`evict`] | which pods have to leave when holding back is not enough |
//! | [`batch`] | what batch resources mean to the kernel |
//! | [`memory`] | how much memory is protected, and where holding back begins |
//! | [`emergency`] | what is done while the online side waits for memory |
//! | [`cache`] | which cache ways and how much memory bandwidth a class may use |
//! | [`block`] | what may be done to a disk, in the kernel's words |
//! | [`network`] | which part of the network a class is sure of, and its most |
//! | [`wish`] | what a strategy wants of the machine |
//! | [`claim`] | what several wishes for one target come to |
//! | [`writes`] | in which order the kernel accepts a set of changes |

pub mod assign;
pub mod batch;
pub mod block;
pub mod burst;
pub mod cache;
pub mod claim;
pub mod cookies;
pub mod emergency;
pub mod evict;
pub mod frame;
pub mod identity;
pub mod memory;
pub mod network;
pub mod node;
pub mod pick;
pub mod suppress;
pub mod topology;
pub mod wake;
pub mod wish;
pub mod writes;
