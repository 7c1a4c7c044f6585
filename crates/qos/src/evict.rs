//! Who has to leave when holding back is not enough?
//!
//! Three questions, each with its own module: how much must be freed ([`cpu`], [`memory`]), who goes
//! first ([`order`]), and who is really asked to go ([`round`](mod@round)), given that one departure may serve
//! several needs and that a pod may refuse.

pub mod cpu;
pub mod memory;
pub mod order;
pub mod round;

pub use order::Candidate;
pub use round::{Need, Outcome, Round, Target};
