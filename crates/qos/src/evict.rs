//! Who has to leave when holding back is not enough?
//!
//! Five questions, each with its own module: which rules are on ([`rules`]), how much must be freed
//! ([`plan`](mod@plan), with the sums in [`cpu`] and [`memory`]), who goes first ([`order`]), how many are
//! really needed ([`round`](mod@round)), and who is told, given time and left in peace afterwards
//! ([`book`]).

pub mod book;
pub mod cpu;
pub mod memory;
pub mod order;
pub mod plan;
pub mod round;
pub mod rules;

pub use book::{Book, Manners, Step};
pub use order::Candidate;
pub use plan::{Inputs, Pod, State, Why, plan};
pub use round::{Ask, Need, Outcome, Resource, Round, Target};
pub use rules::{Feature, Rules};
